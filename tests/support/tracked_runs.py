"""For the tracker's tests: runs made by writing events straight into the run store, and what MLflow has of them."""

from __future__ import annotations

import copy
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from training_scenarios import PROCESSES
from waiting import WAIT_S

from engine.declare.datasets import Dataset, Selection, VolumeDelta, VolumeSpec
from engine.declare.events import (
    Event,
    Facts,
    Metrics,
    Outputs,
    RunState,
    RunStateChanged,
    SystemSample,
    TaskStateChanged,
)
from engine.storage.process_lock import ProcessLock
from engine.store.runs import RunStore
from engine.tracking import Patience
from engine.workspace import Workspace, open_workspace

ROOT = Path(__file__).parents[2]
T0 = 1_700_000_000.0
QUICK = Patience(poll_s=0.05, first_wait_s=0.05, longest_wait_s=0.2, tries_after_end=3)
DOCUMENT = {
    "schema_version": 1,
    "name": "demo",
    "parameters": {"data": {"value": "/data/volumes"}},
    "nodes": [
        {"id": "table", "type": "ParquetToDelta", "params": {"source": "${data}/parquet", "copy": True}},
        {"id": "split", "type": "SplitDataset", "params": {"share": 0.25}},
        {"id": "train", "type": "TrainResNet3D", "params": {"epochs": 2, "note": ""}},
    ],
    "edges": [
        {"from": "table.out", "to": "split.table"},
        {"from": "split.train", "to": "train.table"},
        {"from": "split.validation", "to": "train.validation"},
    ],
}
TABLE = VolumeDelta(
    uri="/data/table",
    count=1000,
    bytes=72_000,
    spec=VolumeSpec(shape=(4, 4, 4, 1), dtype="float32", classes=("no", "yes")),
    version=3,
    data_version=2,
    files=7,
    labelled=1000,
)
SPLIT: dict[str, Dataset] = {
    "train": TABLE.select(Selection(salt="s", low=0, high=0.75)),
    "validation": TABLE.select(Selection(salt="s", low=0.75, high=1)),
}


@dataclass
class FakeRun:
    """A run as a supervisor would write it. Every event is one second after the one before."""

    workspace: Workspace
    document: dict[str, Any] = field(default_factory=lambda: DOCUMENT)
    clock: float = T0
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = RunStore(self.workspace)
        self.text = json.dumps(self.document, indent=2)
        self.id = self.store.create_run(self.document["name"], self.text, self.options, "local")
        nodes = [(n["id"], n["type"], n["id"]) for n in self.document["nodes"]]
        self.store.set_tasks(self.id, nodes)
        self._lock = ProcessLock(self.workspace.run_folder(self.id) / "lock")

    @classmethod
    def opened(cls, other: FakeRun) -> FakeRun:
        """The same run, for use in another thread."""
        out = copy.copy(other)
        out.store = RunStore(other.workspace)
        return out

    def begin(self) -> FakeRun:
        assert self._lock.acquire()
        self.store.begin_attempt(self.id)
        self.emit(RunStateChanged(state="running"))
        return self

    def emit(self, *events: Event) -> None:
        timed = []
        for event in events:
            self.clock += 1
            timed.append(event.model_copy(update={"time": self.clock}))
        self.store.add_events(self.id, timed)

    def task(self, node: str, *events: Event, outputs: dict[str, Dataset] | None = None) -> None:
        """A task from start to done, with what it reports in between."""
        self.emit(TaskStateChanged(node=node, state="running"), *events)
        if outputs is not None:
            self.keep(node, outputs)
            self.emit(Outputs(node=node, outputs=outputs))
        self.emit(TaskStateChanged(node=node, state="done"))

    def keep(self, node: str, outputs: dict[str, Dataset]) -> None:
        """The task's row holds its outputs, as when it is done or cached."""
        text = json.dumps({k: v.model_dump(mode="json") for k, v in outputs.items()})
        self.store.update_task(self.id, node, outputs=text)

    def upstream(self) -> None:
        self.task("table", Facts(node="table", values={"converted": 1000, "how": "links"}), outputs={"out": TABLE})
        self.task("split", outputs=SPLIT)

    def step(self, *steps: int, node: str = "train", shift: float = 0) -> None:
        for step in steps:
            self.emit(
                Metrics(node=node, step=step, values={"loss": 1 / (step + 1) + shift, "accuracy": step / 100}),
                SystemSample(values={"cpu_utilization_percentage": 10 + step}),
            )

    def training(self, *steps: int, attempt: int = 1, shift: float = 0) -> FakeRun:
        """The training has started and done these steps."""
        self.emit(TaskStateChanged(node="train", state="running", attempt=attempt))
        self.step(*steps, shift=shift)
        return self

    def finish(self, state: Literal["done", "failed", "cancelled"] = "done", error: str = "", attempt: int = 1) -> None:
        """The training has ended, and the run with it."""
        self.emit(TaskStateChanged(node="train", state=state, attempt=attempt))
        self.end(state, error)

    def end(self, state: RunState, error: str = "") -> None:
        self.emit(RunStateChanged(state=state, error=error))
        self.store.finish_run(self.id, state, error)
        self._lock.release()

    def lose(self) -> None:
        """The supervisor is killed: its lock is free, the row still says running."""
        self._lock.release()


