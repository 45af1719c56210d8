"""Horizons and polygons: text files of points, and which patches are above, below, within, inside or outside."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError
from engine.text import plural
from nodes.conversion.formats.geometry import affine_in
from nodes.conversion.formats.interface import VolumeHeader

_NULL = 1e29
"""Larger depths stand for none, as 1e30 does in many programs."""
_COMMENTS = ("#", "!", "@", "%")
_DECIMAL_COMMA = re.compile(r"^(\s*[-+]?\d*),(\d+(?:[eE][-+]?\d+)?\s*)$")
"""A number that is all there is between two semicolons."""
ABOVE, BELOW, WITHIN = "above", "below", "within"
INSIDE, OUTSIDE = "inside", "outside"


def read_points(path: Path) -> list[NDArray[np.float64]]:
    """The points of a text file, (n, 2) or (n, 3) for each block; blank lines and lines with ">" are between blocks.

    Numbers have blanks, tabs, commas or semicolons between them; a comma within the only number between semicolons is a
    decimal point. Lines that begin with #, !, @ or %, and words before the first point, are left out. Raises
    `DataError` with the line.
    """
    blocks: list[list[list[float]]] = [[]]
    width = 0
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is no text"
        raise _unusable(f"{path} cannot be read: {why}") from exc
    for number, line in enumerate(text.splitlines(), 1):
        parts = [part for part in line.split(";") if part.strip()]
        if len(parts) > 1:  # as spreadsheets in half of Europe write: 120,5;30;1500,25
            parts = [_DECIMAL_COMMA.sub(r"\1.\2", part) for part in parts]
        words = " ".join(parts).replace(",", " ").split()
        if not words or line.startswith(">"):
            blocks.append([])
            continue
        if words[0].startswith(_COMMENTS):
            continue
        try:
            point = [float(word) for word in words]
        except ValueError:
            if not width:
                continue  # the names of the columns
            raise _unusable(f"line {number} of {path.name} is no point: {line.strip()[:60]!r}") from None
        if len(point) not in (2, 3) or (width and len(point) != width):
            raise _unusable(f"line {number} of {path.name} has {plural(len(point), 'numbers')}: {line.strip()[:60]!r}")
        width = len(point)
        if not all(map(math.isfinite, point[:2])):
            raise _unusable(f"line {number} of {path.name} has a place that is no number: {line.strip()[:60]!r}")
        if width == 2 or abs(point[2]) < _NULL:  # NaN is not
            blocks[-1].append(point)
    if not width:
        raise _unusable(f"{path.name} has no points")
    return [np.array(block, np.float64) for block in blocks if block]


def _unusable(problem: str) -> DataError:
    return DataError(
        problem, hint="Give a point in a line: x y z for a horizon, x y for a polygon.", parameter="label_file"
    )


def to_voxels(points: NDArray[np.float64], positions: str, header: VolumeHeader, name: str) -> NDArray[np.float64]:
    """Points (n, 3) in voxels, from 0. `positions` says what they are in: "voxels", "lines" or "world".

    Raises `DataError` when the volume `name` does not say where its lines, or it itself, are.
    """
    if positions == "voxels":
        return points
    if positions == "lines":
        if not header.axes:
            raise _no_place(f"{name} has no inline and crossline numbers", "lines")
        first = np.array([axis.first for axis in header.axes], np.float64)
        counted: NDArray[np.float64] = (points - first) / np.array([axis.step for axis in header.axes], np.float64)
        return counted
    matrix = affine_in(header.columns.get("affine"))
    # By its rank: the determinant is next to 0 for voxels of some nanometres, too.
    if matrix is None or not np.isfinite(matrix).all() or np.linalg.matrix_rank(matrix[:3, :3]) < 3:
        raise _no_place(f"{name} does not say where it lies in the world", "world")
    solved: NDArray[np.float64] = np.linalg.solve(matrix[:3, :3], (points - matrix[:3, 3]).T).T.astype(np.float64)
    return solved


def _no_place(problem: str, positions: str) -> DataError:
    return DataError(
        f"{problem}, and positions is {positions}", hint="Give the label file in voxels.", parameter="positions"
    )


def horizon_depths(points: NDArray[np.float64], shape: Sequence[int]) -> NDArray[np.float32]:
    """The depth in voxels at each X and Y, NaN where it is not known; `points` are (n, 3) in voxels.

    Several points for one trace give their mean. Between points the depth is interpolated along Y, then along X; it is
    not continued beyond them.
    """
    depths = np.full((shape[0], shape[1]), np.nan)
    places = np.rint(points[:, :2]).astype(np.int64)
    inside = ((places >= 0) & (places < depths.shape)).all(axis=1)
    sums, counts = np.zeros_like(depths), np.zeros_like(depths)
    at = tuple(places[inside].T)
    np.add.at(sums, at, points[inside, 2])
    np.add.at(counts, at, 1)
    np.divide(sums, counts, out=depths, where=counts > 0)
    for lines in (depths, depths.T):  # views: what is filled along Y serves along X
        for line in lines:
            known = np.flatnonzero(~np.isnan(line))
            if 1 < len(known) < len(line):
                line[:] = np.interp(np.arange(len(line)), known, line[known], left=np.nan, right=np.nan)
    return depths.astype(np.float32)


def by_horizon(
    centres: NDArray[np.int32], depths: NDArray[np.float32], within: float, classes: Sequence[str]
) -> NDArray[np.float32]:
    """The label of each patch, a place in `classes`: above, below or within so many samples; NaN without a horizon."""
    below = centres[:, 2] - depths[centres[:, 0], centres[:, 1]]
    labels = np.where(below < 0, np.float32(classes.index(ABOVE)), np.float32(classes.index(BELOW)))
    if WITHIN in classes:
        labels[np.abs(below) <= within] = classes.index(WITHIN)
    labels[np.isnan(below)] = np.nan
    return labels.astype(np.float32)


def by_polygons(
    centres: NDArray[np.int32], polygons: Sequence[NDArray[np.float64]], within: float, classes: Sequence[str]
) -> NDArray[np.float32]:
    """The label of each patch, a place in `classes`: inside one of the polygons, or outside.

    Polygons are (n, 3) in voxels; with a depth that is no NaN they hold within so many samples of its mean.
    """
    inside = np.zeros(len(centres), bool)
    points, back = np.unique(centres[:, :2], axis=0, return_inverse=True)
    for polygon in polygons:
        found = _in_polygon(points.astype(np.float64), polygon[:, :2])[back.reshape(-1)]
        depth = polygon[:, 2].mean()
        if not np.isnan(depth):
            found &= np.abs(centres[:, 2] - depth) <= within
        inside |= found
    return np.where(inside, np.float32(classes.index(INSIDE)), np.float32(classes.index(OUTSIDE)))


def _in_polygon(points: NDArray[np.float64], polygon: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points lie inside: a line from them in one direction crosses the border an odd number of times."""
    inside = np.zeros(len(points), bool)
    x, y = points.T
    for (ax, ay), (bx, by) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        if ay == by:
            continue
        crosses = (ay > y) != (by > y)
        inside ^= crosses & (x < ax + (y - ay) / (by - ay) * (bx - ax))
    return inside


def check_polygons(blocks: Sequence[NDArray[np.float64]], name: str) -> None:
    """Raise `DataError` for a block that is no polygon at one depth."""
    for number, block in enumerate(blocks, 1):
        if len(block) < 3:
            raise _unusable(f"polygon {number} of {name} has {len(block)} points; it takes three")
        if block.shape[1] == 3 and np.ptp(block[:, 2]) > 0:
            raise _unusable(
                f"polygon {number} of {name} has depths from {block[:, 2].min():g} to {block[:, 2].max():g}; it takes"
                " one"
            )
