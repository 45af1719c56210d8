"""Tables about volumes, as CSV or Parquet: a row names its file, and says its label and what else is known of it.

A row names its file by the path below the source folder, with or without its ending, or by the bare file name when only
one file has it. A name with its ending is that file's before it is one of another ending.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import DataError
from engine.storage.encodings import LOOKED_AT, SAVE_AS_UTF_8, no_utf_8
from engine.storage.files import check_regular
from engine.storage.io_errors import number_of, remedy
from nodes.conversion.columns import typed
from nodes.conversion.commas import NUMBER
from nodes.conversion.label_values import label_values, nfc

KEY_COLUMNS = ("file", "path", "id", "name")
LABEL_COLUMNS = ("label", "class", "target", "y")
_MISSING = pa.array(["NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL"], pa.string())
"""What programs write into a CSV file for a value that is missing. `None` is that among numbers and dates alone."""
_LARGEST_TABLE = 2_000_000_000
"""Bytes of a table of labels, which is read whole: some 20 million rows."""
_LONGEST_HEADER = 1_000_000
_SEPARATORS = ",;\t"
_SAID = re.compile(r'"?sep=(?P<separator>[,;\t])"?[,;\s]*', re.IGNORECASE)
"""Excel's `sep=;`: a line before the header with the separator of the cells."""
_NO_UTF_8 = "invalid UTF8 data"
"""What Arrow says of a cell."""
_PARQUET = b"PAR1"
_END = 64
"""Bytes at the end of a table in which its last character is."""


@dataclass(frozen=True)
class LabelTable:
    """A table of labels: for each row a file's name, its label (NaN: none), and the other columns as they were read.

    `chosen` says which of several columns the labels are taken from, "" where only one can be meant.
    """

    name: str
    keys: pa.StringArray
    values: NDArray[np.float64]
    classes: tuple[str, ...]
    others: pa.Table
    chosen: str = ""


@dataclass(frozen=True)
class VolumeTable:
    """A table about volumes: for each row a file's name, and all other columns as they were read."""

    name: str
    keys: pa.StringArray
    others: pa.Table


def read_label_table(path: Path, label_column: str = "", *, carry: bool = False) -> LabelTable:
    """A table of labels: file names, labels and class names, and with `carry` its other columns.

    The columns are found by name, whatever their case: file, path, id or name, and label, class,
    target or y, the first that is there; the label in `label_column` where that is given. Raises `DataError`.
    """

    chosen = ""

    def find(names: list[str]) -> tuple[int, int]:
        nonlocal chosen
        key, label = _key_in(names, path, "file and label"), _label_in(names, label_column, path)
        chosen = "" if label_column else _chosen(names, label)
        return key, label

    try:
        keys, label, others = _read(path, find, carry, "label_file", "file,label")
        assert label is not None
        values, classes = label_values(label.combine_chunks())
    except (pa.ArrowException, ValueError) as exc:
        raise _unreadable(path, exc, "file,label") from exc
    if (bad := np.flatnonzero(np.isinf(values))).size:
        row, more = int(bad[0]), f", and {len(bad) - 1} more rows" if len(bad) > 1 else ""
        raise DataError(
            f"{path.name}: the label of {keys[row].as_py()} (row {row + 1} below the header) is infinite or too large"
            f" for a number{more}",
            hint="Correct it, or leave the cell empty: the file then has no label.",
        )
    return LabelTable(path.name, keys, values, classes, others, chosen)


def read_volume_table(path: Path, parameter: str) -> VolumeTable:
    """A table about volumes, which the node's `parameter` names: file names and all other columns, labels too.

    The names are in the column file, path, id or name, the first that is there. Raises `DataError`.
    """
    keys, _, others = _read(
        path, lambda names: (_key_in(names, path, "file", parameter), None), True, parameter, "file,patient"
    )
    return VolumeTable(path.name, keys, others)


def _read(path: Path, find: _Find, carry: bool, parameter: str, header: str) -> _Columns:
    try:
        check_regular(path, _LARGEST_TABLE)
    except OSError as exc:
        raise DataError(
            f"{path.name} cannot be read: {exc.strerror}",
            hint=f"{remedy(exc)} Or name another table in {parameter}.",
            parameter=parameter,
        ) from exc
    try:
        read = _read_parquet if path.suffix == ".parquet" or _starts_as_parquet(path) else _read_csv
        keys, label, others = read(path, find, carry)
        return pc.cast(keys, pa.string()).combine_chunks(), label, others
    except (pa.ArrowException, csv.Error, OSError, ValueError) as exc:
        raise _unreadable(path, exc, header) from exc


