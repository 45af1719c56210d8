"""Labels of volumes, and their other columns: from a table, from sub-folder names, or from a pattern in the file names.

Texts become 0, 1, ... in sorted order and their names are kept as the classes; numbers stay numbers
(sub-folder names are always classes). Everything is held in Arrow and NumPy columns, no Python object
a file. Measured with 650,000 files and as many rows: 600 bytes a file at the peak while a table of
labels is read and matched, 5 bytes a file afterwards.

A row of a table (`labels.csv`, `labels.parquet`) names its file by the path below the source folder, with or without
`.npy`, or by the bare file name when only one file has it. What else the row says is carried into the volume table,
where that is asked for (`nodes.conversion.columns`).
"""

from __future__ import annotations

import csv
import os
import re
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import DataError
from engine.storage.files import check_regular
from engine.storage.io_errors import remedy
from nodes.conversion.columns import ByFile, by_file, columns_with_commas, of_label_table, typed
from nodes.conversion.commas import number_with_comma
from nodes.conversion.convert_parameters import ConvertParameters, LabelSource, compile_pattern

LABEL_FILES = ("labels.csv", "labels.parquet")
"""Names under which `auto` and `manifest` find a table of labels in the source folder."""
LABEL_TABLES = b"voxelflow.label_tables"
"""Key in a manifest's schema metadata: JSON list of path, size and mtime_ns of the label tables of its folder."""
KEY_COLUMNS = ("file", "path", "id", "name")
LABEL_COLUMNS = ("label", "class", "target", "y")
_NO_LABEL = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
MAX_CLASSES = 10_000
"""More different texts than this are not class names: the wrong column was taken."""
_BATCH = 50_000
_LABELS_NAMED = 20
_LARGEST_TABLE = 2_000_000_000
"""Bytes of a table of labels, which is read whole: some 20 million rows."""
_LONGEST_HEADER = 1_000_000
_SECONDS_A_NAME = 1.0
_SECONDS_IN_ALL = 5.0, 1e-4
"""What a pattern may take of processor time: for one name; for all, and more for each of them. An ordinary one takes
some microseconds a name, 2 s for 650,000 files."""


@dataclass(frozen=True)
class Labels:
    """One label a file, in the files' order.

    `values` is float32 with NaN for "no label"; `conflicts` marks files that were given several
    different labels; `classes` names the values 0, 1, ... when the labels are texts.
    `rows_without_file` counts rows of the label table that name no file. `origin` says in words
    where the labels came from. `columns` has a row a file, of what else the label table says; `remarks` are what a
    person should know of them. `commas` names those of them that are text because their numbers have commas, each with
    an example; under the name "" the labels themselves.
    """

    values: NDArray[np.float32]
    conflicts: NDArray[np.bool_]
    classes: tuple[str, ...] = ()
    rows_without_file: int = 0
    origin: str = "none"
    columns: pa.Table = field(default_factory=lambda: pa.table({}))
    remarks: tuple[str, ...] = ()
    commas: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LabelRule:
    """Where labels come from.

    `file` is a table that was named, `found` one that lies in the source folder; `pattern` is searched
    in the file's name, or in its whole path below the folder when it contains a slash. `auto` takes
    what was named, else what was found, else sub-folder names when every file lies in one, else none.
    `column` is the table's column with the labels, empty for the usual names; with `carry` its other columns are read.
    The table may name files without their `endings`.
    """

    source: LabelSource = "auto"
    file: Path | None = None
    pattern: str = ""
    found: Path | None = None
    column: str = ""
    carry: bool = False
    endings: tuple[str, ...] = (".npy",)

    def settle(self, ids: pa.StringArray) -> LabelSource:
        """The source that `auto` comes to for these files."""
        if self.source != "auto":
            return self.source
        if self.file is not None:
            return "manifest"
        if self.pattern:
            return "pattern"
        if self.found is not None:
            return "manifest"
        in_folders = len(ids) > 0 and pc.all(pc.match_substring(ids, "/")).as_py()
        return "folders" if in_folders else "none"


