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

import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.conversion.columns import ByFile, by_file, columns_with_commas, of_label_table
from nodes.conversion.commas import number_with_comma
from nodes.conversion.convert_parameters import ConvertParameters, LabelSource, compile_pattern
from nodes.conversion.label_table import LabelTable, match_files, read_label_table
from nodes.conversion.label_values import encode, in_batches, to_float32

LABEL_FILES = ("labels.csv", "labels.parquet")
"""Names under which `auto` and `manifest` find a table of labels in the source folder."""
LABEL_TABLES = b"voxelflow.label_tables"
"""Key in a manifest's schema metadata: JSON list of path, size and mtime_ns of the label tables of its folder."""
_TABLE_ENDINGS = (".csv", ".tsv", ".xlsx", ".xls", ".ods")
_SECONDS_A_NAME = 1.0
_SECONDS_IN_ALL = 5.0, 1e-4
"""What a pattern may take of processor time: for one name; for all, and more for each of them. An ordinary one takes
some microseconds a name, 2 s for 650,000 files."""


@dataclass(frozen=True)
class Labels:
    """One label per file, in the files' order.

    `values` is float32 with NaN for "no label"; `conflicts` marks files that were given several
    different labels; `classes` names the values 0, 1, ... when the labels are texts.
    `rows_without_file` counts rows of the label table that name no file, and `row_without_file` is the name in the
    first of them. `origin` says in words where the labels came from, `chosen` from which of several columns of a table.
    `columns` has one row per file, of what else the label table says; `remarks` are what a person should know of them.
    `commas` names those of them that are text because their numbers have commas, each with an example; under the name
    "" the labels themselves.
    """

    values: NDArray[np.float32]
    conflicts: NDArray[np.bool_]
    classes: tuple[str, ...] = ()
    rows_without_file: int = 0
    origin: str = "none"
    columns: pa.Table = field(default_factory=lambda: pa.table({}))
    remarks: tuple[str, ...] = ()
    chosen: str = ""
    commas: dict[str, str] = field(default_factory=dict)
    row_without_file: str = ""


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


def tables_beside(folder: Path) -> list[str]:
    """Names of files in the source folder that look like tables of labels and are called otherwise than `LABEL_FILES`.

    In their order; hidden ones are left out, and all that cannot be listed.
    """
    try:
        names = [name for name in os.listdir(folder) if not name.startswith(".") and _looks_like_table(name)]
    except OSError:
        return []
    return sorted(name for name in names if (folder / name).is_file())


def _looks_like_table(name: str) -> bool:
    stem, ending = os.path.splitext(name.lower())
    return ending in _TABLE_ENDINGS or (stem == "labels" and ending in (".txt", ".parquet", ".json"))


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
        for paths in in_batches(ids):
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


def match_table(
    ids: pa.StringArray, table: LabelTable, taken: Iterable[str] = (), endings: Sequence[str] = (".npy",)
) -> Labels:
    """The label of each file in `ids`, and what else the table says of it.

    Equal rows for one file are fine, different ones a conflict, rows without a label as if they
    were not there. Raises `DataError` when a column does not fit into a table of volumes.
    """
    places = match_files(ids, table.keys, endings)
    values = table.values
    found = ByFile.of(places, ~np.isnan(values), len(ids), lambda a, b: values[a] != values[b])
    labels = np.full(len(ids), np.nan)
    labels[found.row >= 0] = values[found.row[found.row >= 0]]
    columns = of_label_table(table.others, taken)
    each = by_file(columns.table, places, len(ids))
    example = number_with_comma(table.classes)
    without = np.flatnonzero(places < 0)
    return Labels(
        to_float32(labels),
        found.conflicts,
        table.classes,
        len(without),
        origin=table.name,
        columns=each.table,
        remarks=tuple(f"{table.name}: {remark}" for remark in (*columns.remarks, *each.remarks)),
        chosen=f"{table.name}: {table.chosen}" if table.chosen else "",
        commas=({"": example} if example else {}) | columns_with_commas(columns.table),
        row_without_file=(table.keys[int(without[0])].as_py() or "") if len(without) else "",
    )
