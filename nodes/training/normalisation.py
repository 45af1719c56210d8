"""Mean and variance of each channel of the input, measured over a sample of the training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.declare.progress import enter_phase, track
from nodes.loaders.interface import Reading, Source
from nodes.loaders.rows import RowNumbers, shuffled
from nodes.training.architecture import volume_shape
from nodes.training.usable_values import NAMED, usable, values_error

SAMPLE_BYTES = 256 << 20
"""At most this much is read, as float32: 745 volumes of 360 kB, millions of voxels a channel."""
_SAMPLE_KEY = 0x6D65616E
_BATCH_BYTES = 16 << 20


@dataclass(frozen=True)
class Normalisation:
    """One mean and variance per channel, over `rows` volumes. `constant` lists the channels without any spread."""

    mean: tuple[float, ...]
    variance: tuple[float, ...]
    rows: int
    constant: tuple[int, ...] = ()


def measure(source: Source, chosen: RowNumbers) -> Normalisation:
    """Measure over all of `chosen`, or the same sample of them every time when they are many.

    A constant channel gets variance 1: dividing by nearly nothing would blow up any other value it
    has later. Raises `DataError` naming volumes that hold values which are not usable.
    """
    channels = volume_shape(source.spec.shape)[3]
    volume_bytes = 4 * int(np.prod(source.spec.shape))
    count = min(len(chosen), max(1, SAMPLE_BYTES // volume_bytes))
    sample = np.sort(chosen[shuffled(len(chosen), _SAMPLE_KEY)[:count]])
    loader = source.loader(sample, Reading(max(1, min(count, _BATCH_BYTES // volume_bytes)), training=False))
    mean, spread, seen = np.zeros(channels), np.zeros(channels), 0
    enter_phase("Measuring the input")
    batches = track(
        loader.batches(),
        total=count,
        unit="volumes",
        amount=lambda batch: len(batch.rows),
    )
    for batch in batches:
        good = usable(batch.volumes)
        if not good.all():
            raise values_error("", source.ids(batch.rows[~good][:NAMED]))
        voxels = batch.volumes.reshape(-1, channels).astype(np.float64)
        # Joining means and squared deviations part by part keeps the digits that a sum of squares loses
        # (Chan, Golub, LeVeque 1983).
        own_mean = voxels.mean(axis=0)
        step, total = own_mean - mean, seen + len(voxels)
        spread += ((voxels - own_mean) ** 2).sum(axis=0) + step**2 * seen * len(voxels) / total
        mean += step * len(voxels) / total
        seen = total
    variance = spread / seen
    # Rounding alone leaves a constant channel a variance of some 1e-16 of its square.
    constant = variance <= 1e-12 * np.maximum(mean**2, 1e-30)
    variance[constant] = 1.0
    flat = tuple(int(channel) for channel in np.flatnonzero(constant))
    return Normalisation(tuple(mean.tolist()), tuple(variance.tolist()), count, flat)
