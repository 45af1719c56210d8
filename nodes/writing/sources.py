"""Where the rows of `write_volumes` come from: the rows of a table, or ids alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.declare.datasets import Transform, VolumeDelta, VolumeParquet
from engine.errors import DataError
from engine.text import plural
from nodes.conversion.columns import NO_COLUMNS, of_label_table
from nodes.conversion.part_writer import Row
from nodes.conversion.row_ledger import RowLedger
from nodes.loaders.data_files import DataFiles, FileRows, data_files, join_rows, read_columns, read_files
from nodes.loaders.row_groups import RowGroupSource
from nodes.loaders.rows import RowNumbers
from nodes.table.ledger import Segment, Shard, read_ledger, shard_of
from nodes.table.snapshot import open_table
from nodes.volume_file.layout import schema
from nodes.volume_file.parts import read_parts
from nodes.writing.volumes import Volumes

_BATCH_BYTES = 32 << 20
"""Volumes of a batch, unless one is larger."""
_MOST_ROWS = 64


class BatchSource(Protocol):
    """Rows, and the batches that a function is given of them.

    `columns` are those that the rows have beside id, label and volume; `transforms` what was done to the volumes since
    their files were read; `held_bytes` is the memory for data that one
    reading thread takes.
    """

    @property
    def ledger(self) -> RowLedger: ...
    @property
    def columns(self) -> pa.Schema: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def transforms(self) -> tuple[Transform, ...]: ...
    @property
    def held_bytes(self) -> int: ...

    def batches(self, rows: Sequence[Row]) -> Iterator[Volumes]:
        """The rows in their order. Called from several threads."""


@dataclass(frozen=True)
class IdRows:
    """Rows that are ids, whose volumes come from nowhere else."""

    ledger: RowLedger
    columns: pa.Schema = NO_COLUMNS
    classes: tuple[str, ...] = ()
    transforms: tuple[Transform, ...] = ()
    held_bytes: int = 0

    @classmethod
    def of(cls, ids: Sequence[str]) -> IdRows:
        """Raises `DataError` when there are none, or one comes twice."""
        names = _checked(ids)
        return cls(RowLedger(names, names, pa.table({}), np.full(len(names), np.nan, np.float32)))

    def batches(self, rows: Sequence[Row]) -> Iterator[Volumes]:
        """Up to 64 ids, without volumes."""
        for first in range(0, len(rows), _MOST_ROWS):
            some = rows[first : first + _MOST_ROWS]
            none = np.full(len(some), np.nan, np.float32)
            yield Volumes(np.empty((len(some), 0), np.uint8), tuple(r.id for r in some), none, {})


def _checked(ids: Sequence[str]) -> pa.Array:
    """The ids. Raises `DataError` when there are none, or one comes twice."""
    names = pa.array(ids, pa.string())
    if not len(names):
        raise DataError("there are no ids to make volumes of", hint="Give an id for each volume.")
    if len(names.unique()) < len(names):
        counts = names.value_counts()
        twice = next(v["values"] for v in counts.to_pylist() if v["counts"] > 1)
        raise DataError(f"the id {twice!r} comes twice", hint="Give each volume an id of its own.")
    return names


class TableRows:
    """The rows of a table, or those that its selections hold and `only` names, in the order in which they are stored.

    A row is known by its id and by the shard that it came from (`nodes.table.ledger`), not by the file in which it
    lies: a compaction changes nothing. Rows that another program wrote are known by their file.
    """

    def __init__(
        self,
        dataset: VolumeDelta | VolumeParquet,
        found: DataFiles,
        files: Sequence[FileRows],
        source: RowGroupSource,
        only: Sequence[str] | None,
    ) -> None:
        self._source, self._spec = source, found.spec
        rows = source.rows.selected(dataset.selections if isinstance(dataset, VolumeDelta) else ())
        if not len(rows):
            raise DataError(f"{dataset.uri} has no volumes", hint="Check the selection that it comes from.")
        if only is not None:
            rows = _named(rows, source.rows.ids, _checked(only), dataset.uri)
        rows = rows[np.argsort(source.rows.stored[rows], kind="stable")]
        stored = source.rows.stored[rows]
        ids = source.rows.ids.take(pa.array(rows))
        names, which = _shards(dataset, [sum(file.groups) for file in files])
        stamps = pa.table({"shard": pa.array(names, pa.string()).take(pa.array(which[stored]))})
        columns = _columns(found)
        carried = columns.take(pa.array(stored)).combine_chunks() if columns.num_columns else columns
        self.ledger = RowLedger(ids, ids, stamps, source.rows.labels[rows], carried, stored)
        self.columns, self.classes = carried.schema.remove_metadata(), found.spec.classes
        self.transforms = found.spec.transforms
        self._batch_rows = max(1, min(_MOST_ROWS, _BATCH_BYTES // max(1, found.spec.volume_bytes)))
        largest = max(source.lengths) * found.spec.volume_bytes
        self.held_bytes = 2 * min(largest, 64 << 20) + self._batch_rows * found.spec.volume_bytes

    def batches(self, rows: Sequence[Row]) -> Iterator[Volumes]:
        """Up to 64 volumes, fewer of large ones."""
        spec, waiting = self._spec, iter(rows)
        dtype = np.dtype(spec.dtype).newbyteorder("<")
        volumes = self._volumes([row.at for row in rows])
        while some := list(islice(waiting, self._batch_rows)):
            data = np.empty((len(some), spec.volume_bytes), np.uint8)
            for place in range(len(some)):
                data[place] = next(volumes)
            labels = np.array([np.nan if r.label is None else r.label for r in some], np.float32)
            columns = {name: [r.columns[n] for r in some] for n, name in enumerate(self.columns.names)}
            yield Volumes(data.view(dtype).reshape(len(some), *spec.shape), tuple(r.id for r in some), labels, columns)

    def _volumes(self, stored: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
        """The volumes at these stored positions, ascending: each row group is read once."""
        starts, place = self._source.starts, 0
        while place < len(stored):
            group = int(np.searchsorted(starts, stored[place], side="right")) - 1
            at = int(starts[group])
            for part in self._source.read(group):
                while place < len(stored) and stored[place] < at + len(part):
                    yield part[stored[place] - at]
                    place += 1
                at += len(part)
                if place == len(stored) or stored[place] >= starts[group + 1]:
                    break


@contextmanager
def open_table_rows(
    dataset: VolumeDelta | VolumeParquet, *, threads: int, only: Sequence[str] | None = None
) -> Iterator[TableRows]:
    """Open a table, all of it or the rows with the ids `only`: reads its ids, labels and columns.

    Raises `DataError` or `UnsupportedTable`.
    """
    found = data_files(dataset)
    files = list(
        read_files(found.paths, index_bytes=None, threads=max(2, threads), access=found.access, said=found.said)
    )
    rows = join_rows(files, dataset.uri, found.access)
    source = RowGroupSource(dataset.uri, found.spec, rows, files, "", access=found.access, cores=threads, verify=True)
    with closing(source):
        yield TableRows(dataset, found, files, source, only)


def _named(rows: RowNumbers, ids: pa.StringArray, wanted: pa.Array, where: str) -> RowNumbers:
    """Those of the rows whose ids are wanted. Raises `DataError` when one of these is missing."""
    there = ids.take(pa.array(rows))
    missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=there)))
    if len(missing):
        raise DataError(
            f"{where} has no volume {missing[0].as_py()!r}"
            + (f", nor {plural(len(missing) - 1, 'others')} of the ids that were given" if len(missing) > 1 else ""),
            hint="Give ids of its rows, of those that a split holds.",
        )
    kept: RowNumbers = rows[pc.is_in(there, value_set=wanted).to_numpy(zero_copy_only=False)]
    return kept


def _shards(dataset: VolumeDelta | VolumeParquet, lengths: Sequence[int]) -> tuple[list[str], NDArray[np.int64]]:
    """The shards' names, and of which of them each stored row is."""
    segments: list[Segment] = []
    if isinstance(dataset, VolumeDelta):
        table = open_table(dataset.uri, dataset.version)
        ledger = read_ledger(table.place, table.token)
        for file, rows in zip(table.files, lengths, strict=True):
            of_file = Shard(file.path, file.bytes, file.mtime_ms)
            segments += [s if s.shard else Segment(of_file, s.rows) for s in ledger.segments(file.path, rows)]
    else:
        parts = [part for part in read_parts(dataset).parts if part.rows]
        segments = [Segment(shard_of(part), rows) for part, rows in zip(parts, lengths, strict=True)]
    names = list(dict.fromkeys(_text(s.shard) for s in segments))
    number = {name: n for n, name in enumerate(names)}
    which = np.repeat([number[_text(s.shard)] for s in segments], [s.rows for s in segments])
    return names, which.astype(np.int64)


def _text(shard: Shard | None) -> str:
    assert shard is not None
    return shard.name if not shard.mtime_ns else f"{shard.name} {shard.bytes} {shard.mtime_ns}"


def _columns(found: DataFiles) -> pa.Table:
    """The further columns of all rows in the stored order, those that a volume table can have."""
    own = set(schema(found.spec).names)
    names: dict[str, None] = {}
    for path in found.paths:
        with found.access.open(path) as opened, pq.ParquetFile(opened) as file:
            names |= dict.fromkeys(n for n in file.schema_arrow.names if n not in own)
    return of_label_table(read_columns(found.paths, list(names), found.access)).table if names else pa.table({})
