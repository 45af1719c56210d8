"""The loop with a learner that only pretends: losses that are no numbers, a full disk, a checkpoint on request."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

import numpy as np
import pytest
from volume_sets import labels_for, make_delta, some_volumes

from engine.declare.context import SAVE_REQUEST, TaskContext
from engine.declare.events import Event, Message, Progress
from engine.declare.progress import Phases
from engine.errors import DataError, DiskFull
from nodes.loaders import open_source
from nodes.loaders.interface import Batch, LoaderState, Reading
from nodes.training import checkpoints as checkpoints_module
from nodes.training import loop
from nodes.training.checkpoints import Checkpoint, Checkpoints, read
from nodes.training.history import Schedule
from nodes.training.learner import Sums, Team
from nodes.training.loop import EpochTimes, Training, is_reported, train


class Diverges:
    """Every worker gets the sums of all, so every worker sees the same loss."""

    def __init__(self, after: int) -> None:
        self.left = after

    def train(self, batch: Batch, *, learning_rate: float, global_rows: int) -> Sums:
        self.left -= 1
        return Sums(np.nan if self.left < 0 else 1.0, 1.0, global_rows)

    def arrays(self) -> dict[str, Any]:
        return {}


class Counts:
    """Learns how many steps it has taken; the validation loss rises."""

    def __init__(self) -> None:
        self.steps = 0

    def train(self, batch: Batch, *, learning_rate: float, global_rows: int) -> Sums:
        self.steps += 1
        return Sums(float(self.steps), 1.0, global_rows)

    def evaluate(self, batch: Batch, *, rows: int) -> Any:
        sums = Sums(float(self.steps * len(batch.rows)), 0.0, len(batch.rows))
        return SimpleNamespace(sums=sums, logits=batch.volumes[:, 0, 0, :1, 0], labels=batch.labels)

    def arrays(self) -> dict[str, Any]:
        return {"weight-0000": np.array(self.steps)}

    def restore(self, arrays: dict[str, Any]) -> None:
        self.steps = int(arrays["weight-0000"])


@contextmanager
def training(tmp_path: Path, learner: Any, **params: Any) -> Iterator[Training]:
    """Four steps an epoch, and a validation."""
    volumes = some_volumes(24, (3, 3, 2, 1))
    source = open_source("arrow", make_delta(tmp_path, volumes, labels_for(volumes)), cores=1)
    loader = source.loader(source.rows_in(), Reading(6, seed=1))
    validation = source.loader(source.rows_in(), Reading(6, training=False))
    yield Training(learner, loader, validation, schedule=Schedule("constant", 0.1), **params)
    source.close()


def context(folder: Path) -> tuple[TaskContext, list[Event]]:
    events: list[Event] = []
    return TaskContext("run", "train", "0" * 64, folder, folder, folder, emit=events.append), events


BEGIN = Checkpoint(LoaderState(1), {}, (0.0,), (1.0,))


class Heard:
    """Keeps the progress that a training reports."""

    def __init__(self) -> None:
        self.progress: list[Progress] = []

    def emit(self, event: Progress, /) -> None:
        self.progress.append(event)

    def cancelled(self) -> bool:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("begin", [(0, 0), (0, 3), (1, 0), (1, 2), (2, 3)])
def test_the_phases_of_a_training_come_in_order_and_count_the_whole(tmp_path: Path, begin: tuple[int, int]) -> None:
    """Also of one that goes on: what was done before counts as done."""
    heard, (epoch, step) = Heard(), begin
    with (
        training(tmp_path, Counts(), epochs=3, tested=24) as whole,
        Phases(heard, clock=count(step=0.5).__next__).reporting() as phases,
    ):
        ctx, _ = context(tmp_path / "scratch")
        first = replace(BEGIN, state=LoaderState(1, epoch, step))
        train(whole, first, Checkpoints(ctx.scratch, "x", every_s=1000), ctx)
        phases.enter("Saving the model")
    names = list(dict.fromkeys(event.phase for event in heard.progress))
    parts = ("", ", validation", ", saving")
    assert names == [f"Epoch {e + 1} of 3{part}" for e in range(epoch, 3) for part in parts] + ["Saving the model"]
    # Three volumes of validation take as long as one of training, while nothing is measured.
    everything = 3 * 24 * 3 + 3 * 24 + 24
    done = (epoch * 24 + step * 6) * 3 + epoch * 24
    assert heard.progress[0].share == pytest.approx(done / everything)
    assert heard.progress[-1].share == pytest.approx(1 - 24 / everything)
    lefts = [event.left_s for event in heard.progress if event.left_s is not None]
    assert lefts
    assert min(lefts) >= 0
    assert all(event.waited_s is not None for event in heard.progress)


def test_a_training_that_may_stop_early_says_at_most(tmp_path: Path) -> None:
    heard = Heard()
    with training(tmp_path, Counts(), epochs=9, patience=1) as whole, Phases(heard).reporting() as phases:
        ctx, _ = context(tmp_path / "scratch")
        train(whole, BEGIN, Checkpoints(ctx.scratch, "x", every_s=1000), ctx)
        phases.enter("Saving the model")
    assert heard.progress[0].phase == "Epoch 1 of at most 9"
    # The epochs that were not needed are not waited for.
    assert heard.progress[-1].share == 1


def message(tmp_path: Path, team: Team, *, bad: bool) -> str:
    volumes = some_volumes(24, (3, 3, 2, 1))
    data = make_delta(tmp_path, volumes, labels_for(volumes))
    source = open_source("arrow", data, cores=1)
    with pytest.MonkeyPatch.context() as patch:
        loader = source.loader(source.rows_in(), Reading(6, seed=1, rank=team.rank, ranks=team.ranks))
        if bad:
            # The third batch's second row, in the part of worker 0 of 2.
            whole = source.loader(source.rows_in(), Reading(6, seed=1))
            row = [batch.rows for batch in whole.batches()][2][1]
            fill = cast(Any, source).fill

            def spoilt(rows: Any, out: Any) -> None:
                fill(rows, out)
                out[rows == row, 0, 0, 0] = np.inf

            patch.setattr(source, "fill", spoilt)
        training = Training(
            cast(Any, Diverges(2)), loader, None, epochs=1, schedule=Schedule("constant", 0.1), team=team
        )
        ctx, events = context(tmp_path / "scratch")
        with pytest.raises(DataError) as caught:
            train(training, BEGIN, Checkpoints(ctx.scratch, "x", every_s=1000), ctx)
        if not bad:
            listed = [event.text for event in events if isinstance(event, Message)]
            whole = source.loader(source.rows_in(), Reading(6, seed=1))
            third = source.ids([batch.rows for batch in whole.batches()][2])
            assert listed == [f"the volumes of step 3: {', '.join(third)}"]
            assert f"({', '.join(third[:3])} and 3 more)" in caught.value.message
    source.close()
    return caught.value.line()


@pytest.mark.slow
@pytest.mark.parametrize("bad", [True, False])
def test_every_worker_says_what_one_would(tmp_path: Path, bad: bool) -> None:
    """The volume to blame is named, in whoever's part of the batch it is."""
    teams = (Team(), Team(0, 2), Team(1, 2))
    messages = {message(tmp_path / str(number), team, bad=bad) for number, team in enumerate(teams)}
    assert len(messages) == 1
    assert "the loss at step 3 is not a number" in messages.pop()


