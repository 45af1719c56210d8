"""Augmentation is a function of (seed, epoch, row), and moves voxels without changing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from volume_sets import labels_for, make_delta, some_volumes

from engine.errors import UsageError
from nodes.loaders import open_source
from nodes.loaders.interface import Batch, Loader, LoaderState, Reading
from nodes.training.augmentation import Augmentation, augment, augmented
from nodes.training.checkpoints import Checkpoint

SHAPE = (4, 4, 3, 2)
MEAN, DEVIATION = np.array([5.0, -3.0]), np.array([2.0, 0.5])
FLIPS = ["none", "X", "Y", "Z", "XY", "XZ", "YZ", "XYZ"]
EVERYTHING = Augmentation("XYZ", quarter_turns=True, intensity=0.2, noise=0.1)


def a_batch(rows: list[int], shape: tuple[int, ...] = SHAPE) -> Batch:
    """Every voxel of every row is another number."""
    count, size = len(rows), int(np.prod(shape))
    volumes = np.concatenate([np.arange(size, dtype=np.float32) + row * size for row in rows]).reshape(count, *shape)
    return Batch(volumes, np.zeros(count, np.float32), np.array(rows))


def change(augmentation: Augmentation, batch: Batch, *, seed: int = 3, epoch: int = 0) -> NDArray[np.float32]:
    copied = replace(batch, volumes=batch.volumes.copy())
    augment(augmentation, seed, MEAN, DEVIATION, copied, epoch)
    return copied.volumes


@given(st.sampled_from(FLIPS), st.booleans(), st.integers(-5, 2**40), st.integers(0, 1000))
def test_flips_and_turns_only_move_voxels(flips: Any, turns: bool, seed: int, epoch: int) -> None:
    batch = a_batch([7, 0, 123_456, 3])
    out = change(Augmentation(flips, turns), batch, seed=seed, epoch=epoch)
    for before, after in zip(batch.volumes, out, strict=True):
        possible = [before]
        for axis in [axis for axis, name in enumerate("XYZ") if name in flips]:
            possible += [np.flip(volume, axis) for volume in possible]
        possible = [np.rot90(volume, k) for volume in possible for k in range(4 if turns else 1)]
        assert any(np.array_equal(after, volume) for volume in possible)


def test_every_way_comes_about_as_often() -> None:
    batch = a_batch(list(range(400)))
    out = change(Augmentation("XYZ", quarter_turns=True), batch)
    ways = {volume.tobytes() for volume in out - batch.volumes[:, :1, :1, :1, :1]}
    # Eight mirrorings and four turns: a turn by two quarters is a mirroring of X and Y, so sixteen are different.
    assert len(ways) == 16
    kept = sum(np.array_equal(a, b) for a, b in zip(out, batch.volumes, strict=True))
    assert 10 < kept < 50


@given(st.permutations([5, 1, 8, 2, 9]), st.integers(1, 4))
def test_place_and_company_in_a_batch_do_not_matter(rows: list[int], cut: int) -> None:
    whole = dict(zip(rows, change(EVERYTHING, a_batch(rows)), strict=True))
    for part in (rows[:cut], rows[cut:]):
        for row, volume in zip(part, change(EVERYTHING, a_batch(part)), strict=True):
            assert volume.tobytes() == whole[row].tobytes()


def test_another_epoch_seed_or_row_is_another_draw() -> None:
    noise = Augmentation(noise=1.0)
    flat = Batch(np.zeros((2, *SHAPE), np.float32), np.zeros(2, np.float32), np.array([0, 1]))
    seen = [
        volume.tobytes()
        for seed in (3, 4)
        for epoch in (0, 1)
        for volume in change(noise, flat, seed=seed, epoch=epoch)
    ]
    assert len(set(seen)) == 8
    assert change(noise, flat).tobytes() == change(noise, flat).tobytes()


def test_one_kind_of_change_leaves_the_others_as_they_were() -> None:
    batch = a_batch([4, 5, 6])
    moved = change(Augmentation("XYZ", quarter_turns=True), batch)
    noisy = change(Augmentation("XYZ", quarter_turns=True, noise=1e-3), batch)
    assert moved == pytest.approx(noisy, abs=0.02)


def test_intensity_and_noise_are_counted_in_deviations() -> None:
    rows, shape = 300, (6, 6, 5, 2)
    rng = np.random.default_rng(0)
    volumes = (MEAN + DEVIATION * rng.standard_normal((rows, *shape))).astype(np.float32)
    batch = Batch(volumes, np.zeros(rows, np.float32), np.arange(rows))
    added = change(Augmentation(noise=0.3), batch) - volumes
    assert added.std(axis=(0, 1, 2, 3)) == pytest.approx(0.3 * DEVIATION, rel=0.02)
    assert added.mean(axis=(0, 1, 2, 3)) == pytest.approx([0, 0], abs=0.01)
    out = change(Augmentation(intensity=0.2), batch)
    standard, changed = (volumes - MEAN) / DEVIATION, (out - MEAN) / DEVIATION
    for row in range(rows):
        for channel in range(2):
            scale, shift = np.polyfit(standard[row, ..., channel].ravel(), changed[row, ..., channel].ravel(), 1)
            assert abs(scale - 1) <= 0.2 + 1e-4
            assert abs(shift) <= 0.2 + 1e-4
    assert np.ptp(changed.mean(axis=(1, 2, 3))) > 0.3


def test_volumes_of_three_axes() -> None:
    batch = a_batch([1, 2], (4, 4, 3))
    with_channel = replace(batch, volumes=batch.volumes[..., np.newaxis].copy())
    for part in (batch, with_channel):
        augment(EVERYTHING, 3, MEAN[:1], DEVIATION[:1], part, 0)
    assert batch.volumes.tobytes() == with_channel.volumes.tobytes() != a_batch([1, 2], (4, 4, 3)).volumes.tobytes()


def test_batches_that_cannot_be_written_to_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with loader(tmp_path, EVERYTHING) as one:
        usual = epochs(one, 1)
        read = type(one._inner)._read  # type: ignore[attr-defined]

        def read_only(*arguments: Any) -> Iterator[Batch]:
            for batch in read(*arguments):
                batch.volumes.flags.writeable = False
                yield batch

        monkeypatch.setattr(type(one._inner), "_read", read_only)  # type: ignore[attr-defined]
        one.restore(LoaderState(5))
        assert epochs(one, 1) == usual


@contextmanager
def loader(
    tmp_path: Path, augmentation: Augmentation, rank: int = 0, ranks: int = 1, **options: Any
) -> Iterator[Loader]:
    volumes = some_volumes(26, SHAPE)
    data = make_delta(tmp_path / str(rank), volumes, labels_for(volumes), **options)
    begin = Checkpoint(LoaderState(5), {}, tuple(MEAN), tuple(DEVIATION**2))
    with closing(open_source("arrow", data, cores=2)) as source:
        plain = source.loader(source.rows_in(), Reading(6, seed=5, rank=rank, ranks=ranks))
        yield augmented(plain, augmentation, begin, threads=3 + rank)


def epochs(source: Loader, count: int = 2) -> list[dict[int, bytes]]:
    found: list[dict[int, bytes]] = []
    for _ in range(count):
        pairs = ((batch.rows.tolist(), batch.volumes) for batch in source.batches())
        found.append({row: v.tobytes() for rows, volumes in pairs for row, v in zip(rows, volumes, strict=True)})
    return found


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["NONE", "ZSTD"])
def test_workers_and_resumes_see_the_same_volumes(tmp_path: Path, compression: str) -> None:
    with loader(tmp_path, EVERYTHING, compression=compression) as one:
        alone = epochs(one)
        assert alone[0].keys() != alone[1].keys() or alone[0] != alone[1]
        one.restore(LoaderState(5, epoch=1, step=2))
        assert list(epochs(one, 1)[0].items()) == list(alone[1].items())[12:]
        assert one.state() == LoaderState(5, epoch=2)
        # Stopped in the middle, nothing is lost of what was made ahead.
        one.restore(LoaderState(5))
        batches = one.batches()
        next(batches)
        assert one.state() == LoaderState(5, step=1)
        batches.close()  # type: ignore[attr-defined]
        assert list(epochs(one, 1)[0].items()) == list(alone[0].items())[6:]
    together: list[dict[int, bytes]] = [{}, {}]
    for rank in range(2):
        with loader(tmp_path / "two", EVERYTHING, rank, 2, compression=compression) as part:
            for epoch, seen in enumerate(epochs(part)):
                together[epoch] |= seen
    assert together == alone


def test_nothing_to_do_is_the_loader_itself(tmp_path: Path) -> None:
    with loader(tmp_path, Augmentation()) as plain:
        assert type(plain).__name__ == "RandomAccessLoader"


def test_volumes_that_cannot_be_turned(tmp_path: Path) -> None:
    volumes = some_volumes(12, (4, 5, 3))
    with closing(open_source("arrow", make_delta(tmp_path, volumes, labels_for(volumes)), cores=1)) as source:
        plain = source.loader(source.rows_in(), Reading(6))
        with pytest.raises(UsageError, match="4x5 voxels in X and Y cannot be turned"):
            augmented(
                plain, Augmentation(quarter_turns=True), Checkpoint(LoaderState(0), {}, (0.0,), (1.0,)), threads=1
            )


def test_what_reading_raises_comes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with loader(tmp_path, EVERYTHING) as one:

        def fails(*_: object) -> None:
            raise OSError("gone")

        monkeypatch.setattr(one.source, "fill", fails)
        with pytest.raises(OSError, match="gone"):
            list(one.batches())
