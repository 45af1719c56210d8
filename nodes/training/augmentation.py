"""Augmentation: a volume is another one in each epoch, in ways that do not change what it shows.

What becomes of a volume is a function of (seed, epoch, row) and nothing else, so that it is the same however many
workers share a batch, wherever in it the row is, and after a kill. Every draw has its place in the row's
stream: turning one kind of change on leaves the others as they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.errors import UsageError
from nodes.loaders.interface import Batch, Loader
from nodes.loaders.transformed import TransformedLoader
from nodes.training.settings import Flips, Settings, cannot_turn

if TYPE_CHECKING:
    from nodes.training.checkpoints import Checkpoint

_AXES = "XYZ"
_KEY = 0x6175676D
_WORDS_BEFORE_CHANNELS = 1
_UNIT = 2.0**-53


@dataclass(frozen=True)
class Augmentation:
    """What may happen to a volume.

    `flips` mirrors it along each named axis in half the cases, `quarter_turns` turns it by 0 to 3 quarters in the
    X-Y plane. `intensity` stretches each channel about its mean by 1 - intensity to 1 + intensity and shifts it by up
    to so many of its deviations; `noise` adds Gaussian noise of so many deviations to each voxel.
    """

    flips: Flips = "none"
    quarter_turns: bool = False
    intensity: float = 0.0
    noise: float = 0.0

    @classmethod
    def of(cls, settings: Settings) -> Augmentation:
        return cls(settings.flips, settings.quarter_turns, settings.intensity, settings.noise)


def augmented(loader: Loader, augmentation: Augmentation, begin: Checkpoint, *, threads: int) -> Loader:
    """The loader of augmented batches; the very same loader when nothing is to happen.

    Means and deviations of the channels are those of the normalisation that the training began with. Raises
    `UsageError` when volumes of this shape cannot be turned.
    """
    if augmentation == Augmentation():
        return loader
    if augmentation.quarter_turns and (problem := cannot_turn(loader.source.spec.shape)):
        raise UsageError(problem, hint="Set quarter_turns to false; flips fit every shape.", parameter="quarter_turns")
    mean, deviation = np.array(begin.mean), np.sqrt(np.array(begin.variance))
    return TransformedLoader(
        loader, partial(augment, augmentation, loader.reading.seed, mean, deviation), threads=threads
    )


def augment(
    augmentation: Augmentation,
    seed: int,
    mean: NDArray[np.float64],
    deviation: NDArray[np.float64],
    batch: Batch,
    epoch: int,
) -> None:
    """Change each volume of the batch, in place."""
    # Volumes of three axes have one channel.
    volumes = batch.volumes if batch.volumes.ndim == 5 else batch.volumes[..., np.newaxis]
    for volume, row in zip(volumes, batch.rows.tolist(), strict=True):
        _augment(volume, augmentation, _draws(seed, epoch, row), mean, deviation)


def _draws(*key: int) -> np.random.SFC64:
    # Seeds may be negative in a document; entropy may not.
    return np.random.SFC64(np.random.SeedSequence([part % 2**64 for part in (*key, _KEY)]))


def _augment(
    volume: NDArray[np.float32],
    augmentation: Augmentation,
    draws: np.random.SFC64,
    mean: NDArray[np.float64],
    deviation: NDArray[np.float64],
) -> None:
    """Change one volume, float32 (X, Y, Z, C)."""
    channels = volume.shape[3]
    words = draws.random_raw(_WORDS_BEFORE_CHANNELS + 2 * channels)
    moved = _moved(volume, augmentation, int(words[0]))
    if moved is not volume:
        volume[...] = moved.copy()
    # In rows of whole planes: NumPy is slow at factors that repeat every few values.
    planes = volume.reshape(len(volume), -1)
    if augmentation.intensity:
        # Uniform in [-1, 1), one pair per channel, of the upper 53 bits.
        stretch, shift = (words[_WORDS_BEFORE_CHANNELS:] >> np.uint64(11)).reshape(2, channels) * (2 * _UNIT) - 1
        scale = 1 + augmentation.intensity * stretch
        planes *= _along(planes, scale)
        planes += _along(planes, mean * (1 - scale) + augmentation.intensity * shift * deviation)
    if augmentation.noise:
        quantiles = draws.random_raw(-(-planes.size // 4)).view(np.uint16)[: planes.size]
        noise = np.take(_normal_quantiles(), quantiles).reshape(planes.shape)
        noise *= _along(planes, augmentation.noise * deviation)
        planes += noise


def _along(planes: NDArray[np.float32], values: NDArray[np.float64]) -> NDArray[np.float32]:
    """One value per channel, repeated for all voxels of a plane."""
    return np.tile(values.astype(np.float32), planes.shape[1] // len(values))


@cache
def _normal_quantiles() -> NDArray[np.float32]:
    """The 65,536 quantiles of the standard normal distribution.

    Drawing among them takes two bytes of the raw stream, which NumPy keeps fixed for good where it does not what
    `standard_normal` makes of it (NEP 19), and an eighth of its time.
    """
    normal = NormalDist()
    return np.array([normal.inv_cdf((number + 0.5) / 2**16) for number in range(2**16)], np.float32)


def _moved(volume: NDArray[np.float32], augmentation: Augmentation, word: int) -> NDArray[np.float32]:
    """A view of the volume, mirrored and turned as the bits of `word` say; the volume itself where they say nothing."""
    for axis, name in enumerate(_AXES):
        if name in augmentation.flips and word >> axis & 1:
            volume = np.flip(volume, axis)
    turns = word >> len(_AXES) & 3
    return np.rot90(volume, turns) if augmentation.quarter_turns and turns else volume
