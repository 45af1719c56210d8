"""Whether files that are cut together lie in one place: voxel n of the labels is voxel n of the volume only then."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.conversion.formats.geometry import affine_in
from nodes.conversion.formats.interface import Axis, VolumeHeader
from nodes.conversion.quarantine import Refused

_NEAR = 0.5
"""Voxels by which they may lie apart. Programs round what they write by far less; with more, another voxel is meant."""


def refuse_elsewhere(volume: VolumeHeader, other: VolumeHeader, name: str) -> None:
    """Raise `Refused` when both headers say where their voxels lie, and the file `name` of `other` lies elsewhere.

    Both have the same shape. A file that does not say is taken as it is.
    """
    for one, its in zip(volume.axes, other.axes, strict=False):
        if one.name == its.name and abs(one.first - its.first) + abs(one.step - its.step) > _NEAR * abs(one.step):
            raise Refused("elsewhere", f"has {_axis(one)}, {name} has {_axis(its)}: they do not lie in the same place")
    mine, theirs = _affine(volume), _affine(other)
    if mine is None or theirs is None or volume.columns.get("affine_space") != other.columns.get("affine_space"):
        return
    corners = np.array([[*corner, 1] for corner in itertools.product(*((0, n - 1) for n in (*volume.shape, 1, 1)[:3]))])
    apart = float(np.linalg.norm((corners @ (mine - theirs).T)[:, :3], axis=1).max())
    spacing = np.sqrt((mine[:3, :3] ** 2).sum(axis=0))
    near = _NEAR * float(spacing[spacing > 0].min(initial=np.inf))
    if apart > near:
        raise Refused(
            "elsewhere",
            f"and {name} do not lie in the same place: voxels with the same number are up to {apart:.3g} apart"
            f" ({_says(volume)}, {_says(other)})",
        )


def _affine(header: VolumeHeader) -> NDArray[np.float64] | None:
    return affine_in(header.columns.get("affine"))


def _says(header: VolumeHeader) -> Any:
    """What a person sees first of two affines."""
    return header.columns.get("orientation") or header.columns["affine"]


def _axis(axis: Axis) -> str:
    return f"{axis.name} from {axis.first:g} by {axis.step:g}"
