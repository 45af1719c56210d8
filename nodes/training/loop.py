"""The training loop: epochs of steps, evaluation, figures, checkpoints.

It goes on at any step, and a training that was killed and resumed takes the same steps on the same
rows as one that was not. With several workers each runs this loop on its part of every batch: all take
the same steps, because a step ends only when every worker has taken it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from engine.declare.context import TaskContext
from engine.declare.progress import Meter, PlannedWork, current_phases
from engine.errors import Cancelled, DataError
from engine.text import plural
from nodes.loaders.interface import Batch, Loader, LoaderState
from nodes.training.checkpoints import Checkpoint, Checkpoints, is_dead
from nodes.training.evaluation import evaluate, figures_of
from nodes.training.history import Judge, Schedule, best_epoch, stops_early
from nodes.training.labels import Target
from nodes.training.learner import ALONE, NOTHING, Learner, Sums, Team
from nodes.training.usable_values import NAMED

EVERY_STEP_UNTIL = 200
"""Figures are reported for each step up to here, then ever more sparsely: curves stay about a thousand points."""
EVALUATION = "evaluation"
"""A kind of work, in volumes: those of validation and test. The other kinds are training, and saving after an epoch."""
_BACKWARD = 3.0
"""A volume in training takes about as long as so many in evaluation, until both were measured: one pass forward, and
one back that takes twice as long."""
_STEADIER = "Choose a smaller learning rate, or more warm-up steps."
_LISTED = 100
"""How many volumes of a batch the log lists when its loss is not a number."""
T = TypeVar("T")
Work = Literal["data", "compute", "checkpoint", "evaluate"]


class EpochTimes:
    """Seconds by kind of work, and the rows trained on, since they were last taken.

    They are measurements: no checkpoint holds them, and after a resume they are those of the rest of an epoch.
    `waited_s` are all seconds spent on data, since the making.
    """

    def __init__(self) -> None:
        self.waited_s = 0.0
        self._begin()

    @contextmanager
    def spent_on(self, work: Work) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self._seconds[work] += seconds
            if work == "data":
                self.waited_s += seconds

    def waiting_for(self, items: Iterable[T]) -> Iterator[T]:
        """The items; the time until each comes is spent on data."""
        source = iter(items)
        while True:
            with self.spent_on("data"):
                try:
                    item = next(source)
                except StopIteration:
                    return
            yield item

    def trained(self, rows: int) -> None:
        self._rows += rows

    def take(self) -> dict[str, float]:
        """The figures, which then begin anew: `epoch_seconds_...` and, over data and compute, `samples_per_second`."""
        figures = {f"epoch_seconds_{work}": seconds for work, seconds in self._seconds.items()}
        training = self._seconds["data"] + self._seconds["compute"]
        if self._rows and training:
            figures["samples_per_second"] = self._rows / training
        self._begin()
        return figures

    def _begin(self) -> None:
        self._seconds: dict[Work, float] = {"data": 0.0, "compute": 0.0, "checkpoint": 0.0, "evaluate": 0.0}
        self._rows = 0


@dataclass(frozen=True)
class Training:
    """What is trained on what, by whom. `epochs` counts from the very first, those of a continued training included.

    The training ends before when the validation loss has had no new low for `patience` epochs (0: never). `keep_best`
    is the figure by which the weights of the best epoch are kept; None keeps none. `tested` volumes are evaluated
    afterwards.
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
    target: Target | None = None
    tested: int = 0

    def name(self, epoch: int) -> str:
        """`Epoch 2 of 3`, of an epoch counted from 0."""
        return f"Epoch {epoch + 1} of {'at most ' if self.patience else ''}{self.epochs}"

    def work(self, begin: LoaderState) -> dict[str, PlannedWork]:
        """All the work of the training, of which what comes before `begin` is done."""
        size = self.rows.reading.batch_size
        epoch, judged = self.rows.steps * size, len(self.validation) if self.validation is not None else 0
        return {
            "training": PlannedWork(self.epochs * epoch, begin.epoch * epoch + begin.step * size, _BACKWARD),
            EVALUATION: PlannedWork(self.epochs * judged + self.tested, begin.epoch * judged),
            "saving": PlannedWork(self.epochs, begin.epoch, 0),
        }


