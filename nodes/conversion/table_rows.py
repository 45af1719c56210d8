"""Rows of a table of volumes as a listing, and a reader of them: so a table is transformed as a folder of files is.

The listing is a manifest as that of a folder: `path` is the row's id, `size` its number in its file, counted from 0,
and `mtime_ns` a fingerprint of the file's name, size and time. So a row is the same as before while its file is. It
also has `label` and the table's other columns, under the names `column NAME`; its metadata has the files, below the
table's folder, and the volumes' shape and dtype.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.declare.datasets import VolumeSpec
from engine.errors import DataError, first_line
from engine.storage import is_url, manifest
from nodes.conversion.formats import AFFINE, GEOMETRY, SURVEY
from nodes.conversion.labels import LABEL_TABLES, LabelRule, Labels, find_labels
from nodes.conversion.npy_files import ListedFile
from nodes.conversion.quarantine import Refused
from nodes.transforms.steps import Form
from nodes.volume_file.page_index import NotIndexable, PageIndex, index_pages, read_page

_FILES, _SPEC = b"voxelflow.table_files", b"voxelflow.table_spec"
_COLUMN = "column "
_LINES = tuple(column for column in SURVEY if column not in AFFINE)
"""Where a survey counts: changed by transforms too, where a table has all of them as SEG-Y's reader writes them;
another program's `time` may be a date."""
_BATCH_BYTES = 32 << 20
_FILES_OPEN = 8


class TableFile(NamedTuple):
    """A file by its path below the table's folder, its bytes, and when it was changed: 0 for one of a Delta table
    whose name has a hash or a UUID, as no other content gets that name."""

    path: str
    bytes: int
    mtime_ns: int = 0


def rows_listing(
    files: Sequence[TableFile], rows: Sequence[int], columns: pa.Table, keep: NDArray[np.bool_], spec: VolumeSpec
) -> pa.Table:
    """The listing of the rows `keep` of `files`, which have so many `rows` each. `columns` has `id`, `label` if there
    are labels, and others, for all rows in the order of the files."""
    moving = _changed_by_transforms(columns.schema)
    stamps = np.array([fingerprint(file) for file in files], np.int64)
    counts = np.asarray(rows, np.int64)
    numbers = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    table = pa.table(
        {
            "path": columns["id"].cast(pa.string()),
            "size": pa.array(numbers, pa.int64()),
            "mtime_ns": pa.array(np.repeat(stamps, counts), pa.int64()),
            **{
                name if name == "label" else _COLUMN + name: columns[name]
                for name in columns.column_names
                if name not in ("id", "volume", *moving)
            },
        }
    )
    metadata = {_FILES: json.dumps(list(files)).encode(), _SPEC: spec.model_dump_json().encode(), LABEL_TABLES: b"[]"}
    metadata |= {b"voxelflow.geometry": json.dumps(moving).encode()}
    return table.filter(pa.array(keep)).replace_schema_metadata(metadata)


def _changed_by_transforms(columns: pa.Schema) -> list[str]:
    """The columns of a volume's place in space, which the reader gives, and not the listing."""
    names = {name for name, _ in GEOMETRY}
    if all(name in columns.names and columns.field(name).type == pa.type_for_alias(kind) for name, kind in _LINES):
        names |= {name for name, _ in _LINES}
    return [name for name in columns.names if name in names]


def is_rows(listing: pa.Table) -> bool:
    """Whether the listing is one of a table's rows."""
    return _FILES in (listing.schema.metadata or {})


def files_in(listing: pa.Table) -> list[TableFile]:
    """The table's files that hold rows of the listing."""
    files = [TableFile(*each) for each in json.loads((listing.schema.metadata or {})[_FILES])]
    held = set(pc.unique(listing["mtime_ns"]).to_pylist())
    return [file for file in files if fingerprint(file) in held]


