"""The Delta table of predictions: one row a volume.

    id         string       the volume's
    scores     list<float>  the probability of each class, in the order of the classes; of a regression the value
    label      float        the volume's own, in the model's numbers; null when it has none
    predicted  int          the likeliest class; null of a regression, and where scores are not finite
    class      string       its name
    model      string       SHA-256 of the model's file

The rows come with one commit, which carries the task's transaction; a task that runs anew replaces them in another
version, so that a reference to the one before still reads what it did.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema
from numpy.typing import NDArray

from engine.context import TaskContext, Transaction
from engine.datasets import Dataset, Predictions
from engine.errors import DataError, TableConflict, VoxelflowError
from engine.table_lock import WRITER_APP_ID
from nodes.delta.delta_commit import LOG_KEPT, Change, TableWriter, table_writer
from nodes.delta.delta_log import actions, newest_version
from nodes.delta.delta_table import TableFile, active_paths, has_plain_log, load_delta, local_folder
from nodes.durable_files import flush_many, place
from nodes.prediction.ledger import Ledger, Record
from nodes.prediction.model_card import ModelCard

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


def rows_table(
    ids: pa.Array, scores: NDArray[np.float32], labels: NDArray[np.float32], card: ModelCard, digest: str
) -> pa.Table:
    """The rows of a part: ids, scores (n, classes), labels (n,) with NaN for none."""
    count, width = scores.shape
    offsets = pa.array(np.arange(0, (count + 1) * width, width, dtype=np.int32))
    known = np.isfinite(scores).all(axis=1) & (card.task == "classification")
    predicted = np.where(known, scores.argmax(axis=1), 0).astype(np.int32)
    names = pa.array(card.classes or ("",), pa.string())
    said = pa.array(predicted, pa.int32(), mask=~known)
    return pa.table(
        [
            ids.cast(pa.string()),
            pa.ListArray.from_arrays(offsets, pa.array(scores.reshape(-1), pa.float32())),
            pa.array(labels, pa.float32(), mask=np.isnan(labels)),
            said,
            names.take(said),
            pa.array([digest] * count, pa.string()),
        ],
        schema=SCHEMA,
    )


@dataclass(frozen=True)
class _Version:
    """A version of the table, to commit on top of."""

    version: int
    files: Sequence[TableFile]
    token: int
    plain_log: bool


class _PredictionsFile(TableFile):
    def statistics(self) -> str:
        least: dict[str, str | float] = {"id": self.id_min}
        most: dict[str, str | float] = {"id": self.id_max}
        if self.label_min is not None and self.label_max is not None:
            least["label"], most["label"] = self.label_min, self.label_max
        nulls = {"id": 0, "label": self.rows - self.labelled}
        return json.dumps({"numRecords": self.rows, "minValues": least, "maxValues": most, "nullCount": nulls})


def standing(root: Path) -> int:
    """The table's newest version, -1 when there is no table."""
    newest = newest_version(root)
    return -1 if newest is None else newest


def commit(root: Path, ledger: Ledger, base: int, card: ModelCard, digest: str, ctx: TaskContext) -> Predictions:
    """Let the parts of the ledger be the rows of the table, by one commit; done before, it changes nothing.

    `base` is the version that the table had when the work began. Raises `TableConflict` when another program has
    written to it since.
    """
    records = list(ledger.done().values())
    root.mkdir(parents=True, exist_ok=True)
    with table_writer(root, ctx) as writer:
        version = _committed_since(root, base, ctx.transaction)
        if version is None:
            version = _commit(writer, ledger, records, base, card, ctx)
        else:
            writer.flush_log(version)
    return Predictions(
        uri=str(root),
        count=sum(record.rows for record in records),
        bytes=sum(record.bytes for record in records),
        version=version,
        model=digest,
        files=len(records),
        labelled=sum(record.labelled for record in records),
        classes=card.classes,
    )


def _commit(
    writer: TableWriter, ledger: Ledger, records: Sequence[Record], base: int, card: ModelCard, ctx: TaskContext
) -> int:
    root = writer.root
    if standing(root) < 0:
        named = {"voxelflow.classes": json.dumps(list(card.classes), ensure_ascii=False)}
        writer.create_with(Schema.from_arrow(SCHEMA), LOG_KEPT | named)
    # A kill may have left the empty table of a first attempt, version 0.
    newest = standing(root)
    if newest != max(base, 0):
        raise TableConflict(f"another program has written to the table {root}", hint="Run the node again.")
    for record in records:
        place(ledger.folder / record.file, root / record.file, "link")
    flush_many([*(root / record.file for record in records), root])
    delta = load_delta(root, newest)
    # Only the names of the files before matter: they go.
    before = tuple(TableFile(path, 0, 0, 0, 0, "", "") for path in sorted(active_paths(delta)))
    table = _Version(newest, before, delta.transaction_version(WRITER_APP_ID) or 0, has_plain_log(delta))
    ctx.commit_point("predict:before-commit")
    change = Change(adds=tuple(_file(record) for record in records), removes=before)
    version = writer.commit(table, [change], data_change=True, transaction=ctx.transaction)
    ctx.commit_point("predict:after-commit")
    return version


def _committed_since(root: Path, base: int, transaction: Transaction) -> int | None:
    """The version after `base` that carries the transaction."""
    for version in range(base + 1, standing(root) + 1):
        if any(a.get("appId") == transaction.app_id for a in actions(root, version, "txn")):
            return version
    return None


def _file(record: Record) -> TableFile:
    return _PredictionsFile(
        path=record.file,
        bytes=record.bytes,
        rows=record.rows,
        labelled=record.labelled,
        mtime_ms=record.mtime_ms,
        id_min=record.id_min,
        id_max=record.id_max,
        label_min=record.label_min,
        label_max=record.label_max,
    )


def read_predictions(predictions: Predictions, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of the version that is meant, some columns of them, a file after the other by name.

    Raises `DataError` when the table cannot be read.
    """
    root = local_folder(predictions.uri)
    for path in sorted(active_paths(load_delta(root, predictions.version))):
        try:
            with pq.ParquetFile(root / path) as file:
                yield from file.iter_batches(65_536, columns=list(columns))
        except (OSError, pa.ArrowException) as exc:
            raise DataError(
                f"{root / path} cannot be read: {exc}", hint="Run the BatchPredict that made it again."
            ) from exc


def problem_with(outputs: Mapping[str, Dataset]) -> str:
    """ "" when every table of predictions among the outputs is there with all files, else what is wrong."""
    for dataset in outputs.values():
        if not isinstance(dataset, Predictions):
            continue
        try:
            root = local_folder(dataset.uri)
            paths = active_paths(load_delta(root, dataset.version))
        except VoxelflowError as exc:
            return exc.message
        missing = next((path for path in sorted(paths) if not (root / path).exists()), None)
        if missing is not None:
            return f"{missing} of version {dataset.version} is gone from the table of predictions"
        if len(paths) != dataset.files:
            return f"the table {dataset.uri} was made anew"
    return ""
