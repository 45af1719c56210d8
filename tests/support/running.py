"""Runs pipelines for real: supervisor, workers, run store."""

from __future__ import annotations

import time
from pathlib import Path

from engine import launch
from engine.catalog import Catalog
from engine.pipeline import Pipeline
from engine.plan import Choice
from engine.profiles import Profile
from engine.runs import Run, RunStore, Task
from engine.workspace import Workspace


class Runner:
    def __init__(self, catalog: Catalog, workspace: Workspace, store: RunStore, profile: Profile | None = None) -> None:
        self.catalog, self.workspace, self.store = catalog, workspace, store
        self.profile = profile or Profile(name="test", cores=2, memory_bytes=1 << 30, parallel_tasks=4)

    def start(self, document: Pipeline, **choice) -> str:
        run_id, _ = launch.start(
            document, self.catalog, self.workspace, self.store, profile=self.profile, choice=Choice(**choice)
        )
        return run_id

    def finish(self, run_id: str) -> Run:
        return list(launch.ended(self.workspace, self.store, run_id))[-1]

    def run(self, document: Pipeline, **choice) -> tuple[Run, dict[str, Task]]:
        ended = self.finish(self.start(document, **choice))
        return ended, self.tasks(ended.run_id)

    def resume(self, run_id: str) -> tuple[Run, dict[str, Task]]:
        attempt = launch.resume(self.workspace, self.store, run_id).attempt
        launch.wait_started(self.workspace, self.store, run_id, attempt + 1)
        return self.finish(run_id), self.tasks(run_id)

    def tasks(self, run_id: str) -> dict[str, Task]:
        return {t.node: t for t in self.store.tasks(run_id)}

    def wait_for(self, run_id: str, node: str, *states: str) -> Task:
        for _ in range(1200):
            task = self.tasks(run_id).get(node)
            if task is not None and task.state in states:
                return task
            time.sleep(0.05)
        raise AssertionError(f"{node} never became {states}: {self.tasks(run_id)}")

    def wait_for_progress(self, run_id: str, node: str) -> Task:
        for _ in range(1200):
            task = self.tasks(run_id).get(node)
            if task is not None and task.progress is not None:
                return task
            time.sleep(0.05)
        raise AssertionError(f"{node} never reported progress")

    def text(self, task: Task, port: str = "out") -> str:
        return Path(task.outputs[port].uri).read_text()
