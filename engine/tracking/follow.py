"""The loop: one run's events, from the durable cursor to the end of the run."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from engine.failpoints import failpoint
from engine.storage.process_lock import ProcessLock
from engine.store.runs import Run, RunStore
from engine.tracking.description import describe
from engine.tracking.destination import connect, destination
from engine.tracking.mlflow_api import RunDeleted, find_or_create_experiment, find_or_create_run, is_gone, line
from engine.tracking.recorder import STATUS, Recorder, TrackState
from engine.tracking.sweep_run import sweep_parent
from engine.workspace import Workspace

TRACKER_LOCK = "tracker.lock"
"""In the run's folder; locked by the one process that tracks the run."""
_CHUNK = 2000
"""Events between two writes of the cursor."""


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds: between two looks, and after a failure, doubling up to the longest."""

    poll_s: float = 1.0
    first_wait_s: float = 1.0
    longest_wait_s: float = 30.0
    tries_after_end: int = 6

    def wait_s(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        return min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(failures - 1, 16))


def follow(workspace: Workspace, run_id: str, *, until_ended: bool, patience: Patience) -> bool:
    """See `engine.tracking.track_run`."""
    store = RunStore(workspace)
    lock = ProcessLock(workspace.run_folder(store.run(run_id).run_id) / TRACKER_LOCK)
    try:
        follower = _Follower(workspace, store, store.run(run_id).run_id, patience)
        if not follower.take(lock, wait=until_ended):
            return False
        return follower.follow(until_ended)
    finally:
        lock.release()
        store.close()


class _Follower:
    def __init__(self, workspace: Workspace, store: RunStore, run_id: str, patience: Patience) -> None:
        self._workspace, self._store, self._run_id, self._patience = workspace, store, run_id, patience
        self._target = destination(workspace)
        self._log = workspace.run_folder(run_id) / "tracker.log"
        self._cursor, self._state, self._finished = 0, TrackState(), False
        self._recorder: Recorder | None = None

    def take(self, lock: ProcessLock, *, wait: bool) -> bool:
        """Become the run's tracker. Another one may be at work: it will end, or die."""
        tries = 0
        while not lock.acquire():
            tries += not self._store.run(self._run_id).active
            if not wait or tries > self._patience.tries_after_end:
                return False
            time.sleep(self._patience.poll_s)
        return True

    def follow(self, until_ended: bool) -> bool:
        self._load()
        failures = failures_after_end = 0
        while True:
            # The state first: once it says that the run has ended, all its events are there.
            run = self._store.run(self._run_id)
            try:
                more = self._step(run)
            except RunDeleted as exc:
                self._log_line(exc.line())
                self._save(finished=True, problem=exc.line())
                return True
            except Exception as exc:
                self._trouble(exc)
                failures += 1
                failures_after_end += not run.active
                if not until_ended or failures_after_end >= self._patience.tries_after_end:
                    return False
                self._rest(self._patience.wait_s(failures_after_end or failures))
                continue
            failures = failures_after_end = 0
            if more:
                continue
            if not run.active:
                return True
            if not until_ended:
                return False
            self._rest(self._patience.poll_s)

    def _step(self, run: Run) -> bool:
        """Send the next events and move the cursor past them; True when there may be more."""
        events = self._store.events(self._run_id, after=self._cursor, limit=_CHUNK)
        more = len(events) == _CHUNK
        settled = self._state.run and self._state.status == STATUS[run.state]
        if not events and settled and self._finished == (not run.active):
            return False
        recorder = self._recorder or self._connect(run)
        recorder.state = self._state.model_copy(deep=True)
        for seq, event in events:
            recorder.record(seq, event)
        if not more:
            recorder.settle(run)
        recorder.flush()
        failpoint("tracking:sent")
        self._state = recorder.state
        self._cursor = events[-1][0] if events else self._cursor
        self._save(finished=not more and not run.active)
        failpoint("tracking:saved")
        return more

    def _connect(self, run: Run) -> Recorder:
        """Connect, and find or make the run in MLflow. Nothing is known yet of what arrived before."""
        client = connect(self._target, self._workspace)
        state = self._state
        if state.run and client.get_run(state.run).info.lifecycle_stage == "deleted":
            raise RunDeleted(
                f"the run {state.run} was deleted in MLflow", hint="Restore it in MLflow to have the rest sent."
            )
        if not state.run:
            state.experiment = find_or_create_experiment(client, run.pipeline, self._target.artifacts)
            parent, more = sweep_parent(client, self._store, run, state.experiment) or (None, {})
            state.run, _ = find_or_create_run(
                client,
                state.experiment,
                run.run_id,
                parent=parent,
                name=f"{run.pipeline} {run.run_id}",
                started=run.started or run.created,
                tags={
                    "voxelflow.pipeline": run.pipeline,
                    "voxelflow.profile": run.profile,
                    "mlflow.note.content": _note(run),
                    **more,
                    **({"voxelflow.reproduces": again} if (again := run.options.get("reproduces")) else {}),
                },
            )
            self._save()
        recorder = Recorder(client, self._store, run, describe(self._workspace, run), self._pass_over)
        recorder.state = state
        if not state.described:
            recorder.describe()
            state.described = True
            self._save()
        self._recorder = recorder
        return recorder

    # --- what is remembered ------------------------------------------------------------------

    def _load(self) -> None:
        cursor, saved, finished = self._store.tracking.find(self._run_id)
        state = TrackState.model_validate(saved)
        if state.location == self._target.shown:
            self._cursor, self._state, self._finished = cursor, state, finished
        else:
            if state.location:
                self._log_line(f"sent to {state.location} before; all of it goes to {self._target.shown} now")
            self._start_over()

    def _start_over(self) -> None:
        self._cursor, self._state = 0, TrackState(location=self._target.shown)
        self._save()

    def _save(self, *, finished: bool = False, problem: str | None = None) -> None:
        problems = "; ".join(self._state.notes) if problem is None else problem
        state = self._state.model_dump(mode="json")
        self._store.tracking.record(self._run_id, self._cursor, state, finished=finished, problem=problems)
        self._finished = finished

    # --- what goes wrong ---------------------------------------------------------------------

    def _trouble(self, exc: Exception) -> None:
        """Drop the connection, log what happened, and start over where what we sent is gone."""
        self._recorder = None
        text = self._target.clean(f"MLflow at {self._target.shown}: {line(exc)}")
        self._log_line(text)
        try:
            if is_gone(exc) and self._state.run:
                self._start_over()
            self._save(problem=text)
        except sqlite3.Error as failed:  # the run store is busy: the cursor there is still right
            self._log_line(f"the run store did not take the tracker's state: {failed}")

    def _pass_over(self, text: str) -> None:
        clean = self._target.clean(text)
        recorder = self._recorder
        (recorder.state if recorder else self._state).note(clean)
        self._log_line(clean)

    def _log_line(self, text: str) -> None:
        # A full disk must not end the tracker: what it has to say is in the run store as well.
        with contextlib.suppress(OSError), self._log.open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}\n")

    def _rest(self, seconds: float) -> None:
        """Wait, but not beyond the moment at which the run ends or starts again."""
        active = self._store.run(self._run_id).active
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, self._patience.poll_s))
            if self._store.run(self._run_id).active != active:
                return


def _note(run: Run) -> str:
    """The description on the run's page."""
    return (
        f"Pipeline **{run.pipeline}**, run `{run.run_id}` of Voxelflow.\n\n"
        "Its document is the artifact `pipeline.json`; "
        f"`voxelflow run pipeline.json --profile {run.profile}` runs it again; "
        f"`voxelflow runs reproduce {run.run_id}` repeats its training on the same data and compares."
    )