def _unreadable(path: Path, exc: Exception, header: str) -> DataError:
    if isinstance(exc, OSError) and number_of(exc) is not None:  # nothing is wrong with what is in it
        return DataError(f"{path.name} cannot be read: {exc.strerror or exc}", hint=remedy(exc))
    reason = next(iter(str(exc).splitlines()), type(exc).__name__)
    if isinstance(exc, UnicodeDecodeError) or _NO_UTF_8 in reason:
        return DataError(f"{path.name} cannot be read: it is {_encoding_of(path)}", hint=SAVE_AS_UTF_8)
    if "straddling" in reason:  # two blocks of Arrow's
        reason = "a row of it is longer than 1 MB; perhaps a quotation mark is never closed"
    return DataError(
        f"{path.name} cannot be read: {reason}",
        hint=f"Save it as UTF-8 text with a header line such as {header}, or as a Parquet file.",
    )


def _encoding_of(path: Path) -> str:
    with path.open("rb") as file:
        return no_utf_8(file.read(LOOKED_AT))


_Find = Callable[[list[str]], tuple[int, int | None]]
"""The places among the columns' names of the files' names and of the labels. Raises `DataError`."""
_Columns = tuple[Any, pa.ChunkedArray | None, pa.Table]
"""The files' names, the labels where they were looked for, and the other columns."""


def _read_csv(path: Path, find: _Find, carry: bool) -> _Columns:
    from pyarrow import csv as arrow_csv

    names, separator, lines = _header(path)
    key, label = find(names)
    found = [place for place in (key, label) if place is not None]
    wanted = list(dict.fromkeys([*found, *(range(len(names)) if carry else ())]))
    # By number: a header may have a name twice, or an empty one.
    numbered = [str(number) for number in range(len(names))]
    table = arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(column_names=numbered, skip_rows=lines),
        # Notes in quotes have several lines.
        parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=[numbered[place] for place in dict.fromkeys([*wanted, len(names) - 1])],
            # As bytes where it is only looked at: it may be no UTF-8.
            column_types={numbered[-1]: pa.binary()} | {numbered[place]: pa.string() for place in wanted},
            strings_can_be_null=True,
            null_values=[""],
        ),
    )
    _refuse_open_quote(path, table.column(numbered[-1]))
    others = [place for place in sorted(wanted) if place not in found]
    texts = [_without_missing(table.column(numbered[place])) for place in others]
    carried = pa.Table.from_arrays([typed(column) for column in texts], [names[place] for place in others])
    labels = None if label is None else pa.chunked_array([_without_missing(table.column(numbered[label]))])
    return table.column(numbered[key]), labels, carried


def _refuse_open_quote(path: Path, last: pa.ChunkedArray) -> None:
    """Raise `ValueError` when a quote in the `last` column is never closed: all rows below are in its cell."""
    cell = last[-1].as_py() if len(last) else None
    if cell is None or len(cell.strip().splitlines()) < 2:
        return
    with path.open("rb") as file:
        file.seek(-min(_END, path.stat().st_size), os.SEEK_END)
        if not file.read().rstrip(b" \t\r\n\0\x1a").endswith(b'"'):
            raise ValueError(f"a quotation mark in row {len(last)} below the header is never closed")


def _header(path: Path) -> tuple[list[str], str, int]:
    """The columns' names, what separates cells, and the lines before the first row: a name in quotes may have several.

    Spreadsheets in half of Europe separate by semicolons, and names may have commas, too: what separates is what makes
    one of the names that of the files, and else most names. Raises `csv.Error`, `UnicodeDecodeError`.
    """
    with path.open(encoding="utf-8-sig", newline="") as source:
        said = _SAID.fullmatch(source.readline(_LONGEST_HEADER))
    found: list[tuple[list[str], str, int]] = []
    separators = said["separator"] if said else _SEPARATORS
    for separator in separators:
        with path.open(encoding="utf-8-sig", newline="") as source:
            before = 1 if said and source.readline() else 0
            start = source.tell()
            try:
                # Strictly: else a quote that is never closed makes rows a part of the last name.
                reader = csv.reader(
                    iter(partial(source.readline, _LONGEST_HEADER), ""), delimiter=separator, strict=True
                )
                found.append((next(reader, []), separator, before + reader.line_num))
                continue
            except csv.Error:
                source.seek(start)
            try:
                names = next(csv.reader([source.readline(_LONGEST_HEADER)], delimiter=separator), [])
                found.append((names, separator, before + 1))
            except csv.Error:  # all names in one, which is too long
                if separator == separators[-1] and not found:
                    raise
    return max(found, key=lambda each: (not _places_of(each[0]).keys().isdisjoint(KEY_COLUMNS), len(each[0])))


def _without_missing(column: pa.ChunkedArray) -> pa.Array:
    """The texts, null for those that stand for a missing value, whatever blanks are around them."""
    texts, nothing = column.combine_chunks(), pa.scalar(None, pa.string())
    trimmed = pc.utf8_trim_whitespace(texts)
    texts = pc.if_else(pc.is_in(trimmed, value_set=_MISSING), nothing, texts)
    without = pc.if_else(pc.equal(trimmed, "None"), nothing, texts)
    present = pc.drop_null(without)
    is_text = pa.types.is_string(typed(without).type) and bool(len(present))
    # Labels are read with blanks around them, leading zeros and decimal commas.
    if is_text and pc.all(pc.match_substring_regex(pc.utf8_trim_whitespace(present), NUMBER)).as_py():
        return without
    # Among texts it is one of them, as in None, Mild, Severe.
    return texts if is_text else without


