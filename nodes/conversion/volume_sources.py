"""The source of a conversion, a local folder or object storage: its listing, its readers, its table of labels.

The one place that asks which of the two it is, and of which format its volumes are.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.declare.datasets import VolumeFiles, VolumeSpec
from engine.errors import DataError
from engine.storage import is_url
from engine.storage.io_errors import remedy
from nodes.conversion.formats import NPY, ROWS, Reading, endings_of, format_named, formats
from nodes.conversion.labels import LABEL_FILES, LABEL_TABLES, label_file_in
from nodes.conversion.npy_files import HeaderSample, ListedFile, VolumeReader, sample_local_headers

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from engine.storage.objects import RemotePath


def volumes_of(listing: pa.Table, source: str = "", reading: Reading = NPY) -> pa.Table:
    """The volumes of a listing of the folder `source`; the label tables in it move to the schema metadata.

    A volume of several files is one row: its size is that of all, its time a fingerprint of theirs. Raises
    `MissingPackage` when finding them takes a package that is not installed.
    """
    tables = listing.filter(pc.is_in(listing["path"], value_set=pa.array(LABEL_FILES, pa.string())))
    collect = None if reading.format in ("npy", ROWS) else format_named(reading.format).collector()
    if collect is None:
        volumes = listing.filter(is_volume(listing["path"], reading))
    else:
        volumes = collect(
            Path(source), listing.filter(pc.invert(pc.is_in(listing["path"], pa.array(LABEL_FILES, pa.string()))))
        )
    return volumes.replace_schema_metadata({LABEL_TABLES: json.dumps(tables.to_pylist()).encode()})


def is_volume(paths: pa.ChunkedArray, reading: Reading = NPY) -> pa.ChunkedArray:
    """Which of the paths end like a volume of the format."""
    found = None
    for ending in endings_of(reading):
        each = pc.ends_with(paths, ending, ignore_case=True)
        found = each if found is None else pc.or_(found, each)
    return found


def reading_of(files: VolumeFiles) -> Reading:
    """How the volumes of the dataset are read."""
    listing = files.manifest if files.format == ROWS else ""
    return Reading(files.format, files.dataset, files.transforms, listing, files.largest_bytes)


class Reader(Protocol):
    """Reads files of one spec into rows of a buffer; one reader per thread. See `npy_files.VolumeReader`.

    A reader that knows more of a volume than its voxels (spacing, orientation, a date) says so in `columns`: names and
    Arrow types, which `nodes.conversion.columns.stored_type` leaves as they are. `read` then gives a Python value
    for each of them, None where there is none. They become columns of the volume table, beside those of the label
    table, which make way for their names. Only what follows from the file alone may be given.
    """

    @property
    def columns(self) -> pa.Schema: ...
    def expect(self, files: Iterable[ListedFile]) -> None: ...
    def read(self, path: str, size: int, mtime_ns: int, row: NDArray[np.uint8]) -> tuple[Any, ...]: ...


def open_reader(source: str, spec: VolumeSpec, *, finite: bool, reading: Reading = NPY, hashes: bool = False) -> Reader:
    """A reader of the files below `source`, a folder or a storage URL; with `hashes` it gives their `source_sha256`.

    Raises `MissingPackage`, and `DataError` for a format at a URL that is read from folders only.
    """
    if reading.takes_whole:
        from nodes.conversion.whole_volumes import TransformingReader

        refuse_url(source, reading)
        return TransformingReader(source, spec, finite=finite, reading=reading, hashes=hashes)
    if reading.format != "npy":
        from nodes.conversion.formats.reader import FormatReader

        refuse_url(source, reading)
        return FormatReader(source, reading, spec, finite=finite, hashes=hashes)
    if is_url(source):
        from nodes.conversion.remote_volumes import RemoteVolumeReader

        return RemoteVolumeReader(source, spec, finite=finite, hashes=hashes)
    return VolumeReader(source, spec, finite=finite, hashes=hashes)


def refuse_url(source: str, reading: Reading) -> None:
    """Raise `DataError` when `source` is a URL and the format's volumes are several files each, or folders."""
    if reading.format in ("npy", ROWS) or not is_url(source):
        return
    wanted = format_named(reading.format)
    if wanted.kind.needs_folder:
        single = ", ".join(["npy", *(each.name for each in formats().values() if not each.kind.needs_folder)])
        raise DataError(
            f"{wanted.title} volumes are not read from {source}: one may be several files",
            hint=f"Copy them to a disk. From object storage volumes of one file each are read: {single}.",
            parameter="folder",
        )


