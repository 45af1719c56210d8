"""Runs, tasks, datasets and previews as the canvas shows them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from engine.declare.dataset_type import details_of, headline_of
from engine.declare.datasets import Dataset, Predictions, Preview, VolumeDelta, VolumeParquet
from engine.declare.events import Progress
from engine.history.summary import Tile
from engine.store.runs import Run, Task
from engine.text import safe, size
from engine.wording import MOST_FIGURES, details_text, figure_name, foreseen, made
from ui.protocol.status import FailureInfo, Headline, NodeStatus, OutputInfo, ProgressInfo, RunFigure, RunInfo

ViewOf = Callable[[Dataset], str]
"""Gives the key under which the browser may look at a dataset; "" when there is nothing to see."""


def _no_view(_: Dataset) -> str:
    return ""


def run_info(
    run: Run, changes: str = "", given: str = "", figures: Sequence[RunFigure] = (), against: str = ""
) -> RunInfo:
    """A run's state. `cancelling`: it was asked to stop and still runs; the others are as in `RunInfo`."""
    return RunInfo(
        run_id=run.run_id,
        state=run.state,
        profile=run.profile,
        error=run.error,
        created=run.created,
        started=run.started,
        ended=run.ended,
        paused=run.paused_s,
        cancelling=run.cancel and run.active and run.state != "stuck",
        changes=changes,
        given=given,
        limit=run.limit.text(run.currency),
        limited=run.stopped_at_limit,
        figures=list(figures),
        against=against,
    )


def run_figures(found: Sequence[Tile]) -> list[RunFigure]:
    """The figures of a run as the canvas shows them."""
    return [
        RunFigure(
            node=tile.node, title=tile.title, name=tile.text, value=tile.value, before=tile.before, better=tile.better
        )
        for tile in found
    ]


_COUNTED = {"volumes": "Volumes", "files": "Files", "quarantined": "Quarantined"}


def table_figures(tasks: Sequence[Task]) -> list[RunFigure]:
    """Rows, files and size of the last table that a run made as a whole; [] without one."""
    for task in reversed(tasks):
        made_whole = (data for data in task.outputs.values() if _is_table(data))
        if task.state not in ("done", "cached") or (table := next(made_whole, None)) is None:
            continue
        known = details_of(table)
        figure = partial(RunFigure, node=task.node, title=safe(task.title or task.node), before=None, better=None)
        counts = [(words, known.get(name)) for name, words in _COUNTED.items()]
        found = [figure(name=words, value=n) for words, n in counts if n or (n == 0 and words == "Volumes")]
        return [*found, figure(name="Size", value=known["bytes"], unit="bytes")] if "bytes" in known else found
    return []


def _is_table(dataset: Dataset) -> bool:
    return isinstance(dataset, (VolumeParquet, Predictions)) or (
        isinstance(dataset, VolumeDelta) and not dataset.selections
    )


def node_status(task: Task, view_of: ViewOf = _no_view, curve: Sequence[float] = ()) -> NodeStatus:
    """A task's state, progress, outputs, loss and failure."""
    return NodeStatus(
        state=task.state,
        reason=task.reason,
        attempt=task.attempt,
        started=task.started,
        ended=task.ended,
        progress=_progress(task.progress) if task.progress else None,
        made=made(task.outputs, MOST_FIGURES, figure_name),
        outputs=outputs_in_words(task.outputs, view_of),
        curve=list(curve),
        failure=_failure(task.failure) if task.failure else None,
    )


def _progress(progress: Progress) -> ProgressInfo:
    return ProgressInfo(
        done=finite(progress.done) or 0.0,
        total=finite(progress.total),
        unit=progress.unit,
        label=progress.label,
        rate=finite(progress.rate),
        seconds_left=finite(progress.seconds_left),
        phase=progress.phase,
        share=finite(progress.whole),
        counts=progress.counts,
    )


def _failure(failure: Mapping[str, Any]) -> FailureInfo:
    return FailureInfo(
        code=str(failure.get("code", "")),
        message=str(failure.get("message", "")),
        hint=str(failure.get("hint", "")),
        parameter=failure.get("parameter"),
    )


def previews_in_words(previews: Mapping[tuple[str, str], Preview]) -> dict[str, str]:
    """By `node.port`: what is known to come out. Ports of which nothing is known are left out."""
    words = {f"{node}.{port}": preview_in_words(preview) for (node, port), preview in previews.items()}
    return {place: text for place, text in words.items() if text}


def preview_in_words(preview: Preview) -> str:
    """`2,000 volumes, 30x30x10x10 float32, 720 MB`; of a part of a table `about 400 of 2,000 volumes, ...`."""
    parts: list[str] = []
    if count := foreseen(preview):
        parts.append(count)
    if preview.spec is not None:
        parts.append(preview.spec.describe())
    # A part of a table takes no space of its own.
    if preview.bytes is not None and preview.selected is None:
        parts.append(size(preview.bytes))
    if preview.figures:
        parts.append(details_text(preview.figures))
    return ", ".join(parts)


def views_of(previews: Mapping[tuple[str, str], Preview], view_of: ViewOf) -> dict[str, str]:
    """By `node.port`: the keys of the data that is there before any run."""
    there = {f"{node}.{port}": preview.dataset for (node, port), preview in previews.items()}
    return {place: view_of(dataset) for place, dataset in there.items() if dataset is not None}


def outputs_in_words(outputs: Mapping[str, Dataset], view_of: ViewOf = _no_view) -> list[OutputInfo]:
    """One line for each output port: kind, place and figures of its dataset, and the key to look at it."""
    return [
        OutputInfo(
            port=port,
            kind=dataset.kind,
            uri=dataset.uri,
            figures=details_text(details_of(dataset), MOST_FIGURES, figure_name),
            view=view_of(dataset),
            headline=_headline(dataset),
        )
        for port, dataset in outputs.items()
    ]


def _headline(dataset: Dataset) -> Headline | None:
    found = headline_of(dataset)
    if found is None or not math.isfinite(found[1]):
        return None
    return Headline(name=figure_name(found[0]), value=found[1])


def finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if value is not None and math.isfinite(value) else None
