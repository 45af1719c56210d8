"""Where the patches of a volume lie, and the order in which they are cut."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodes.cutting.cut_parameters import Steps

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class PatchGrid:
    """The patches of a volume of `shape` (voxels along X, Y and Z): one for each step.

    With `padded` the last patch along an axis reaches over the volume's end, so that every voxel is in one that is not
    skipped by the stride; else patches lie inside.
    """

    shape: Triple
    steps: Steps
    padded: bool = False

    @property
    def counts(self) -> Triple:
        """Patches along each axis."""
        x, y, z = (
            _count(length, size, stride, self.padded)
            for length, size, stride in zip(self.shape, *self.steps, strict=True)
        )
        return x, y, z

    def __len__(self) -> int:
        return math.prod(self.counts)

    def positions(self, strip: int, *, last_is_slow: bool = False) -> NDArray[np.int32]:
        """The first voxel of each patch, (n, 3), in the order in which they are cut: X slowest, Z fastest.

        `last_is_slow` turns that round, for files that have one Z after another. Along Y only `strip` patches are cut
        before X begins again: what the next X needs, too, is then little enough to stay in memory.
        """
        starts = [
            np.arange(count, dtype=np.int32) * stride
            for count, stride in zip(self.counts, self.steps.stride, strict=True)
        ]
        slow, fast = (starts[2], starts[0]) if last_is_slow else (starts[0], starts[2])
        pieces = []
        for first in range(0, len(starts[1]), strip):
            among = np.meshgrid(slow, starts[1][first : first + strip], fast, indexing="ij")
            a, b, c = (each.reshape(-1) for each in among)
            pieces.append(np.stack([c, b, a] if last_is_slow else [a, b, c], axis=1))
        return np.concatenate(pieces) if pieces else np.empty((0, 3), np.int32)

    def strip(self, across_bytes: int, *, last_is_slow: bool = False, most_bytes: int) -> int:
        """How many patches along Y make a strip: the slab that one step needs then takes about `most_bytes`.

        `across_bytes` are those of one line of voxels along the fast axis.
        """
        (size, size_y, _), (_, stride_y, _) = self.steps
        thick = self.steps.size[2] if last_is_slow else size
        voxels = most_bytes // max(1, 2 * thick * across_bytes)
        return max(1, (voxels - size_y) // stride_y + 1)

    def centres(self, positions: NDArray[np.int32]) -> NDArray[np.int32]:
        """The voxel at the middle of each patch, (n, 3); of two the later one. Inside the volume, also with padding."""
        half = np.array([length // 2 for length in self.steps.size], np.int32)
        centres: NDArray[np.int32] = np.minimum(positions + half, np.array(self.shape, np.int32) - 1)
        return centres


def _count(length: int, size: int, stride: int, padded: bool) -> int:
    if not padded:
        return max(0, (length - size) // stride + 1)
    # Until the end is reached; with a stride beyond the size it may lie between two patches.
    return min(max(0, -(-(length - size) // stride)) + 1, -(-length // stride))
