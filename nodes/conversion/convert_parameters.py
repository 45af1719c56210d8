"""The parameters of NumpyToParquet and their check: importing this imports neither NumPy nor Arrow."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from engine.declare.parameters import Added, Advanced, PathIn, Policy, Range
from engine.errors import DataError
from nodes.volume_file.layout import ROW_GROUP_ROWS
from nodes.volume_file.parameters import TARGET_FILE_MB, Compression, RowGroupRows, TargetFileMB, Threads

_LONGEST_PATTERN = 2_000
_LARGEST_PATTERN = 1_000_000
"""Parts of a pattern whose repeats are written out. `regex` compiles so many in 0.2 s and 120 MB."""
LabelSource = Literal["auto", "manifest", "folders", "pattern", "none"]


@dataclass(frozen=True)
class ConvertParameters:
    """The parameters of NumpyToParquet.

    Attributes:
        labels: where labels come from: a table, sub-folder names (of the first level), a pattern in
            the file name. Auto takes a given table or pattern, else labels.csv or labels.parquet in
            the folder, else sub-folder names if every file lies in one. Texts become classes 0, 1,
            ... in sorted order, numbers stay numbers. Among numbers, NaN means no label, and one that is
            infinite or too large stops the run with its row.
        label_file: CSV or Parquet table with a column file (or path, id, name) and a column label
            (or class, target, y). Its other columns are carried into the table, see columns.
        label_pattern: regular expression with a group named label, such as _(?P<label>[a-z]+)\\.npy$ for the end of
            a name. It is searched in the file name, in the whole path if it contains a slash, and is stopped
            when it takes too long, as (a+)+$ would.
        label_column: column of the label table with the labels; empty for label, class, target or y. The others are
            carried like any column.
        columns: carry the label table's other columns (patient, age, site ...) into the Parquet files and the Delta
            table. The type of a CSV column follows from all its values; 007 stays text, a time without a zone is UTC.
        hash_sources: add the column source_sha256 for .npy files, too, as files of other formats have it. A file is
            known by it wherever it lies, and SplitDataset finds copies that are in several parts.
        unlabelled: keep files without a label, or quarantine them.
        not_finite: what to do with volumes that hold a NaN or an infinity.
        max_bad_files: stop when more files than this are quarantined.
        threads: files converted side by side; 0 takes the machine's cores. On Spark its tasks decide.
    """

    labels: LabelSource = "auto"
    label_file: Annotated[str | None, PathIn("file")] = None
    label_pattern: str = ""
    label_column: Annotated[str, Added()] = ""
    columns: Annotated[Literal["all", "none"], Added()] = "all"
    hash_sources: Annotated[bool, Advanced(), Added()] = False
    unlabelled: Literal["keep", "quarantine"] = "keep"
    not_finite: Literal["quarantine", "keep"] = "quarantine"
    max_bad_files: Annotated[int, Range(0), Policy()] = 0
    target_file_mb: TargetFileMB = TARGET_FILE_MB
    compression: Compression = "none"
    row_group_rows: RowGroupRows = ROW_GROUP_ROWS
    threads: Threads = 0


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression that finds a label in a file's name.

    Raises `DataError` when it is wrong, too long or has no group named `label`.
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise DataError(
            f"the pattern has {len(pattern)} characters, at most {_LONGEST_PATTERN} are allowed",
            hint="Give the labels in a table (label_file).",
            parameter="label_pattern",
        )
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as exc:
        raise DataError(
            f"the pattern {pattern!r} is not a regular expression: {exc}",
            hint="Correct it there.",
            parameter="label_pattern",
        ) from exc
    if "label" not in compiled.groupindex:
        raise DataError(
            f"the pattern {pattern!r} has no group named label",
            hint=r"Write the label's place as (?P<label>...), for example _(?P<label>\d+)\.npy$.",
            parameter="label_pattern",
        )
    if _written_out(importlib.import_module("re._parser").parse(pattern)) > _LARGEST_PATTERN:
        raise DataError(
            f"the pattern {pattern!r} repeats what repeats itself, too often to be searched for",
            hint="Write it with fewer repeats inside each other: (?:a+)+ finds what a+ finds.",
            parameter="label_pattern",
        )
    return compiled


def _written_out(parsed: object) -> int:
    """How many parts a parsed pattern has when its repeats are written out, as `regex` does when it compiles: each +
    around another doubles them, and twenty take gigabytes."""
    parts, left = 0, [(parsed, 1)]
    while left:
        part, times = left.pop()
        if isinstance(part, (list, tuple)):
            repeats = len(part) == 3 and isinstance(part[0], int) and isinstance(part[1], int)
            left += ((each, times * (int(part[0]) + 1) if repeats else times) for each in part)
        elif hasattr(part, "data"):
            left.append((part.data, times))
        else:
            parts += times
    return parts
