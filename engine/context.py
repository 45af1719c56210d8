"""What a node's function gets from the engine: one `TaskContext`, recognised by its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.datasets import Dataset
from engine.errors import Cancelled, UsageError
from engine.events import Artifact, Event, Facts, Message, Metrics
from engine.failpoints import failpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SAVE_REQUEST = "save-wanted"
"""A file of this name in a task's scratch folder asks the task to save its half-done work now."""


@dataclass(frozen=True)
class Resources:
    """What a task may use. Nodes take their thread counts and buffers from here."""

    cores: int = 1
    memory_bytes: int = 2 << 30
    gpus: int = 0


@dataclass(frozen=True)
class Transaction:
    """Under which a Delta commit is idempotent: the table's `txn` action (application id, version)."""

    app_id: str
    version: int


def _no_spark() -> SparkSession:
    raise UsageError("this task does not run on Spark", hint="Choose a compute profile with the backend spark.")


def _drop(event: Event) -> None:
    """Where events go when nobody listens."""


@dataclass(frozen=True)
class TaskContext:
    """Where a task writes, what it may use, and how it speaks.

    `out` is this result's own folder: nothing else writes there, and it is the same again after a
    kill. `shared` is the folder of the node's *lineage* (same node type, parameters and sources,
    whatever the sources contain): results that grow with their input keep content-named files or a
    table there. `scratch` holds half-done work, survives a kill, and is removed after success.
    Neither exists until the engine starts the task; all three do when it has.

    `previous` is the newest result of the same lineage, by output port: what incremental work goes
    on from. `extends` is the finished result that differs only by smaller extendable parameters.
    `inputs_found` maps each `PathIn` folder parameter to the Arrow file with its listing.
    `protected` maps a table's URI to the versions that must stay readable (cache, leases). `workspace` is the
    workspace's folder; None where there is none, as in an exported pipeline.
    """

    run_id: str
    node_id: str
    fingerprint: str
    out: Path
    shared: Path
    scratch: Path
    resources: Resources = Resources()
    seed: int = 0
    previous: Mapping[str, Dataset] = field(default_factory=dict)
    extends: Mapping[str, Dataset] = field(default_factory=dict)
    inputs_found: Mapping[str, Path] = field(default_factory=dict)
    protected: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    workspace: Path | None = None
    emit: Callable[[Event], None] = _drop
    is_cancelled: Callable[[], bool] = lambda: False
    open_spark: Callable[[], SparkSession] = _no_spark

    @property
    def spark(self) -> SparkSession:
        """The run's Spark session, for a node's variant for that backend. Raises `UsageError` on any other."""
        return self.open_spark()

    @property
    def transaction(self) -> Transaction:
        """One per fingerprint: a commit that carries it happens once, however often the task runs."""
        return Transaction(app_id=f"voxelflow.task.{self.fingerprint[:32]}", version=1)

    def check_cancelled(self) -> None:
        """Raise `Cancelled` when someone asked to stop (`track` does this by itself)."""
        if self.is_cancelled():
            raise Cancelled("cancelled on request", node=self.node_id)

    def save_requested(self) -> bool:
        """Whether someone has asked to save half-done work (`voxelflow runs checkpoint`); true once for a request.

        For nodes declared with `saves_on_request`.
        """
        try:
            (self.scratch / SAVE_REQUEST).unlink()
        except OSError:
            return False
        return True

    def info(self, text: str) -> None:
        self.emit(Message(node=self.node_id, text=text))

    def warn(self, text: str) -> None:
        self.emit(Message(node=self.node_id, level="warning", text=text))

    def metrics(self, step: int, **values: float) -> None:
        """Report figures of one step; a sample of a curve."""
        self.emit(Metrics(node=self.node_id, step=step, values=values))

    def facts(self, **values: str | int | float | bool) -> None:
        """Report figures that are set once."""
        self.emit(Facts(node=self.node_id, values=values))

    def artifact(self, role: Literal["model", "plot", "table", "file"], path: Path, name: str = "") -> None:
        """Keep a file or folder with the run (MLflow gets it)."""
        self.emit(Artifact(node=self.node_id, role=role, name=name or path.name, path=str(path)))

    def commit_point(self, name: str) -> None:
        """Name a moment at which a kill must lose nothing; the kill tests stop the process here."""
        failpoint(name)
