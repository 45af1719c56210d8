"""Where source volumes lie, a local folder or object storage: the one place that asks which, for readers and labels."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.datasets import VolumeSpec
from engine.errors import DataError
from engine.storage import is_url
from nodes.conversion.labels import LABEL_FILES, label_file_in
from nodes.conversion.npy_files import ListedFile, VolumeReader
from nodes.conversion.volume_listing import LABEL_TABLES, label_table_of

if TYPE_CHECKING:
    import pyarrow as pa


class Reader(Protocol):
    """Reads files of one spec into rows of a buffer; one reader per thread. See `npy_files.VolumeReader`."""

    def expect(self, files: Sequence[ListedFile]) -> None: ...
    def read(self, path: str, size: int, mtime_ns: int, row: NDArray[np.uint8]) -> None: ...


def open_reader(source: str, spec: VolumeSpec, *, finite: bool) -> Reader:
    """A reader of the files below `source`, a folder or a storage URL."""
    if is_url(source):
        from nodes.conversion.remote_volumes import RemoteVolumeReader

        return RemoteVolumeReader(source, spec, finite=finite)
    return VolumeReader(source, spec, finite=finite)


def label_table(listing: pa.Table, source: str, scratch: Path) -> Path | None:
    """The label table that belongs to the listed volumes, as a local file; one from a URL is put into `scratch`.

    Raises `DataError` when it is not the one that was listed.
    """
    if not is_url(source):
        return label_table_of(listing, Path(source))
    from engine.storage.objects import RemotePath

    listed = json.loads((listing.schema.metadata or {}).get(LABEL_TABLES, b"[]"))
    if not listed:
        return None
    wanted = min(listed, key=lambda table: LABEL_FILES.index(table["path"]))
    place = RemotePath.at(source) / wanted["path"]
    try:
        data, found = place.read()
    except FileNotFoundError as exc:
        raise DataError(f"{place} is gone since the folder was listed", hint="Run the pipeline again.") from exc
    if (found.size, found.mtime_ns) != (wanted["size"], wanted["mtime_ns"]):
        raise DataError(f"{place} has changed since the folder was listed", hint="Run the pipeline again.")
    path = scratch / str(wanted["path"])
    path.write_bytes(data)
    return path


@contextmanager
def label_file_at(source: str) -> Iterator[Path | None]:
    """The table of labels that lies in the folder `source`, if any, as a local file while the context lasts."""
    if not is_url(source):
        yield label_file_in(Path(source))
        return
    from engine.storage.objects import RemotePath

    for name in LABEL_FILES:
        try:
            data, _ = (RemotePath.at(source) / name).read()
        except FileNotFoundError:
            continue
        with tempfile.TemporaryDirectory(prefix="voxelflow-labels-") as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            yield path
        return
    yield None


def label_table_sizes(source: str) -> list[int]:
    """Bytes of each table of labels that lies in the folder `source`."""
    if not is_url(source):
        return [table.stat().st_size for name in LABEL_FILES if (table := Path(source) / name).is_file()]
    from engine.storage.objects import RemotePath

    sizes = []
    for name in LABEL_FILES:
        try:
            sizes.append((RemotePath.at(source) / name).stat().size)
        except FileNotFoundError:
            continue
    return sizes
