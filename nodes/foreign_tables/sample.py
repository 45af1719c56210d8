"""Which column of another program's table is what, and what volumes and labels are like, by a sample of its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.declare.datasets import VolumeSpec
from engine.errors import DataError, UnsupportedTable
from engine.text import plural
from nodes.conversion.columns import stored_type
from nodes.conversion.npy_files import spread
from nodes.conversion.quarantine import Refused
from nodes.foreign_tables.cells import can_hold_arrays, decode, is_bytes, is_list
from nodes.foreign_tables.table_parameters import TableParameters
from nodes.foreign_tables.tables import ForeignTable, opened
from nodes.loaders.joined_columns import joined

_VOLUMES = ("volume", "array", "image", "data")
_LABELS = ("label", "class", "target", "y")
_IDS = ("id", "file", "path", "name")
_SAMPLED_FILES = 8
_SAMPLED_ROWS = 8
"""Rows of a sampled file of which the volume is decoded."""
_LARGEST_VALUE = 4096
"""Mean bytes of a value: columns of larger ones (other volumes, reports) are not carried, as they would be held in
memory for all rows."""
_LISTED = 8
_SAMPLE_BUFFER = 1 << 20


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are what: `label` and `id` may be "". `left_out` are not carried, with the reason."""

    volume: str
    label: str
    id: str
    schema: pa.Schema
    left_out: Mapping[str, str]
    group_bytes: int = 0
    """The volumes of the largest row group in the sampled files, not compressed."""

    @property
    def carried(self) -> list[str]:
        """The columns that are carried, as far as the sampled files have them."""
        named = (self.volume, self.label, self.id)
        return [name for name in self.schema.names if name not in named and name not in self.left_out]

    @property
    def remarks(self) -> list[str]:
        """What is not carried, and why, a sentence each."""
        return [f"the column {name} is left out: {reason}" for name, reason in self.left_out.items()]


def column_bytes(metadata: pq.FileMetaData, column: str) -> list[int]:
    """Bytes of a column in each row group, not compressed."""
    paths = [metadata.schema.column(n).path for n in range(metadata.num_columns)]
    leaves = [n for n, path in enumerate(paths) if path == column or path.startswith(f"{column}.")]
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return [sum(group.column(n).total_uncompressed_size for n in leaves) for group in groups]


def find_roles(table: ForeignTable, parameters: TableParameters) -> Roles:
    """Which column is what, by the parameters and a sample of the files. Raises `UnsupportedTable`."""
    sample = _Sample.of(table)
    schema = sample.schema
    given = {
        "volume_column": parameters.volume_column,
        "label_column": parameters.label_column,
        "id_column": parameters.id_column,
    }
    for parameter, name in given.items():
        if name and name not in schema.names:
            raise UnsupportedTable(
                f"{table.where} has no column {name}; it has {_described(schema)}",
                hint="Name one of these.",
                parameter=parameter,
            )
    volume = parameters.volume_column or _volume_column(table, schema, given)
    if not can_hold_arrays(schema.field(volume).type):
        arrays = [field.name for field in schema if can_hold_arrays(field.type)]
        raise UnsupportedTable(
            f"the column {volume} of {table.where} is {schema.field(volume).type}, not lists of numbers or bytes",
            hint=f"Choose a column of arrays: {', '.join(arrays) or '(none)'}.",
            parameter="volume_column",
        )
    single = [f.name for f in schema if f.name != volume and _is_single(f.type)]
    label = parameters.label_column or _label_in(schema, single)
    if label and not _is_label(schema.field(label).type):
        raise UnsupportedTable(
            f"the column {label} of {table.where} is {schema.field(label).type}, which is no label",
            hint="A label is a number or a text. Name another column.",
            parameter="label_column",
        )
    ids = parameters.id_column or next((name for name in _IDS if name in single and name != label), "")
    if ids and not _is_single(schema.field(ids).type):
        raise UnsupportedTable(
            f"the column {ids} of {table.where} is {schema.field(ids).type}, which is no id",
            hint="An id is a text or a number. Name another column.",
            parameter="id_column",
        )
    others = [field for field in schema if field.name not in (volume, label, ids)]
    left_out = {field.name: why for field in others if (why := _why_not(field, sample.mean_bytes))}
    return Roles(volume, label, ids, schema, left_out, sample.group_bytes[volume])