def spec_in(listing: pa.Table) -> VolumeSpec:
    """What the stored volumes are like, before any transforms that a reader applies."""
    return VolumeSpec.model_validate_json((listing.schema.metadata or {})[_SPEC])


def labels_of(listing: pa.Table, ids: pa.StringArray, rule: LabelRule, taken: Iterable[str] = ()) -> Labels:
    """See `labels.find_labels`. Rows of a table keep their labels unless the rule names another source of them, and
    their columns in any case, where columns are carried."""
    if not is_rows(listing):
        return find_labels(ids, rule, taken)
    if rule.source == "auto" and rule.file is None and not rule.pattern:
        return labels_in(listing, carry=rule.carry)
    own = columns_in(listing) if rule.carry else pa.table({})
    found = find_labels(ids, rule, [*taken, *own.column_names])
    names = [*own.column_names, *found.columns.column_names]
    return replace(found, columns=pa.table([*own.columns, *found.columns.columns], names))


def labels_in(listing: pa.Table, *, carry: bool = True) -> Labels:
    """The rows' labels, and with `carry` their other columns."""
    count = len(listing)
    values = np.full(count, np.nan, np.float32)
    if "label" in listing.column_names:
        values = np.asarray(listing["label"].cast(pa.float32(), safe=False).to_numpy(), np.float32)
    return Labels(
        values,
        np.zeros(count, bool),
        spec_in(listing).classes,
        origin="the table",
        columns=columns_in(listing) if carry else pa.table({}),
    )


def columns_in(listing: pa.Table) -> pa.Table:
    """The rows' other columns, but those that the reader gives."""
    names = [name for name in listing.column_names if name.startswith(_COLUMN)]
    return pa.table({name.removeprefix(_COLUMN): listing[name].combine_chunks() for name in names})


def fingerprint(file: TableFile) -> int:
    """63 bits of the file's name, size and time."""
    text = "\0".join(map(str, file if file.mtime_ns else file[:2]))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class TableRowReader:
    """Reads the rows of a listing: a `whole_volumes.WholeVolumes`. In their order each file is read once, forwards."""

    def __init__(self, root: str, listing: str) -> None:
        table = manifest.read(listing)
        metadata = table.schema.metadata or {}
        if _FILES not in metadata:
            raise DataError(f"the listing {listing} is none of a table's rows", hint="Run the pipeline again.")
        files = [TableFile(*each) for each in json.loads(metadata[_FILES])]
        self._root, self._files = root.rstrip("/"), {fingerprint(file): file for file in files}
        self._listing, self._spec = table, spec_in(table)
        names = set(json.loads(metadata[b"voxelflow.geometry"]))
        self.columns = pa.schema(
            [(name, pa.type_for_alias(kind)) for name, kind in (*GEOMETRY, *_LINES) if name in names]
        )
        self._dtype = np.dtype(self._spec.dtype).newbyteorder("<")
        self._open = lru_cache(_FILES_OPEN)(self._opened)

    def expect(self, files: Iterable[ListedFile]) -> None:
        """Where a row lies follows from what is asked for."""

    def header(self, path: str) -> tuple[Form, Mapping[str, Any]]:
        """Shape and dtype of every row, and what the row says of its place in space."""
        form = self._spec.shape, self._spec.dtype
        if not len(self.columns):
            return form, {}
        number, file = self._place(path)
        return form, self._open(file).facts(number)

    def read(self, path: str, stamp: tuple[int, int] | None) -> tuple[NDArray[Any], Mapping[str, Any]]:
        """The row with the id `path`; `stamp` has size and mtime_ns of the listing, without it they are looked up."""
        number, file = stamp or self._place(path)
        if file not in self._files:
            raise Refused("changed-during-run", "is in a file that is no part of the table any more")
        data, row = self._open(file).row(number)
        return data.view(self._dtype).reshape(self._spec.shape), row

    def _place(self, path: str) -> tuple[int, int]:
        place = pc.index(self._listing["path"], path).as_py()
        if place < 0:
            raise Refused("changed-during-run", "is no row of the table")
        return self._listing["size"][place].as_py(), self._listing["mtime_ns"][place].as_py()

    def _opened(self, file: int) -> _OpenFile:
        return _OpenFile(self._root, self._files[file], self._spec.volume_bytes, self.columns.names)