def label_rule(parameters: ConvertParameters, found: Path | None, endings: tuple[str, ...] = (".npy",)) -> LabelRule:
    """Where the parameters say that labels come from; `found` is a table that lies in the source folder."""
    file = Path(parameters.label_file) if parameters.label_file else None
    carry = parameters.columns == "all"
    return LabelRule(parameters.labels, file, parameters.label_pattern, found, parameters.label_column, carry, endings)


def find_labels(ids: pa.StringArray, rule: LabelRule, taken: Iterable[str] = ()) -> Labels:
    """Find the label of each file in `ids` (paths below the source folder, POSIX, NFC).

    `taken` are names of columns that the volumes have already. Raises `DataError` when the label table cannot be read,
    the pattern is wrong, or a number does not fit a float32.
    """
    count = len(ids)
    source = rule.settle(ids)
    if source == "manifest":
        table = rule.file or rule.found
        if table is None:
            raise DataError(
                f"there is no {' or '.join(LABEL_FILES)} in the folder",
                hint="Name the table with label_file, or take labels from folders or a pattern.",
                parameter="label_file",
            )
        return match_table(ids, read_label_table(table, rule.column, carry=rule.carry), taken, rule.endings)
    if source == "folders":
        values, classes = encode(folder_names(ids), numbers=False)
        origin = "sub-folder names"
    elif source == "pattern":
        values, classes = encode(_matches(ids, compile_pattern(rule.pattern)), numbers=True)
        if (bad := np.flatnonzero(np.isinf(values))).size:
            raise DataError(
                f"the label that the pattern finds in {ids[int(bad[0])].as_py()} is infinite or too large for a number",
                hint="Rename the file, or change the pattern.",
                parameter="label_pattern",
            )
        origin = "the file names"
    else:
        return Labels(np.full(count, np.nan, np.float32), np.zeros(count, bool))
    return Labels(to_float32(values), np.zeros(count, bool), classes, origin=origin)


def label_file_in(folder: Path) -> Path | None:
    """What is called like a table of labels in the source folder, if anything.

    Reading it says what is wrong with a folder, a pipe or a link without a target: passed over, it would let the
    labels come from elsewhere, and no message would say so.
    """
    return next((folder / name for name in LABEL_FILES if os.path.lexists(folder / name)), None)


def folder_names(ids: pa.StringArray) -> pa.StringArray:
    """The first folder of each path, null for files that lie in none."""
    names = pc.replace_substring_regex(ids, pattern="(?s)/.*$", replacement="")
    return pc.if_else(pc.match_substring(ids, "/"), names, pa.scalar(None, pa.string()))


def _matches(ids: pa.StringArray, pattern: re.Pattern[str]) -> pa.StringArray:
    """What the group `label` matches in each name. Raises `DataError` when the pattern takes too long.

    Python's own `re` cannot be stopped, and a pattern such as (a+)+$ takes it years; `regex` reads the same patterns
    and takes a limit.
    """
    import regex

    try:
        limited = regex.compile(pattern.pattern, regex.VERSION0)
    except regex.error as exc:
        raise DataError(
            f"the pattern {pattern.pattern!r} cannot be searched for: {exc}",
            hint="Write a pattern that the package regex reads.",
            parameter="label_pattern",
        ) from exc
    whole_path = "/" in pattern.pattern
    batches: list[pa.Array] = []
    end = time.thread_time() + _SECONDS_IN_ALL[0] + _SECONDS_IN_ALL[1] * len(ids)
    name = ""
    try:
        for paths in _in_batches(ids):
            found: list[str | None] = []
            for path in filter(None, paths):
                name = path if whole_path else path.rpartition("/")[2]
                match = limited.search(name, timeout=_SECONDS_A_NAME)
                found.append(match["label"] if match else None)
                if time.thread_time() > end:
                    raise TimeoutError
            batches.append(pa.array(found, pa.string()))
    except TimeoutError:
        raise DataError(
            f"the pattern {pattern.pattern!r} takes too long, for example on {name!r}",
            hint="Avoid a repetition within a repetition, as in (a+)+, or give the labels in a table (label_file).",
            parameter="label_pattern",
        ) from None
    return pa.chunked_array(batches, pa.string()).combine_chunks() if batches else ids


