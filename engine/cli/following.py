"""Watching a run until it ends. The run does not depend on us: we only read the run store."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from engine.cli.displays import Display, JsonLines, Moment, PlainLines
from engine.cli.next_steps import model_lines
from engine.cli.screen import COLOURS, is_terminal, say, say_json
from engine.declare.events import Event
from engine.errors import ChangedSincePlanned, ExecutionError, UsageError
from engine.extras import is_tracked
from engine.run.launch import cancel
from engine.storage.process_lock import is_held
from engine.store.runs import Run, RunStore, Task
from engine.text import duration
from engine.wording import against_estimate, expected_text, failure_line, resume_command, stuck_line, summary
from engine.workspace import Workspace

POLL_S = 0.1
_TRACKING_PATIENCE_S = 60.0
_FAILED_PATIENCE_S = 3.0
_TRACKER_GONE_S = 10.0
"""A tracker that does not hold its lock for so long has ended: it needs a moment to start."""
_BATCH = 10_000


@dataclass(frozen=True)
class Followed:
    """How following ended: with the run, or (`left`) because the person stopped following."""

    run: Run
    left: bool = False


def watch(store: RunStore, run_id: str, after: int, kinds: tuple[str, ...] = ()) -> Iterator[Moment]:
    """The run about ten times a second until it has ended; events that follow the sequence number `after`."""
    while True:
        # The run first: once it says that it has ended, all its events are there.
        run = _certain(store, run_id)
        events: list[Event] = []
        while batch := store.events(run_id, after, kinds, _BATCH):
            after = batch[-1][0]
            events += [event for _, event in batch]
            if len(batch) < _BATCH:
                break
        yield Moment(run, store.tasks(run_id), events)
        if not run.active:
            return
        time.sleep(POLL_S)


def _certain(store: RunStore, run_id: str) -> Run:
    run = store.run(run_id)
    # A run that ended between the look at its row and the look at its lock seems lost for a moment.
    return store.run(run_id) if run.state == "lost" else run


class Interrupts:
    """Counts Ctrl-C instead of raising: one that comes amid drawing or a query must not break it.

    SIGTERM, with which schedulers end what they have started, counts as the first one and never as more.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        self._before = {
            signal.SIGINT: signal.signal(signal.SIGINT, self._count),
            signal.SIGTERM: signal.signal(signal.SIGTERM, self._end),
        }
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, _: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 2:
            raise KeyboardInterrupt

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.count = max(self.count, 1)


def follow(store: RunStore, run_id: str, view: Display, interrupts: Interrupts, after: int = 0) -> Followed:
    """Show the run until it ends. The first Ctrl-C, or SIGTERM, asks it to stop, the second leaves it to itself."""
    asked = stuck = False
    with view:
        for moment in watch(store, run_id, after, view.kinds):
            view.show(moment)
            if moment.run.active and (moment.run.state == "stuck") != stuck:
                stuck = not stuck
                view.note(stuck_line(moment.run) if stuck else "the run goes on")
            if not moment.run.active:
                return Followed(moment.run)
            if interrupts.count and not asked:
                asked = True
                view.note("cancelling; Ctrl-C again leaves the run to itself")
                try:
                    cancel(store, run_id)
                except UsageError:  # it has just ended
                    continue
                except ExecutionError as exc:
                    view.note(exc.line())
            if interrupts.count > 1:
                return Followed(moment.run, left=True)
    raise AssertionError("watch ends with a run that has ended")


def wait_for_tracking(workspace: Workspace, store: RunStore, run_id: str, interrupts: Interrupts) -> bool:
    """Wait until MLflow has all of the run; False when that takes too long, or nobody sends it any more."""
    presses = interrupts.count
    started = seen = time.monotonic()
    # Who reads of an error wants to go on; the tracker does by itself.
    went_wrong = store.run(run_id).state in ("failed", "cancelled")
    patience = _FAILED_PATIENCE_S if went_wrong else _TRACKING_PATIENCE_S
    while not store.tracking.find(run_id)[2]:
        now = time.monotonic()
        if is_held(workspace.run_folder(run_id) / "tracker.lock"):
            seen = now
        if now - started > patience or now - seen > _TRACKER_GONE_S or interrupts.count > presses:
            return False
        time.sleep(POLL_S)
    return True


STATUS = {"done": 0, "failed": 1, "lost": 3, "cancelled": 130}