class _OpenFile:
    """One Parquet file: any row by its page, where pages say where volumes lie; else forwards from the last one."""

    def __init__(self, root: str, file: TableFile, volume_bytes: int, columns: Sequence[str]) -> None:
        self.path, self._bytes, self._size = f"{root}/{file.path}", file.bytes, volume_bytes
        self._columns = list(columns)
        source: Any = self.path
        if is_url(root):
            from engine.storage.objects import RemotePath
            from engine.storage.ranged_file import RangedFile

            source = pa.PythonFile(RangedFile(RemotePath.at(self.path), self._bytes), mode="r")
        try:
            self._file = pq.ParquetFile(source, page_checksum_verification=True)
        except FileNotFoundError as exc:
            raise DataError(f"{self.path} is gone", hint="Run the node that makes the table again.") from exc
        except (OSError, pa.ArrowException) as exc:
            raise DataError(f"{self.path} cannot be read as Parquet: {first_line(exc)}", hint=_VERIFY) from exc
        metadata = self._file.metadata
        self._starts = np.cumsum([0, *(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups))])
        self._index: PageIndex | None = None
        if not is_url(root):
            try:
                self._index = index_pages(self.path, metadata, volume_bytes)
            except NotIndexable:
                self._index = None
        self._known: tuple[int, list[dict[str, Any]]] = (-1, [])
        self._forward: Iterator[tuple[int, pa.RecordBatch]] = iter(())
        self._batch: tuple[int, pa.RecordBatch | None] = (0, None)

    def row(self, number: int) -> tuple[NDArray[np.uint8], Mapping[str, Any]]:
        if not 0 <= number < int(self._starts[-1]):
            raise Refused("changed-during-run", "is no row of its file any more")
        try:
            if self._index is not None:
                volume = read_page(self.path, self._index, number, self._size)
                if volume is None:
                    raise Refused("unreadable", f"is damaged in {self.path}; {_VERIFY}")
                return volume, self.facts(number)
            return self._decoded(number), self.facts(number)
        except (OSError, pa.ArrowException) as exc:
            raise DataError(f"{self.path} cannot be read: {first_line(exc)}", hint=_VERIFY) from exc

    def facts(self, number: int) -> Mapping[str, Any]:
        if not self._columns:
            return {}
        group = int(np.searchsorted(self._starts, number, side="right")) - 1
        if self._known[0] != group:
            names = self._file.schema_arrow.names
            there = [n for n in self._columns if n in names]
            rows = self._file.read_row_group(group, columns=there, use_threads=False).to_pylist() if there else []
            self._known = (group, rows)
        rows = self._known[1]
        return rows[number - int(self._starts[group])] if rows else {}

    def _decoded(self, number: int) -> NDArray[np.uint8]:
        first, batch = self._batch
        if batch is None or number < first:
            self._forward = self._batches()
            first, batch = next(self._forward)
        while number >= first + len(batch):
            first, batch = next(self._forward)
        self._batch = (first, batch)
        value = batch.column(0)[number - first]
        data = np.frombuffer(value.as_buffer(), np.uint8) if value.is_valid else np.empty(0, np.uint8)
        if len(data) != self._size:
            raise Refused("truncated", f"has {len(data)} bytes in {self.path}, the table's volumes have {self._size}")
        return data

    def _batches(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = 0
        most = max(1, _BATCH_BYTES // max(1, self._size))
        for batch in self._file.iter_batches(most, columns=["volume"], use_threads=False):
            yield first, batch
            first += len(batch)


_VERIFY = "`voxelflow verify` lists all damage and says what to do."
