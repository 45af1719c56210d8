from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import DiskFull, ExecutionError
from nodes.loaders.interface import LoaderState
from nodes.testing.learner import equal
from nodes.training.checkpoints import KEPT, Checkpoint, Checkpoints, Torn, read, space_in
from nodes.training.learner import Sums


def checkpoint(epoch: int, step: int, fill: float = 0.0) -> Checkpoint:
    arrays = {"weight-0000": np.full((40, 30), fill, np.float32), "optimizer-0000": np.array(step, np.int64)}
    history = tuple({"loss": 0.1 + e} for e in range(epoch))
    return Checkpoint(LoaderState(5, epoch, step), arrays, (0.1, 0.2), (1.0, 1 / 3), Sums(1 / 7, 3.0, 12), history)


def same(a: Checkpoint, b: Checkpoint) -> bool:
    return equal(a.arrays, b.arrays) and replace(a, arrays={}) == replace(b, arrays={})


def newest_step(store: Checkpoints) -> int:
    found = store.newest()
    assert found is not None
    return found.state.step


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path / "new", "me", every_s=0)
    assert store.newest() is None
    store.save(checkpoint(1, 3, 0.25))
    found = Checkpoints(tmp_path / "new", "me", every_s=0).newest()
    assert found is not None
    assert same(found, checkpoint(1, 3, 0.25))


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "me", every_s=0)
    places = [(0, 9), (0, 10), (0, 2000), (1, 0), (11, 1)]
    for epoch, step in places:
        store.save(checkpoint(epoch, step))
    assert len(list(tmp_path.iterdir())) == KEPT
    found = store.newest()
    assert found is not None
    assert (found.state.epoch, found.state.step) == (11, 1)


def test_weights_that_are_not_finite_are_passed_over(tmp_path: Path) -> None:
    """Those of a release that saved them."""
    store = Checkpoints(tmp_path, "me", every_s=0)
    store.save(checkpoint(0, 1))
    store.save(checkpoint(0, 2, np.nan))
    said: list[str] = []
    found = store.newest(said.append)
    assert found is not None
    assert found.state.step == 1
    assert "holds weights that are not finite" in said[0]


