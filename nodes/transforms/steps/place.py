"""Where a volume lies beside its spacing and orientation: its affine, and the numbers that a survey counts by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .step import Matrix

AFFINE, AFFINE_SPACE = "affine", "affine_space"
_COUNTED = (("inline", "inline_step"), ("crossline", "crossline_step"), ("time", "time_step"))
"""Where a survey counts along X, Y and Z: the columns of the first voxel's number, and of the step to the next."""
_NEARLY_WHOLE = 1e-6
"""By how much rounding may move a number of a line from a whole one."""
_DIGITS = 9
"""Of the numbers of an affine that was moved."""


def text_of(affine: Matrix, *, digits: int = 12) -> str:
    """The text of a 4x4 affine."""
    return " ".join(f"{value:.{digits}g}" for value in np.asarray(affine, np.float64).reshape(-1))


def affine_in(text: object) -> Matrix | None:
    """The 4x4 affine of a column's text, of sixteen numbers or of the first twelve; None for anything else."""
    try:
        values = [float(part) for part in text.split()] if isinstance(text, str) else []
    except ValueError:
        return None
    if len(values) not in (12, 16):
        return None
    return np.array([*values, 0.0, 0.0, 0.0, 1.0][:16]).reshape(4, 4)


def moved_place(row: Mapping[str, Any], matrix: Matrix | None) -> dict[str, Any]:
    """The columns of `row` that say where its voxels lie, after these have moved: by `matrix`, from new to old ones.

    None, for a matrix or a value: it is not known any more.
    """
    there = {name: row[name] for name in (AFFINE, AFFINE_SPACE) if row.get(name) is not None}
    for both in _COUNTED:
        # A column `time` alone is not a survey's.
        if all(row.get(name) is not None for name in both):
            there |= {name: row[name] for name in both}
    if not there:
        return {}
    if matrix is not None and np.array_equal(matrix, np.eye(4)):
        return there
    out: dict[str, Any] = dict.fromkeys(there) | moved_lines(row, matrix)
    affine = affine_in(row.get(AFFINE))
    if affine is not None and matrix is not None and np.isfinite(affine).all():
        out |= {AFFINE: text_of(affine @ matrix, digits=_DIGITS), AFFINE_SPACE: row.get(AFFINE_SPACE)}
    return out


def moved_lines(row: Mapping[str, Any], matrix: Matrix | None) -> dict[str, float | int | None]:
    """The columns of a survey's own numbers after its voxels have moved; {} for what is no survey.

    Along an axis that was turned, reversed or mixed with another they are None. Columns keep their types, which are
    those of the table: a number of a line that is no whole one any more, halfway between two say, is None.
    """
    out: dict[str, float | int | None] = {}
    for axis, (name, step_name) in enumerate(_COUNTED):
        first, step = row.get(name), row.get(step_name)
        if first is None or step is None:
            continue
        out |= {name: None, step_name: None}
        if matrix is None or matrix[axis, axis] <= 0 or np.count_nonzero(matrix[axis, :3]) > 1:
            continue
        out[name] = _like(first, first + step * float(matrix[axis, 3]))
        out[step_name] = _like(step, step * float(matrix[axis, axis]))
    return out


def _like(old: float | int, new: float) -> float | int | None:
    """A number of the type that the one before had; None for one that is not whole where that was."""
    if isinstance(old, float):
        return new
    whole = round(new)
    return whole if abs(new - whole) < _NEARLY_WHOLE else None
