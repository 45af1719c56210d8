"""Where the boxes of a lineage lie: its levels from left to right, in each the boxes beside what they are linked to.

vis-network has a layout of its own, but how much room it takes is known only once it is drawn. Here it is known
before, so that the frame has room for every box at a size at which its words can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from engine.lineage import Lineage

_SWEEPS = 4
"""Times that the levels are gone through, forth and back: more move the boxes of no lineage that was tried."""


class Place(NamedTuple):
    """The middle of a box, in pixels; the middle of all of them is 0, 0."""

    x: float
    y: float


class Layout(NamedTuple):
    """Places by item, and the pixels that all boxes take together."""

    places: Mapping[str, Place]
    width: float
    height: float


def laid_out(lineage: Lineage, heights: Mapping[str, float], *, width: float, across: float, down: float) -> Layout:
    """Lay out boxes of `width` by `heights` (by item), `across` and `down` apart from each other, in pixels."""
    if not lineage.items:
        return Layout({}, 0.0, 0.0)
    columns: dict[int, list[str]] = {}
    for item in lineage.order:
        columns.setdefault(lineage.levels[item], []).append(item)
    middles: dict[str, float] = {}
    for column in columns.values():
        middles |= _spread([(item, 0.0) for item in column], heights, down)
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        neighbours = lineage.before if forth else lineage.behind
        for level in sorted(columns, reverse=not forth):
            wanted = {item: _mean([middles[n] for n in neighbours[item]], middles[item]) for item in columns[level]}
            columns[level].sort(key=lambda item, wanted=wanted: (wanted[item], middles[item]))  # type: ignore[misc]
            middles |= _spread([(item, wanted[item]) for item in columns[level]], heights, down)
    top = min(y - heights[item] / 2 for item, y in middles.items())
    bottom = max(y + heights[item] / 2 for item, y in middles.items())
    last = max(columns)
    places = {
        item: Place((lineage.levels[item] - last / 2) * (width + across), y - (top + bottom) / 2)
        for item, y in middles.items()
    }
    return Layout(places, last * (width + across) + width, bottom - top)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _spread(wanted: Sequence[tuple[str, float]], heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """The middles of boxes in this order, as near as can be to where they want to be, and none upon another.

    Boxes that would meet form a block, which lies at the mean of what its boxes want (Pool Adjacent Violators).
    """
    offsets = [0.0]
    for (item, _), (following, _) in pairwise(wanted):
        offsets.append(offsets[-1] + (heights[item] + heights[following]) / 2 + gap)
    blocks: list[tuple[float, int]] = []
    for (_, middle), offset in zip(wanted, offsets, strict=True):
        at, count = middle - offset, 1
        while blocks and blocks[-1][0] >= at:
            other, others = blocks.pop()
            at, count = (at * count + other * others) / (count + others), count + others
        blocks.append((at, count))
    starts = [at for at, count in blocks for _ in range(count)]
    return {item: at + offset for (item, _), at, offset in zip(wanted, starts, offsets, strict=True)}
