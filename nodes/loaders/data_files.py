"""Which Parquet files a reference means, and what their volumes are."""

from __future__ import annotations

from dataclasses import dataclass

from engine.datasets import VolumeDelta, VolumeParquet, VolumeSpec
from engine.errors import DataError
from nodes.delta.delta_table import local_folder, open_table
from nodes.volume_layout import spec_of
from nodes.volume_parts import read_parts


@dataclass(frozen=True)
class DataFiles:
    """The local paths of a dataset's Parquet files and the spec of its volumes."""

    paths: tuple[str, ...]
    spec: VolumeSpec


def data_files(dataset: VolumeDelta | VolumeParquet) -> DataFiles:
    """The files of exactly this version or manifest, never a listing of the folder.

    Raises `UnsupportedTable` for Delta features that would be read wrongly, `StaleInput` when the
    version is gone, `DataError` when there are no rows, `UsageError` for a table that is not on a
    local disk.
    """
    if isinstance(dataset, VolumeDelta):
        table = open_table(dataset.uri, dataset.version)
        paths = tuple(str(table.root / file.path) for file in table.files)
        spec: VolumeSpec | None = table.spec
    else:
        folder = local_folder(dataset.uri)
        paths = tuple(str(folder / part.path) for part in read_parts(dataset).parts if part.rows)
        spec = dataset.spec
    if not paths:
        raise DataError(f"{dataset.uri} holds no volumes", hint="Convert some volumes first.")
    return DataFiles(paths, spec or _spec_in(paths[0]))


def _spec_in(path: str) -> VolumeSpec:
    import pyarrow.parquet as pq

    return spec_of(pq.read_schema(path).metadata, path)
