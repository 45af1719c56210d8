"""Seismic-like labelled volumes, made from a seed: what a first pipeline trains on.

A volume is a stack of dipping reflectors; its class is the set of features that it shows. The last
axis holds channels that look like attributes of the amplitude: smoothed, its change along depth and
sideways, its envelope, its unevenness.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.synthetic import class_features

_VIEWS = 5
_REFLECTORS = 4
_REACH = 6
"""Amplitudes lie within this, but for the strongest bright spots and noise."""

Volume = NDArray[Any]
"""float32; arithmetic with Python numbers keeps it so."""


def class_of(index: int, seed: int, classes: int) -> int:
    """The class of volume `index`: each run of `classes` volumes holds every class once, in mixed order."""
    block, place = divmod(index, classes)
    # The third number keeps these streams apart from those of the volumes.
    order = np.random.default_rng([seed, block, 1]).permutation(classes)
    return int(order[place])


class SeismicMaker:
    """Makes volumes of one shape and dtype. The same seed and index give the same volume, always."""

    def __init__(self, shape: tuple[int, ...], dtype: str, classes: int, noise: float, seed: int) -> None:
        """`shape` has at least one axis of voxels and, last, the channels; `noise` is relative to the signal."""
        self._voxels, self._channels = shape[:-1], shape[-1]
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._features = class_features(classes)
        self._noise, self._seed, self._classes = noise, seed, classes
        # Layers lie across the longest axis: long enough for several reflectors.
        self._depth = int(np.argmax(self._voxels))
        self._grid = [np.linspace(-1, 1, n, dtype=np.float32) for n in self._voxels]

    def volume(self, index: int) -> tuple[NDArray[Any], int]:
        """Volume `index`, of the given shape and dtype, and its class."""
        kind = class_of(index, self._seed, self._classes)
        random = np.random.default_rng([self._seed, index])
        amplitude = self._amplitude(self._features[kind], random)
        amplitude += self._noise * random.standard_normal(self._voxels, np.float32)
        return _as_dtype(self._views(amplitude), self._dtype), kind

    def _amplitude(self, features: tuple[str, ...], random: np.random.Generator) -> Volume:
        depth = self._axis(self._depth)
        sideways = [self._axis(axis) for axis in range(len(self._voxels)) if axis != self._depth]
        place = depth + 0.1 * np.sin(random.uniform(1, 3) * depth + random.uniform(0, 6))
        for axis in sideways:
            place = place + random.uniform(-0.3, 0.3) * axis
        across = sideways[0] if sideways else np.zeros_like(depth)
        if "fault" in features:
            # One side has slipped along a plane that leans.
            plane = across + random.uniform(-0.5, 0.5) * depth - random.uniform(-0.3, 0.3)
            place = place + _sign(random) * random.uniform(0.25, 0.45) * (plane > 0)
        out: Volume = np.zeros(self._voxels, np.float32)
        for _ in range(_REFLECTORS):
            # 6 to 16 voxels a wave, whatever the size: thinner layers would look like noise.
            pitch = random.uniform(0.2, 0.5) * self._voxels[self._depth]
            phase = random.uniform(0, 2 * math.pi)
            out += random.uniform(0.4, 0.8) * np.sin(pitch * place + phase)
        if "bright-spot" in features:
            out *= 1 + random.uniform(2, 3) * self._blob(random, 0.4)
        if "salt" in features:
            # Salt has no layers: a blob where the signal gives way to weak chaos.
            blob = self._blob(random, 0.6)
            out = out * (1 - blob) + 0.3 * blob * random.standard_normal(self._voxels, np.float32)
        if "channel" in features:
            # A buried river bed: a trough that winds through the volume, evenly filled.
            along = sideways[1] if len(sideways) > 1 else np.zeros_like(depth)
            bed = random.uniform(-0.3, 0.3) + 0.3 * np.sin(3 * along + random.uniform(0, 6))
            level = random.uniform(-0.4, 0.4)
            inside = np.exp(-(((across - bed) / 0.35) ** 2) - ((depth - level) / 0.25) ** 2)
            out = out * (1 - inside) + 2.5 * _sign(random) * inside
        return out

    def _axis(self, axis: int) -> Volume:
        """The coordinate along one axis, from -1 to 1, shaped to broadcast."""
        shape = [1] * len(self._voxels)
        shape[axis] = -1
        return self._grid[axis].reshape(shape)

    def _blob(self, random: np.random.Generator, width: float) -> Volume:
        """A Gaussian bump of height 1 somewhere in the middle."""
        distance: Volume = np.zeros((1,) * len(self._voxels), np.float32)
        for axis in range(len(self._voxels)):
            distance = distance + ((self._axis(axis) - random.uniform(-0.5, 0.5)) / width) ** 2
        bump: Volume = np.exp(-distance)
        return bump

    def _views(self, amplitude: Volume) -> Volume:
        """The channels, last: the views of the amplitude, then the same of a smoother one, and so on."""
        out = np.empty((*self._voxels, self._channels), np.float32)
        for channel in range(self._channels):
            view = channel % _VIEWS
            if view == 0 and channel:
                amplitude = self._smooth(amplitude)
            out[..., channel] = self._view(view, amplitude)
        return out

    def _view(self, view: int, amplitude: Volume) -> Volume:
        if view == 0:
            return amplitude
        if view == 1:
            return self._change(amplitude, self._depth)
        if view == 2:
            return self._change(amplitude, (self._depth + 1) % len(self._voxels))
        if view == 3:
            return self._smooth(np.abs(amplitude))
        unevenness: Volume = np.abs(amplitude - self._smooth(amplitude))
        return unevenness

    def _change(self, values: Volume, axis: int) -> Volume:
        change: Volume = values - np.roll(values, 1, axis)
        return change

    def _smooth(self, values: Volume) -> Volume:
        """The mean with the neighbours before and after along each axis; the volume's ends meet."""
        for axis in range(values.ndim):
            values = (np.roll(values, 1, axis) + values + np.roll(values, -1, axis)) / 3
        return values


def _sign(random: np.random.Generator) -> int:
    return 1 if random.random() < 0.5 else -1


def _as_dtype(values: Volume, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Floats as they are; whole numbers around 0, or around the middle if unsigned, at most 1,000 a unit."""
    if dtype.kind == "f":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    half = min(limits.max // 2 + 1 if limits.min == 0 else limits.max, _REACH * 1000)
    middle = half if limits.min == 0 else 0
    out: NDArray[Any] = np.clip(np.rint(values * (half / _REACH)) + middle, limits.min, limits.max)
    return out.astype(dtype)
