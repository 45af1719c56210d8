"""The rows of a table of another program: their ids, labels and columns, and their volumes, decoded."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeParquet, VolumeSpec
from engine.declare.progress import Meter
from engine.errors import DataError, UnsupportedTable
from engine.text import plural
from nodes.conversion.columns import describe, of_label_table
from nodes.conversion.label_values import label_values, nfc, to_float32
from nodes.conversion.make_parts import MakeChunks, Making, in_threads, make_parts, opened_store
from nodes.conversion.npy_files import finite_mask, refuse_not_finite, refuse_other_form
from nodes.conversion.part_writer import Layout, Row
from nodes.conversion.row_ledger import RowLedger
from nodes.foreign_tables.cells import decode, number_type
from nodes.foreign_tables.sample import Roles, column_bytes, find_roles, sample_spec
from nodes.foreign_tables.table_parameters import TableParameters
from nodes.foreign_tables.tables import ForeignTable, find_table, opened, reading
from nodes.loaders.data_files import FileAccess
from nodes.loaders.joined_columns import joined
from nodes.volume_file.layout import ROW_GROUP_ROWS
from nodes.volume_file.parameters import MB

_FILES_AT_ONCE = 1000
"""Files whose rows are joined to one piece: a small table for each of 650,000 files takes a gigabyte."""
_BATCH_BYTES = 32 << 20
_BATCH_ROWS = 64
_BUFFER = 8 << 20
_WHOLE_BYTES = 64 << 20
"""A row group with fewer bytes of volumes is read at once, one with more through a buffer."""
_PAGE_ROWS = 1024
"""Rows of a page at most: PyArrow, whose pages are the largest, looks at their size after so many."""
_IDLE, _IDLE_BYTES = 2, 256 << 20
"""Files that stay open between two chunks: two, and as many as have pages of so many bytes together."""
_FOOTERS = 32


def convert_table(parameters: TableParameters, ctx: TaskContext, make: MakeChunks = in_threads) -> VolumeParquet:
    """Convert the table and publish the result in `ctx.out`, with its parts in `ctx.shared`.

    Raises `DataError` for a table or a column that cannot be read or is not there, `TooManyBadFiles` beyond
    `parameters.max_bad_rows`.
    """
    table = find_table(parameters.table)
    roles = find_roles(table, parameters)
    spec = sample_spec(table, roles, parameters)
    for message, hint in table.left_out:
        ctx.warn(f"{message}. {hint}")
    if parameters.columns == "all":
        for remark in roles.remarks:
            ctx.warn(remark)
    known = _read_rows(table, roles, parameters, ctx)
    ledger = known.ledger
    ledger.refuse_double_ids()
    if ledger.refused > parameters.max_bad_rows:
        raise DataError(
            f"the value of {roles.id} is that of another row in {plural(ledger.refused, 'rows')} of {table.where}",
            hint="Name a column in which all rows differ, or allow for it with max_bad_rows.",
            parameter="id_column",
        )
    ledger.refuse_by_label(np.zeros(len(ledger), bool), missing=parameters.unlabelled == "quarantine")
    if len(ledger.columns.schema):
        ctx.info(f"columns: {describe(ledger.columns.schema)}")
    layout = Layout(
        spec=spec.model_copy(update={"classes": known.classes}),
        target_bytes=parameters.target_file_mb * MB,
        row_group_rows=ROW_GROUP_ROWS,
        compression="none",
        finite=parameters.not_finite == "quarantine",
        columns=ledger.columns.schema,
    )
    # A reader of volumes is given the rows it needs: this is not sent to executors with each chunk.
    source = ForeignRows(replace(table, deleted={}), roles, known.starts, parameters.shape, parameters.dtype)
    with opened_store(ctx) as store:
        making = Making(
            source, ledger, layout, store,
            threads=parameters.threads, most_refused=parameters.max_bad_rows, limit_parameter="max_bad_rows",
        )  # fmt: skip
        try:
            return make_parts(making, ctx, make)
        finally:
            source.files.close()


@dataclass(frozen=True)
class _Known:
    """The rows without their volumes. `starts` is the number of each file's first row, and of all rows."""

    ledger: RowLedger
    starts: NDArray[np.int64]
    classes: tuple[str, ...]


