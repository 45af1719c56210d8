"""Runs pipelines for real, as `voxelflow run` does: supervisor, worker processes, run store and result cache."""

from __future__ import annotations

import time
from typing import Any

from engine.catalog import Catalog
from engine.document.pipeline import Pipeline
from engine.document.plan import Choice
from engine.limit import Limit
from engine.profiles import Profile
from engine.run import launch
from engine.store.runs import Run, RunStore, Task
from engine.workspace import Workspace


class Runner:
    """Runs documents in one workspace, under a profile of 2 cores and 1 GiB unless another is given."""

    longest_s = 540.0
    """The most seconds that a run may take: below the ten minutes that a test has here, so that it says what it saw."""

    def __init__(self, catalog: Catalog, workspace: Workspace, store: RunStore, profile: Profile | None = None) -> None:
        self.catalog, self.workspace, self.store = catalog, workspace, store
        self.profile = profile or Profile(name="test", cores=2, memory_bytes=1 << 30, parallel_tasks=4)

    def start(self, document: Pipeline, *, limit: Limit | None = None, **choice: Any) -> str:
        """Start a run in the background and return its id; `choice` are fields of `Choice`.

        Raises `CheckFailed` when the document has problems.
        """
        run_id, _ = launch.start(
            document,
            self.catalog,
            self.workspace,
            self.store,
            profile=self.profile,
            choice=Choice(**choice),
            limit=limit,
        )
        return run_id

    def finish(self, run_id: str) -> Run:
        """Wait for the end of a run.

        One that is still at work after `longest_s` seconds is killed; raises `AssertionError` with what it was doing.
        """
        until = time.monotonic() + self.longest_s
        for run in launch.ended(self.workspace, self.store, run_id):
            if run.active and time.monotonic() > until:
                seen = self.seen(run_id)
                launch.kill_run(self.workspace, run)
                raise AssertionError(f"it has not ended within {self.longest_s:g} s: {seen}")
        return run

    def finish_done(self, run_id: str) -> Run:
        """Wait for the end of a run, which must be done. Raises `AssertionError` with what its tasks failed of."""
        ended = self.finish(run_id)
        failures = [f"{name}: {task.failure}" for name, task in self.tasks(run_id).items() if task.failure]
        assert ended.state == "done", "\n".join([f"the run is {ended.state}: {ended.error}", *failures])
        return ended

    def run(self, document: Pipeline, **choice: Any) -> tuple[Run, dict[str, Task]]:
        """Run a document to its end: the run, and its tasks by node id. A failed run is returned, not raised."""
        ended = self.finish(self.start(document, **choice))
        return ended, self.tasks(ended.run_id)

    def resume(self, run_id: str, limit: Limit | None = None) -> tuple[Run, dict[str, Task]]:
        """Resume a run that was killed, failed or cancelled, to its end."""
        attempt = launch.resume(self.workspace, self.store, run_id, limit).attempt
        launch.wait_started(self.workspace, self.store, run_id, attempt + 1)
        return self.finish(run_id), self.tasks(run_id)

    def seen(self, run_id: str) -> str:
        """What a run and its tasks do, in one line: for the message of a test that waits for something else."""
        run = self.store.run(run_id)
        tasks = ", ".join(f"{task.node} {task.state}" for task in self.store.tasks(run_id))
        return f"run {run_id} is {run.state}{f' ({run.error})' if run.error else ''}, its tasks are {tasks or 'none'}"

    def tasks(self, run_id: str) -> dict[str, Task]:
        """The tasks of a run by node id."""
        return {task.node: task for task in self.store.tasks(run_id)}
