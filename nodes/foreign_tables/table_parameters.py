"""The parameters of ConvertTable: importing this imports neither NumPy nor Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from engine.declare.datasets import DTypeName
from engine.declare.parameters import PathIn, Policy, Range
from nodes.volume_file.parameters import TARGET_FILE_MB, TargetFileMB, Threads


@dataclass(frozen=True)
class TableParameters:
    """The parameters of ConvertTable.

    Attributes:
        table: folder of the Delta table or of the Parquet files, locally or in object storage.
        volume_column: column with the volumes; empty takes volume, array, image or data, whatever the case, or the only
            one with arrays.
        label_column: column with the labels, numbers or texts; empty takes label, class, target or y, if there
            is one, or Label in any case.
        id_column: column with each row's own name; empty takes id, file, path or name, else names are made of the
            file's name and the row's number in it.
        shape: axes X, Y, Z, then channels, e.g. 30, 30, 10, 2. Needed for plain bytes and flat lists; empty takes that
            of most volumes in a sample.
        dtype: type in which plain bytes are stored; of other volumes the type to convert them to. Empty takes that of
            most volumes in a sample.
        columns: carry the other columns of single values into the Parquet files.
        unlabelled: keep rows without a label, or quarantine them.
        not_finite: what to do with volumes that hold a NaN or an infinity.
        max_bad_rows: stop when more rows than this are quarantined.
        threads: files written side by side; 0 takes the machine's cores. On Spark its tasks decide.
    """

    table: Annotated[
        str, PathIn("folder", identify="nodes.foreign_tables.tables:identity", holds="a Delta table or Parquet files")
    ]
    volume_column: str = ""
    label_column: str = ""
    id_column: str = ""
    shape: Annotated[tuple[int, ...], Range(1, 65_536)] = ()
    dtype: Literal["", DTypeName] = ""
    columns: Literal["all", "none"] = "all"
    unlabelled: Literal["keep", "quarantine"] = "keep"
    not_finite: Literal["quarantine", "keep"] = "quarantine"
    max_bad_rows: Annotated[int, Range(0), Policy()] = 0
    target_file_mb: TargetFileMB = TARGET_FILE_MB
    threads: Threads = 0
