"""Chains of steps: how they are loaded, described, and applied one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .geometry import Axes, Channels, CropPad, Resample
from .intensity import Cast, Clip, ClipPercentiles, Normalise
from .orient import Orient, moved_orientation
from .own_code import Function, FunctionOfVersion1, WholeNode
from .place import moved_place
from .scale import ClipMeasured, Scale
from .step import SPACING, Form, Matrix, Row, Step, Unfit, Volume, spacing_of

_KINDS: tuple[type[Step], ...] = (
    Orient, Axes, Channels, Resample, CropPad, Clip, ClipPercentiles, ClipMeasured, Normalise, Scale, Cast, Function,
    WholeNode,
)  # fmt: skip
STEPS: dict[str, type[Step]] = {step.name: step for step in _KINDS}
_EARLIER: dict[tuple[str, int], type[Step]] = {(step.name, step.version): step for step in (FunctionOfVersion1,)}
"""What other versions did, by name and version; a version that is not here did what the newest does."""


def load_steps(chain: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """The steps of a stored chain. Raises `Unfit` for one that is not known here, or of a newer version."""
    out: list[Step] = []
    for each in chain:
        kind = STEPS.get(str(each["name"]))
        if kind is None or int(each["version"]) > kind.version:
            raise Unfit(f"was made with the transform {each['name']} {each['version']}, which is not known here")
        kind = _EARLIER.get((kind.name, int(each["version"])), kind)
        values = {k: _tuples(v) for k, v in each["parameters"].items()}
        out.append(kind(**values))
    return tuple(out)


def _tuples(value: Any) -> Any:
    """JSON has lists for tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def describe(steps: Sequence[Step]) -> str:
    """`resample 1 mm, crop 64x64x48, z-score`."""
    return ", ".join(step.words() for step in steps)


def form_after(
    steps: Sequence[Step], shape: tuple[int, ...], dtype: str, row: Mapping[str, Any] | None = None
) -> Form | None:
    """Shape and dtype after all steps; None: a function of one's own decides, or what is not known of the volume.

    Raises `Unfit`.
    """
    found = form_and_row_after(steps, shape, dtype, row)
    return found[0] if found is not None else None


def form_and_row_after(
    steps: Sequence[Step], shape: tuple[int, ...], dtype: str, row: Mapping[str, Any] | None = None
) -> tuple[Form, Row] | None:
    """See `form_after`; with what is known of the volume afterwards, its spacing and orientation brought up to date."""
    known: Row = dict(row or {})
    for step in steps:
        found = step.form(shape, dtype, known)
        if found is None:
            return None
        _move(known, step.matrix(shape, known))
        shape, dtype = found
    return (shape, dtype), known


def apply_steps(
    steps: Sequence[Step], volume: Volume, row: Mapping[str, Any] | None = None
) -> tuple[Volume, Matrix | None]:
    """The volume after all steps, C order and little-endian, and the matrix from its voxels to those of before.

    The matrix is 4x4; None: where the voxels came from cannot be said. Raises `Unfit`.
    """
    known = dict(row or {})
    total: Matrix | None = np.eye(4)
    for step in steps:
        before = volume.shape
        if isinstance(step, Function) and step.version > 1:
            # For it alone: other steps need no more than spacing and orientation, and this takes time.
            volume = step.apply(volume, known | moved_place(known, total))
        else:
            volume = step.apply(volume, known)
        matrix = step.matrix(before, known)
        if isinstance(step, Function) and volume.shape[:3] != before[:3]:
            matrix = None
        _move(known, matrix)
        total = total @ matrix if total is not None and matrix is not None else None
    kind = volume.dtype.newbyteorder("<")
    return np.ascontiguousarray(volume, kind), total


def _move(row: Row, matrix: Matrix | None) -> None:
    """Let spacing and orientation follow a step.

    The rest stays as it was before the chain: `moved_place` moves it by the matrix of all steps, so it is rounded once.
    """
    moved_orientation(row, matrix)
    spacing = spacing_of(row)
    if spacing is None:
        return
    if matrix is None:
        row.update(dict.fromkeys(SPACING))
        return
    found = np.sqrt(((np.diag(spacing) @ matrix[:3, :3]) ** 2).sum(axis=0))
    row.update(zip(SPACING, found.tolist(), strict=True))