@dataclass(frozen=True)
class _Sample:
    """The table's columns, and their bytes, not compressed, in a sample of its files.

    Those of a folder are what the sampled files have, in the order of the last one.
    """

    schema: pa.Schema
    mean_bytes: Mapping[str, int]
    """Of a value."""
    group_bytes: Mapping[str, int]
    """Of the largest row group."""

    @classmethod
    def of(cls, table: ForeignTable) -> _Sample:
        fields: dict[str, pa.Field] = {}
        means: Counter[str] = Counter()
        groups: Counter[str] = Counter()
        access = table.access()
        numbers = spread(len(table.names), _SAMPLED_FILES - 1)
        for number in dict.fromkeys([len(table.names) - 1, *numbers]):
            with opened(table, access, number) as file:
                for name, stored in table.stored(file).items():
                    # Without any value in a file, pandas writes a column without a type.
                    if name not in fields or pa.types.is_null(fields[name].type):
                        fields[name] = file.schema_arrow.field(stored).with_name(name)
                    sizes = column_bytes(file.metadata, stored)
                    mean = sum(sizes) // max(1, file.metadata.num_rows)
                    means[name] = max(means[name], mean)
                    groups[name] = max(groups[name], *sizes, 0)
        if table.columns is not None:
            fields = {field.name: field for field in table.columns}
        fields |= {field.name: field for field in table.partitions.schema}
        return cls(pa.schema(fields.values()), means, groups)


def _volume_column(table: ForeignTable, schema: pa.Schema, given: Mapping[str, str]) -> str:
    arrays = [f.name for f in schema if can_hold_arrays(f.type) and f.name not in given.values()]
    named = [name for name in _VOLUMES if name in arrays]
    named = named or [name for wanted in _VOLUMES for name in _alike(arrays, wanted)]
    if len(named) == 1 or len(arrays) == 1:
        return (named or arrays)[0]
    which = f"several columns that can be volumes: {', '.join(named or arrays)}"
    raise UnsupportedTable(
        f"{table.where} has {which if arrays else f'no column of lists of numbers or bytes, but {_described(schema)}'}",
        hint="Name the one with the volumes." if arrays else "Choose another table.",
        parameter="volume_column" if arrays else "table",
    )


def _label_in(schema: pa.Schema, names: Sequence[str]) -> str:
    """The first of the usual names that is there, else the only `Label` in another case; "" for none.

    Other names in other cases say too little: `Y` is a place, `Name` a person's, and an id has to be another in each
    row.
    """
    if exact := next((name for name in _LABELS if name in names), ""):
        return exact
    found = _alike(names, _LABELS[0])
    return found[0] if len(found) == 1 and _is_label(schema.field(found[0]).type) else ""


def _alike(names: Sequence[str], wanted: str) -> list[str]:
    """The names that are this one, whatever their case."""
    return [name for name in names if name.strip().lower() == wanted]


def _described(schema: pa.Schema) -> str:
    more = f" and {len(schema) - _LISTED} more" if len(schema) > _LISTED else ""
    return ", ".join(f"{field.name} ({field.type})" for field in list(schema)[:_LISTED]) + more


def _is_single(kind: pa.DataType) -> bool:
    return not is_bytes(kind) and stored_type(kind) is not None


