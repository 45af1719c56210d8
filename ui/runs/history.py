"""The history as rows: what a run came to, which rows a person asked for, which of them are chosen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.cli.telling import failure_line
from engine.cli.wording import made, number, plural, safe
from engine.datasets import Dataset, TrainedModel
from engine.runs import Run, Task

STATES = ("running", "done", "failed", "cancelled", "lost", "starting")
"""In the order in which a person looks for them."""
MAIN_METRICS = ("val_accuracy", "accuracy", "val_loss", "loss")
_LONGEST_RESULT = 200


@dataclass(frozen=True)
class Filters:
    """What the person wants to see; empty means all."""

    text: str = ""
    states: Sequence[str] = ()
    pipelines: Sequence[str] = ()

    @property
    def any(self) -> bool:
        return bool(self.text.strip() or self.states or self.pipelines)


def short_id(run_id: str) -> str:
    """The end of a run's id, by which the command line finds it too."""
    return run_id.rpartition("-")[2] or run_id


def chosen(runs: Iterable[Run], filters: Filters) -> list[Run]:
    """The runs that match, in the order given: every word of the text occurs somewhere in a run."""
    words = filters.text.casefold().split()
    states, pipelines = set(filters.states), set(filters.pipelines)

    def matches(run: Run) -> bool:
        if states and run.state not in states:
            return False
        if pipelines and run.pipeline not in pipelines:
            return False
        told = f"{run.run_id} {run.pipeline} {run.profile} {run.state} {run.error}".casefold()
        return all(word in told for word in words)

    return [run for run in runs if matches(run)]


def pipelines_of(runs: Iterable[Run]) -> list[str]:
    """Names of the pipelines, each once, A to Z."""
    return sorted({run.pipeline for run in runs}, key=lambda name: (name.casefold(), name))


def result_of(run: Run, tasks: Sequence[Task]) -> str:
    """What the run came to, in a few words: the model's main figures, what was made last, or why it failed."""
    if run.state in ("failed", "lost"):
        failed = next((t for t in tasks if t.state == "failed"), None)
        if failed is not None:
            return _cut(failure_line(failed.node, failed.failure or {"message": failed.reason}))
        return _cut(run.error or ("the run's process ended without a word" if run.state == "lost" else ""))
    outputs = [output for task in tasks for output in task.outputs.values()]
    model = next((o for o in reversed(outputs) if isinstance(o, TrainedModel) and o.metrics), None)
    if model is not None:
        return main_figures(model.metrics)
    return _cut(_last_made(outputs, tasks))


def main_figures(metrics: Mapping[str, float]) -> str:
    """`val_accuracy 0.93, val_loss 0.21`: the two figures that tell most."""
    names = [n for n in MAIN_METRICS if n in metrics] or sorted(metrics)
    # A validation figure tells what its training one does, and more.
    names = [n for n in names if f"val_{n}" not in names]
    return safe(", ".join(f"{name} {number(metrics[name])}" for name in names[:2]))


def _last_made(outputs: Sequence[Dataset], tasks: Sequence[Task]) -> str:
    counted = next((o for o in reversed(outputs) if getattr(o, "count", None) is not None), None)
    if counted is not None:
        return plural(getattr(counted, "count"), "volumes")  # noqa: B009
    return next((text for t in reversed(tasks) if t.outputs and (text := made(t.outputs))), "")


def _cut(text: str) -> str:
    text = safe(text)
    return text if len(text) <= _LONGEST_RESULT else text[: _LONGEST_RESULT - 1] + "…"


class Results:
    """Results of runs by what they depend on, so that a run that has ended is looked at once."""

    def __init__(self, capacity: int = 20_000) -> None:
        self._capacity = capacity
        self._known: dict[tuple[object, ...], str] = {}

    def known(self, run: Run) -> str | None:
        return self._known.get(_version(run))

    def keep(self, run: Run, result: str) -> None:
        if run.active:
            return
        if len(self._known) >= self._capacity:
            # Oldest first; which ones go hardly matters, they are cheap to have again.
            for key in list(self._known)[: self._capacity // 10]:
                del self._known[key]
        self._known[_version(run)] = result


def _version(run: Run) -> tuple[object, ...]:
    return (run.run_id, run.state, run.attempt, run.ended)


def positions(shown: Sequence[str], selected: Iterable[str]) -> list[int]:
    """Where the selected runs stand among those shown."""
    wanted = set(selected)
    return [i for i, run_id in enumerate(shown) if run_id in wanted]


def reselected(shown: Sequence[str], rows: Iterable[int], before: Iterable[str]) -> list[str]:
    """The selection after the person marked `rows` of those shown; runs that are out of sight stay selected."""
    hidden = [run_id for run_id in before if run_id not in set(shown)]
    return hidden + [shown[i] for i in rows if 0 <= i < len(shown)]
