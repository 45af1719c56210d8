"""`voxelflow verify`: whether the stored bytes of a table or model are still those that were written."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from engine.cli.session import Session, json_option, workspace_option
from engine.storage import expanded

if TYPE_CHECKING:
    from engine.cli.node_work import CheckedData, Damage
    from engine.declare.datasets import Dataset
    from engine.store.results import Result
    from engine.store.runs import RunStore

_THREADS = 4


@click.command("verify", short_help="Read a table or model and compare checksums.")
@click.argument("target")
@click.option("--node", metavar="NODE", help="With a run: only what this node made.")
@click.option(
    "--set-aside", is_flag=True, help="Rename damaged files of volumes to NAME.damaged, so that a run makes them again."
)
@json_option
@workspace_option
@click.pass_obj
def command(session: Session, target: str, node: str | None, set_aside: bool, as_json: bool, root: Path | None) -> int:
    """Read everything of TARGET and compare it with its checksums, its log and its lists.

    TARGET is the folder or URL of a Delta table (its newest version) or of Parquet files, the folder of a trained
    model, or a run ("last" or an id), of which the tables (each version that it made), Parquet files and models are
    read, and what else it made is named. Printed is a line for each damaged file: what is wrong, what is lost, and what
    repairs it.

    The workspace's history of runs (runs.db) is checked, too, and named when it is damaged.

    Volumes in files of other programs, and of Voxelflow before it wrote checksums, may have none. They are counted. Of
    tables of other programs (petastorm, Spark) all is read that ConvertTable reads, and compressed arrays in them are
    compared with their own checksums; what could not be checked is reported.

    Exit status: 0 when nothing is damaged, 1 when something is.
    """
    from engine.cli.screen import say, say_json

    store = _store(session, root)
    results = store.results.all() if store is not None else []
    items, left_out = _items(session, target, node, root, results)
    reports: list[dict[str, Any]] = []
    with _Progress() as progress:
        for item in items:
            aside = _parts(results) if set_aside else None
            checked = session.work.check_data(item, threads=_THREADS, progress=progress.add, aside=aside)
            progress.clear()
            name = item if isinstance(item, str) else item.uri
            maker = _maker(results, name)
            reports.append(_report(name, checked, maker))
            if not as_json:
                _show(name, checked, reports[-1]["damaged"])
    for dataset, made_by in left_out.values():
        reports.append(_report_left_out(dataset, made_by))
        if not as_json:
            say(f"not checked: {reports[-1]['not_checked'][0]}")
    if store is not None and (problem := store.problem()):
        reports.append(_report_runs(str(store.workspace.database), problem))
        if not as_json:
            _show_damaged(reports[-1]["damaged"])
    if as_json:
        say_json({"target": target, "checked": reports})
    return 1 if any(report["damaged"] for report in reports) else 0


def _store(session: Session, root: Path | None) -> RunStore | None:
    """The run store, if there is one that can be read: data can be checked without it."""
    from engine.errors import VoxelflowError

    with suppress(VoxelflowError):
        return session.workspace_with_runs(root)[1]
    return None


def _items(
    session: Session, target: str, node: str | None, root: Path | None, results: Sequence[Result]
) -> tuple[Sequence[Dataset | str], Mapping[str, tuple[Dataset, str]]]:
    """What to check, and what else the run made, with its nodes."""
    from engine.declare.datasets import TrainedModel, VolumeDelta, VolumeParquet
    from engine.errors import UsageError
    from engine.storage.urls import is_url

    place = expanded(target)
    if is_url(target):
        return [target], {}
    if place.is_dir():
        # Which Parquet files belong together only their list says.
        maker = _maker(results, str(place))
        made_here = [d for d in maker.outputs.values() if _normal(d.uri) == _normal(str(place))] if maker else []
        return [d for d in made_here if isinstance(d, VolumeParquet)] or [str(place.absolute())], {}
    if "/" in target or target in ("", "."):
        raise UsageError(f"there is no folder {target}", hint="Give a table, a model, or a run.")
    _, store = session.workspace_with_runs(root)
    found = store.run(target)
    outputs = [(d, t.node) for t in store.tasks(found.run_id) if node in (None, t.node) for d in t.outputs.values()]
    # Of a table each version that a node made: an older one has files of its own, until they are vacuumed.
    made = {
        (dataset.uri, dataset.version if isinstance(dataset, VolumeDelta) else None): dataset
        for dataset, _ in outputs
        if isinstance(dataset, VolumeDelta | VolumeParquet | TrainedModel)
    }
    read = {uri for uri, _ in made}
    if not made:
        where = f" in the node {node}" if node else ""
        raise UsageError(
            f"run {found.run_id} of {found.pipeline} made no table of volumes, no Parquet files and no model{where}",
            hint="`voxelflow runs show` shows what it made.",
        )
    left_out: dict[str, tuple[Dataset, str]] = {}
    for dataset, made_by in outputs:
        if dataset.uri not in read:
            left_out.setdefault(dataset.uri, (dataset, made_by))  # nodes after it may hand it on
    return list(made.values()), left_out


def _parts(results: Sequence[Result]) -> list[Path]:
    from engine.declare.datasets import VolumeParquet

    found = {d.uri for result in results for d in result.outputs.values() if isinstance(d, VolumeParquet)}
    return [Path(uri) for uri in sorted(found)]


def _maker(results: Sequence[Result], name: str) -> Result | None:
    """The newest result that refers to this folder or URL."""
    mine = [r for r in results if any(_normal(d.uri) == _normal(name) for d in r.outputs.values())]
    return max(mine, key=lambda r: r.created, default=None)


def _normal(uri: str) -> str:
    from engine.storage.urls import is_url

    return uri.rstrip("/") if is_url(uri) else os.path.realpath(uri.removeprefix("file://"))


def _report(name: str, checked: CheckedData, maker: Result | None) -> dict[str, Any]:
    damaged = [
        {
            "file": d.file, "kind": d.kind, "problem": d.problem, "lost": d.lost, "volumes": d.rows, "ids": list(d.ids),
            "repair": _repair(name, d, maker, is_aside=bool(checked.moved)),
        }
        for d in checked.damages
    ]  # fmt: skip
    return {
        "data": name,
        "files": checked.files,
        "volumes": checked.volumes,
        "unchecked": checked.unchecked,
        "not_checked": list(checked.remarks),
        "damaged": damaged,
        "set_aside": [str(path) for path in checked.moved],
    }


def _report_left_out(dataset: Dataset, made_by: str) -> dict[str, Any]:
    from engine.declare.datasets import Predictions

    why = "no checksums of it are kept"
    if isinstance(dataset, Predictions):
        why = f"`voxelflow verify {quote(dataset.uri)}` reads the newest version of its table"
    remark = f"{dataset.kind} of the node {made_by} at {dataset.uri}: {why}"
    none: dict[str, Any] = {"files": 0, "volumes": 0, "unchecked": 0, "damaged": [], "set_aside": []}
    return {"data": dataset.uri, "not_checked": [remark], **none}


def _report_runs(name: str, problem: str) -> dict[str, Any]:
    lost = "rows of the history of runs; no data of yours is in it"
    damaged = {
        "file": name, "kind": "runs", "problem": problem, "lost": lost, "volumes": 0, "ids": [],
        "repair": "`voxelflow runs rebuild`",
    }  # fmt: skip
    none: dict[str, Any] = {"volumes": 0, "unchecked": 0, "not_checked": [], "set_aside": []}
    return {"data": name, "files": 1, "damaged": [damaged], **none}


def _repair(name: str, damage: Damage, maker: Result | None, *, is_aside: bool) -> str:
    from engine.storage.urls import is_url

    run = f"`voxelflow run {maker.pipeline}`" if maker is not None else ""
    if damage.kind == "volumes":
        if run and not is_url(name):
            aside = f"`voxelflow verify {quote(name)} --set-aside`"
            return f"{run} makes it again" if is_aside else f"{aside}, then {run}"
        return "bring the file back from a copy, or go back to an older version (DeltaTable.restore of deltalake)"
    if damage.kind == "rows":
        restored = f"in Python deltalake.DeltaTable({name!r}).restore({int(Path(damage.file).stem) - 1})"
        return f"{restored}, then {run}" if run else restored
    if damage.kind == "manifest":
        return f"{run} makes the list again" if run else "bring the file back from a copy"
    if damage.kind == "model":
        return f"{run[:-1]} --from {maker.node}`" if maker is not None else "bring the file back from a copy"
    newest = f"{damage.file.rpartition('/')[0]}/_last_checkpoint"
    if damage.file == newest:
        return "delete it" if is_url(name) else f"delete it: `rm {quote(newest)}`"
    if ".checkpoint" in damage.file:
        # One that is named as the newest and is gone is as bad as a damaged one.
        remove = "" if is_url(name) else f": `rm -f {quote(damage.file)} {quote(newest)}`"
        return f"with all commits there, delete it and _last_checkpoint{remove}; else bring it back from a copy"
    again = f", or remove the table's folder and {run}" if run else ""
    return f"bring the file back from a copy{again}"


def _show(name: str, checked: CheckedData, damaged: Sequence[dict[str, Any]]) -> None:
    from engine.cli.screen import say
    from engine.text import plural

    _show_damaged(damaged)
    for path in checked.moved:
        say(f"set aside: {path}")
    for remark in checked.remarks:
        say(f"not checked: {remark}")
    volumes = f", {plural(checked.volumes, 'volumes')} match their checksums" if checked.volumes else ""
    unchecked = f", {checked.unchecked:,} not checked: no checksums" if checked.unchecked else ""
    good = f"{plural(len(damaged), 'damaged files')}" if damaged else "nothing is damaged"
    say(f"{name}: {good}; {plural(checked.files, 'files')} read{volumes}{unchecked}")


def _show_damaged(damaged: Sequence[dict[str, Any]]) -> None:
    from engine.cli.screen import say

    for damage in damaged:
        say(f"{damage['file']}: {damage['problem']}. Lost: {damage['lost']}. Repair: {damage['repair']}", style="red")


class _Progress:
    """The share that is read, on one line of a terminal's standard error."""

    def __init__(self) -> None:
        self._done = self._shown = 0
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def add(self, done: int, total: int) -> None:
        self._done += done
        percent = 100 * self._done // max(total, 1)
        if self._is_shown and percent != self._shown:
            self._shown = percent
            print(f"\r{percent}% of {total / 1e6:,.0f} MB", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown and self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        self._done = self._shown = 0
