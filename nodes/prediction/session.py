"""The work of `BatchPredict`: plan the parts, have those made that are not done, and commit them all at once.

Parts are made by `make`: in this process (`make_here`), or by processes on Spark's executors. A killed
prediction continues with the parts that have no record; the table changes by one commit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Predictions, TrainedModel
from engine.declare.progress import Meter, PlannedWork, current_phases, enter_phase
from engine.storage.files import write_whole
from engine.text import plural
from nodes.loaders.row_groups import FASTER, RowGroupSource
from nodes.prediction.inputs import ModelCard, OpenedRows, as_trained, open_rows, read_card
from nodes.prediction.parts import Division, Ledger, PartWork, latency
from nodes.prediction.predictions_table import commit
from nodes.prediction.table_folder import ChosenTable, choose_table, clear_others
from nodes.prediction.unlike import unlike_rows
from nodes.table.commit import Committer
from nodes.training.learner import framework_named, starting
from nodes.training.rows import leased

FIGURES = "latency.json"
_VOLUMES = "volumes"
"""The kind of work of which the time left is counted."""


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
            # Not where it lies: the workspace may be moved between a kill and the resume.
            self.data.model_dump(mode="json", exclude={"uri", "manifest"}),
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

    def make(
        self,
        numbers: Sequence[int],
        cores: int,
        warn: Callable[[str], None],
        on_rows: Callable[[int], None],
        commit_point: Callable[[str], None],
    ) -> None:
        """Load the model in this process, which uses so many cores, and make these parts.

        `on_rows` gets the rows of every batch. Raises `DataError` when the model cannot be loaded.
        """
        framework = framework_named(self.card.framework)
        for problem in framework.set_up(cores=cores, deterministic=True, seed=0):
            warn(problem)
        batch_size = self.division.batch_size
        predictor = framework.predictor(self.card.file, self.card.shape, self.card.scores, batch_size)
        predictor.warm_up()
        begin_predicting()
        scores = predictor.scores
        PartWork(self.opened, self.division, self.card, self.digest, self.ledger, scores, commit_point)(
            numbers, on_rows
        )

    def size(self, numbers: Sequence[int]) -> int:
        """The volumes in these parts."""
        return sum(self.division.size(self.count, number) for number in numbers)


def begin_predicting() -> None:
    """Name the phase in which volumes are counted."""
    current_phases().enter("Predicting", _VOLUMES)


MakeParts = Callable[[Prediction, Sequence[int], TaskContext, Meter], None]
"""Makes these parts. The meter is to count every volume."""


def make_here(prediction: Prediction, numbers: Sequence[int], ctx: TaskContext, meter: Meter) -> None:
    """Make parts in this process, with all its cores."""
    prediction.make(numbers, ctx.resources.cores, ctx.warn, meter.add, ctx.commit_point)


def predict(
    model: TrainedModel,
    data: Dataset,
    division: Division,
    ctx: TaskContext,
    make: MakeParts = make_here,
    committer: Committer | None = None,
) -> Predictions:
    """Do all of the node's work; `committer` makes the table's commits.

    Raises `DataError` for data that does not fit the model.
    """
    with current_phases().reporting():
        return _predict(model, data, division, ctx, make, committer)


def _predict(
    model: TrainedModel,
    data: Dataset,
    division: Division,
    ctx: TaskContext,
    make: MakeParts,
    committer: Committer | None,
) -> Predictions:
    card = read_card(Path(model.uri))
    digest = card.digest()
    enter_phase("Opening the volumes")
    with leased(ctx, data), _opened(data, card, ctx) as (data, opened):
        ledger = Ledger(ctx.scratch / "prediction")
        prediction = Prediction(data, card, digest, division, opened, ledger)
        plan = ledger.begin(prediction.identity(), lambda: _choose_table(ctx))
        missing = prediction.missing()
        _report_start(prediction, missing, ctx)
        done = prediction.count - prediction.size(missing)
        current_phases().plan({_VOLUMES: PlannedWork(prediction.count, done)})
        meter = Meter(prediction.count, "volumes", "", done)
        if missing:
            if odd := unlike_rows(opened, card):
                ctx.warn(odd.line())
            enter_phase(starting(framework_named(card.framework)))
            make(prediction, missing, ctx, meter)
        meter.finish()
        # Read once: what is counted here is what becomes the table.
        hint = f"`voxelflow runs resume {ctx.run_id}` goes on with them."
        records = ledger.complete(division.parts(prediction.count), hint=hint)
    if not_finite := sum(record.not_finite for record in records):
        ctx.warn(
            f"{plural(not_finite, 'volumes')} with scores that are not finite, and no predicted class: their values are"
            " not finite, or far from those of the training"
        )
    took = latency(records)
    enter_phase("Writing the table")
    made = commit(ctx.out / plan.table, ledger, records, plan.base, card, digest, ctx, committer)
    clear_others(ctx.out, plan.table)
    unlabelled = made.count - made.labelled
    ctx.facts(volumes=made.count, labelled=made.labelled, unlabelled=unlabelled, model=digest, **took)
    ctx.artifact("file", _write_figures(ctx.out / FIGURES, made, took))
    return made


@contextmanager
def _opened(data: Dataset, card: ModelCard, ctx: TaskContext) -> Iterator[tuple[Dataset, OpenedRows]]:
    """The volumes as the model takes them, and their rows."""
    data = as_trained(data, card, ctx.scratch / "rows.arrow", ctx.warn)
    with open_rows(data, card, cores=ctx.resources.cores) as opened:
        yield data, opened


def _choose_table(ctx: TaskContext) -> ChosenTable:
    chosen = choose_table(ctx.out)
    if chosen.damage:
        ctx.warn(f"{chosen.damage}: the predictions get a table of their own in {ctx.out / chosen.table}")
    return chosen


def _report_start(prediction: Prediction, missing: Sequence[int], ctx: TaskContext) -> None:
    opened = prediction.opened
    if isinstance(opened.source, RowGroupSource):
        ctx.warn(f"{opened.source.reason}; reading is slower. {FASTER}")
    if opened.unknown:
        ctx.warn(f"{plural(opened.unknown, 'volumes')} with a label of a class that the model does not know")
    done = prediction.count - prediction.size(missing)
    if done:
        ctx.info(f"predicted before: {done:,} of {plural(prediction.count, 'volumes')}")


def _write_figures(path: Path, made: Predictions, took: dict[str, float]) -> Path:
    values = {"volumes": made.count, "labelled": made.labelled, "model": made.model} | took
    write_whole(path, json.dumps(values, indent=2) + "\n", durable=True)
    return path