def _read_rows(table: ForeignTable, roles: Roles, parameters: TableParameters, ctx: TaskContext) -> _Known:
    """All rows: ids, labels and the columns that are carried. Raises `DataError` for ids or labels that are none."""
    wanted = [name for name in (roles.id, roles.label) if name]
    wanted += roles.carried if parameters.columns == "all" else []
    named = {roles.id: "id_column", roles.label: "label_column"}
    counts, rows = read_columns(table, wanted, ctx, roles.volume, named)
    starts = np.concatenate([[0], np.cumsum(counts)])
    at = np.flatnonzero(np.concatenate([table.kept(*each) for each in enumerate(counts.tolist())]))
    if not len(at):
        raise DataError(f"{table.where} has no rows", hint="Choose another table.", parameter="table")
    if deleted := int(starts[-1]) - len(at):
        ctx.info(f"{plural(deleted, 'rows')} left out, which the table's deletion vectors delete")
    number = np.searchsorted(starts, at, side="right") - 1
    row = at - starts[number]
    keys = pa.array([f"{table.names[n]}#{r}" for n, r in zip(number.tolist(), row.tolist(), strict=True)], pa.string())
    # Without any column to read, Arrow's table has no rows.
    unlabelled = np.full(len(keys), np.nan, np.float32)
    labels, classes = _labels(rows, roles, table) if roles.label else (unlabelled, ())
    columns = of_label_table(rows.select([n for n in rows.column_names if n not in (roles.id, roles.label)]))
    for remark in columns.remarks:
        ctx.warn(remark)
    stamps = np.array(table.stamps, np.int64)[number]
    ledger = RowLedger(
        keys,
        nfc(_ids(rows, roles, table)) if roles.id else nfc(keys),
        pa.table({"size": stamps[:, 0], "mtime_ns": stamps[:, 1]}),
        labels,
        columns.table,
        at,
    )
    return _Known(ledger, starts, classes)


def read_columns(
    table: ForeignTable,
    wanted: Sequence[str],
    ctx: TaskContext,
    volume: str,
    named: Mapping[str, str],
) -> tuple[NDArray[np.int64], pa.Table]:
    """How many rows each file has, and these columns of the table's rows; null where a file does not have one.

    `named` gives the parameters that name some of them. Raises `DataError` for a file that cannot be read, or has no
    column `volume`.
    """
    access = table.access()
    fixed = [name for name in wanted if name in table.partitions.column_names]

    def read(number: int) -> tuple[int, pa.Table]:
        with opened(table, access, number) as file:
            count = file.metadata.num_rows
            if volume and volume not in table.stored(file):
                raise UnsupportedTable(
                    f"{table.path(number)} has no column {volume}, which other files of the table have",
                    hint="Remove the file from the table, or name another column.",
                    parameter="volume_column",
                )
            read = table.read(file, wanted)
        # Put together at once: a table without columns has no rows, and takes none.
        columns = {name: read[name] for name in read.column_names}
        columns |= {name: pa.repeat(table.partitions[name][number], count) for name in fixed}
        columns |= {name: table.nulls(name, count) for name in wanted if name not in columns}
        found = pa.table(columns)
        if number in table.deleted and columns:
            found = found.filter(pa.array(table.kept(number, count)))
        return count, found.replace_schema_metadata()

    counts: list[int] = []
    pieces: list[pa.Table] = []
    meter = Meter(len(table.names), "files", "reading columns")
    with ThreadPoolExecutor(max(2, access.streams)) as pool:
        for start in range(0, len(table.names), _FILES_AT_ONCE):
            ctx.check_cancelled()
            numbers = range(start, min(start + _FILES_AT_ONCE, len(table.names)))
            found = list(pool.map(read, numbers))
            counts += [count for count, _ in found]
            pieces.append(joined([piece for _, piece in found], f"files of {table.where}", named).combine_chunks())
            meter.add(len(found))
    meter.finish()
    rows = joined(pieces, f"files of {table.where}", named)
    return np.array(counts, np.int64), rows.select([name for name in wanted if name in rows.column_names])


def _ids(rows: pa.Table, roles: Roles, table: ForeignTable) -> pa.StringArray:
    column = rows[roles.id]
    if column.null_count:
        raise DataError(
            f"{roles.id} is missing in {plural(column.null_count, 'rows')} of {table.where}",
            hint="Give every row an id, or name another column.",
            parameter="id_column",
        )
    return column.cast(pa.string()).combine_chunks()


def _labels(rows: pa.Table, roles: Roles, table: ForeignTable) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    try:
        values, classes = label_values(rows[roles.label].combine_chunks())
        if (infinite := np.flatnonzero(np.isinf(values))).size:
            raise DataError(
                f"it is infinite or too large for a number in {plural(len(infinite), 'rows')}",
                hint="Correct them, or leave them empty.",
            )
        return to_float32(values), classes
    except (pa.ArrowException, DataError) as exc:
        said = exc.message if isinstance(exc, DataError) else next(iter(str(exc).splitlines()), "")
        raise DataError(
            f"the column {roles.label} of {table.where} cannot be used for labels: {said}",
            hint=(exc.hint if isinstance(exc, DataError) else "") or "Choose a column of numbers or texts.",
            parameter="label_column",
        ) from exc


