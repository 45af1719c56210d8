"""Where a volume lies in space, as columns of the table: spacing, orientation, and the whole affine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_CODES = (("L", "R"), ("P", "A"), ("I", "S"))
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
"""From coordinates that grow to the left, to the back and upwards (DICOM, ITK) to ours."""


def columns_of(affine: NDArray[np.float64]) -> dict[str, float | int | str]:
    """The columns for a 4x4 `affine` from voxels to millimetres that grow to the right, to the front and upwards.

    `spacing_x`, `spacing_y`, `spacing_z` are millimetres a voxel; `orientation` says where each axis points, e.g. RAS,
    with "?" for an axis that points nowhere; `affine` is its first three rows, twelve numbers with spaces between.
    An affine with a NaN or an infinity gives no columns.
    """
    matrix = np.asarray(affine, np.float64)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        return {}
    spacing = np.sqrt((matrix[:3, :3] ** 2).sum(axis=0))
    return {
        **{f"spacing_{axis}": float(value) for axis, value in zip("xyz", spacing, strict=True)},
        "orientation": orientation(matrix),
        "affine": " ".join(f"{value:.9g}" for value in matrix[:3].reshape(-1)),
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


def affine_of(
    directions: Sequence[Sequence[float]], spacing: Sequence[float], origin: Sequence[float]
) -> NDArray[np.float64]:
    """The affine of three unit vectors (where X, Y, Z point to), millimetres a voxel, and the first voxel's place."""
    out = np.eye(4)
    out[:3, :3] = np.asarray(directions, np.float64).T * np.asarray(spacing, np.float64)
    out[:3, 3] = np.asarray(origin, np.float64)
    return out
