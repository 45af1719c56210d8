"""What a node's function gets from the engine: one `TaskContext`, recognised by its type."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.declare.datasets import Dataset, Transform
from engine.declare.events import Artifact, Event, Facts, Message, Metrics
from engine.errors import Cancelled, UsageError
from engine.failpoints import failpoint
from engine.storage.workspace_paths import below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SAVE_REQUEST = "save-wanted"
"""A file of this name in a task's scratch folder asks the task to save its half-done work now."""


@dataclass(frozen=True)
class Resources:
    """What a task may use. Nodes take their thread counts and buffers from here.

    Attributes:
        cores: processor cores, at least 1.
        memory_bytes: main memory for the task's data, in bytes.
        gpus: graphics processors, 0 for none.
    """

    cores: int = 1
    memory_bytes: int = 2 << 30
    gpus: int = 0


@dataclass(frozen=True)
class Transaction:
    """What a task's Delta commit is known by: an application id, which the commit's description notes, and a version.

    They have the form of the log's action `txn`
    (https://github.com/delta-io/delta/blob/master/PROTOCOL.md, Transaction Identifiers).
    """

    app_id: str
    version: int


def _no_spark() -> SparkSession:
    raise UsageError("this task does not run on Spark", hint="Choose a compute profile with the backend spark.")


def _drop(event: Event) -> None:
    """The default receiver of events, which drops them."""


@dataclass(frozen=True)
class TaskContext:
    """Where a task writes, what it may use, and how it speaks: a node's function gets one, of which it says `ctx`.

    The three folders exist when the function is called. A task that is killed is run again with the same ones, so write
    aside and rename, or find what is there.

    Attributes:
        run_id: the run's id, `20260101-120000-a1b2c3`.
        node_id: the node's id in the document.
        fingerprint: hash of all that decides the result: node type and version (of a workspace's node its source file),
            parameters, inputs, what was found in folders, and the seed where it counts. Hexadecimal.
        out: this result's own folder. Nothing else writes there. What it holds when the function returns is kept, and
            its files' sizes are compared before the result is used again.
        shared: folder of the node's *lineage*: same node type, parameters and sources, whatever the sources contain.
            Results that grow with their input keep content-named files or a table there; other runs may do so too.
        scratch: half-done work. It survives a kill, and is removed after success.
        resources: cores, memory in bytes and GPUs that the task may use; thread counts and buffers follow from them.
        seed: the run's seed, for what is random.
        previous: the newest result of the same lineage, by output port: what incremental work goes on from. Empty at
            first, and with `--fresh`.
        extends: the finished result that differs only by smaller `Extendable` parameters, by output port.
        inputs_found: for each `PathIn` folder parameter the Arrow file that lists what was found in it before the run:
            path, size in bytes, mtime_ns (`engine.storage.manifest`).
        protected: for each table's URI the versions that must stay readable, because results or readers name them.
        workspace: the workspace's folder; None where there is none, as in an exported pipeline.
        former_workspaces: folders in which the workspace lay before it was moved, or the one that it was copied from.
        step: the entry that stands for the node in chains of transforms, for what it makes by `write_volumes`.
            None where the function is called without the engine.
        emit: sends an event; `info`, `warn`, `metrics`, `facts` and `artifact` are the ordinary ways to call it.
        is_cancelled: whether someone asked to stop; `track` and `check_cancelled` ask it.
        open_spark: gives the run's Spark session; `spark` calls it.
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
    former_workspaces: tuple[str, ...] = ()
    step: Transform | None = None
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

    def earlier_places(self, path: str, named_in: str) -> list[str]:
        """Where a file or folder of the workspace lay before, for what the file or table `named_in` says of it.

        If that lies in the workspace too, it was moved or copied along. If not, a place that still exists may belong to
        the workspace from which this one was copied, and is left out.
        """
        here = None if self.workspace is None else below(path, (str(self.workspace),))
        places = [] if here is None else [f"{root}/{here}" for root in self.former_workspaces]
        along = below(named_in, (str(self.workspace),)) is not None
        return [place for place in places if along or not os.path.exists(place)]

    def check_cancelled(self) -> None:
        """Raise `Cancelled` when someone asked to stop. Call it now and then in a loop without `track`, which does so.

        What was written in `scratch` and `shared` stays for the next run.
        """
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
        """Report a line for people, on the node's card and on the command line; it goes into the task's log too."""
        self.emit(Message(node=self.node_id, text=text))

    def warn(self, text: str) -> None:
        """Report a warning; it is shown while the run goes on, and afterwards."""
        self.emit(Message(node=self.node_id, level="warning", text=text))

    def metrics(self, step: int, **values: float) -> None:
        """Report figures of one step, an epoch or a batch: a point of a curve for each name. Steps ascend."""
        self.emit(Metrics(node=self.node_id, step=step, values=values))

    def facts(self, **values: str | int | float | bool) -> None:
        """Report figures that are set once, by name; a later call adds to them. They are kept with the run."""
        self.emit(Facts(node=self.node_id, values=values))

    def artifact(self, role: Literal["model", "plot", "table", "file"], path: Path, name: str = "") -> None:
        """Keep a file or folder with the run, called `name` (by default as it is called); MLflow gets it too.

        `role` says how it is shown: a model, a picture, a table (CSV or Parquet), or any file.
        """
        self.emit(Artifact(node=self.node_id, role=role, name=name or path.name, path=str(path)))

    def commit_point(self, name: str) -> None:
        """Name a moment at which a kill must lose nothing, `labels:before-rename`: tests stop the process here.

        Without a test it does nothing.
        """
        failpoint(name)