# --- a table of labels ----------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelTable:
    """A table of labels: for each row a file's name, its label (NaN: none), and the other columns as they were read."""

    name: str
    keys: pa.StringArray
    values: NDArray[np.float64]
    classes: tuple[str, ...]
    others: pa.Table


def match_table(
    ids: pa.StringArray, table: LabelTable, taken: Iterable[str] = (), endings: Sequence[str] = (".npy",)
) -> Labels:
    """The label of each file in `ids`, and what else the table says of it.

    Equal rows for one file are fine, different ones a conflict, rows without a label as if they
    were not there. Raises `DataError` when a column does not fit into a table of volumes.
    """
    places = _match(ids, table.keys, endings)
    values = table.values
    found = ByFile.of(places, ~np.isnan(values), len(ids), lambda a, b: values[a] != values[b])
    labels = np.full(len(ids), np.nan)
    labels[found.row >= 0] = values[found.row[found.row >= 0]]
    columns = of_label_table(table.others, taken)
    each = by_file(columns.table, places, len(ids))
    example = number_with_comma(table.classes)
    return Labels(
        to_float32(labels),
        found.conflicts,
        table.classes,
        int(np.count_nonzero(places < 0)),
        origin=table.name,
        columns=each.table,
        remarks=tuple(f"{table.name}: {remark}" for remark in (*columns.remarks, *each.remarks)),
        commas=({"": example} if example else {}) | columns_with_commas(columns.table),
    )


def read_label_table(path: Path, label_column: str = "", *, carry: bool = False) -> LabelTable:
    """A table of labels: file names, labels and class names, and with `carry` its other columns.

    The columns are found by name, whatever their case: file, path, id or name, and label, class,
    target or y, the first that is there; the label in `label_column` where that is given. Raises `DataError`.
    """
    try:
        check_regular(path, _LARGEST_TABLE)
    except OSError as exc:
        raise DataError(
            f"{path.name} cannot be read: {exc.strerror}",
            hint=f"{remedy(exc)} Or name another table in label_file.",
            parameter="label_file",
        ) from exc
    read = _read_parquet if path.suffix == ".parquet" else _read_csv
    try:
        key, label, others = read(path, label_column, carry)
        keys = pc.cast(key, pa.string()).combine_chunks()
        values, classes = label_values(label.combine_chunks())
    except (pa.ArrowException, csv.Error, OSError, ValueError) as exc:
        reason = next(iter(str(exc).splitlines()), type(exc).__name__)
        raise DataError(
            f"{path.name} cannot be read: {reason}",
            hint="Save it as UTF-8 text with a header line such as file,label, or as a Parquet file.",
        ) from exc
    if (bad := np.flatnonzero(np.isinf(values))).size:
        row, more = int(bad[0]), f", and {len(bad) - 1} more rows" if len(bad) > 1 else ""
        raise DataError(
            f"{path.name}: the label of {keys[row].as_py()} (row {row + 1} below the header) is infinite or too large"
            f" for a number{more}",
            hint="Correct it, or leave the cell empty: the file then has no label.",
        )
    return LabelTable(path.name, keys, values, classes, others)


def label_values(column: pa.Array) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Numbers as they are, NaN for none, and texts as classes 0, 1, ... in sorted order, with their names.

    Raises `DataError` when a cell has several labels.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = pc.cast(column, kind.value_type), kind.value_type
    if pa.types.is_boolean(kind):
        column, kind = pc.cast(column, pa.int8()), pa.int8()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False), ()
    values, classes = encode(pc.cast(column, pa.string()), numbers=True)
    _refuse_several(classes)
    return values, classes


