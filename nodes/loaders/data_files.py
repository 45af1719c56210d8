"""Which Parquet files a reference means, and what their volumes are."""

from __future__ import annotations

from dataclasses import dataclass

from engine.datasets import VolumeDelta, VolumeParquet, VolumeSpec
from engine.errors import DataError
from engine.storage import is_url
from nodes.delta.delta_table import local_folder, open_table
from nodes.loaders.file_access import LOCAL, FileAccess
from nodes.volume_layout import spec_of
from nodes.volume_parts import read_parts


@dataclass(frozen=True)
class DataFiles:
    """A dataset's Parquet files, by the names under which `access` opens them, and the spec of its volumes."""

    paths: tuple[str, ...]
    spec: VolumeSpec
    access: FileAccess = LOCAL


def data_files(dataset: VolumeDelta | VolumeParquet) -> DataFiles:
    """The files of exactly this version or manifest, never a listing of the folder.

    Raises `UnsupportedTable` for Delta features that would be read wrongly, `StaleInput` when the
    version is gone, `DataError` when there are no rows or object storage cannot be reached, `UsageError`
    for a place that is neither a local folder nor in object storage.
    """
    if isinstance(dataset, VolumeDelta) and is_url(dataset.uri):
        return _remote_files(dataset)
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


def _remote_files(dataset: VolumeDelta) -> DataFiles:
    from engine.storage.objects import RemotePath
    from nodes.delta.remote_table import open_remote
    from nodes.loaders.remote_files import RemoteFiles

    table = open_remote(RemotePath.at(dataset.uri), dataset.version)
    if not table.files:
        raise DataError(f"{dataset.uri} holds no volumes", hint="Convert some volumes first.")
    sizes = {str(table.root / file.path): file.bytes for file in table.files}
    return DataFiles(tuple(sizes), table.spec, RemoteFiles(sizes))


def _spec_in(path: str) -> VolumeSpec:
    import pyarrow.parquet as pq

    return spec_of(pq.read_schema(path).metadata, path)