@pytest.mark.slow
def test_a_bad_volume_is_named(tmp_path: Path) -> None:
    assert "holds values that are not finite" in message(tmp_path, Team(1, 2), bad=True)
    assert "though the volumes are fine" in message(tmp_path / "other", Team(1, 2), bad=False)


def test_validation_volumes_that_are_not_finite_are_named(tmp_path: Path) -> None:
    class Blind(Counts):
        def evaluate(self, batch: Batch, *, rows: int) -> Any:
            batch.volumes[2, 0, 0, 0, 0] = np.nan
            return SimpleNamespace(sums=Sums(np.nan, 0.0, len(batch.rows)))

    ctx, _ = context(tmp_path / "scratch")
    with training(tmp_path, Blind(), epochs=1) as it:
        assert it.validation is not None
        third = it.validation.source.ids(it.validation.chosen)[2]
        with pytest.raises(DataError) as caught:
            train(it, BEGIN, Checkpoints(ctx.scratch, "x", every_s=1000), ctx)
    expected = f"epoch 1/1, validation: the loss is not a number: {third} holds values that are not finite, or beyond"
    assert caught.value.message.startswith(expected)


def test_a_validation_without_a_loss_is_remarked_upon_once(tmp_path: Path) -> None:
    class Diverging(Counts):
        def evaluate(self, batch: Batch, *, rows: int) -> Any:
            found = super().evaluate(batch, rows=rows)
            found.sums = Sums(np.inf, 0.0, len(batch.rows))
            return found

    ctx, events = context(tmp_path / "scratch")
    with training(tmp_path, Diverging(), epochs=3) as it:
        train(it, BEGIN, Checkpoints(ctx.scratch, "x", every_s=1000), ctx)
    (said,) = [text for event in events if "validation loss" in (text := getattr(event, "text", ""))]
    assert said.startswith("Epoch 1 of 3: the validation loss is not a number")


