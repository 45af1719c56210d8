"""How many volumes the parts of a split will have, before they are counted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence


def clear_share(lengths: Sequence[float], gap: Sequence[float], taken: float) -> float:
    """The mean share of volumes that no block of another part is near to, in a space much larger than a block.

    `lengths` and `gap` are those of the blocks along each axis, the gap no longer than a block; `taken` is the share
    of blocks that count as others. A volume within the gap of its block's end reaches into the next block as well.
    """
    along = [_blocks_reached(near / length) for length, near in zip(lengths, gap, strict=True)]
    total = 0.0
    for each in itertools.product(*along):
        blocks = math.prod(count for count, _ in each)
        chance = math.prod(share for _, share in each)
        total += chance * (1 - taken) ** (blocks - 1)
    return total


def _blocks_reached(gap: float) -> tuple[tuple[int, float], ...]:
    """How many blocks are near a place along one axis, each with its chance; the gap, in blocks, is at most 1."""
    if gap <= 0.5:
        return (1, 1 - 2 * gap), (2, 2 * gap)
    return (2, 2 - 2 * gap), (3, 2 * gap - 1)
