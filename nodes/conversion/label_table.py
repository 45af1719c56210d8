"""A table of labels (`labels.csv`, `labels.parquet`) matched to the files it speaks of.

A row names its file by the path below the source folder, with or without `.npy`, or by the bare
file name when only one file has it.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.conversion.label_values import Labels, encode, nfc, to_float32

KEY_COLUMNS = ("file", "path", "id", "name")
LABEL_COLUMNS = ("label", "class", "target", "y")
_NO_LABEL = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]


def match_table(ids: pa.StringArray, path: Path) -> Labels:
    """The label of each file in `ids` from the table at `path`.

    Equal rows for one file are fine, different ones a conflict, rows without a label as if they
    were not there. Raises `DataError` when the table cannot be read or lacks its columns.
    """
    keys, values, classes = read_label_table(path)
    places = _match(ids, keys)
    counted = np.flatnonzero((places >= 0) & ~np.isnan(values))
    places_told, values_told = places[counted], values[counted]
    order = np.argsort(places_told, kind="stable")
    places_told, values_told = places_told[order], values_told[order]
    differs = (places_told[1:] == places_told[:-1]) & (values_told[1:] != values_told[:-1])
    conflicts = np.zeros(len(ids), bool)
    conflicts[places_told[1:][differs]] = True
    labels = np.full(len(ids), np.nan)
    labels[places_told] = values_told
    labels[conflicts] = np.nan
    return Labels(to_float32(labels), conflicts, classes, int(np.count_nonzero(places < 0)), told_by=path.name)


def read_label_table(path: Path) -> tuple[pa.StringArray, NDArray[np.float64], tuple[str, ...]]:
    """File names, labels (NaN: none) and class names of a table of labels.

    The columns are found by name, whatever their case: file, path, id or name, and label, class,
    target or y, the first that is there. Raises `DataError`.
    """
    try:
        table = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
        keys = pc.cast(table.column(0), pa.string()).combine_chunks()
        values, classes = _labels(table.column(1).combine_chunks())
    except (pa.ArrowException, OSError, ValueError) as exc:
        reason = next(iter(str(exc).splitlines()), type(exc).__name__)
        raise DataError(
            f"{path.name} cannot be read: {reason}",
            hint="It should be UTF-8 text with a header line such as file,label, or a Parquet file.",
        ) from exc
    if np.isinf(values).any():
        raise DataError(f"{path.name} has an infinite label", hint="Leave the cell empty, or mend it.")
    return keys, values, classes


def _labels(column: pa.Array) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = pc.cast(column, kind.value_type), kind.value_type
    if pa.types.is_boolean(kind):
        column, kind = pc.cast(column, pa.int8()), pa.int8()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False), ()
    return encode(pc.cast(column, pa.string()), numbers=True)


def _read_csv(path: Path) -> pa.Table:
    from pyarrow import csv as arrow_csv

    with path.open(encoding="utf-8-sig", newline="") as source:
        first = source.readline()
    # Spreadsheets in half of Europe separate by semicolons.
    delimiter = max(",;\t", key=first.count)
    columns = _columns(next(csv.reader([first], delimiter=delimiter), []), path)
    options = arrow_csv.ConvertOptions(
        include_columns=columns,
        column_types={name: pa.string() for name in columns},
        strings_can_be_null=True,
        null_values=_NO_LABEL,
    )
    return arrow_csv.read_csv(
        path, parse_options=arrow_csv.ParseOptions(delimiter=delimiter), convert_options=options
    ).select(columns)


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    columns = _columns(pq.read_schema(path).names, path)
    return pq.read_table(path, columns=columns, partitioning=None).select(columns)


def _columns(names: list[str], path: Path) -> list[str]:
    by_name = {name.strip().lower(): name for name in reversed(names)}
    found: list[str] = []
    for wanted in (KEY_COLUMNS, LABEL_COLUMNS):
        name = next((by_name[w] for w in wanted if w in by_name), None)
        if name is None:
            known = ", ".join(names) or "none"
            raise DataError(
                f"{path.name} has no column {', '.join(wanted[:-1])} or {wanted[-1]}; it has {known}",
                hint="Name the columns file and label.",
            )
        found.append(name)
    return found


def _match(ids: pa.StringArray, keys: pa.StringArray) -> NDArray[np.int64]:
    """The place in `ids` of the file that each of `keys` names, -1 for none."""
    stems = _stem(ids)
    wanted = _stem(_clean(keys))
    places = _places(wanted, stems)
    has_folder = pc.fill_null(pc.match_substring(wanted, "/"), True).to_numpy(zero_copy_only=False)
    open_rows = np.flatnonzero((places < 0) & ~has_folder)
    if len(open_rows) and pc.any(pc.match_substring(stems, "/")).as_py():
        names = pc.replace_substring_regex(stems, pattern="(?s)^.*/", replacement="")
        first = _places(names, names)
        is_unique = np.bincount(first, minlength=len(names)) == 1
        by_name = _places(wanted.take(pa.array(open_rows)), names)
        places[open_rows] = np.where((by_name >= 0) & is_unique[by_name], by_name, -1)
    return places


def _places(wanted: pa.StringArray, among: pa.StringArray) -> NDArray[np.int64]:
    found: Any = pc.index_in(wanted, value_set=among, skip_nulls=True)
    out: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return out


def _clean(keys: pa.StringArray) -> pa.StringArray:
    keys = nfc(pc.utf8_trim_whitespace(keys))
    keys = pc.replace_substring(keys, pattern="\\", replacement="/")
    return pc.replace_substring_regex(keys, pattern=r"^(\./)+", replacement="")


def _stem(paths: pa.StringArray) -> pa.StringArray:
    return pc.replace_substring_regex(paths, pattern=r"\.npy$", replacement="")