def sample_headers(
    source: str, paths: Iterable[str], reading: Reading = NPY, most_bytes: int | None = None
) -> HeaderSample:
    """Read the headers of `paths` below `source`, a folder or a storage URL. The result names bad files.

    In object storage files of other formats than `.npy` are copied for it, so only as many as have `most_bytes`
    together are looked at (None: 256 MB, and one in any case). Raises `DataError` when a store gives no answer,
    `MissingPackage`.
    """
    if reading.takes_whole:
        from nodes.conversion.whole_volumes import sample_whole

        refuse_url(source, reading)
        return sample_whole(source, paths, reading, most_bytes)
    if reading.format != "npy":
        from nodes.conversion.formats.reader import sample_format_headers

        refuse_url(source, reading)
        return sample_format_headers(source, paths, reading, most_bytes)
    if is_url(source):
        from nodes.conversion.remote_volumes import sample_remote_headers

        return sample_remote_headers(source, paths)
    return sample_local_headers(source, paths)


def label_table(listing: pa.Table, source: str, scratch: Path) -> Path | None:
    """The label table that belongs to the listed volumes, as a local file; one from a URL is put into `scratch`.

    `labels.csv` comes before `labels.parquet`. A manifest made elsewhere knows of none; then a local folder is looked
    into. Raises `DataError` when the table is not the one that was listed: the result would be kept under the wrong
    name.
    """
    metadata = listing.schema.metadata or {}
    if LABEL_TABLES not in metadata:
        return None if is_url(source) else label_file_in(Path(source))
    listed = json.loads(metadata[LABEL_TABLES])
    if not listed:
        return None
    wanted = min(listed, key=lambda table: LABEL_FILES.index(table["path"]))
    name = str(wanted["path"])
    place: RemotePath | Path = Path(source) / name
    data: Buffer | None = None
    try:
        if is_url(source):
            from engine.storage.objects import RemotePath

            place = stored = RemotePath.at(source) / name
            path = scratch / name
            data, remote = stored.read()
            found = remote.size, remote.mtime_ns
        else:
            path = Path(source) / name
            local = path.stat()
            found = local.st_size, local.st_mtime_ns
    except FileNotFoundError as exc:
        if isinstance(place, Path) and place.is_symlink():
            return place  # reading it reports the problem; it is read only when labels are needed
        raise DataError(f"{place} is gone since the folder was listed", hint="Run the pipeline again.") from exc
    except OSError as exc:
        raise DataError(f"{place} cannot be read: {exc.strerror}", hint=remedy(exc)) from exc
    if found != (wanted["size"], wanted["mtime_ns"]):
        raise DataError(f"{place} has changed since the folder was listed", hint="Run the pipeline again.")
    if data is not None:
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


def _is_listed(path: Path) -> bool:
    return os.path.lexists(path) and not path.is_dir()


def label_table_sizes(source: str) -> list[int]:
    """Bytes of each table of labels that lies in the folder `source`."""
    if not is_url(source):
        tables = [Path(source) / name for name in LABEL_FILES]
        # As the listing counts them: what is no folder is a file, and a link without a target is empty.
        return [table.stat().st_size if table.exists() else 0 for table in tables if _is_listed(table)]
    from engine.storage.objects import RemotePath

    sizes = []
    for name in LABEL_FILES:
        try:
            sizes.append((RemotePath.at(source) / name).stat().size)
        except FileNotFoundError:
            continue
    return sizes