def test_every_kind_of_damage_leads_to_the_one_before(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "me", every_s=0)
    store.save(checkpoint(0, 1))
    path = store.save(checkpoint(0, 2))
    whole = path.read_bytes()
    for damaged in (b"", whole[:10], whole[:-1], whole[: len(whole) // 2], b"\0" * len(whole), flipped(whole)):
        path.write_bytes(damaged)
        with pytest.raises(Torn):
            read(path, "me")
        assert newest_step(store) == 1
        warnings: list[str] = []
        store.newest(warnings.append)
        (warning,) = warnings
        assert path.name in warning
        assert "training goes on from epoch 0, step 1" in warning


def flipped(data: bytes) -> bytes:
    """One bit in the middle of an array is another one."""
    at = data.index(b"\0" * 64) + 20
    return data[:at] + b"\1" + data[at + 1 :]


def test_a_half_written_one_is_removed(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "me", every_s=0)
    store.save(checkpoint(0, 1))
    (tmp_path / "checkpoint-000000-000000002.partial").write_bytes(b"PK")
    assert newest_step(store) == 1
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]


def test_another_trainings_checkpoint_is_not_taken_up(tmp_path: Path) -> None:
    Checkpoints(tmp_path, "me", every_s=0).save(checkpoint(0, 1))
    assert Checkpoints(tmp_path, "you", every_s=0).newest() is None


def test_the_points_where_a_kill_is_tried(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    store = Checkpoints(
        tmp_path,
        "me",
        every_s=0,
        commit_point=lambda name: seen.append((name, len(list(tmp_path.glob("*.npz"))))),
    )
    store.save(checkpoint(0, 1))
    assert seen == [("train:checkpoint-written", 0), ("train:checkpoint-renamed", 1)]


def judged(epoch: int, *losses: float) -> Checkpoint:
    history = tuple({"val_loss": loss} for loss in losses)
    arrays = {"weight-0000": np.full(3, epoch, np.float32), "optimizer-0000": np.array(epoch, np.int64)}
    return Checkpoint(
        LoaderState(5, epoch),
        arrays,
        (0.0,),
        (1.0,),
        history=history,
        confusion=((1, epoch), (3, 4)),
        roc=((0.0, epoch, 1.0),),
    )


def test_the_best_epoch_is_kept_as_long_as_a_checkpoint_counts_on_it(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "me", every_s=0)
    losses = (3.0, 2.0, 5.0, 1.0, 6.0)
    kept = []
    for epoch in range(1, 6):
        checkpoint = judged(epoch, *losses[:epoch])
        if epoch in (1, 2, 4):
            store.save_best(checkpoint)
        store.save(checkpoint)
        found = store.best(checkpoint)
        assert found is not None
        best = {1: 1, 2: 2, 3: 2, 4: 4, 5: 4}[epoch]
        assert found.arrays.keys() == {"weight-0000"}
        assert found.arrays["weight-0000"][0] == best
        assert found.confusion == ((1, best), (3, 4))
        kept.append([int(path.stem[-6:]) for path in sorted(tmp_path.glob("best-*"))])
    assert kept == [[1], [1, 2], [2], [2, 4], [4]]


def test_without_a_figure_there_is_no_best_epoch(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path, "me", every_s=0).best(judged(1, float("nan"))) is None


def test_damaged_best_weights_are_reported(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "me", every_s=0)
    store.save_best(judged(1, 1.0))
    (tmp_path / "best-000001.npz").write_bytes(b"PK")
    with pytest.raises(ExecutionError, match="best epoch cannot be read"):
        store.best(judged(1, 1.0))


def test_the_best_of_a_finished_training_is_taken_over(tmp_path: Path) -> None:
    before = Checkpoints(tmp_path / "before", "me", every_s=0)
    before.save_best(judged(1, 1.0))
    store = Checkpoints(tmp_path / "longer", "me", every_s=0)
    for _ in range(2):
        store.take_over_best(tmp_path / "before" / "best-000001.npz", judged(2, 1.0, 2.0))
    found = store.best(judged(2, 1.0, 2.0))
    assert found is not None
    assert found.arrays["weight-0000"][0] == 1
    assert [path.name for path in (tmp_path / "longer").iterdir()] == ["best-000001.npz"]
    with pytest.raises(Torn, match="another training"):
        Checkpoints(tmp_path / "you", "you", every_s=0).take_over_best(
            tmp_path / "before" / "best-000001.npz", judged(2, 1.0, 2.0)
        )


@pytest.mark.parametrize("kept", [1, 4])
def test_so_many_are_kept_as_one_wants(tmp_path: Path, kept: int) -> None:
    store = Checkpoints(tmp_path, "me", every_s=0, kept=kept)
    for step in range(6):
        store.save(checkpoint(0, step))
    assert sorted(int(path.stem[-9:]) for path in tmp_path.iterdir()) == list(range(6 - kept, 6))


def test_a_damaged_one_does_not_take_the_place_of_those_that_follow(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "me", every_s=0, kept=1)
    store.save(checkpoint(0, 9)).write_bytes(b"")
    assert store.newest() is None
    store.save(checkpoint(0, 3))
    assert newest_step(store) == 3


def test_a_full_disk_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is a device without space: the system itself says so."""
    store = Checkpoints(tmp_path, "me", every_s=0)
    store.save(checkpoint(0, 1))
    (tmp_path / ".checkpoint-000000-000000002.npz.00000000.partial").symlink_to("/dev/full")
    monkeypatch.setattr(os, "urandom", bytes)
    with pytest.raises(DiskFull) as caught:
        store.save(checkpoint(0, 2))
    assert f"no space left on {tmp_path}: " in caught.value.message
    assert "a checkpoint of 4.8 kB does not fit" in caught.value.message
    assert "then continues after epoch 0, step 1" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-000000-000000001.npz"]
    # With space again it continues.
    store.save(checkpoint(0, 2))
    assert newest_step(store) == 2


def test_other_trouble_with_the_disk_is_not_called_full(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), space_in(tmp_path):
        (tmp_path / "none").read_bytes()


def test_one_is_due_every_so_many_steps(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "me", every_s=1000, every_steps=3)
    assert [steps for steps in range(1, 10) if store.due(steps)] == [3, 6, 9]


def test_one_is_due_after_its_time(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path, "me", every_s=0).due(1)
    assert not Checkpoints(tmp_path, "me", every_s=1000).due(1)
