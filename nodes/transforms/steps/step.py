"""What a step is, and what all of them use."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Volume = NDArray[Any]
Matrix = NDArray[np.float64]
Form = tuple[tuple[int, ...], str]
"""Shape and NumPy dtype name."""
Row = MutableMapping[str, Any]
"""What is known of a volume besides: `id`, and the source's columns such as `spacing_x` (millimetres a voxel)."""

SPACING = ("spacing_x", "spacing_y", "spacing_z")


class Unfit(ValueError):
    """A step cannot be applied to a volume. The message is a sentence without its subject: "has no channel 3"."""


@dataclass(frozen=True)
class Step(ABC):
    """One change of a volume."""

    name: ClassVar[str]
    version: ClassVar[int] = 1

    @abstractmethod
    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form | None:
        """Shape and dtype afterwards; None: only applying it tells. Raises `Unfit`."""

    @abstractmethod
    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        """The changed volume: a new array, or a view of the given one, which stays as it is. Raises `Unfit`."""

    def matrix(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> Matrix | None:
        """4x4: from the voxels afterwards to those of before, whose `shape` is given. None: it cannot be said."""
        return np.eye(4)

    @abstractmethod
    def words(self) -> str:
        """What it does, for people, in a few words."""

    def as_json(self) -> dict[str, Any]:
        """`load_steps` reads it."""
        return {"name": self.name, "version": self.version, "parameters": asdict(self)}


def spacing_of(row: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Millimetres a voxel along X, Y and Z; None where one is missing, or no length."""
    values = [row.get(name) for name in SPACING]
    if any(not isinstance(v, (int, float)) or not math.isfinite(v) or v <= 0 for v in values):
        return None
    x, y, z = (float(v) for v in values if v is not None)
    return x, y, z


def times(shape: Sequence[int]) -> str:
    """A shape as people write it: `64x64x48`."""
    return "x".join(map(str, shape))
