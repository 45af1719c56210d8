"""What is known before the first step, without a framework: the rows, their classes, and where to begin."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset
from engine.errors import UsageError
from engine.text import plural
from nodes.loaders.interface import Loader, LoaderState, Reading
from nodes.training.checkpoints import Checkpoint, Checkpoints, Torn, read
from nodes.training.history import best_epoch
from nodes.training.labels import NO_CLASSES, Classes, Target, find_classes, find_target, validation_remarks
from nodes.training.leakage import Part
from nodes.training.learner import ALONE, Team
from nodes.training.normalisation import measure
from nodes.training.rows import open_parts
from nodes.training.settings import Settings
from nodes.training.trained_model import BEST, STATE


@dataclass(frozen=True)
class Prepared:
    """A training before its first step. `loader` and `validation` read the part of worker `team.rank`.

    `test` reads all test volumes: the leading worker tests alone, with the model that is published.
    A regression has a `target` and no classes.
    """

    data: Dataset
    validation_data: Dataset | None
    settings: Settings
    team: Team
    rows: Part
    held_out: Part | None
    classes: Classes
    target: Target | None
    loader: Loader
    validation: Loader | None
    test_data: Dataset | None = None
    test: Loader | None = None

    @property
    def identity(self) -> str:
        """Hash of all that must be equal for a training state to be gone on from. Workers do not enter it."""
        fixed = {name: value for name, value in self.settings.deciding().items() if name != "epochs"}
        text = json.dumps([fixed, len(self.classes), self.rows.source.order_identity])
        digest = hashlib.blake2b(text.encode(), digest_size=16)
        digest.update(self.rows.rows.tobytes())
        if self.held_out is not None:
            digest.update(self.held_out.source.rows.identity().encode() + self.held_out.rows.tobytes())
        return digest.hexdigest()

    def checkpoints(self, ctx: TaskContext) -> Checkpoints:
        return Checkpoints(
            ctx.scratch,
            self.identity,
            every_s=self.settings.checkpoint_every_s,
            every_steps=self.settings.checkpoint_every_steps,
            kept=self.settings.keep_checkpoints,
            best_by=self.settings.best_by,
            commit_point=ctx.commit_point,
        )

    def begin(self, checkpoints: Checkpoints, ctx: TaskContext) -> Checkpoint:
        """The newest checkpoint, the state of a finished training, or the very start.

        A training that was finished and has lost some of its files needs no step again, while its state is whole.
        """
        return (
            checkpoints.newest(ctx.warn)
            or self._finished(checkpoints, ctx)
            or self._shorter(checkpoints, ctx)
            or self._first(ctx)
        )

    def _finished(self, checkpoints: Checkpoints, ctx: TaskContext) -> Checkpoint | None:
        if not (ctx.out / STATE).is_file():
            return None
        try:
            state = read(ctx.out / STATE, self.identity)
            if self.settings.keep == "best" and best_epoch(state.history, self.settings.best_by):
                checkpoints.take_over_best(ctx.out / BEST, state)
        except Torn as exc:
            ctx.info(f"the model that was here is trained again ({exc})")
            return None
        checkpoints.take_over(ctx.out / STATE, state)
        return state

    def _shorter(self, checkpoints: Checkpoints, ctx: TaskContext) -> Checkpoint | None:
        result = ctx.extends.get("out")
        if result is None:
            return None
        try:
            state = read(Path(result.uri) / STATE, self.identity)
            if self.settings.keep == "best" and best_epoch(state.history, self.settings.best_by):
                checkpoints.take_over_best(Path(result.uri) / BEST, state)
        except Torn as exc:
            ctx.warn(f"the shorter training cannot be continued, this one begins anew ({exc})")
            return None
        # One that ended early takes no further step, so this is the state that is published.
        checkpoints.take_over(Path(result.uri) / STATE, state)
        return state

    def _first(self, ctx: TaskContext) -> Checkpoint:
        measured = measure(self.rows.source, self.rows.rows)
        if measured.constant:
            channels = ", ".join(map(str, measured.constant[:10]))
            ctx.warn(f"channels without any spread among {measured.rows:,} volumes: {channels}")
        return Checkpoint(LoaderState(self.settings.seed), {}, measured.mean, measured.variance)


@contextmanager
def prepare(
    data: Dataset,
    validation: Dataset | None,
    settings: Settings,
    ctx: TaskContext,
    team: Team = ALONE,
    test: Dataset | None = None,
) -> Iterator[Prepared]:
    """Open the data; it is closed at the end. Raises `DataError` for data that cannot be trained on."""
    share = settings.validation_share
    opening = open_parts(
        data,
        validation,
        test,
        loader=settings.loader,
        share=share,
        group=settings.validation_group,
        ctx=ctx,
        verify=settings.verify,
        task=settings.task,
    )
    with opening as parts:
        rows, held_out = parts.training, parts.validation
        wanted = settings.judged_by_validation
        if held_out is None and wanted:
            raise UsageError(
                f"{wanted} is decided by validation volumes, and there are none",
                hint="Raise validation_share, or wire labelled volumes to validation.",
                parameter=wanted,
            )
        others = [part.labels for part in (held_out, parts.test) if part is not None]
        labels = np.concatenate([np.empty(0, np.float32), *others])
        classes, target = _answers(rows, labels, settings, data.uri)
        for remark in (*classes.remarks(), *(validation_remarks(classes, held_out.labels) if held_out else ())):
            ctx.warn(remark)
        loader = rows.source.loader(rows.rows, _reading(settings, team, training=True))
        if settings.steps_per_epoch > loader.steps:
            ctx.warn(
                f"an epoch has {plural(loader.steps, 'steps')}, fewer than the {settings.steps_per_epoch:,} wanted"
            )
        yield Prepared(
            data,
            validation,
            settings,
            team,
            rows,
            held_out,
            classes,
            target,
            loader,
            held_out.source.loader(held_out.rows, _reading(settings, team, training=False)) if held_out else None,
            test,
            parts.test.source.loader(parts.test.rows, Reading(team.share(settings.batch_size), training=False))
            if parts.test
            else None,
        )


def _answers(rows: Part, others: NDArray[np.float32], settings: Settings, where: str) -> tuple[Classes, Target | None]:
    """What the labels mean: the classes, or the numbers that a regression learns. `others` are those not trained on."""
    if settings.task == "regression":
        if settings.for_classes_only:
            raise UsageError(
                f"{settings.for_classes_only} is for classes, and a regression has none",
                hint="Leave it as it was, or set task to classification.",
                parameter=settings.for_classes_only,
            )
        return NO_CLASSES, find_target(rows.labels, others, where=where, table=rows.source.rows.labels)
    names, table = rows.source.spec.classes, rows.source.rows.labels
    found = find_classes(rows.labels, others, classes=settings.classes, names=names, where=where, table=table)
    return found, None


def _reading(settings: Settings, team: Team, *, training: bool) -> Reading:
    steps = settings.steps_per_epoch if training else 0
    return Reading(
        settings.batch_size, seed=settings.seed, training=training, steps=steps, rank=team.rank, ranks=team.ranks
    )
