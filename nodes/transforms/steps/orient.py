"""Turning volumes so that their axes point the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .step import Form, Matrix, Row, Step, Unfit, Volume

ORIENTATION = "orientation"
_WAYS = ("LR", "PA", "IS")
_NEARLY_EVEN = 0.9
"""An axis that points in two directions more evenly than this, near 45 degrees, could be named after either."""


@dataclass(frozen=True)
class Orient(Step):
    """Reorder and reverse X, Y and Z until they point `to` these directions: RAS is right, front and up.

    Which way they point is what the file says, each axis along the direction that it is nearest to: nothing is
    interpolated, and an oblique volume stays oblique. A volume of which that is not known is refused.
    """

    to: str

    name = "orient"

    def form(self, shape: tuple[int, ...], dtype: str, row: Mapping[str, Any]) -> Form | None:
        if row.get(ORIENTATION) is None and len(set(shape[:3])) == 1:
            return shape, dtype
        if row.get(ORIENTATION) is None:
            return None
        return (*(shape[old] for old, _ in self._axes(shape, row)), *shape[3:]), dtype

    def apply(self, volume: Volume, row: Mapping[str, Any]) -> Volume:
        axes = self._axes(volume.shape, row)
        turned = volume.transpose(*(old for old, _ in axes), *range(3, volume.ndim))
        return turned[tuple(slice(None, None, -1) if reverse else slice(None) for _, reverse in axes)]

    def matrix(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> Matrix | None:
        if row.get(ORIENTATION) is None:
            return None
        out = np.zeros((4, 4))
        out[3, 3] = 1
        for new, (old, reverse) in enumerate(self._axes(shape, row)):
            out[old, new] = -1 if reverse else 1
            out[old, 3] = shape[old] - 1 if reverse else 0
        return out

    def words(self) -> str:
        return f"axes to {self.to}"

    def _axes(self, shape: tuple[int, ...], row: Mapping[str, Any]) -> tuple[tuple[int, bool], ...]:
        """For X, Y and Z afterwards the axis that it was before, and whether that is reversed. Raises `Unfit`."""
        if len(shape) < 3:
            raise Unfit(f"has {len(shape)} axes, so it cannot be turned to {self.to}")
        given = row.get(ORIENTATION)
        ways = [_way(letter) for letter in given] if isinstance(given, str) else []
        if sorted(ways) != [0, 1, 2]:
            raise Unfit(f"does not say where its axes point, so it cannot be turned to {self.to}")
        _refuse_uneven(row.get("affine"))
        assert isinstance(given, str)
        old = [ways.index(_way(letter)) for letter in self.to]
        return tuple((axis, given[axis] != letter) for axis, letter in zip(old, self.to, strict=True))


def moved_orientation(row: Row, matrix: Matrix | None) -> None:
    """Let the letters of a row follow a step that reorders or reverses axes."""
    given = row.get(ORIENTATION)
    if not isinstance(given, str) or len(given) != 3:
        return
    if matrix is None:
        row[ORIENTATION] = None
        return
    letters = []
    for column in matrix[:3, :3].T:
        old = int(np.argmax(np.abs(column)))
        letters.append(given[old] if column[old] > 0 else _opposite(given[old]))
    row[ORIENTATION] = "".join(letters)


def _way(letter: str) -> int:
    return next((place for place, both in enumerate(_WAYS) if letter in both), -1)


def _opposite(letter: str) -> str:
    both = next((both for both in _WAYS if letter in both), letter * 2)
    return both[1] if letter == both[0] else both[0]


def _refuse_uneven(affine: object) -> None:
    """Raise `Unfit` for axes near 45 degrees between two directions: turning does not change whether they are."""
    try:
        values = [float(part) for part in affine.split()[:12]] if isinstance(affine, str) else []
    except ValueError:
        return
    if len(values) != 12:
        return
    lengths: NDArray[np.float64] = np.sort(np.abs(np.array(values).reshape(3, 4)[:, :3]), axis=0)
    if (lengths[1] > _NEARLY_EVEN * lengths[2]).any():
        raise Unfit("lies near 45 degrees between two directions, so which way an axis points is not certain")
