"""The loop with a learner that only pretends: losses that are no numbers, a full disk, a checkpoint on request."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import closing, contextmanager
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
from nodes.loaders.interface import Batch, LoaderState, Reading, Source
from nodes.loaders.rows import RowNumbers
from nodes.training import checkpoints as checkpoints_module
from nodes.training import loop
from nodes.training.augmentation import Augmentation, augmented
from nodes.training.checkpoints import Checkpoint, Checkpoints, read
from nodes.training.history import Schedule
from nodes.training.learner import Sums, Team
from nodes.training.loop import EpochTimes, Training, is_reported, train
from nodes.training.usable_values import checked


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


def diverged(tmp_path: Path, team: Team) -> str:
    """The error of a worker whose loss is no number in the third step."""
    volumes = some_volumes(24, (3, 3, 2, 1))
    with closing(open_source("arrow", make_delta(tmp_path, volumes, labels_for(volumes)), cores=1)) as source:
        loader = source.loader(source.rows_in(), Reading(6, seed=1, rank=team.rank, ranks=team.ranks))
        third = source.ids(third_batch(source))
        training = Training(
            cast(Any, Diverges(2)), checked(loader), None, epochs=1, schedule=Schedule("constant", 0.1), team=team
        )
        ctx, events = context(tmp_path / "scratch")
        with pytest.raises(DataError) as caught:
            train(training, BEGIN, Checkpoints(ctx.scratch, "x", every_s=1000), ctx)
    listed = [event.text for event in events if isinstance(event, Message)]
    assert listed == [f"the volumes of step 3: {', '.join(third)}"]
    assert f"({', '.join(third[:3])} and 3 more)" in caught.value.message
    return caught.value.line()


def third_batch(source: Source) -> RowNumbers:
    return [batch.rows for batch in source.loader(source.rows_in(), Reading(6, seed=1)).batches()][2]


@pytest.mark.slow
def test_every_worker_says_what_one_would(tmp_path: Path) -> None:
    teams = (Team(), Team(0, 2), Team(1, 2))
    (said,) = {diverged(tmp_path / str(number), team) for number, team in enumerate(teams)}
    assert "the loss at step 3 is not a number any more, though the volumes are fine" in said


@pytest.mark.parametrize("value", [np.nan, np.inf, -3.4e38])
@pytest.mark.parametrize("team", [Team(), Team(0, 2), Team(1, 2)])
def test_a_volume_that_is_not_usable_is_named_before_its_step(tmp_path: Path, team: Team, value: float) -> None:
    """Whatever the loss says; of several workers by the one whose part of the batch it is in."""
    volumes = {name: volume.astype(np.float32) for name, volume in some_volumes(24, (3, 3, 2, 1)).items()}
    labels = labels_for(volumes)
    with closing(open_source("arrow", make_delta(tmp_path / "fine", volumes, labels), cores=1)) as source:
        bad = source.ids(third_batch(source))[1]
    volumes[bad][0, 0, 0] = value
    ctx, _ = context(tmp_path / "scratch")
    learner, store = Counts(), Checkpoints(ctx.scratch, "x", every_s=1000)
    with closing(open_source("arrow", make_delta(tmp_path / "bad", volumes, labels), cores=1)) as source:
        loader = source.loader(source.rows_in(), Reading(6, seed=1, rank=team.rank, ranks=team.ranks))
        rows = augmented(checked(loader), Augmentation(flips="XYZ", intensity=0.2), BEGIN, threads=2)
        it = Training(cast(Any, learner), rows, None, epochs=1, schedule=Schedule("constant", 0.1), team=team)
        if team.rank:
            train(it, BEGIN, store, ctx)
            return
        with pytest.raises(DataError, match=f"^{bad} holds values that are not finite, or beyond 1e18"):
            train(it, BEGIN, store, ctx)
    assert learner.steps <= 2  # batches are made ahead of their steps


@pytest.mark.parametrize(("dtype", "looks"), [("int32", False), ("uint8", False), ("float16", True), ("uint64", True)])
def test_numbers_that_cannot_be_so_large_are_not_looked_at(tmp_path: Path, dtype: str, looks: bool) -> None:
    volumes = some_volumes(6, (3, 3, 2), dtype)
    with closing(open_source("arrow", make_delta(tmp_path, volumes, labels_for(volumes)), cores=1)) as source:
        loader = source.loader(source.rows_in(), Reading(6))
        assert (checked(loader) is not loader) == looks


@pytest.mark.parametrize("value", [np.nan, -3.4e38])
def test_validation_volumes_that_are_not_usable_are_named(tmp_path: Path, value: float) -> None:
    """Also where the network does not show them."""
    ctx, _ = context(tmp_path / "scratch")
    with training(tmp_path, Counts(), epochs=1) as it:
        assert it.validation is not None
        source = cast(Any, it.validation.source)
        third, fill = int(it.validation.chosen[2]), source.fill

        def spoilt(rows: Any, out: Any) -> None:
            fill(rows, out)
            out[rows == third, 0, 0, 0] = value

        source.fill = spoilt
        with pytest.raises(DataError) as caught:
            train(it, BEGIN, Checkpoints(ctx.scratch, "x", every_s=1000), ctx)
    expected = f"epoch 1/1, validation: {source.ids([third])[0]} holds values that are not finite, or beyond 1e18"
    assert caught.value.message == expected


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    class Dies(Counts):
        def arrays(self) -> dict[str, Any]:
            weights = np.array([1.0, np.nan if self.steps > 5 else 2.0])
            return {"weight-0000": np.array(self.steps), "weight-0001": weights, "optimizer-0000": np.array([np.inf])}

    ctx, _ = context(tmp_path / "scratch")
    store = Checkpoints(ctx.scratch, "x", every_s=0)
    with training(tmp_path, Dies(), epochs=2, keep_best="val_loss") as it, pytest.raises(DataError) as caught:
        train(it, BEGIN, store, ctx)
    assert caught.value.message == "the model's weights are not finite any more after epoch 1, step 2"
    newest = store.newest()
    assert newest is not None
    assert (newest.state.epoch, newest.state.step) == (1, 1)


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
