"""Starting, resuming and cancelling runs from the canvas. Each may take seconds: not for the page's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import JsonValue

from engine import launch
from engine.catalog import Catalog
from engine.cli.documents import path_parameters, read_setting
from engine.errors import UsageError
from engine.pipeline import Pipeline
from engine.plan import Choice
from engine.profiles import find_profile
from engine.storage import place_from
from ui.build.rooms import Open, Rooms
from ui.protocol.commands import StartRun
from ui.studio_context import Studio


def start_run(rooms: Rooms, opened: Open, pipeline: Pipeline, command: StartRun) -> str:
    """Start a run of `pipeline`, the document `opened` as it stood when asked for. Gives the run's id.

    Raises `CheckFailed` with all problems, `UsageError` when one is just being started, and
    `ExecutionError` when the run's process does not come up.
    """
    studio = rooms.studio
    if not opened.starting.acquire(blocking=False):
        raise UsageError("a run of this pipeline is just being started", hint="Wait a moment.")
    try:
        catalog = rooms.catalogue.catalog
        run_id, _ = launch.start(
            pipeline,
            catalog,
            studio.workspace,
            studio.store,
            values=read_values(command.values, pipeline, catalog, studio.base),
            profile=find_profile(command.profile, studio.workspace),
            choice=Choice(start=command.start, end=command.end, fresh=command.fresh),
            base=studio.base,
        )
        opened.following.poke()
        launch.wait_started(studio.workspace, studio.store, run_id, attempt=1)
    finally:
        opened.starting.release()
    return run_id


def resume_run(studio: Studio, run_id: str, spawned: Callable[[], None]) -> None:
    """Go on with a run. Raises `UsageError` when it is running or done; `spawned` is called in between."""
    run = launch.resume(studio.workspace, studio.store, run_id)
    spawned()
    launch.wait_started(studio.workspace, studio.store, run.run_id, run.attempt + 1)


def cancel_run(studio: Studio, run_id: str) -> None:
    """Ask a run to stop. Raises `UsageError` when it is not running."""
    launch.cancel(studio.store, run_id)


def read_values(
    values: Mapping[str, JsonValue], pipeline: Pipeline, catalog: Catalog, base: Path
) -> dict[str, JsonValue]:
    """What a person typed for this run, as `--set` takes it: text is read as the parameter's kind of value.

    Paths become absolute: the run's document records them.
    """
    out: dict[str, JsonValue] = {}
    for name, value in values.items():
        known = pipeline.parameters.get(name)
        out[name] = read_setting(value, known.value if known else None) if isinstance(value, str) else value
    for name in path_parameters(pipeline, catalog):
        given = out.get(name)
        if isinstance(given, str) and given:
            out[name] = place_from(base, given)
    return out
