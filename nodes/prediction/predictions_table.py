"""The Delta table of predictions: one row per volume.

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
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from numpy.typing import NDArray

from engine.declare.context import TaskContext, Transaction
from engine.declare.datasets import Dataset, Predictions
from engine.errors import DataError, TableConflict, VoxelflowError
from engine.storage.files import flush_many, size_problem
from engine.storage.hard_link import link_or_copy
from engine.storage.io_errors import OUT_OF_RESOURCES, number_of
from nodes.prediction.inputs import ModelCard
from nodes.prediction.parts import SCHEMA, Ledger, Record
from nodes.prediction.table_folder import version_of
from nodes.table.commit import LOG_KEPT, TASK_NOTE, Committer, TableWriter, table_writer
from nodes.table.constraints import NewRows, count_here, refuse_removals, refuse_violations
from nodes.table.features import CommitRules, commit_rules, refuse_features
from nodes.table.log import actions, note_of
from nodes.table.log_writer import Change
from nodes.table.snapshot import (
    TableFile,
    active_paths,
    active_sizes,
    last_token,
    load_delta,
    local_folder,
    logged_sizes,
    spelling_of,
)


@dataclass(frozen=True)
class _Version:
    """A version of the table, to commit on top of."""

    version: int
    files: Sequence[TableFile]
    token: int
    rules: CommitRules


class _PredictionsFile(TableFile):
    def statistics(self) -> str:
        least: dict[str, str | float] = {"id": self.id_min}
        most: dict[str, str | float] = {"id": self.id_max}
        if self.label_min is not None and self.label_max is not None:
            least["label"], most["label"] = self.label_min, self.label_max
        nulls = {"id": 0, "label": self.rows - self.labelled}
        return json.dumps(
            {"numRecords": self.rows, "minValues": least, "maxValues": most, "nullCount": nulls}, ensure_ascii=False
        )


def commit(
    root: Path,
    ledger: Ledger,
    records: Sequence[Record],
    base: int,
    card: ModelCard,
    digest: str,
    ctx: TaskContext,
    committer: Committer | None = None,
) -> Predictions:
    """Let the ledger's parts with these records, all of them, be the rows of the table, by one commit; done before, it
    changes nothing.

    `base` is the version that the table had when the work began. Raises `TableConflict` when another program has
    written to it since.
    """
    root.mkdir(parents=True, exist_ok=True)
    with table_writer(root, ctx, committer) as writer:
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
    if version_of(root) < 0:
        named = {"voxelflow.classes": json.dumps(list(card.classes), ensure_ascii=False)}
        writer.create_with(Schema.from_arrow(SCHEMA), LOG_KEPT | named)
    # A kill may have left the empty table of a first attempt, version 0.
    newest = version_of(root)
    if newest != max(base, 0):
        raise TableConflict(f"another program has written to the table {root}", hint="Run the node again.")
    delta = load_delta(root, newest)
    refuse_features(delta, root, SCHEMA.names)
    rules = commit_rules(delta, root)
    writer.check(rules)
    # Only names and sizes of the files before matter: they go.
    before = tuple(_removed(*file) for file in sorted(logged_sizes(delta).items()))
    refuse_removals(root, delta.metadata().configuration, len(before))
    _refuse_violations(root, delta, ledger, records, ctx)
    for record in records:
        link_or_copy(ledger.folder / record.file, root / record.file, "link")
    flush_many([*(root / record.file for record in records), root])
    table = _Version(newest, before, last_token(delta, writer.place), rules)
    ctx.commit_point("predict:before-commit")
    change = Change(adds=tuple(_file(record) for record in records), removes=before)
    version = writer.commit(table, [change], data_change=True, transaction=ctx.transaction)
    ctx.commit_point("predict:after-commit")
    return version


def _refuse_violations(
    root: Path, delta: DeltaTable, ledger: Ledger, records: Sequence[Record], ctx: TaskContext
) -> None:
    """Somebody may have given the table constraints since its first rows came."""
    optional = {field.name for field in SCHEMA if field.nullable}
    if all(record.labelled == record.rows for record in records):
        optional.discard("label")
    columns = delta.schema()
    # Columns that somebody added are null in every row of ours.
    optional |= {field.name for field in columns.fields} - set(SCHEMA.names)
    paths = [ledger.folder / record.file for record in records]
    new = NewRows(paths, sum(record.rows for record in records), optional)
    refuse_violations(root, columns, delta.metadata().configuration, new, ctx, count_here)


def _committed_since(root: Path, base: int, transaction: Transaction) -> int | None:
    """The version after `base` that the task made."""
    for version in range(base + 1, version_of(root) + 1):
        # Version 0.1 noted the task as a transaction.
        noted = (note_of(action, TASK_NOTE) for action in actions(root, version, "commitInfo"))
        known = (action.get("appId") for action in actions(root, version, "txn"))
        if transaction.app_id in (*noted, *known):
            return version
    return None


def _removed(logged: str, size: int) -> TableFile:
    path = unquote(logged)
    return TableFile(path, size, 0, 0, 0, "", "", spelling=spelling_of(logged, path))


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

    Raises `DataError` when the table cannot be read, `UnsupportedTable` when its files are not to be read
    as they are.
    """
    root = local_folder(predictions.uri)
    delta = load_delta(root, predictions.version)
    refuse_features(delta, root, columns)
    for path in sorted(active_paths(delta)):
        try:
            with pq.ParquetFile(root / path, page_checksum_verification=True) as file:
                yield from file.iter_batches(65_536, columns=list(columns))
        except (OSError, pa.ArrowException) as exc:
            raise DataError(
                f"{root / path} cannot be read: {exc}", hint="Run the BatchPredict that made it again."
            ) from exc


def read_scores(predictions: Predictions) -> Iterator[tuple[pa.Array, NDArray[np.float32], NDArray[np.float64]]]:
    """Ids, scores float32 (n, width) and labels float64 (n,; NaN for none), batch by batch.

    `width` is how many classes there are, 1 for a regression. Raises `DataError`.
    """
    width = len(predictions.classes) or 1
    for batch in read_predictions(predictions, ("id", "scores", "label")):
        flat = batch.column("scores").flatten().to_numpy(zero_copy_only=False)
        if len(flat) != batch.num_rows * width:
            raise DataError(f"{predictions.uri} has rows without {width} scores", hint="Run BatchPredict again.")
        labels = batch.column("label").to_numpy(zero_copy_only=False).astype(np.float64)
        yield batch.column("id"), flat.reshape(-1, width), labels


def problem_with(outputs: Mapping[str, Dataset]) -> str:
    """Empty when every table of predictions among the outputs is there with all files, else what is wrong."""
    for dataset in outputs.values():
        if not isinstance(dataset, Predictions):
            continue
        try:
            root = local_folder(dataset.uri)
            sizes = active_sizes(load_delta(root, dataset.version))
        except VoxelflowError as exc:
            if number_of(exc) in OUT_OF_RESOURCES:
                raise
            return exc.message
        found = ((path, size_problem(root / path, size)) for path, size in sorted(sizes.items()))
        damage = next((f"{path} of version {dataset.version} {problem}" for path, problem in found if problem), "")
        if damage:
            return f"{damage}, in the table of predictions"
        if len(sizes) != dataset.files:
            return f"the table {dataset.uri} was made anew"
    return ""