@dataclass(frozen=True)
class ForeignRows:
    """Rows of a table that are decoded; see `part_writer.RowSource`.

    A row's key is its file's path below the table and its number there, its stamp that of the file. `starts` is the
    number of each file's first row in the table, and of all rows.
    """

    table: ForeignTable
    roles: Roles
    starts: NDArray[np.int64]
    shape: tuple[int, ...]
    dtype: str
    noun: str = "rows"

    def key(self) -> Sequence[str]:
        return ["table", self.roles.volume, self.roles.id, str(self.shape), self.dtype]

    def open(self, layout: Layout) -> ForeignReader:
        return ForeignReader(self, layout)

    @cached_property
    def files(self) -> OpenFiles:
        """What the readers of this process share."""
        return OpenFiles(self.table, self.roles.volume)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "files"}

    def reader_bytes(self, layout: Layout) -> int:
        """The cells of a part, the batches of which they are slices, and what is read of a file at a time."""
        cell = self._cell_bytes(layout.spec)
        page = min(_PAGE_ROWS * cell, max(self.roles.group_bytes, _WHOLE_BYTES))
        return layout.file_rows * cell + 2 * max(_BATCH_BYTES, cell) + 2 * page

    def _cell_bytes(self, spec: VolumeSpec) -> int:
        kind = number_type(self.roles.schema.field(self.roles.volume).type)
        width: int = kind.bit_width // 8 if pa.types.is_primitive(kind) else 1
        return spec.volume_bytes * max(1, width // np.dtype(spec.dtype).itemsize)


class ForeignReader:
    """Decodes the volumes of rows; see `part_writer.RowReader`."""

    def __init__(self, rows: ForeignRows, layout: Layout) -> None:
        self._rows, self._layout = rows, layout
        self._order = np.dtype(layout.spec.dtype).newbyteorder("<")
        self._mask = finite_mask(layout.spec) if layout.finite else None
        self._cells: Iterator[pa.Scalar] = iter(())

    def expect(self, rows: Sequence[Row]) -> None:
        """Read the cells of a chunk: together, so that another thread can go on in the same row group."""
        found: list[pa.Array] = []
        places = np.array([row.at for row in rows], np.int64)
        starts = self._rows.starts
        while len(places):
            number = int(np.searchsorted(starts, places[0], side="right")) - 1
            here = places[: np.searchsorted(places, starts[number + 1])]
            found += self._rows.files.read(number, here - starts[number])
            places = places[len(here) :]
        self._cells = (cell for piece in found for cell in piece)

    def fill(self, row: Row, volume: NDArray[np.uint8]) -> tuple[float | None, tuple[Any, ...]]:
        """The volume, decoded; label and columns are the row's."""
        spec = self._layout.spec
        values = decode(next(self._cells), self._rows.shape, self._rows.dtype)
        refuse_other_form(values.shape, values.dtype.name, spec)
        out = volume.view(self._order)
        out.reshape(spec.shape)[...] = values
        if self._mask is not None:
            refuse_not_finite(out, self._mask)
        return row.label, row.columns


class OpenFiles:
    """The table's files that are open, for the threads of a process.

    Parquet has no way to a row but forwards from the start of its row group, which may be the whole table. So one
    thread at a time reads in a row group, and what was read up to some row stays open for who wants the next ones: it
    is decoded once, not once for each thread.
    """

    def __init__(self, table: ForeignTable, column: str) -> None:
        self._table, self._column, self._access = table, column, table.access()
        self._lock = threading.Lock()
        self._turns: dict[tuple[int, int], _Turn] = {}
        self._idle: list[_Cursor] = []
        self._footer = lru_cache(_FOOTERS)(self._read_footer)

    def read(self, number: int, rows: NDArray[np.int64]) -> list[pa.Array]:
        """The cells of these rows of a file, ascending. Raises `DataError`."""
        footer, found = self._footer(number), []
        starts = footer.starts
        while len(rows):
            if rows[0] >= starts[-1]:
                raise DataError(f"{self._table.path(number)} has changed since it was listed", hint="Run it again.")
            group = int(np.searchsorted(starts, rows[0], side="right")) - 1
            here = rows[: np.searchsorted(rows, starts[group + 1])]
            with (
                self._turn(number, group, int(here[0])),
                self._cursor(number, group, int(here[0]), footer) as cursor,
                reading(self._table.path(number)),
            ):
                found += cursor.take(here)
            rows = rows[len(here) :]
        return found

    def close(self) -> None:
        """Close the files that nobody reads."""
        with self._lock:
            for cursor in self._idle:
                cursor.close()
            self._idle.clear()

    @contextmanager
    def _turn(self, number: int, group: int, row: int) -> Iterator[None]:
        with self._lock:
            turn = self._turns.setdefault((number, group), _Turn())
            turn.users += 1
        try:
            with turn.of(row):
                yield
        finally:
            with self._lock:
                turn.users -= 1
                if not turn.users:
                    del self._turns[number, group]

    @contextmanager
    def _cursor(self, number: int, group: int, row: int, footer: _Footer) -> Iterator[_Cursor]:
        """The one that is nearest before the row in its row group, else a new one.

        One that is beyond the row is left where it is: whoever asks for later rows goes on with it.
        """
        with self._lock:
            before = [c for c in self._idle if (c.number, c.group) == (number, group) and c.row <= row]
            cursor = max(before, key=lambda c: c.row, default=None)
            if cursor is not None:
                self._idle.remove(cursor)
        if cursor is None:
            cursor = _Cursor(self._table, self._access, number, group, footer)
        try:
            yield cursor
        except BaseException:
            cursor.close()
            raise
        with self._lock:
            if cursor.row < footer.starts[group + 1]:
                self._idle.append(cursor)
            else:
                cursor.close()
            while len(self._idle) > _IDLE and sum(idle.held_bytes for idle in self._idle) > _IDLE_BYTES:
                self._idle.pop(0).close()

    def _read_footer(self, number: int) -> _Footer:
        with opened(self._table, self._access, number) as file:
            metadata, stored = file.metadata, self._table.stored(file)[self._column]
        counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        return _Footer(metadata, np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]), stored)