def _refuse_several(classes: Sequence[str]) -> None:
    """Raise `DataError` for a cell such as grey;left: as a class of its own it would be beside both of its labels.

    A comma may be a part of a name: it separates where one of its sides is another cell's label.
    """
    known = set() if number_with_comma(classes) else set(classes)
    for name in classes:
        parts = [part.strip() for part in name.split(",")]
        if re.search("[;|]", name) or (len(parts) > 1 and not known.isdisjoint(parts)):
            raise DataError(
                f"the label {name!r} is several in one, and a volume has one label",
                hint="Choose one for each volume, or give each kind of label a column and train a model for each. The"
                " name of a single class is written without ; and |.",
                parameter="label_column",
            )


_Columns = tuple[pa.ChunkedArray, pa.ChunkedArray, pa.Table]
"""The files' names, the labels, and the other columns."""


def _read_csv(path: Path, label_column: str, carry: bool) -> _Columns:
    from pyarrow import csv as arrow_csv

    with path.open(encoding="utf-8-sig", newline="") as source:
        first = source.readline(_LONGEST_HEADER)
    # Spreadsheets in half of Europe separate by semicolons.
    delimiter = max(",;\t", key=first.count)
    names = next(csv.reader([first], delimiter=delimiter), [])
    key, label = _find_columns(names, label_column, path)
    wanted = list(dict.fromkeys([key, label, *(range(len(names)) if carry else ())]))
    # By number: a header may have a name twice, or an empty one.
    numbered = [str(number) for number in range(len(names))]
    table = arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(column_names=numbered, skip_rows=1),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=[numbered[place] for place in wanted],
            column_types={name: pa.string() for name in numbered},
            strings_can_be_null=True,
            null_values=_NO_LABEL,
        ),
    )
    others = [place for place in sorted(wanted) if place not in (key, label)]
    texts = [table.column(numbered[place]).combine_chunks() for place in others]
    carried = pa.Table.from_arrays([typed(column) for column in texts], [names[place] for place in others])
    return table.column(numbered[key]), table.column(numbered[label]), carried


def _read_parquet(path: Path, label_column: str, carry: bool) -> _Columns:
    import pyarrow.parquet as pq

    names = pq.read_schema(path).names
    key, label = _find_columns(names, label_column, path)
    others = [name for place, name in enumerate(names) if carry and place not in (key, label)]
    wanted = list(dict.fromkeys([names[key], names[label], *others]))
    table = pq.read_table(path, columns=wanted, partitioning=None)
    return table.column(names[key]), table.column(names[label]), table.select(others)


def _find_columns(names: list[str], label_column: str, path: Path) -> tuple[int, int]:
    """The places of the files' names and of the labels. Raises `DataError` when one of them is not there."""
    places = {name.strip().lower(): place for place, name in reversed(list(enumerate(names)))}
    known = ", ".join(names) or "none"
    key = next((places[name] for name in KEY_COLUMNS if name in places), None)
    if key is None:
        raise DataError(
            f"{path.name} has no column {', '.join(KEY_COLUMNS[:-1])} or {KEY_COLUMNS[-1]}; it has {known}",
            hint="Name the columns file and label.",
        )
    if label_column:
        label = places.get(label_column.strip().lower())
        if label is None or label == key:
            several = re.split(r"[,;\s]+", label_column.strip().lower())
            hint = "Choose one of its columns in label_column, or clear it."
            if len(several) > 1 and all(name in places for name in several):
                hint = "A volume has one label. Convert and train for each of these columns by itself."
            raise DataError(
                f"{path.name} has no column {label_column} for labels; it has {known}",
                hint=hint,
                parameter="label_column",
            )
        return key, label
    label = next((places[name] for name in LABEL_COLUMNS if name in places), None)
    if label is None:
        raise DataError(
            f"{path.name} has no column {', '.join(LABEL_COLUMNS[:-1])} or {LABEL_COLUMNS[-1]}; it has {known}",
            hint="Name the columns file and label, or give the name of the column with the labels in label_column.",
        )
    return key, label


