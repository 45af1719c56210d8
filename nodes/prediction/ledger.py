"""The parts of a prediction that are done, in the task's scratch folder.

    plan.json           what is predicted, and the table's version before it
    part-00007-*.parquet    the rows of a part
    part-00007.json         its record: it counts from the moment that this file is there

Each file appears whole, and on the disk, or not at all. Two processes that make the same part at once (Spark
tries a task again) write files of their own; the record names one of them.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from nodes.durable_files import flush

_PLAN = "plan.json"
_RECORD = re.compile(r"part-(\d+)\.json")


class Plan(BaseModel):
    """`identity` is a hash of all that decides the rows and the scores; parts of another one do not count.

    `base` is the version of the table of predictions before this work, -1 when there was none.
    """

    model_config = ConfigDict(frozen=True)

    format: int = 1
    identity: str
    base: int


class Record(BaseModel):
    """A part that is done. Times in seconds: of each batch in the model, of the whole part, of waiting for data."""

    model_config = ConfigDict(frozen=True)

    number: int
    file: str
    rows: int
    bytes: int
    mtime_ms: int
    labelled: int
    not_finite: int
    id_min: str
    id_max: str
    label_min: float | None
    label_max: float | None
    batch_s: list[float]
    batch_rows: list[int]
    part_s: float
    waiting_s: float


class Ledger:
    """The folder. `begin` it once in the task's process before parts are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, identity: str, base: Callable[[], int]) -> Plan:
        """The plan to carry out: the one that is there if it is for the same, else a new one and no parts."""
        try:
            found = Plan.model_validate_json((self.folder / _PLAN).read_bytes())
        except (OSError, ValidationError):
            found = None
        if found is not None and found.identity == identity and found.format == 1:
            return found
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        plan = Plan(identity=identity, base=base())
        self._write(_PLAN, plan)
        return plan

    def done(self) -> dict[int, Record]:
        """Records by part number, in its order."""
        found = ((number, self.record(number)) for number in sorted(self.numbers()))
        return {number: record for number, record in found if record is not None}

    def numbers(self) -> set[int]:
        """The parts that have a record, by the names of the files alone."""
        names = (_RECORD.fullmatch(entry.name) for entry in os.scandir(self.folder))
        return {int(name[1]) for name in names if name is not None}

    def record(self, number: int) -> Record | None:
        """The part's record; None when there is none, it cannot be read, or its rows are gone."""
        try:
            record = Record.model_validate_json((self.folder / f"part-{number:05d}.json").read_bytes())
            whole = (self.folder / record.file).stat().st_size == record.bytes
        except (OSError, ValidationError):
            return None
        return record if whole else None

    def write_rows(self, number: int, rows: pa.Table) -> Path:
        """Put the rows of a part on the disk; they do not count yet."""
        path = self.folder / f"part-{number:05d}-{secrets.token_hex(8)}.parquet"
        partial = path.with_name(f".{path.name}")
        pq.write_table(rows, partial)
        flush([partial])
        partial.replace(path)
        return path

    def finish(self, record: Record) -> None:
        """From here on the part is done."""
        self._write(f"part-{record.number:05d}.json", record)

    def _write(self, name: str, value: BaseModel) -> None:
        partial = self.folder / f".{name}.{secrets.token_hex(8)}"
        partial.write_text(value.model_dump_json(), encoding="utf-8")
        flush([partial])
        partial.replace(self.folder / name)
        flush([self.folder])
