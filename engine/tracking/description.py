"""A run's document, plan and datasets, as MLflow gets them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from engine.declare.datasets import Dataset, VolumeSpec, dataset_from_json
from engine.declare.signature import DEFAULT_OUTPUT
from engine.document.pipeline import Edge, Pipeline, load, substitute
from engine.errors import PipelineError
from engine.store.runs import Run, RunStore
from engine.tracking.destination import without_userinfo
from engine.workspace import Workspace

if TYPE_CHECKING:
    from mlflow.entities import Dataset as Entity
    from mlflow.entities import DatasetInput

    from engine.document.plan import Plan


@dataclass(frozen=True)
class Described:
    """Parameters of the pipeline and of its nodes, as the run used them."""

    settings: Mapping[str, Any]
    params: Mapping[str, Mapping[str, Any]]
    types: Mapping[str, str]
    edges: tuple[Edge, ...]

    def into(self, node: str) -> list[Edge]:
        """The edges that end at the node."""
        return [e for e in self.edges if e.target_node == node]


def describe(workspace: Workspace, run: Run) -> Described:
    """Read the run's document, and its plan where there is one: that one knows the defaults and the modes of nodes too.

    A document that cannot be read gives an empty description: it is no reason to lose the metrics.
    """
    from engine.document.plan import read_plan

    try:
        pipeline = load(run.document)
    except PipelineError:
        return Described({}, {}, {}, ())
    plan = read_plan(workspace, run.run_id)
    settings = {name: p.value for name, p in pipeline.parameters.items()}
    params: dict[str, Mapping[str, Any]] = {
        n.id: _substituted(n.params, settings) for n in pipeline.nodes if n.mode == "run"
    }
    for task in plan.tasks if plan is not None else ():
        if pipeline.node(task.node) is not None:
            params[task.node] = task.params
    return Described(settings, params, {n.id: n.type for n in pipeline.nodes}, wires_of(pipeline, plan))


def wires_of(pipeline: Pipeline | None, plan: Plan | None) -> tuple[Edge, ...]:
    """What a run's nodes were given over which wires.

    By its plan, in which a node behind a bypassed one has what was passed through; by its document where that is gone.
    """
    if plan is None:
        return pipeline.edges if pipeline is not None else ()
    return tuple(
        Edge.model_validate({"from": f"{source.node}.{source.port}", "to": f"{task.node}.{port}"})
        for task in plan.tasks
        for port, source in task.inputs.items()
    )


def outputs_of_tasks(store: RunStore, run_id: str) -> dict[str, dict[str, Dataset]]:
    """By node: the datasets on its output ports, of every task that has ended well so far."""
    return {task.node: dict(task.outputs) for task in store.tasks(run_id) if task.outputs}


def _substituted(params: Mapping[str, JsonValue], settings: dict[str, JsonValue]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in params.items():
        try:
            out[name] = substitute(value, settings)
        except KeyError:
            out[name] = value
    return out


REFERENCE = "reference"
"""In a dataset's profile: the whole reference, from which a run is done again."""


def dataset_inputs(edges: Iterable[Edge], outputs: Mapping[str, Mapping[str, Dataset]]) -> list[DatasetInput]:
    """What came over `edges`: `outputs` are the upstream nodes' datasets by port. The context is the input port."""
    from mlflow.entities import DatasetInput, InputTag

    out: list[DatasetInput] = []
    for edge in edges:
        reference = outputs.get(edge.source_node, {}).get(edge.source_port)
        if reference is None or (source := _source(reference)) is None:
            continue
        port = "" if edge.source_port == DEFAULT_OUTPUT else f".{edge.source_port}"
        tag = InputTag("mlflow.data.context", edge.target_port)
        out.append(DatasetInput(_entity(f"{edge.source_node}{port}", reference, source), [tag]))
    return out


def _entity(name: str, reference: Dataset, source: tuple[str, Mapping[str, Any]]) -> Entity:
    """`source` is in MLflow's own spelling where it has one, so that `mlflow.data.get_source` understands it."""
    from mlflow.entities import Dataset as Entity

    spec = getattr(reference, "spec", None)
    return Entity(
        name=name,
        digest=hashlib.blake2b(reference.model_dump_json().encode(), digest_size=8).hexdigest(),
        source_type=source[0],
        source=json.dumps(source[1], default=str),
        schema=_schema(spec if isinstance(spec, VolumeSpec) else None),
        profile=json.dumps(_profile(reference), default=str),
    )


def _source(reference: Dataset) -> tuple[str, Mapping[str, Any]] | None:
    try:
        return _public(reference).mlflow_source()
    except Exception:  # a type of another package: its figures must not be lost for this
        return "local", {"uri": without_userinfo(reference.uri)}


def _profile(reference: Dataset) -> dict[str, Any]:
    public = _public(reference)
    try:
        figures = dict(public.mlflow_profile())
    except Exception as exc:
        figures = {"problem": f"{type(exc).__name__}: {exc}"}
    return figures | {REFERENCE: public.model_dump(mode="json")}


def recorded_reference(profile: str) -> Dataset | None:
    """The reference in a dataset's profile as it was sent; None where there is none."""
    try:
        return dataset_from_json(json.loads(profile)[REFERENCE])
    except (ValueError, LookupError, TypeError):
        return None


def _public(reference: Dataset) -> Dataset:
    """The reference without secrets: the users and passwords of addresses."""
    texts = {name: value for name, value in reference if isinstance(value, str)}
    return reference.model_copy(update={name: without_userinfo(value) for name, value in texts.items()})


def _schema(spec: VolumeSpec | None) -> str | None:
    if spec is None:
        return None
    import numpy as np
    from mlflow.data.schema import TensorDatasetSchema
    from mlflow.types import Schema, TensorSpec

    volumes = Schema([TensorSpec(np.dtype(spec.dtype), (-1, *spec.shape), "volume")])
    labels = Schema([TensorSpec(np.dtype("float32"), (-1,), "label")])
    return json.dumps(TensorDatasetSchema(volumes, labels).to_dict())
