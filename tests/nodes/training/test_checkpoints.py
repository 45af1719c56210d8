from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nodes.loaders.interface import LoaderState
from nodes.training.checkpoints import KEPT, Checkpoint, Checkpoints, Torn, read
from nodes.training.running_sums import Sums


def checkpoint(epoch: int, step: int, fill: float = 0.0) -> Checkpoint:
    arrays = {"weight-0000": np.full((40, 30), fill, np.float32), "optimizer-0000": np.array(step, np.int64)}
    history = tuple({"loss": 0.1 + e} for e in range(epoch))
    return Checkpoint(LoaderState(5, epoch, step), arrays, (0.1, 0.2), (1.0, 1 / 3), Sums(1 / 7, 3.0, 12), history)


def same(a: Checkpoint, b: Checkpoint) -> bool:
    arrays = a.arrays.keys() == b.arrays.keys() and all(
        a.arrays[k].tobytes() == b.arrays[k].tobytes() and a.arrays[k].dtype == b.arrays[k].dtype for k in a.arrays
    )
    return arrays and (a.state, a.mean, a.variance, a.sums, a.history) == (
        b.state,
        b.mean,
        b.variance,
        b.sums,
        b.history,
    )


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


def test_every_kind_of_damage_leads_to_the_one_before(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "me", every_s=0)
    store.save(checkpoint(0, 1))
    path = store.save(checkpoint(0, 2))
    whole = path.read_bytes()
    for damaged in (b"", whole[:10], whole[:-1], whole[: len(whole) // 2], b"\0" * len(whole), flipped(whole)):
        path.write_bytes(damaged)
        with pytest.raises(Torn):
            read(path, "me")
        found = store.newest()
        assert found is not None
        assert found.state.step == 1


def flipped(data: bytes) -> bytes:
    """One bit in the middle of an array is another one."""
    at = data.index(b"\0" * 64) + 20
    return data[:at] + b"\1" + data[at + 1 :]


def test_a_half_written_one_is_removed(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "me", every_s=0)
    store.save(checkpoint(0, 1))
    (tmp_path / "checkpoint-000000-000000002.partial").write_bytes(b"PK")
    found = store.newest()
    assert found is not None
    assert found.state.step == 1
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


def test_one_is_due_after_its_time(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path, "me", every_s=0).due(1)
    assert not Checkpoints(tmp_path, "me", every_s=1000).due(1)
