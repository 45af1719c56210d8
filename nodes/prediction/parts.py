"""The parts of a prediction: how rows are divided, made into predictions, and recorded in the task's scratch folder.

    plan.json           what is predicted, the table's folder, and its version before it
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
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from engine.errors import ExecutionError
from engine.storage.files import whole_file, write_whole
from engine.storage.io_errors import OUT_OF_RESOURCES, needing
from engine.text import plural
from nodes.loaders.interface import Reading
from nodes.loaders.rows import RowNumbers
from nodes.prediction.inputs import ModelCard, OpenedRows
from nodes.prediction.table_folder import TABLE, ChosenTable
from nodes.training.usable_values import usable
from nodes.volume_file.footer import sign_footer

_PLAN = "plan.json"
_RECORD = re.compile(r"part-(\d+)\.json")
PERCENTILES = (50, 95, 99)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("scores", pa.list_(pa.float32()), nullable=False),
        pa.field("label", pa.float32()),
        pa.field("predicted", pa.int32()),
        pa.field("class", pa.string()),
        pa.field("model", pa.string(), nullable=False),
    ]
)
"""The table of predictions; `predictions_table` says what each column is."""
Scores = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""What a model makes of a batch: see `nodes.training.learner.Predictor.scores`."""


class Plan(BaseModel):
    """`identity` is a hash of all that decides the rows and the scores; parts of another one do not count.

    `base` is the version of the table of predictions before this work, -1 when there was none; `table` the name of its
    folder.
    """

    model_config = ConfigDict(frozen=True)

    format: int = 1
    identity: str
    base: int
    table: str = TABLE


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
    """The folder of plan, parts and records. `begin` it once in the task's process before parts are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, identity: str, choose: Callable[[], ChosenTable]) -> Plan:
        """The plan to carry out: the one that is there if it is for the same, else a new one and no parts."""
        try:
            found = Plan.model_validate_json((self.folder / _PLAN).read_bytes())
        except (OSError, ValidationError) as exc:
            _refuse_without_resources(exc)
            found = None
        if found is not None and found.identity == identity and found.format == 1:
            return found
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        chosen = choose()
        plan = Plan(identity=identity, base=chosen.base, table=chosen.table)
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
        """The part's record; None when there is none, it cannot be read, or its rows are gone: then the part is made
        again."""
        try:
            record = Record.model_validate_json((self.folder / f"part-{number:05d}.json").read_bytes())
            whole = (self.folder / record.file).stat().st_size == record.bytes
        except (OSError, ValidationError) as exc:
            _refuse_without_resources(exc)
            return None
        return record if whole else None

    def complete(self, parts: int, *, hint: str = "Run it again.") -> list[Record]:
        """The records of all parts. Raises `ExecutionError` when one is missing, with the hint."""
        found = self.done()
        if missing := [number for number in range(parts) if number not in found]:
            raise ExecutionError(f"the prediction lacks {plural(len(missing), 'parts')}", hint=hint)
        return [found[number] for number in range(parts)]

    def write_rows(self, number: int, rows: pa.Table) -> Path:
        """Put the rows of a part on the disk; they do not count yet."""
        path = self.folder / f"part-{number:05d}-{secrets.token_hex(8)}.parquet"
        with needing(rows.nbytes), whole_file(path, durable=True) as temporary:
            pq.write_table(rows, temporary, write_page_checksum=True)
            sign_footer(temporary)
        return path

    def finish(self, record: Record) -> None:
        """From here on the part is done."""
        self._write(f"part-{record.number:05d}.json", record)

    def _write(self, name: str, value: BaseModel) -> None:
        write_whole(self.folder / name, value.model_dump_json(), durable=True)


def _refuse_without_resources(exc: Exception) -> None:
    """Raise the error again that says nothing about the file which was read: no handles are left, for one."""
    if isinstance(exc, OSError) and exc.errno in OUT_OF_RESOURCES:
        raise exc


def rows_table(
    ids: pa.Array, scores: NDArray[np.float32], labels: NDArray[np.float32], card: ModelCard, digest: str
) -> pa.Table:
    """The rows of a part: ids, scores (n, classes), labels (n,) with NaN for none."""
    count, width = scores.shape
    offsets = pa.array(np.arange(0, (count + 1) * width, width, dtype=np.int32))
    known = np.isfinite(scores).all(axis=1) & (card.task == "classification")
    predicted = np.where(known, scores.argmax(axis=1), 0).astype(np.int32)
    names = pa.array(card.classes or ("",), pa.string())
    chosen = pa.array(predicted, pa.int32(), mask=~known)
    return pa.table(
        [
            ids.cast(pa.string()),
            pa.ListArray.from_arrays(offsets, pa.array(scores.reshape(-1), pa.float32())),
            pa.array(labels, pa.float32(), mask=np.isnan(labels)),
            chosen,
            names.take(chosen),
            pa.array([digest] * count, pa.string()),
        ],
        schema=SCHEMA,
    )


@dataclass(frozen=True)
class Division:
    """How rows are cut into parts: `rows` of them each, a whole number of batches, and the rest."""

    batch_size: int
    rows: int

    @classmethod
    def of(cls, batch_size: int, rows_per_part: int) -> Division:
        return cls(batch_size, -(-rows_per_part // batch_size) * batch_size)

    def parts(self, count: int) -> int:
        return -(-count // self.rows)

    def part(self, rows: RowNumbers, number: int) -> RowNumbers:
        return rows[number * self.rows : (number + 1) * self.rows]

    def size(self, count: int, number: int) -> int:
        return min(self.rows, count - number * self.rows)


@dataclass(frozen=True)
class PartWork:
    """Makes parts. In memory are the scores of one part at a time, and the batches that the loader reads ahead."""

    opened: OpenedRows
    division: Division
    card: ModelCard
    digest: str
    ledger: Ledger
    scores: Scores
    commit_point: Callable[[str], None] = lambda name: None

    def __call__(self, numbers: Iterable[int], on_rows: Callable[[int], None]) -> None:
        """Make these parts, but those that are done; `on_rows` gets the rows of every batch, and may raise to stop."""
        for number in numbers:
            if self.ledger.record(number) is None:
                self._part(number, on_rows)

    def _part(self, number: int, on_rows: Callable[[int], None]) -> None:
        source = self.opened.source
        rows = np.sort(self.division.part(self.opened.rows, number))
        scores = np.empty((len(rows), self.card.scores), np.float32)
        batch_s: list[float] = []
        batch_rows: list[int] = []
        began = asked = time.perf_counter()
        waiting = 0.0
        # In the order in which they are stored, for the sake of the disk.
        stored = self.division.part(self.opened.rows, number)
        loader = source.loader(stored, Reading(self.division.batch_size, training=False))
        for batch in loader.batches():
            got = time.perf_counter()
            waiting += got - asked
            places = np.searchsorted(rows, batch.rows)
            scores[places] = self.scores(batch.volumes)
            asked = time.perf_counter()
            # A network need not show such values: max pooling drops NaN.
            scores[places[~usable(batch.volumes)]] = np.nan
            batch_s.append(asked - got)
            batch_rows.append(len(batch.rows))
            on_rows(len(batch.rows))
        labels = self.opened.labels[rows]
        table = rows_table(source.rows.ids.take(rows), scores, labels, self.card, self.digest)
        path = self.ledger.write_rows(number, table)
        self.commit_point("predict:part-written")
        found = path.stat()
        # By UTF-8 bytes, as the log's readers compare: the order of the row numbers.
        first, last = source.ids([int(rows[0]), int(rows[-1])])
        known = labels[~np.isnan(labels)]
        record = Record(
            number=number,
            file=path.name,
            rows=len(rows),
            bytes=found.st_size,
            mtime_ms=found.st_mtime_ns // 1_000_000,
            labelled=len(known),
            not_finite=int((~np.isfinite(scores).all(axis=1)).sum()),
            id_min=first,
            id_max=last,
            label_min=float(known.min()) if len(known) else None,
            label_max=float(known.max()) if len(known) else None,
            batch_s=batch_s,
            batch_rows=batch_rows,
            part_s=time.perf_counter() - began,
            waiting_s=waiting,
        )
        self.ledger.finish(record)
        self.commit_point("predict:part-done")


def latency(records: Sequence[Record]) -> dict[str, float]:
    """Latency of batches and of volumes in ms, and throughput.

    A batch's latency is its time in the model, without waiting for data; a volume's is that of its batch shared
    by the batch's volumes. `volumes_per_s` is that of one process, with all reading and writing; `waiting_share` the
    part of its time that it waited for data.
    """
    seconds = np.concatenate([np.asarray(record.batch_s) for record in records])
    rows = np.concatenate([np.asarray(record.batch_rows) for record in records])
    each = np.repeat(seconds / rows, rows)
    out = {f"batch_ms_p{p}": 1000 * float(np.percentile(seconds, p)) for p in PERCENTILES}
    out |= {f"volume_ms_p{p}": 1000 * float(np.percentile(each, p)) for p in PERCENTILES}
    whole = sum(record.part_s for record in records)
    out["volumes_per_s"] = float(rows.sum()) / whole
    out["waiting_share"] = sum(record.waiting_s for record in records) / whole
    return {name: float(f"{value:.5g}") for name, value in out.items()}