def train(training: Training, begin: Checkpoint, checkpoints: Checkpoints, ctx: TaskContext) -> Checkpoint:
    """Train from `begin` to the last epoch's end; gives the final checkpoint, already saved.

    Its phases are the epochs, and the validation within each. Of several workers only the leading one saves; the
    checkpoint of the others has no arrays. Raises `DataError` when the loss is no longer a number, or a weight is not
    finite that would be saved, and `Cancelled` on request (after a checkpoint, so that nothing is lost).
    """
    learner, loader, leads = training.learner, training.rows, training.team.leads
    if begin.arrays:
        learner.restore(begin.arrays)
    loader.restore(begin.state)
    # What a checkpoint would hold now, without the arrays, which are fetched when it is saved.
    now = replace(begin, arrays={})
    times, phases = EpochTimes(), current_phases()
    phases.plan(training.work(begin.state))
    phases.waited = lambda: times.waited_s

    def save(best: bool = False) -> Checkpoint:
        if not leads:
            return now
        with times.spent_on("checkpoint"):
            whole = replace(now, arrays=learner.arrays())
            if is_dead(whole.arrays):
                at = f"epoch {now.state.epoch}, step {now.state.step}"
                raise DataError(
                    f"the model's weights are not finite any more after {at}", hint=_STEADIER, parameter="learning_rate"
                )
            if best:
                checkpoints.save_best(whole)
            checkpoints.save(whole)
        return whole

    saved = begin
    try:
        while now.state.epoch < training.epochs and not stops_early(now.history, training.patience):
            epoch = now.state.epoch
            label = training.name(epoch)
            size = loader.reading.batch_size
            phases.enter(label, "training", epoch * loader.steps * size)
            meter = Meter(loader.steps * size, "volumes", "", start=now.state.step * size)
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
                meter.label = f"loss {figures_of(now.sums, training.target)['loss']:.4g}"
                meter.add(size)
            meter.finish()
            figures = figures_of(now.sums, training.target)
            if training.validation is not None:
                phases.enter(f"{label}, validation", EVALUATION, epoch * len(training.validation))
                with times.spent_on("evaluate"):
                    rows = training.team.share(training.validation.reading.batch_size)
                    evaluation = evaluate(
                        learner,
                        training.validation,
                        classes=training.classes,
                        rows=rows,
                        label=f"epoch {epoch + 1}/{training.epochs}, validation",
                        target=training.target,
                    )
                figures |= {f"val_{name}": value for name, value in evaluation.figures.items()}
                earlier = [each["val_loss"] for each in now.history if "val_loss" in each]
                if leads and not math.isfinite(figures["val_loss"]) and all(map(math.isfinite, earlier)):
                    ctx.warn(f"{label}: the validation loss is not a number, though the volumes are fine. {_STEADIER}")
                now = replace(now, confusion=evaluation.confusion, roc=evaluation.roc)
            ctx.metrics(epoch + 1, **figures)
            # Before the save, whose time is reported with the next epoch: so no kill loses the times of an epoch.
            ctx.metrics(epoch + 1, **times.take())
            now = replace(now, state=loader.state(), sums=NOTHING, history=(*now.history, figures))
            by = training.keep_best
            phases.enter(f"{label}, saving", "saving", epoch)
            saved = save(best=by is not None and best_epoch(now.history, by) == epoch + 1)
            phases.advance(1)
    except Cancelled:
        save()
        raise
    phases.drop_rest("training")
    phases.drop_rest("saving")
    phases.drop_rest(EVALUATION, training.tested)
    if leads and now.state.epoch < training.epochs:
        ctx.info(
            f"stopped after epoch {now.state.epoch}:"
            f" the validation loss has had no new low for {plural(training.patience, 'epochs')}"
        )
    return saved if saved.arrays else save()


def _step(training: Training, batch: Batch, step: int, now: Checkpoint, ctx: TaskContext) -> Sums:
    rate = training.schedule.at(step, now.history)
    sums = training.learner.train(batch, learning_rate=rate, global_rows=training.rows.reading.batch_size)
    if not math.isfinite(sums.loss):
        raise _diverged(training, batch, step, now.state, ctx)
    if is_reported(step + 1):
        values = {f"step_{name}": value for name, value in figures_of(sums, training.target).items()}
        ctx.metrics(step + 1, learning_rate=rate, **values)
    return sums


def is_reported(step: int) -> bool:
    """Whether the figures of a step, counted from 1, are reported: each, then each 10th, 100th, ..."""
    apart = 1
    while step > EVERY_STEP_UNTIL * apart:
        apart *= 10
    return step % apart == 0


def _diverged(training: Training, batch: Batch, step: int, at: LoaderState, ctx: TaskContext) -> DataError:
    # The volumes were looked at before the step (`usable_values.checked`).
    every = _ids(training.rows, batch, at)
    more = f" and {len(every) - NAMED:,} more" if len(every) > NAMED else ""
    ctx.warn(f"the volumes of step {step + 1}: {', '.join(every[:_LISTED])}{' ...' if len(every) > _LISTED else ''}")
    return DataError(
        f"the loss at step {step + 1} is not a number any more, though the volumes are fine"
        f" ({', '.join(every[:NAMED])}{more})",
        hint=_STEADIER,
        parameter="learning_rate",
    )


def _ids(loader: Loader, batch: Batch, at: LoaderState) -> list[str]:
    """The ids of the volumes of the global batch `at`, of which `batch` is this process' part."""
    if loader.reading.ranks > 1:
        whole = loader.source.loader(loader.chosen, replace(loader.reading, rank=0, ranks=1))
        whole.restore(at)
        batch = next(whole.batches())
    return loader.source.ids(batch.rows)
