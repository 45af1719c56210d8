"""From a run's start to its last word: what `run` and `runs resume` have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from engine.cli.following import Followed, Interrupts, View, follow, is_tracked, wait_for_tracking
from engine.cli.screen import COLOURS, is_terminal, say, say_json
from engine.cli.telling import failure_line, summary
from engine.errors import ExecutionError
from engine.runs import Run, RunStore, Task
from engine.workspace import Workspace

STATUS = {"done": 0, "failed": 1, "lost": 3, "cancelled": 130}


def attend(
    workspace: Workspace, store: RunStore, run_id: str, *, attempt: int, after: int, detach: bool, as_json: bool
) -> int:
    """Follow a run that was just started, from its `attempt` and the events behind `after`.

    Gives the exit status. With `detach` it returns as soon as the run's process is at work. Raises
    `ExecutionError` when that does not happen.
    """
    with Interrupts() as interrupts:
        _wait_started(workspace, store, run_id, attempt)
        run = store.run(run_id)
        _greet(run, workspace, detach=detach, as_json=as_json)
        if detach:
            return 0
        view = _view(as_json)
        followed = follow(store, run_id, view, interrupts, after)
        if followed.left:
            return _leave(followed, as_json)
        if not as_json:
            _tell(store, followed.run)
        if is_tracked() and followed.run.state != "lost":
            tracked = _send(workspace, store, followed.run, view, interrupts)
            if not as_json:
                _tell_tracking(workspace, run_id, tracked)
    if as_json:
        say_json(_ended(workspace, store, followed.run))
    return STATUS.get(followed.run.state, 1)


def _view(as_json: bool) -> View:
    if as_json:
        from engine.cli.json_lines import JsonLines

        return JsonLines()
    if is_terminal():
        from engine.cli.live import LiveView

        return LiveView()
    from engine.cli.plain import PlainLines

    return PlainLines()


def _wait_started(workspace: Workspace, store: RunStore, run_id: str, attempt: int) -> None:
    from engine import launch

    try:
        launch.wait_started(workspace, store, run_id, attempt)
    except ExecutionError as exc:
        log = workspace.run_folder(run_id) / "supervisor.log"
        lines = log.read_text(errors="replace").split("\n") if log.exists() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if not last:
            raise
        last = last.removeprefix("error: ")
        raise ExecutionError(f"the run's process did not start: {last}", hint=f"{log} has more.") from exc


def _greet(run: Run, workspace: Workspace, *, detach: bool, as_json: bool) -> None:
    if as_json:
        started = {"run_id": run.run_id, "pipeline": run.pipeline, "workspace": str(workspace.root)}
        say_json({"event": "run-started", **started})
        return
    say(f"run {run.run_id} of {run.pipeline}")
    if detach:
        say(f"`voxelflow runs logs {run.run_id} --follow` follows its logs")
        say(f"`voxelflow runs show {run.run_id}` tells how far it is")


def _leave(followed: Followed, as_json: bool) -> int:
    run_id = followed.run.run_id
    if as_json:
        say_json({"event": "run-left", "run_id": run_id, "state": followed.run.state})
    else:
        say(f"left the run to itself, to be cancelled; `voxelflow runs show {run_id}` tells its state")
    return STATUS["cancelled"]


def _send(workspace: Workspace, store: RunStore, run: Run, view: View, interrupts: Interrupts) -> bool:
    """Wait until MLflow has the run, so that the machine may go away after us; whether it has.

    A run that found everything up to date has nothing to lose: its tracker needs longer to import
    MLflow than the whole run took, and ends without us.
    """
    if all(t.state == "cached" for t in store.tasks(run.run_id)):
        return False
    with contextlib.ExitStack() as stack:
        if not store.tracking(run.run_id)[2]:
            from engine.tracking import location

            stack.enter_context(view.sending(location(workspace)))
        return wait_for_tracking(workspace, store, run.run_id, interrupts)


def _tell(store: RunStore, run: Run) -> None:
    tasks = store.tasks(run.run_id)
    for line in failures(run, tasks):
        say(f"error: {line}", style=COLOURS["error"], error=True)
    say(summary(run, tasks), style=COLOURS.get(run.state, ""))
    if run.state != "done":
        say(f"`voxelflow runs resume {run.run_id}` goes on from what is done")


def _tell_tracking(workspace: Workspace, run_id: str, tracked: bool) -> None:
    for line in tracking_lines(workspace, run_id):
        say(line)
    if not tracked:
        say("MLflow does not have all of it yet; the rest is sent in the background, or by a later run")


def failures(run: Run, tasks: list[Task]) -> Iterator[str]:
    """Why the run did not end well, a line for each task that failed."""
    failed = [t for t in tasks if t.state == "failed"]
    for task in failed:
        yield failure_line(task.node, task.failure or {"message": task.reason})
    if run.state == "lost":
        yield "the run's process ended without a word"
    elif run.error and not failed:
        yield run.error


def tracking_lines(workspace: Workspace, run_id: str) -> list[str]:
    """Where the run is in MLflow, and how to look at it."""
    from engine.tracking import location, run_link

    link = run_link(workspace, run_id)
    if not link:
        return [f"MLflow: {location(workspace)}"]
    if url := link.get("url"):
        return [f"MLflow: {url}"]
    return [
        f"MLflow: run {link['run_id']} in {link['location']}",
        f"        `mlflow ui --backend-store-uri {link['location']}` shows it in the browser",
    ]


def _ended(workspace: Workspace, store: RunStore, run: Run) -> dict[str, Any]:
    tasks = store.tasks(run.run_id)
    out: dict[str, Any] = {
        "event": "run-ended",
        "run_id": run.run_id,
        "state": run.state,
        "error": run.error,
        "seconds": run.seconds,
        "tasks": {t.node: t.state for t in tasks},
        "outputs": {t.node: {port: d.model_dump(mode="json") for port, d in t.outputs.items()} for t in tasks},
    }
    if is_tracked():
        from engine.tracking import run_link

        out["mlflow"] = run_link(workspace, run.run_id)
    return out
