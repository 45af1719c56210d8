"""The datasets that a node was given, as MLflow's dataset inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from engine.datasets import Dataset, VolumeDelta, VolumeFiles, VolumeParquet, VolumeSpec, dataset_from_json
from engine.node import DEFAULT_OUTPUT
from engine.pipeline import Edge
from engine.tracking.destination import without_userinfo

if TYPE_CHECKING:
    from mlflow.entities import Dataset as Entity
    from mlflow.entities import DatasetInput

REFERENCE = "reference"
"""In a dataset's profile: the whole reference, from which a run is done again."""
_Volumes = VolumeFiles | VolumeParquet | VolumeDelta


def dataset_inputs(edges: Iterable[Edge], outputs: Mapping[str, Mapping[str, Dataset]]) -> list[DatasetInput]:
    """What came over `edges`: `outputs` are the upstream nodes' datasets by port. The context is the input port."""
    from mlflow.entities import DatasetInput, InputTag

    out: list[DatasetInput] = []
    for edge in edges:
        reference = outputs.get(edge.source_node, {}).get(edge.source_port)
        if not isinstance(reference, _Volumes):
            continue
        port = "" if edge.source_port == DEFAULT_OUTPUT else f".{edge.source_port}"
        tag = InputTag("mlflow.data.context", edge.target_port)
        out.append(DatasetInput(_entity(f"{edge.source_node}{port}", reference), [tag]))
    return out


def _entity(name: str, reference: _Volumes) -> Entity:
    from mlflow.entities import Dataset as Entity

    kind, source = _source(reference)
    return Entity(
        name=name,
        digest=hashlib.blake2b(reference.model_dump_json().encode(), digest_size=8).hexdigest(),
        source_type=kind,
        source=json.dumps(source),
        schema=_schema(reference.spec),
        profile=json.dumps(_profile(reference) | {REFERENCE: _public(reference).model_dump(mode="json")}),
    )


def recorded_reference(profile: str) -> Dataset | None:
    """The reference in a dataset's profile as it was sent; None where there is none."""
    try:
        return dataset_from_json(json.loads(profile)[REFERENCE])
    except (ValueError, LookupError, TypeError):
        return None


def _public(reference: _Volumes) -> _Volumes:
    changes = {"uri": without_userinfo(reference.uri)}
    if isinstance(reference, VolumeFiles | VolumeParquet):
        changes["manifest"] = without_userinfo(reference.manifest)
    return reference.model_copy(update=changes)


def _source(reference: _Volumes) -> tuple[str, dict[str, object]]:
    """MLflow's own spelling of a source, so that `mlflow.data.get_source` understands it."""
    uri = without_userinfo(reference.uri)
    if isinstance(reference, VolumeDelta):
        return "delta_table", {"path": uri, "delta_table_version": reference.version}
    scheme = urlsplit(uri).scheme
    return ("local" if scheme in ("", "file") else scheme), {"uri": uri, "manifest": reference.manifest}


def _schema(spec: VolumeSpec | None) -> str | None:
    if spec is None:
        return None
    import numpy as np
    from mlflow.data.schema import TensorDatasetSchema
    from mlflow.types import Schema, TensorSpec

    volumes = Schema([TensorSpec(np.dtype(spec.dtype), (-1, *spec.shape), "volume")])
    labels = Schema([TensorSpec(np.dtype("float32"), (-1,), "label")])
    return json.dumps(TensorDatasetSchema(volumes, labels).to_dict())


def _profile(reference: _Volumes) -> dict[str, object]:
    out: dict[str, object] = dict(reference.details())
    if isinstance(reference, VolumeDelta):
        out |= {"labelled": reference.labelled, "data_version": reference.data_version}
        if reference.selections:
            # The counts are the table's; which of its rows these are, the selections say.
            out["selections"] = [s.model_dump(mode="json") for s in reference.selections]
    if reference.spec is not None and reference.spec.classes:
        out["classes"] = list(reference.spec.classes)
    return out
