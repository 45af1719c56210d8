"""Runs pipelines for real: supervisor, workers, run store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from building import box, pipeline
from waiting import wait_until

from engine.errors import DamagedStore
from engine.run import launch
from engine.storage.process_lock import is_held
from engine.store.runs import RunStore, Task
from nodes.testing import runner

_AT_WORK_S = 300.0
"""The most that a test waits for what a run does: Spark alone has taken 43 s to start on a busy machine."""


def end_active(store: RunStore) -> None:
    """Kill the runs that are at work, so that none lives on beside the next test."""
    with suppress(DamagedStore):  # a test may have damaged it
        for run in store.runs():
            if run.active:
                launch.kill_run(store.workspace, run)


class Runner(runner.Runner):
    def start_slow(self, steps: int = 10) -> tuple[str, int]:
        """A run whose task `first` is done and whose task `slow` is at work; its id, and the process of that.

        With the fixture `probe_gate` it is at work until that file is there.
        """
        run_id = self.start(
            pipeline(
                box("first", "Make"), box("slow", "Make", text="slow", steps=steps, step_s=0.05), box("end", "Join"),
                wires="first.out>end.first slow.out>end.second",
            )
        )  # fmt: skip
        self.wait_for(run_id, "first", "done")
        pid = self.wait_for_progress(run_id, "slow").pid
        assert pid is not None
        return run_id, pid

    def wait_for(self, run_id: str, node: str, *states: str) -> Task:
        """The task once it is in one of these states."""
        return self._wait(run_id, node, lambda task: task.state in states, f"{node} in {states}")

    def wait_for_progress(self, run_id: str, node: str) -> Task:
        """The task once it has reported progress of its own work, and not only a phase before it."""
        return self._wait(
            run_id, node, lambda task: task.progress is not None and task.progress.counts, f"progress of {node}"
        )

    def wait_for_release(self, run_id: str) -> None:
        """Wait until no process of a run that has ended holds its folder."""
        lock = self.workspace.run_folder(run_id) / "lock"
        wait_until(lambda: not is_held(lock), "the end of the run's process")

    def _wait(self, run_id: str, node: str, holds: Callable[[Task], bool], what: str) -> Task:
        """The task of which this holds. Fails at once when the run has ended without it."""

        def found() -> list[Task]:
            active = self.store.run(run_id).active  # before its tasks: what it did last counts
            tasks = [task for task in self.store.tasks(run_id) if task.node == node and holds(task)]
            assert tasks or active, f"{what} will not happen: {self.seen(run_id)}"
            return tasks

        return wait_until(
            found, what, _AT_WORK_S, details=lambda: f"{what} did not happen: {self.seen(run_id)}", pause_s=0.05
        )[0]

    def text(self, task: Task, port: str = "out") -> str:
        return Path(task.outputs[port].uri).read_text()