def _is_label(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return _is_label(kind.value_type)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    return number or (stored_type(kind) == pa.string() and not types.is_time(kind))


def _why_not(field: pa.Field, mean_bytes: Mapping[str, int]) -> str:
    """Why a column is not carried, or ""."""
    if stored_type(field.type) is None and not is_bytes(field.type):
        what = "lists" if is_list(field.type) else f"values of type {field.type}"
        return f"it holds {what}, and a table of volumes has single values"
    if mean_bytes[field.name] > _LARGEST_VALUE:
        return f"its values have {mean_bytes[field.name]:,.0f} bytes each, too many to be carried"
    return ""


def sample_spec(table: ForeignTable, roles: Roles, parameters: TableParameters) -> VolumeSpec:
    """Shape and dtype of most volumes in a sample.

    Raises `DataError` with the reason when none can be decoded, or when their shape has to be given.
    """
    found: Counter[tuple[tuple[int, ...], str]] = Counter()
    problem, needs_form, flat = "", False, False
    access = table.access()
    for number in spread(len(table.names), _SAMPLED_FILES):
        with opened(table, access, number, buffer=_SAMPLE_BUFFER) as file:
            stored = table.stored(file).get(roles.volume)
            if stored is None:
                continue
            for row, cell in _first_cells(file, stored, table.kept(number, file.metadata.num_rows)):
                try:
                    values = decode(cell, parameters.shape, parameters.dtype)
                except Refused as refused:
                    problem = problem or f"row {row} of {table.names[number]} {refused.message}"
                    needs_form = refused.reason == "format" and not (parameters.shape and parameters.dtype)
                else:
                    flat = flat or (is_list(cell.type) and not is_list(cell.type.value_type))
                    found[values.shape, values.dtype.name] += 1
    if not found:
        raise DataError(
            f"the column {roles.volume} of {table.where} holds no volumes that can be decoded:"
            f" {problem or 'it has no rows'}",
            hint="Give shape and dtype if these are the plain bytes of arrays, or name another column.",
            parameter="shape" if needs_form else "volume_column",
        )
    ((shape, dtype), _), *_ = found.most_common(1)
    if flat and not parameters.shape:
        raise DataError(
            f"the column {roles.volume} of {table.where} holds flat lists of {plural(shape[0], 'numbers')},"
            " which do not say the volumes' shape",
            hint="Give it, for example 30, 30, 10, 2: the axes X, Y, Z, then channels, the last one fastest.",
            parameter="shape",
        )
    return VolumeSpec(shape=shape, dtype=dtype)


def _first_cells(file: pq.ParquetFile, column: str, kept: NDArray[np.bool_]) -> Iterator[tuple[int, pa.Scalar]]:
    """The first volumes of the rows that are kept; where all are missing, one that is."""
    left, last = _SAMPLED_ROWS, int(np.flatnonzero(kept)[-1]) if kept.any() else -1
    missing: tuple[int, pa.Scalar] | None = None
    cells = (
        cell
        for batch in file.iter_batches(1, columns=[column], use_threads=False)
        for cell in batch.column(column)
    )  # fmt: skip
    for row, cell in enumerate(cells):
        if row > last or not left:
            break
        if not kept[row]:
            continue
        if not cell.is_valid:
            missing = missing or (row, cell)
            continue
        left -= 1
        yield row, cell
    if missing is not None and left == _SAMPLED_ROWS:
        yield missing


def sample_labels(table: ForeignTable, roles: Roles) -> tuple[pa.ChunkedArray, bool] | None:
    """The labels of some files, and whether these are all. None without a column of labels.

    Raises `UnsupportedTable` where they are of types that do not fit together.
    """
    if not roles.label:
        return None
    numbers = spread(len(table.names), _SAMPLED_FILES)
    complete = len(numbers) == len(table.names)
    if roles.label in table.partitions.column_names:
        return table.partitions[roles.label], True
    access, found = table.access(), []
    for number in numbers:
        with opened(table, access, number) as file:
            count = file.metadata.num_rows
            if roles.label in table.stored(file):
                labels = table.read(file, [roles.label])
            else:
                labels = pa.table({roles.label: table.nulls(roles.label, count)})
            found.append(labels.filter(pa.array(table.kept(number, count))))
    return joined(found, f"files of {table.where}", {roles.label: "label_column"})[roles.label], complete
