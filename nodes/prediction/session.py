"""The work of `BatchPredict`: plan the parts, have those made that are not done, and commit them all at once.

Parts are made by whatever `make` is: this process (`make_here`), or processes on Spark's executors. A killed
prediction goes on with the parts that have no record; the table changes by one commit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.context import TaskContext
from engine.datasets import Dataset, Predictions, TrainedModel
from engine.errors import ExecutionError
from engine.progress import Meter
from nodes.durable_files import flush
from nodes.loaders.row_groups import RowGroupSource
from nodes.prediction.latency import figures
from nodes.prediction.ledger import Ledger
from nodes.prediction.model_card import ModelCard, read_card
from nodes.prediction.opened_rows import OpenedRows, open_rows
from nodes.prediction.part_work import Division, PartWork
from nodes.prediction.predictions_table import commit, standing
from nodes.training.leases import held

TABLE, FIGURES = "predictions", "latency.json"


@dataclass(frozen=True)
class Prediction:
    """What is to be predicted, and where its parts are kept."""

    data: Dataset
    card: ModelCard
    digest: str
    division: Division
    opened: OpenedRows
    ledger: Ledger

    def identity(self) -> str:
        """Hash of all that decides rows, scores and parts."""
        fixed = [
            self.data.model_dump(mode="json"),
            self.digest,
            list(self.card.classes),
            self.division.batch_size,
            self.division.rows,
            self.opened.identity(),
        ]
        return hashlib.blake2b(json.dumps(fixed).encode(), digest_size=16).hexdigest()

    @property
    def count(self) -> int:
        return len(self.opened.rows)

    def missing(self) -> list[int]:
        done = self.ledger.done()
        return [number for number in range(self.division.parts(self.count)) if number not in done]

    def size(self, numbers: Sequence[int]) -> int:
        """The volumes in these parts."""
        return sum(self.division.size(self.count, number) for number in numbers)


MakeParts = Callable[[Prediction, Sequence[int], TaskContext, Meter], None]
"""Makes these parts. The meter is to be moved on by every volume."""


def make_here(prediction: Prediction, numbers: Sequence[int], ctx: TaskContext, meter: Meter) -> None:
    """Make parts in this process, with all its cores."""
    from nodes.prediction.predictor import Predictor
    from nodes.training.tensorflow_setup import configure

    for problem in configure(cores=ctx.resources.cores, deterministic=True, seed=0):
        ctx.warn(problem)
    predictor = Predictor(prediction.card, prediction.division.batch_size)
    predictor.warm_up()
    work = PartWork(
        prediction.opened,
        prediction.division,
        prediction.card,
        prediction.digest,
        prediction.ledger,
        predictor.scores,
        ctx.commit_point,
    )
    work(numbers, meter.add)


def predict(
    model: TrainedModel,
    data: Dataset,
    *,
    batch_size: int,
    rows_per_part: int,
    ctx: TaskContext,
    make: MakeParts = make_here,
) -> Predictions:
    """Do all of the node's work. Raises `DataError` for data that does not fit the model."""
    card = read_card(Path(model.uri))
    digest = card.digest()
    root = ctx.out / TABLE
    with held(ctx, data), open_rows(data, card, cores=ctx.resources.cores) as opened:
        ledger = Ledger(ctx.scratch / "prediction")
        prediction = Prediction(data, card, digest, Division.of(batch_size, rows_per_part), opened, ledger)
        plan = ledger.begin(prediction.identity(), lambda: standing(root))
        missing = prediction.missing()
        _remark(prediction, missing, ctx)
        meter = Meter(prediction.count, "volumes", "predicting", prediction.count - prediction.size(missing))
        if missing:
            make(prediction, missing, ctx, meter)
        meter.finish()
        if left := prediction.missing():
            raise ExecutionError(
                f"{len(left):,} parts of the prediction were not made",
                hint=f"`voxelflow runs resume {ctx.run_id}` goes on with them.",
            )
    records = list(ledger.done().values())
    if not_finite := sum(record.not_finite for record in records):
        ctx.warn(
            f"{not_finite:,} volumes have scores that are not finite, and no predicted class:"
            " they hold values that are not finite, or far from those of the training"
        )
    took = figures(records)
    made = commit(root, ledger, plan.base, card, digest, ctx)
    unlabelled = made.count - made.labelled
    ctx.facts(volumes=made.count, labelled=made.labelled, unlabelled=unlabelled, model=digest, **took)
    ctx.artifact("file", _write_figures(ctx.out / FIGURES, made, took))
    return made


def _remark(prediction: Prediction, missing: Sequence[int], ctx: TaskContext) -> None:
    opened = prediction.opened
    if isinstance(opened.source, RowGroupSource):
        ctx.warn(f"{opened.source.reason}; reading is slower. OptimizeDelta gives the faster layout.")
    if opened.strange:
        ctx.warn(f"{opened.strange:,} volumes have a label of a class that the model does not know")
    done = prediction.count - prediction.size(missing)
    if done:
        ctx.info(f"{done:,} of {prediction.count:,} volumes were predicted before")


def _write_figures(path: Path, made: Predictions, took: dict[str, float]) -> Path:
    partial = path.with_name(f".{path.name}")
    values = {"volumes": made.count, "labelled": made.labelled, "model": made.model} | took
    partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    flush([partial])
    partial.replace(path)
    return path
