"""The training loop: epochs of steps, evaluation, figures, checkpoints.

It goes on at any step, and a training that was killed and resumed takes the same steps on the same
rows as one that was not. With several workers each runs this loop on its part of every batch: all take
the same steps, because a step ends only when every worker has taken it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine.context import TaskContext
from engine.errors import Cancelled, DataError
from engine.progress import Meter
from nodes.loaders.interface import Batch, Loader, LoaderState
from nodes.training.checkpoints import Checkpoint, Checkpoints
from nodes.training.learning_rate import Schedule
from nodes.training.objective import CLASSIFICATION, Objective
from nodes.training.running_sums import NOTHING, Sums
from nodes.training.team import ALONE, Team

if TYPE_CHECKING:
    from nodes.training.learner import Learner

EVERY_STEP_UNTIL = 200
"""Figures are told for each step up to here, then ever more sparsely: curves stay about a thousand points."""


@dataclass(frozen=True)
class Training:
    """What is trained on what, by whom. `epochs` counts from the very first, those of a continued training included."""

    learner: Learner
    rows: Loader
    validation: Loader | None
    epochs: int
    schedule: Schedule
    team: Team = ALONE
    objective: Objective = CLASSIFICATION


def train(training: Training, begin: Checkpoint, checkpoints: Checkpoints, ctx: TaskContext) -> Checkpoint:
    """Train from `begin` to the last epoch's end; gives the final checkpoint, already saved.

    Of several workers only the leading one saves; the checkpoint of the others has no arrays. Raises
    `DataError` when the loss is no longer a number, `Cancelled` on request (after a checkpoint, so
    that nothing is lost).
    """
    learner, loader = training.learner, training.rows
    if begin.arrays:
        learner.restore(begin.arrays)
    loader.restore(begin.state)
    # What a checkpoint would hold now, without the arrays, which are fetched when it is saved.
    now = replace(begin, arrays={})

    def save() -> Checkpoint:
        if not training.team.leads:
            return now
        whole = replace(now, arrays=learner.arrays())
        checkpoints.save(whole)
        return whole

    saved = begin
    try:
        while now.state.epoch < training.epochs:
            epoch = now.state.epoch
            label = f"epoch {epoch + 1}/{training.epochs}"
            size = loader.reading.batch_size
            meter = Meter(loader.steps * size, "volumes", label, start=now.state.step * size)
            for batch in loader.batches():
                step = epoch * loader.steps + now.state.step
                sums = _step(training, batch, step, ctx)
                now = replace(now, state=loader.state(), sums=now.sums + sums)
                if training.team.leads and checkpoints.due():
                    saved = save()
                ctx.commit_point("train:step")
                meter.add(size)
            meter.finish()
            figures = _figures(training, now.sums, label)
            ctx.metrics(epoch + 1, **figures)
            now = replace(now, state=loader.state(), sums=NOTHING, history=(*now.history, figures))
            saved = save()
    except Cancelled:
        save()
        raise
    return saved if saved.arrays else save()


def _step(training: Training, batch: Batch, step: int, ctx: TaskContext) -> Sums:
    rate = training.schedule.at(step)
    sums = training.learner.train(batch, learning_rate=rate, global_rows=training.rows.reading.batch_size)
    if not math.isfinite(sums.loss):
        raise _not_finite(training, batch, step)
    if is_told(step + 1):
        values = {f"step_{name}": value for name, value in training.objective.figures(sums).items()}
        ctx.metrics(step + 1, learning_rate=rate, **values)
    return sums


def _figures(training: Training, sums: Sums, label: str) -> dict[str, float]:
    """An epoch's figures, those of the validation rows as val_loss and so on."""
    figures = training.objective.figures(sums)
    loader = training.validation
    if loader is not None:
        loader.restore(LoaderState(loader.reading.seed))
        total = NOTHING
        meter = Meter(len(loader), "volumes", f"{label}, validation")
        for batch in loader.batches():
            sums = training.learner.evaluate(batch, rows=training.team.share(loader.reading.batch_size))
            total += sums
            meter.add(sums.rows)
        meter.finish()
        figures |= {f"val_{name}": value for name, value in training.objective.figures(total).items()}
    return figures


def is_told(step: int) -> bool:
    """Whether the figures of a step, counted from 1, are reported: each, then each 10th, 100th, ..."""
    apart = 1
    while step > EVERY_STEP_UNTIL * apart:
        apart *= 10
    return step % apart == 0


def _not_finite(training: Training, batch: Batch, step: int) -> DataError:
    loader = training.rows
    if loader.reading.ranks > 1:
        # The loss is everybody's, so the volume to blame may be another worker's: look at the whole batch.
        whole = loader.source.loader(loader.chosen, replace(loader.reading, rank=0, ranks=1))
        whole.restore(LoaderState(loader.reading.seed, *divmod(step, loader.steps)))
        batch = next(whole.batches())
    bad = [row for row, volume in zip(batch.rows, batch.volumes, strict=True) if not np.isfinite(volume).all()]
    if bad:
        names = ", ".join(training.rows.source.ids(bad[:3]))
        return DataError(
            f"the loss at step {step + 1} is not a number: {names} {'holds' if len(bad) == 1 else 'hold'} values"
            " that are not finite",
            hint="Convert the volumes again with not_finite set to quarantine, or mend them.",
        )
    return DataError(
        f"the loss at step {step + 1} is not a number any more, though the volumes are fine",
        hint="Choose a smaller learning rate, or more warm-up steps.",
        parameter="learning_rate",
    )
