"""One task: the message that says all about it, the context that its node gets, and the call itself.

A worker of a run does a task with this, and so does a step of an exported file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SerializeAsAny

from engine.catalog import AnyNodeType
from engine.declare.context import Resources, TaskContext
from engine.declare.dataset_type import UnknownDataset, known_again
from engine.declare.datasets import AnyDataset, Dataset
from engine.declare.events import Event
from engine.declare.progress import Phases, Reporter
from engine.errors import VoxelflowError
from engine.observe.results import refuse_damaged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TaskMessage(BaseModel):
    """All that is needed to run a task, as one JSON line. `log`: the task's, where the worker's own is another.

    `about_bytes` is the expected size of the outputs. `announced`: it was reported that the process is starting, so the
    task reports that it begins. `code` and `files` are what the task was planned with (see `engine.run.unchanged`); an
    exported step has none.
    """

    run_id: str
    node: str
    node_type: str
    version: int
    backend: str
    params: dict[str, Any]
    inputs: dict[str, SerializeAsAny[AnyDataset]]
    fingerprint: str
    out: str
    shared: str
    scratch: str
    cores: int
    memory_bytes: int
    gpus: int = 0
    seed: int = 0
    previous: dict[str, SerializeAsAny[AnyDataset]] = {}
    extends: dict[str, SerializeAsAny[AnyDataset]] = {}
    listings: dict[str, str] = {}
    protected: dict[str, tuple[int, ...]] = {}
    workspace: str = ""
    former_workspaces: tuple[str, ...] = ()
    log: str = ""
    about_bytes: int | None = None
    announced: bool = False
    code: str = ""
    files: dict[str, str] = {}

    @property
    def folders(self) -> tuple[Path, Path, Path]:
        """Where the task writes. They are made before it starts."""
        return Path(self.out), Path(self.shared), Path(self.scratch)


def context_of(
    message: TaskMessage,
    *,
    emit: Callable[[Event], None],
    is_cancelled: Callable[[], bool],
    open_spark: Callable[[TaskContext], SparkSession] | None = None,
) -> TaskContext:
    """What the node's function gets. `open_spark` is called with it when the node first asks for the session."""
    out, shared, scratch = message.folders
    optional: dict[str, Any] = {}
    if open_spark is not None:
        optional["open_spark"] = lambda: open_spark(context)
    context: TaskContext = TaskContext(
        run_id=message.run_id,
        node_id=message.node,
        fingerprint=message.fingerprint,
        out=out,
        shared=shared,
        scratch=scratch,
        resources=Resources(message.cores, message.memory_bytes, message.gpus),
        seed=message.seed,
        previous=_readable(message.previous),
        extends=_readable(message.extends),
        inputs_found={name: Path(path) for name, path in message.listings.items()},
        protected=message.protected,
        workspace=Path(message.workspace) if message.workspace else None,
        former_workspaces=message.former_workspaces,
        emit=emit,
        is_cancelled=is_cancelled,
        **optional,
    )
    return context


def run_task(
    message: TaskMessage, node_type: AnyNodeType, context: TaskContext, reporter: Reporter
) -> dict[str, Dataset]:
    """Do the task: its outputs by port, whole and checked. `reporter` gets the progress that `track` reports.

    Raises what the node raises, `MissingPackage` before it starts, `ExecutionError` when its result is not whole.
    """
    # Planning asked too, but a run may be resumed in another environment.
    node_type.require_packages(message.params)
    for folder in message.folders:
        folder.mkdir(parents=True, exist_ok=True)
    keywords: dict[str, Any] = dict(message.params)
    for parameter in node_type.parameters:
        if isinstance(keywords.get(parameter.name), list):
            keywords[parameter.name] = tuple(keywords[parameter.name])  # JSON has no tuples
    if node_type.context_argument:
        keywords[node_type.context_argument] = replace(context, step=node_type.step(message.params))
    with Phases(reporter).reporting() as phases:
        if message.announced:
            phases.enter("")
        outputs = node_type.collect(node_type.backends[message.backend](**_inputs(message), **keywords))
    # Here, before anything depends on it: the supervisor must not wait for a look at every file.
    refuse_damaged(node_type, context.out, outputs)
    return outputs


def _inputs(message: TaskMessage) -> dict[str, Dataset]:
    """The task's inputs, read with the types that the catalogue has brought by now."""
    inputs = {port: known_again(dataset) for port, dataset in message.inputs.items()}
    for port, dataset in inputs.items():
        if isinstance(dataset, UnknownDataset):
            raise VoxelflowError(
                f"the input {port} cannot be read: {dataset.check()}",
                hint="Install the package that brings the type, or run again from the node that makes it (--from).",
            )
    return inputs


def _readable(earlier: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Results to go on from; none of them when one is of a type that is not known."""
    known = {port: known_again(dataset) for port, dataset in earlier.items()}
    return {} if any(isinstance(each, UnknownDataset) for each in known.values()) else known
