"""The rows of single Parquet files, without their volumes: ids, labels, and where the volumes lie."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.errors import DataError, UnsupportedTable
from engine.progress import track
from nodes.loaders.file_access import LOCAL, FileAccess
from nodes.loaders.page_index import NotIndexable, PageIndex, index_pages
from nodes.loaders.rows import Rows


@dataclass(frozen=True)
class FileRows:
    """One Parquet file's rows. `index` tells where its volumes lie, if that was asked for and can be told."""

    path: str
    ids: pa.ChunkedArray
    labels: NDArray[np.float32]
    groups: tuple[int, ...]
    """Rows in each row group."""
    index: PageIndex | None = None
    reason: str = ""
    """Why the volumes must be decoded."""
    footer: pq.FileMetaData | None = None
    """Kept where reading it again would cost a request."""


def read_files(
    paths: tuple[str, ...], *, index_bytes: int | None, threads: int, access: FileAccess = LOCAL
) -> Iterator[FileRows]:
    """Each file's rows, in the order of `paths`; with offsets of volumes of `index_bytes`, unless it is None.

    Raises `UnsupportedTable` or `DataError` for a file that would be read wrongly.
    """
    with ThreadPoolExecutor(max(threads, access.streams)) as pool:
        files = pool.map(lambda path: read_file(path, index_bytes, access), paths)
        yield from track(files, total=len(paths), unit="files", label="reading ids")


def join_rows(files: list[FileRows], where: str) -> Rows:
    """The rows of all files, by id; `stored` counts through the files in their order."""
    ids = pa.chunked_array([chunk for file in files for chunk in file.ids.chunks], pa.string())
    return Rows.by_id(ids.combine_chunks(), np.concatenate([file.labels for file in files]), where)


def read_file(path: str, index_bytes: int | None, access: FileAccess = LOCAL) -> FileRows:
    try:
        with access.open(path) as opened:
            return _rows_of(path, opened, index_bytes, access)
    except FileNotFoundError as exc:
        raise DataError(f"{path} is gone", hint="Run the node that makes the table again.") from exc
    except pa.ArrowInvalid as exc:
        raise UnsupportedTable(f"{path} cannot be read as Parquet: {exc}", hint="Make the table again.") from exc


def _rows_of(path: str, opened: pa.NativeFile | BinaryIO, index_bytes: int | None, access: FileAccess) -> FileRows:
    # Elsewhere than on a local disk the small columns of all row groups are asked for at once.
    with pq.ParquetFile(opened, pre_buffer=not access.mapped) as file:
        names = set(file.schema_arrow.names)
        if missing := {"id", "volume"} - names:
            raise UnsupportedTable(
                f"{path} has no column {' and '.join(sorted(missing))}",
                hint="A volume table has the columns id, label and volume.",
            )
        table = file.read(columns=["id", "label"] if "label" in names else ["id"], use_threads=False)
        metadata = file.metadata
    groups = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    labels = _labels(table.column("label"), path) if "label" in names else np.full(len(table), np.nan, np.float32)
    ids = table.column("id").cast(pa.string())
    if not access.mapped:
        return FileRows(path, ids, labels, groups, None, "it is not on a local disk", metadata)
    if index_bytes is None:
        return FileRows(path, ids, labels, groups)
    try:
        index = index_pages(path, metadata, index_bytes)
    except NotIndexable as exc:
        return FileRows(path, ids, labels, groups, None, str(exc))
    return FileRows(path, ids, labels, groups, index)


def _labels(column: pa.ChunkedArray, path: str) -> NDArray[np.float32]:
    """Labels as float32, NaN for none."""
    try:
        values = column.cast(pa.float32(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise UnsupportedTable(
            f"{path}: its labels are {column.type}, not numbers",
            hint="Store the class number 0, 1, ... in the column label.",
        ) from exc
    return np.asarray(values.to_numpy(), np.float32)