def follow_to_end(
    workspace: Workspace, store: RunStore, run_id: str, *, attempt: int, after: int, detach: bool, as_json: bool
) -> int:
    """Follow a run that was just started, from its `attempt` and the events that follow `after`.

    Gives the exit status. With `detach` it returns as soon as the run's process is at work. Raises
    `ExecutionError` when that does not happen. Ctrl-C before that ends the process.
    """
    with Interrupts() as interrupts:
        _wait_started(workspace, store, run_id, attempt, interrupts)
        if store.run(run_id).attempt < attempt:
            return _not_begun(store, run_id, attempt, as_json=as_json)
        run = store.run(run_id)
        _announce(run, workspace, detach=detach, as_json=as_json)
        if detach:
            return 0
        view = _view(as_json)
        followed = follow(store, run_id, view, interrupts, after)
        if followed.left:
            return _leave(followed, as_json)
        if not as_json:
            report_end(store, followed.run)
            for line in model_lines(followed.run, store.tasks(run_id)):
                say(line)
        if is_tracked() and followed.run.state != "lost":
            tracked = _send(workspace, store, followed.run, view, interrupts)
            if not as_json:
                _report_tracking(workspace, run_id, tracked)
    if as_json:
        say_json(_ended(workspace, store, followed.run))
    return STATUS.get(followed.run.state, 1)


def _view(as_json: bool) -> Display:
    if not as_json and is_terminal():
        from engine.cli.live import LiveDisplay

        return LiveDisplay()
    return JsonLines() if as_json else PlainLines()


def _wait_started(workspace: Workspace, store: RunStore, run_id: str, attempt: int, interrupts: Interrupts) -> None:
    from engine.run import launch

    try:
        launch.wait_started(workspace, store, run_id, attempt, stop=lambda: interrupts.count > 0)
    except ExecutionError as exc:
        log = workspace.run_folder(run_id) / "supervisor.log"
        lines = log.read_text(errors="replace").split("\n") if log.exists() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if not last:
            raise
        last = last.removeprefix("error: ")
        raise ExecutionError(f"the run's process did not start: {last}", hint=f"See {log}.") from exc


def _not_begun(store: RunStore, run_id: str, attempt: int, *, as_json: bool) -> int:
    """End the process of a run that was interrupted before it began; gives the exit status."""
    from engine.run.launch import cancel

    with contextlib.suppress(UsageError):  # it has just ended
        cancel(store, run_id, at_once=True)
    run = store.run(run_id)
    if as_json:
        say_json({"event": "run-left", "run_id": run_id, "state": run.state})
    elif run.attempt < attempt or not run.active:
        say(f"run {run_id} had not begun and is {run.state}; {resume_command(run)} goes on with it")
    else:
        say(f"asked run {run_id} to stop; `voxelflow runs show {run_id}` shows when it has")
    return STATUS["cancelled"]


def _announce(run: Run, workspace: Workspace, *, detach: bool, as_json: bool) -> None:
    if as_json:
        started: dict[str, Any] = {"run_id": run.run_id, "pipeline": run.pipeline, "workspace": str(workspace.root)}
        if run.estimated is not None:
            started["expected_s"] = [run.estimated.low, run.estimated.high]
        say_json({"event": "run-started", **started})
        return
    say(f"run {run.run_id} of {run.pipeline}")
    if run.attempt <= 1 and (expected := expected_text(run)):
        say(expected)
    if run.limit:
        used = f", {duration(run.worked_s)} at work count already" if run.attempt > 1 else ""
        say(f"limit: stopped at {run.limit.text(run.currency)}{used}")
    if detach:
        say(f"`voxelflow runs logs {run.run_id} --follow` follows its logs")
        say(f"`voxelflow runs show {run.run_id}` shows how far it is")


def _leave(followed: Followed, as_json: bool) -> int:
    run_id = followed.run.run_id
    if as_json:
        say_json({"event": "run-left", "run_id": run_id, "state": followed.run.state})
    else:
        say(f"left the run to itself, to be cancelled; `voxelflow runs show {run_id}` shows its state")
    return STATUS["cancelled"]


def _send(workspace: Workspace, store: RunStore, run: Run, view: Display, interrupts: Interrupts) -> bool:
    """Wait until MLflow has the run, so that the machine may be shut down after us; whether it has.

    A run that found everything up to date has nothing to lose: its tracker needs longer to import
    MLflow than the whole run took, and ends without us.
    """
    if all(t.state == "cached" for t in store.tasks(run.run_id)):
        return False
    with contextlib.ExitStack() as stack:
        if not store.tracking.find(run.run_id)[2]:
            from engine.tracking import location

            stack.enter_context(view.sending(location(workspace)))
        return wait_for_tracking(workspace, store, run.run_id, interrupts)


def report_end(store: RunStore, run: Run) -> None:
    """Print how the run ended, why, and what to do next."""
    tasks = store.tasks(run.run_id)
    for line in failures(run, tasks):
        say(f"error: {line}", style=COLOURS["error"], error=True)
    say(summary(run, tasks), style=COLOURS.get(run.state, ""))
    if compared := against_estimate(run):
        say(compared)
    is_over = any((task.failure or {}).get("code") == ChangedSincePlanned.code for task in tasks)
    # Of a limit, and of what has changed since the run was planned, its error has said what to do.
    if run.state != "done" and not run.stopped_at_limit and not is_over:
        say(f"{resume_command(run)} goes on from what is done")


def _report_tracking(workspace: Workspace, run_id: str, tracked: bool) -> None:
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
        yield run.error or "the run's process died without reporting a result"
    elif run.state == "stuck":
        yield stuck_line(run)
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