@pytest.mark.slow
def test_after_a_full_disk_the_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx, _ = context(tmp_path / "scratch")
    write, full = checkpoints_module.write, [False]

    def limited(file: IO[bytes], checkpoint: Checkpoint, identity: str) -> None:
        file.write(b"PK")
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        file.seek(0)
        write(file, checkpoint, identity)

    monkeypatch.setattr(checkpoints_module, "write", limited)

    class FullAtStep6(Counts):
        def train(self, batch: Batch, *, learning_rate: float, global_rows: int) -> Sums:
            full[0] = self.steps == 5
            return super().train(batch, learning_rate=learning_rate, global_rows=global_rows)

    def store() -> Checkpoints:
        return Checkpoints(ctx.scratch, "x", every_s=0)

    with training(tmp_path, FullAtStep6(), epochs=2) as it, pytest.raises(DiskFull) as caught:
        train(it, BEGIN, store(), ctx)
    assert str(ctx.scratch) in caught.value.message
    assert "`voxelflow runs resume` then continues after epoch 1, step 1" in caught.value.hint
    full[0] = False
    begin = store().newest()
    assert begin is not None
    assert begin.arrays["weight-0000"] == 5
    with training(tmp_path / "again", Counts(), epochs=2) as it:
        assert train(it, begin, store(), ctx).arrays["weight-0000"] == 8


def test_a_checkpoint_on_request_stops_nothing(tmp_path: Path) -> None:
    ctx, events = context(tmp_path / "scratch")
    store = Checkpoints(ctx.scratch, "x", every_s=1000)
    (ctx.scratch / SAVE_REQUEST).touch()
    with training(tmp_path, Counts(), epochs=1) as it:
        train(it, BEGIN, store, ctx)
    assert [event.text for event in events if isinstance(event, Message)] == ["saved on request after epoch 0, step 1"]
    assert sorted(path.name for path in ctx.scratch.glob("*")) == [
        "checkpoint-000000-000000001.npz",
        "checkpoint-000001-000000000.npz",
    ]


@pytest.mark.slow
def test_an_end_before_the_last_epoch_is_the_same_after_a_resume(tmp_path: Path) -> None:
    """Resumed from any of its checkpoints, and made longer."""
    ctx, _ = context(tmp_path / "scratch")
    store = Checkpoints(ctx.scratch, "x", every_s=0, kept=100)
    params: dict[str, Any] = {"patience": 2, "keep_best": "val_loss"}
    with training(tmp_path, Counts(), epochs=9, **params) as it:
        final = train(it, BEGIN, store, ctx)
        assert final.state.epoch == 3
        assert store.best_path(final).name == "best-000001.npz"
        for path in sorted(ctx.scratch.glob("checkpoint-*")):
            begin = read(path, "x")
            other, _ = context(tmp_path / path.stem)
            again = train(replace(it, epochs=20), begin, Checkpoints(other.scratch, "x", every_s=1000), other)
            assert (again.state, again.history, again.arrays) == (final.state, final.history, final.arrays)


def test_steps_are_reported_ever_more_sparsely() -> None:
    steps = [step for step in range(1, 200_001) if is_reported(step)]
    assert steps[:201] == [*range(1, 201), 210]
    assert 2100 in steps
    assert 2110 not in steps
    assert len(steps) < 1000


def test_seconds_are_reported_once_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: clock[0])
    times = EpochTimes()

    def batches() -> object:
        for _ in range(3):
            clock[0] += 2
            yield 8

    for batch in times.waiting_for(batches()):  # type: ignore[arg-type]
        with times.spent_on("compute"):
            clock[0] += 1
        times.trained(batch)  # type: ignore[arg-type]
    with times.spent_on("evaluate"):
        clock[0] += 5
    assert times.take() == {
        "epoch_seconds_data": 6,
        "epoch_seconds_compute": 3,
        "epoch_seconds_checkpoint": 0,
        "epoch_seconds_evaluate": 5,
        "samples_per_second": 24 / 9,
    }
    assert set(times.take().values()) == {0}