def _starts_as_parquet(path: Path) -> bool:
    """Whether it is a Parquet file by its content: some are called .pq."""
    with path.open("rb") as file:
        if file.read(len(_PARQUET)) != _PARQUET:
            return False
        file.seek(-len(_PARQUET), os.SEEK_END)
        return file.read() == _PARQUET


def _read_parquet(path: Path, find: _Find, carry: bool) -> _Columns:
    import pyarrow.parquet as pq

    names = pq.read_schema(path).names
    key, label = find(names)
    found = [names[place] for place in (key, label) if place is not None]
    others = [name for name in names if carry and name not in found]
    wanted = list(dict.fromkeys([*found, *others]))
    table = pq.read_table(path, columns=wanted, partitioning=None, page_checksum_verification=True)
    return table.column(names[key]), None if label is None else table.column(names[label]), table.select(others)


def _places_of(names: list[str]) -> dict[str, int]:
    """The columns by their names, whatever their case: the first of each."""
    return {name.strip().lower(): place for place, name in reversed(list(enumerate(names)))}


def _key_in(names: list[str], path: Path, wanted: str, parameter: str | None = None) -> int:
    """The place of the files' names. Raises `DataError` when there are none."""
    places = _places_of(names)
    key = next((places[name] for name in KEY_COLUMNS if name in places), None)
    if key is None:
        raise DataError(
            f"{path.name} has no column {', '.join(KEY_COLUMNS[:-1])} or {KEY_COLUMNS[-1]};"
            f" it has {', '.join(names) or 'none'}",
            hint=f"Name the column{'s' if ' ' in wanted else ' with the files'} {wanted}.",
            parameter=parameter,
        )
    return key


def _label_in(names: list[str], label_column: str, path: Path) -> int:
    """The place of the labels. Raises `DataError` when there are none."""
    places, known = _places_of(names), ", ".join(names)
    if label_column:
        label = places.get(label_column.strip().lower())
        if label is None or label == _key_in(names, path, "file"):
            several = re.split(r"[,;\s]+", label_column.strip().lower())
            hint = "Choose one of its columns in label_column, or clear it."
            if len(several) > 1 and all(name in places for name in several):
                hint = "A volume has one label. Convert and train for each of these columns by itself."
            raise DataError(
                f"{path.name} has no column {label_column} for labels; it has {known}",
                hint=hint,
                parameter="label_column",
            )
        return label
    label = next((places[name] for name in LABEL_COLUMNS if name in places), None)
    if label is None:
        raise DataError(
            f"{path.name} has no column {', '.join(LABEL_COLUMNS[:-1])} or {LABEL_COLUMNS[-1]}; it has {known}",
            hint="Name the columns file and label, or give the name of the column with the labels in label_column.",
        )
    return label


def _chosen(names: list[str], label: int) -> str:
    """Which column the labels are taken from, in words, where others have names as theirs; else ""."""
    places = _places_of(names)
    # Beside x it is a place.
    more = [names[places[name]] for name in LABEL_COLUMNS if name in places and not (name == "y" and "x" in places)]
    others = [name for name in more if name != names[label]]
    return f"the labels are those of the column {names[label]}, not of {' or '.join(others)}" if others else ""


def match_files(ids: pa.StringArray, keys: pa.StringArray, endings: Sequence[str]) -> NDArray[np.int64]:
    """The place in `ids` of the file that each of `keys` names, -1 for none."""
    wanted = _clean(keys)
    # With their endings first: files may differ in these alone, as a.nii and sub/a.nii.gz do.
    forms = ((wanted, ids), (_stem(wanted, endings), _stem(ids, endings)))
    places = np.full(len(keys), -1, np.int64)
    has_folders = pc.any(pc.match_substring(ids, "/")).as_py()
    has_folder = pc.fill_null(pc.match_substring(wanted, "/"), True).to_numpy(zero_copy_only=False)
    for texts, paths in forms:
        open_rows = np.flatnonzero(places < 0)
        places[open_rows] = _places(texts.take(pa.array(open_rows)), paths)
        open_rows = np.flatnonzero((places < 0) & ~has_folder)
        if not has_folders or not len(open_rows):
            continue
        names = pc.replace_substring_regex(paths, pattern="(?s)^.*/", replacement="")
        is_unique = np.bincount(_places(names, names), minlength=len(names)) == 1
        by_name = _places(texts.take(pa.array(open_rows)), names)
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


def _stem(paths: pa.StringArray, endings: Sequence[str]) -> pa.StringArray:
    if not endings:
        return paths
    # The longest first: .nii.gz is no file of the name .nii.
    either = "|".join(re.escape(ending) for ending in sorted(endings, key=len, reverse=True))
    return pc.replace_substring_regex(paths, pattern=rf"(?i)(?:{either})$", replacement="")
