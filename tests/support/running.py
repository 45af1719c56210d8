"""Runs pipelines for real: supervisor, workers, run store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from building import box, pipeline
from waiting import wait_until

from engine.store.runs import Task
from nodes.testing import runner


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

    def _wait(self, run_id: str, node: str, holds: Callable[[Task], bool], what: str) -> Task:
        task = wait_until(lambda: [t for t in self.store.tasks(run_id) if t.node == node and holds(t)], what)
        return task[0]

    def text(self, task: Task, port: str = "out") -> str:
        return Path(task.outputs[port].uri).read_text()