class _Turn:
    """Lets one thread at a time read in a row group: of those that wait the one with the first row. A lock lets any."""

    def __init__(self) -> None:
        self.users = 0
        self._changed = threading.Condition()
        self._waiting: list[int] = []
        self._taken = False

    @contextmanager
    def of(self, row: int) -> Iterator[None]:
        """Wait until it is this row's turn."""
        with self._changed:
            self._waiting.append(row)
            self._changed.wait_for(lambda: not self._taken and row == min(self._waiting))
            self._waiting.remove(row)
            self._taken = True
        try:
            yield
        finally:
            with self._changed:
                self._taken = False
                self._changed.notify_all()


class _Footer:
    """What a file's footer says. `starts` is the number of each row group's first row, and of all rows.

    `stored` is the name in the file of the column with the volumes.
    """

    def __init__(self, metadata: pq.FileMetaData, starts: NDArray[np.int64], stored: str) -> None:
        self.metadata, self.starts, self.stored = metadata, starts, stored
        self.group_bytes = column_bytes(metadata, stored)


class _Cursor:
    """Reads one row group forwards. `row` is the number in the file of the row that comes next."""

    def __init__(self, table: ForeignTable, access: FileAccess, number: int, group: int, footer: _Footer) -> None:
        self.number, self.group, self._path = number, group, table.path(number)
        self._at = int(footer.starts[group])
        count, size = int(footer.starts[group + 1]) - self._at, footer.group_bytes[group]
        self.held_bytes = 2 * min(size, size * _PAGE_ROWS // max(1, count))
        self._stack = ExitStack()
        buffer = _BUFFER if size > _WHOLE_BYTES else 0
        file = self._stack.enter_context(opened(table, access, number, footer.metadata, buffer))
        self._stored = footer.stored
        rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * count // max(1, size)))
        self._batches = file.iter_batches(rows, row_groups=[group], columns=[footer.stored], use_threads=False)
        self._batch: pa.Array | None = None
        self._next = self._at

    @property
    def row(self) -> int:
        """The first row that can still be had."""
        return self._next

    def take(self, rows: NDArray[np.int64]) -> list[pa.Array]:
        """The cells of these rows, ascending, none before `row`."""
        found = []
        while len(rows):
            batch = self._batch_with(int(rows[0]))
            inside = rows[: np.searchsorted(rows, self._at + len(batch))] - self._at
            first, last = int(inside[0]), int(inside[-1])
            if last - first + 1 == len(inside):
                found.append(batch.slice(first, len(inside)))
            else:
                found.append(batch.take(pa.array(inside)))
            self._next = self._at + last + 1
            rows = rows[len(inside) :]
        return found

    def _batch_with(self, row: int) -> pa.Array:
        while self._batch is None or row >= self._at + len(self._batch):
            if self._batch is not None:
                self._at += len(self._batch)
            batch = next(self._batches, None)
            if batch is None:
                raise DataError(f"{self._path} has fewer rows than its footer says", hint="Write the file again.")
            self._batch = batch.column(self._stored)
        return self._batch

    def close(self) -> None:
        """Close the file."""
        self._batch = None
        self._stack.close()