def _match(ids: pa.StringArray, keys: pa.StringArray, endings: Sequence[str]) -> NDArray[np.int64]:
    """The place in `ids` of the file that each of `keys` names, -1 for none."""
    stems = _stem(ids, endings)
    wanted = _stem(_clean(keys), endings)
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


def _stem(paths: pa.StringArray, endings: Sequence[str]) -> pa.StringArray:
    if not endings:
        return paths
    # The longest first: .nii.gz is no file of the name .nii.
    either = "|".join(re.escape(ending) for ending in sorted(endings, key=len, reverse=True))
    return pc.replace_substring_regex(paths, pattern=rf"(?i)(?:{either})$", replacement="")


# --- values ---------------------------------------------------------------------------------------


def encode(texts: pa.StringArray, *, numbers: bool) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Labels as float64 (NaN: none) and the class names.

    With `numbers`, texts that are all numbers stay numbers, without class names: NaN is no label, and
    an infinity is for the caller to refuse. Otherwise, or when none of them is finite, the texts are
    classes, sorted, by value when all are whole numbers.
    """
    texts = nfc(pc.utf8_trim_whitespace(texts))
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    if numbers and (values := _as_numbers(texts)) is not None:
        return values, ()
    names = [n for n in pc.unique(texts).to_pylist() if n is not None]
    if len(names) > MAX_CLASSES:
        raise DataError(
            f"there are {len(names)} different labels, such as {names[0]!r}; at most {MAX_CLASSES} can be classes",
            hint="Check the label column, the folder level or the pattern.",
        )
    whole = all(n.isdecimal() for n in names)
    classes = tuple(sorted(names, key=lambda n: (int(n), n) if whole else (0, n)))
    codes = pc.index_in(texts, value_set=pa.array(classes, pa.string()))
    return pc.cast(codes, pa.float64()).to_numpy(zero_copy_only=False), classes


def different(labels: NDArray[np.float32]) -> list[float]:
    """Some of the different labels, those first that can be no classes."""
    found = np.unique(labels[~np.isnan(labels)])
    odd = (found < 0) | (found != np.rint(found))
    values: list[float] = np.concatenate([found[odd], found[~odd]])[:_LABELS_NAMED].tolist()
    return values


def to_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The values as the table keeps them. Raises `DataError` when a whole number would become another."""
    with np.errstate(over="ignore"):
        out = values.astype(np.float32)
    lost = np.isfinite(values) & (~np.isfinite(out) | ((values == np.rint(values)) & (out != values)))
    if lost.any():
        example = values[lost][0]
        raise DataError(
            f"label {example:.0f} is not exact in 32 bits",
            hint="Use smaller numbers, or texts such as class names.",
        )
    return out


def nfc(texts: pa.StringArray) -> pa.StringArray:
    """The texts in Unicode NFC; the same array when all are ASCII, as paths nearly always are.

    Python's own tables do it: `utf8_normalize` of pyarrow 25 gives NFD when asked for NFC.
    """
    if pc.all(pc.string_is_ascii(texts)).as_py():
        return texts
    batches = [
        pa.array([None if t is None else unicodedata.normalize("NFC", t) for t in part], pa.string())
        for part in _in_batches(texts)
    ]
    return pa.chunked_array(batches, pa.string()).combine_chunks()


def _in_batches(texts: pa.StringArray) -> Iterator[list[str | None]]:
    """The texts as Python objects, never many at once."""
    for start in range(0, len(texts), _BATCH):
        yield texts.slice(start, _BATCH).to_pylist()


def _as_numbers(texts: pa.StringArray) -> NDArray[np.float64] | None:
    try:
        values = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return None
    out: NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    present = pc.is_valid(texts).to_numpy(zero_copy_only=False)
    # One "inf" among numbers is a mistake, and must not turn the numbers into classes; "nan" alone may be a name.
    return out if not present.any() or bool(np.isfinite(out[present]).any()) else None