@dataclass
class Found:
    """What MLflow has of one of its runs."""

    id: str
    status: str
    end_time: int | None
    start_time: int
    params: dict[str, str]
    tags: dict[str, str]
    points: dict[str, list[tuple[int, int, float]]]
    """By metric: (step, time in ms, value), sorted."""
    inputs: list[Any]
    models: list[str]

    def steps(self, key: str) -> list[int]:
        return [step for step, _, _ in self.points[key]]


@dataclass
class Reader:
    """Reads MLflow by its own client."""

    client: Any

    def runs(self, run_id: str) -> dict[str, Found]:
        """By node, "" the pipeline's own. Asserts that there is one of each."""
        experiments = [e.experiment_id for e in self.client.search_experiments()]
        out: dict[str, Found] = {}
        for run in self.client.search_runs(experiments, f"tags.`voxelflow.run_id` = '{run_id}'"):
            node = run.data.tags.get("voxelflow.node", "")
            assert node not in out, f"two MLflow runs for {node or 'the pipeline'}"
            out[node] = self._found(run)
        return out

    def _found(self, run: Any) -> Found:
        points = {
            key: sorted((m.step, m.timestamp, m.value) for m in self.client.get_metric_history(run.info.run_id, key))
            for key in run.data.metrics
        }
        outputs = self.client.get_run(run.info.run_id).outputs
        return Found(
            id=run.info.run_id,
            status=run.info.status,
            end_time=run.info.end_time,
            start_time=run.info.start_time,
            params=dict(run.data.params),
            tags=dict(run.data.tags),
            points=points,
            inputs=list(run.inputs.dataset_inputs),
            models=[m.model_id for m in outputs.model_outputs] if outputs else [],
        )

    def artifacts(self, mlflow_run: str, folder: str | None = None) -> list[str]:
        out: list[str] = []
        for info in self.client.list_artifacts(mlflow_run, folder):
            out += self.artifacts(mlflow_run, info.path) if info.is_dir else [info.path]
        return sorted(out)


@dataclass
class TrackerProcess:
    """`track_run` in a process of its own, forked from one that has MLflow; `environment` is added to this one's."""

    workspace: Workspace
    run_id: str
    environment: dict[str, str]

    def start(self) -> TrackerProcess:
        environment = {**os.environ, **self.environment}
        self.process = PROCESSES.Process(target=_track, args=(str(self.workspace.root), self.run_id, environment))
        self.process.start()
        return self

    def wait(self) -> int:
        """Its exit status."""
        self.process.join(WAIT_S)
        assert self.process.exitcode is not None, "the tracker did not end"
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()
        self.process.join(WAIT_S)


def _track(workspace: str, run_id: str, environment: dict[str, str]) -> None:
    # The fork server has the environment of its start.
    os.environ.clear()
    os.environ.update(environment)
    from engine.tracking import track_run

    patience = Patience(poll_s=0.05, first_wait_s=0.1, longest_wait_s=0.5, tries_after_end=8)
    done = track_run(open_workspace(Path(workspace)), run_id, until_ended=True, patience=patience)
    sys.exit(0 if done else 3)
