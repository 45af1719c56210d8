"""`voxelflow clean`: what data belongs to which node, and freeing it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.cli.session import Session, json_option, workspace_option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.run.clean import Freed, Place
    from engine.store.runs import Run

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


class _Quantity(click.ParamType[float]):
    """A figure with a unit, as a number of the smallest."""

    def __init__(self, name: str, units: dict[str, int], example: str) -> None:
        self.name, self._units, self._example = name, units, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", str(value))
        known = {unit.lower(): factor for unit, factor in self._units.items()}
        if match is None or match[2].lower() not in known:
            self.fail(f"{value!r} is not {self._example}", param, ctx)
        return float(match[1]) * known[match[2].lower()]


AGE = _Quantity("age", _SECONDS, "an age such as 30d, 12h or 2w")
SIZE = _Quantity("size", _BYTES, "a size such as 10GB or 500MB")


@click.command("clean", short_help="Show what data belongs to which node, and free it.")
@click.option("--older-than", type=AGE, metavar="AGE", help="Data that no run has used for so long, e.g. 30d.")
@click.option("--keep", type=SIZE, metavar="SIZE", help="The least recently used, until only SIZE is left, e.g. 10GB.")
@click.option("--pipeline", metavar="NAME", help="Only data of this pipeline.")
@click.option("--node", metavar="NODE", help="Only data of this node.")
@click.option("--all", "everything", is_flag=True, help="All data that no run needs.")
@click.option(
    "--unfinished",
    is_flag=True,
    help="Also what runs that were lost, failed or cancelled need to be resumed; they begin anew then.",
)
@click.option("--apply", is_flag=True, help="Free it; without this the table only shows what would be freed.")
@json_option
@workspace_option
@click.pass_obj
def command(
    session: Session,
    older_than: float | None,
    keep: float | None,
    pipeline: str | None,
    node: str | None,
    everything: bool,
    unfinished: bool,
    apply: bool,
    as_json: bool,
    root: Path | None,
) -> int:
    """Show which data belongs to which node; --apply frees what the options choose.

    Options combine: a result must match all of them. A result that was freed is made again when a pipeline
    needs it.

    --apply also ends the idle Java of Spark that waits for the next run.

    What a run is using is never freed. What a lost, failed or cancelled run needs to be resumed is kept until
    it is resumed: say --unfinished to free that too, or --older-than, which counts for such runs as well.
    """
    from engine.errors import UsageError
    from engine.run.clean import free, survey
    from engine.spark.warm_jvm import end_idle

    chooses = everything or any(option is not None for option in (older_than, keep, pipeline, node))
    if apply and not chooses:
        raise UsageError(
            "--apply needs to know what to free", hint="Say --older-than, --keep, --pipeline, --node or --all."
        )
    workspace, store = session.workspace_with_runs(root)
    holds = _holds(older_than, unfinished)
    places = survey(workspace, store, holds)
    chosen = choose(places, older_than=older_than, keep=keep, pipeline=pipeline, node=node) if chooses else []
    freed = free(workspace, store, chosen, holds) if apply else None
    ended = end_idle() if apply else 0
    if as_json:
        _as_json(places, chosen, freed)
    elif freed is None:
        _show(places, chosen, workspace.root, chooses)
    else:
        _show_freed(freed)
        if ended:
            click.echo("Ended the idle Java that Spark had kept warm.")
        _show_kept(places)
    return 0 if freed is None or not freed.skipped else 1


def _holds(older_than: float | None, unfinished: bool) -> Callable[[Run], bool]:
    """Which runs keep what they need to be resumed: all, but those that ended longer ago than the person's limit."""

    def holds(run: Run) -> bool:
        if unfinished:
            return False
        last = run.ended or run.heartbeat or run.created
        return older_than is None or time.time() - last <= older_than

    return holds


def choose(
    places: Sequence[Place],
    *,
    older_than: float | None = None,
    keep: float | None = None,
    pipeline: str | None = None,
    node: str | None = None,
    now: float | None = None,
) -> list[Place]:
    """The places to free, the least recently used first. `older_than` in seconds, `keep` in bytes of all data."""
    now = time.time() if now is None else now
    fitting = sorted(
        (
            p
            for p in places
            if not p.in_use
            and not p.kept_for
            and (pipeline is None or p.pipeline == pipeline)
            and (node is None or p.node == node)
            and (older_than is None or now - p.used > older_than)
        ),
        key=lambda p: p.used,
    )
    if keep is None:
        return fitting
    left = sum(p.bytes for p in places)
    out: list[Place] = []
    for place in fitting:
        if left <= keep:
            break
        out.append(place)
        left -= place.bytes
    return out


def _show(places: Sequence[Place], chosen: Sequence[Place], root: Path, chooses: bool) -> None:
    from engine.cli.screen import say, table
    from engine.text import duration, size

    if not places:
        say("there is no data yet")
        return
    now = time.time()
    chosen_paths = {p.path for p in chosen}
    rows = [
        (
            p.node_type,
            p.pipeline,
            p.node,
            size(p.bytes),
            f"{duration(now - p.used)} ago",
            str(p.results),
            _note(p, chosen_paths),
            str(p.path.relative_to(root) if p.path.is_relative_to(root) else p.path),
        )
        for p in places
    ]
    columns = ("type", "pipeline", "node", "size", "last used", "results", "", "place")
    table(columns, rows, right=("size", "last used", "results"))
    say(f"{size(sum(p.bytes for p in places))} in all")
    if chosen:
        say(f"{size(sum(p.bytes for p in chosen))} would be freed; --apply does it")
    elif chooses:
        say("nothing to free")
    if chooses:
        _show_kept(places)


def _note(place: Place, chosen_paths: set[Path]) -> str:
    if place.in_use:
        return "in use"
    if place.kept_for:
        return "kept"
    return "would be freed" if place.path in chosen_paths else ""


def _show_kept(places: Sequence[Place]) -> None:
    """For which runs data stays, and what the person can do about each."""
    from engine.cli.screen import say
    from engine.text import size

    runs: dict[str, int] = {}
    for place in places:
        if place.kept_for and not place.in_use:
            runs[place.kept_for] = runs.get(place.kept_for, 0) + place.bytes
    for run, count in runs.items():
        say(f"kept: {size(count)}, run {run} can still be resumed (`voxelflow runs resume {run}`)")
    if runs:
        say("--unfinished frees that too")


def _show_freed(freed: Freed) -> None:
    from engine.cli.screen import say
    from engine.text import plural, size

    for path, reason in freed.skipped:
        say(f"left: {path} ({reason})", error=True)
    say(f"freed {size(freed.freed_bytes)} in {plural(len(freed.freed), 'places')}")


def _as_json(places: Sequence[Place], chosen: Sequence[Place], freed: Freed | None) -> None:
    from engine.cli.screen import say_json

    chosen_paths = {p.path for p in chosen}
    fields = ("pipeline", "node", "bytes", "created", "used", "results", "in_use", "kept_for")
    out: dict[str, Any] = {
        "places": [
            {"path": str(p.path), "type": p.node_type}
            | {name: getattr(p, name) for name in fields}
            | {"chosen": p.path in chosen_paths}
            for p in places
        ]
    }
    if freed is not None:
        out["freed_bytes"] = freed.freed_bytes
        out["freed"] = [str(p) for p in freed.freed]
        out["skipped"] = [{"path": str(path), "reason": reason} for path, reason in freed.skipped]
    say_json(out)
