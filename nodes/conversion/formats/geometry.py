"""Where a volume lies in space, as columns of the table: spacing, orientation, and the whole affine.

`affine` is the text of a 4x4 matrix, sixteen numbers row by row, from a voxel (counted from 0, its middle) to the space
that `affine_space` names. Tables of earlier versions have twelve numbers, without the last row, which is 0 0 0 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nodes.transforms.steps import affine_in as affine_in
from nodes.transforms.steps import text_of as text_of

_CODES = (("L", "R"), ("P", "A"), ("I", "S"))
RAS = "RAS mm"
"""Millimetres that grow to the right, to the front (anterior) and upwards (superior)."""
UNNAMED = "mm"
"""Millimetres along axes of which the file does not say where they point to."""
_WORDS = {"L": "left", "R": "right", "P": "back", "A": "front", "I": "down", "S": "up"}
_NEARLY_EVEN = 6.0
"""Degrees by which an axis must be nearer to one direction than to the next, or its letter could be either."""
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
"""From coordinates that grow to the left, to the back and upwards (DICOM, ITK) to ours."""


def columns_of(affine: NDArray[np.float64]) -> dict[str, float | int | str]:
    """The columns for a 4x4 `affine` from voxels to millimetres that grow to the right, to the front and upwards.

    `spacing_x`, `spacing_y`, `spacing_z` are millimetres a voxel; `orientation` says where each axis points, e.g. RAS,
    with "?" for an axis that points nowhere; `affine` is its text.
    An affine with a NaN or an infinity gives no columns.
    """
    matrix = np.asarray(affine, np.float64)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        return {}
    spacing = np.sqrt((matrix[:3, :3] ** 2).sum(axis=0))
    return {
        **{f"spacing_{axis}": float(value) for axis, value in zip("xyz", spacing, strict=True)},
        "orientation": orientation(matrix),
        "affine": text_of(matrix, digits=9),
        "affine_space": RAS,
    }


def orientation(affine: NDArray[np.float64]) -> str:
    """Three letters: where X, Y and Z point to, each along the direction that it is nearest to."""
    found = ["?", "?", "?"]
    with np.errstate(invalid="ignore", divide="ignore"):
        directions = affine[:3, :3] / np.sqrt((affine[:3, :3] ** 2).sum(axis=0))
    directions = np.nan_to_num(directions)
    left_axes, left_ways = [0, 1, 2], [0, 1, 2]
    while left_axes:
        strength = np.abs(directions[np.ix_(left_ways, left_axes)])
        way, axis = np.unravel_index(int(np.argmax(strength)), strength.shape)
        if strength[way, axis] == 0:
            break
        chosen_way, chosen_axis = left_ways[int(way)], left_axes[int(axis)]
        found[chosen_axis] = _CODES[chosen_way][int(directions[chosen_way, chosen_axis] > 0)]
        left_ways.remove(chosen_way)
        left_axes.remove(chosen_axis)
    return "".join(found)


def oblique(columns: Mapping[str, float | int | str]) -> tuple[str, ...]:
    """A remark on a volume with these columns, one axis of which points right between two directions.

    Other letters would describe it as well then. Libraries that turn volumes to the nearest directions turn such ones
    one way or another.
    """
    affine = affine_in(columns.get("affine"))
    if affine is None or "orientation" not in columns:
        return ()
    matrix = affine[:3, :3]
    with np.errstate(invalid="ignore", divide="ignore"):
        directions = np.nan_to_num(matrix / np.sqrt((matrix**2).sum(axis=0)))
    for axis, direction in zip("XYZ", directions.T, strict=True):
        other, most = np.argsort(np.abs(direction))[-2:]
        first, second = (_WORDS[_CODES[way][int(direction[way] > 0)]] for way in (most, other))
        angles = np.degrees(np.arccos(np.minimum(np.abs(direction[[most, other]]), 1)))
        if direction[most] and angles[1] - angles[0] < _NEARLY_EVEN:
            return (
                f"lies oblique: {axis} points between {first} and {second} ({angles[0]:.0f} and {angles[1]:.0f} degrees"
                f" from them), so its orientation {columns['orientation']} could as well be another; use its affine, or"
                " resample it to straight axes",
            )
    return ()


def affine_of(
    directions: Sequence[Sequence[float]], spacing: Sequence[float], origin: Sequence[float]
) -> NDArray[np.float64]:
    """The affine of three unit vectors (where X, Y, Z point to), millimetres a voxel, and the first voxel's place."""
    out = np.eye(4)
    out[:3, :3] = np.asarray(directions, np.float64).T * np.asarray(spacing, np.float64)
    out[:3, 3] = np.asarray(origin, np.float64)
    return out
