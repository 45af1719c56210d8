"""The training loop: epochs of steps, evaluation, figures, checkpoints.

It goes on at any step, and a training that was killed and resumed takes the same steps on the same
rows as one that was not. With several workers each runs this loop on its part of every batch: all take
the same steps, because a step ends only when every worker has taken it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.context import TaskContext
from engine.errors import Cancelled, DataError
from engine.progress import Meter
from nodes.loaders.interface import Batch, Loader, LoaderState
from nodes.training.checkpoints import Checkpoint, Checkpoints
from nodes.training.epoch_times import EpochTimes
from nodes.training.evaluation import NAMED, evaluate, not_finite, values_error
from nodes.training.history import Judge, best_epoch, stops_early
from nodes.training.learning_rate import Schedule
from nodes.training.objective import CLASSIFICATION, Objective
from nodes.training.running_sums import NOTHING, Sums
from nodes.training.team import ALONE, Team

if TYPE_CHECKING:
    from nodes.training.learner import Learner

EVERY_STEP_UNTIL = 200
"""Figures are told for each step up to here, then ever more sparsely: curves stay about a thousand points."""
_LISTED = 100
"""So many volumes of a batch stand in the log when its loss is not a number."""


@dataclass(frozen=True)
class Training:
    """What is trained on what, by whom. `epochs` counts from the very first, those of a continued training included.

    The training ends before when the validation loss has had no new low for `patience` epochs (0: never). `keep_best`
    is the figure by which the weights of the best epoch are kept; None keeps none.
    """

    learner: Learner
    rows: Loader
    validation: Loader | None
    epochs: int
    schedule: Schedule
    classes: int = 2
    patience: int = 0
    keep_best: Judge | None = None
    team: Team = ALONE
    objective: Objective = CLASSIFICATION


def train(training: Training, begin: Checkpoint, checkpoints: Checkpoints, ctx: TaskContext) -> Checkpoint:
    """Train from `begin` to the last epoch's end; gives the final checkpoint, already saved.

    Of several workers only the leading one saves; the checkpoint of the others has no arrays. Raises
    `DataError` when the loss is no longer a number, `Cancelled` on request (after a checkpoint, so
    that nothing is lost).
    """
    learner, loader, leads = training.learner, training.rows, training.team.leads
    if begin.arrays:
        learner.restore(begin.arrays)
    loader.restore(begin.state)
    # What a checkpoint would hold now, without the arrays, which are fetched when it is saved.
    now = replace(begin, arrays={})
    times = EpochTimes()

    def save(best: bool = False) -> Checkpoint:
        if not leads:
            return now
        with times.spent_on("checkpoint"):
            whole = replace(now, arrays=learner.arrays())
            if best:
                checkpoints.save_best(whole)
            checkpoints.save(whole)
        return whole

    saved = begin
    try:
        while now.state.epoch < training.epochs and not stops_early(now.history, training.patience):
            epoch = now.state.epoch
            label = f"epoch {epoch + 1}/{training.epochs}"
            size = loader.reading.batch_size
            meter = Meter(loader.steps * size, "volumes", label, start=now.state.step * size)
            for batch in times.waiting_for(loader.batches()):
                step = epoch * loader.steps + now.state.step
                with times.spent_on("compute"):
                    sums = _step(training, batch, step, now, ctx)
                times.trained(size)
                now = replace(now, state=loader.state(), sums=now.sums + sums)
                requested = leads and ctx.save_requested()
                if requested or (leads and checkpoints.due(step + 1)):
                    saved = save()
                if requested:
                    ctx.info(f"saved on request after epoch {epoch}, step {now.state.step}")
                ctx.commit_point("train:step")
                meter.label = f"{label}, loss {training.objective.figures(now.sums)['loss']:.4g}"
                meter.add(size)
            meter.finish()
            figures = training.objective.figures(now.sums)
            if training.validation is not None:
                with times.spent_on("evaluate"):
                    rows = training.team.share(training.validation.reading.batch_size)
                    seen = evaluate(
                        learner,
                        training.validation,
                        classes=training.classes,
                        rows=rows,
                        label=f"{label}, validation",
                        objective=training.objective,
                    )
                figures |= {f"val_{name}": value for name, value in seen.figures.items()}
                now = replace(now, confusion=seen.confusion)
            ctx.metrics(epoch + 1, **figures)
            # Before the save, whose time is told with the next epoch: so no kill loses the times of an epoch.
            ctx.metrics(epoch + 1, **times.told())
            now = replace(now, state=loader.state(), sums=NOTHING, history=(*now.history, figures))
            by = training.keep_best
            saved = save(best=by is not None and best_epoch(now.history, by) == epoch + 1)
    except Cancelled:
        save()
        raise
    if leads and now.state.epoch < training.epochs:
        ctx.info(
            f"stopped after epoch {now.state.epoch}:"
            f" the validation loss has had no new low for {training.patience} epochs"
        )
    return saved if saved.arrays else save()


def _step(training: Training, batch: Batch, step: int, now: Checkpoint, ctx: TaskContext) -> Sums:
    rate = training.schedule.at(step, now.history)
    sums = training.learner.train(batch, learning_rate=rate, global_rows=training.rows.reading.batch_size)
    if not math.isfinite(sums.loss):
        raise _diverged(training, batch, step, now.state, ctx)
    if is_told(step + 1):
        values = {f"step_{name}": value for name, value in training.objective.figures(sums).items()}
        ctx.metrics(step + 1, learning_rate=rate, **values)
    return sums


def is_told(step: int) -> bool:
    """Whether the figures of a step, counted from 1, are reported: each, then each 10th, 100th, ..."""
    apart = 1
    while step > EVERY_STEP_UNTIL * apart:
        apart *= 10
    return step % apart == 0


def _diverged(training: Training, batch: Batch, step: int, at: LoaderState, ctx: TaskContext) -> DataError:
    bad, every = not_finite(training.rows, batch, at)
    what = f"the loss at step {step + 1} is not a number"
    if bad:
        return values_error(what, bad)
    more = f" and {len(every) - NAMED:,} more" if len(every) > NAMED else ""
    ctx.warn(f"the volumes of step {step + 1}: {', '.join(every[:_LISTED])}{' ...' if len(every) > _LISTED else ''}")
    return DataError(
        f"{what} any more, though the volumes are fine ({', '.join(every[:NAMED])}{more})",
        hint="Choose a smaller learning rate, or more warm-up steps.",
        parameter="learning_rate",
    )
