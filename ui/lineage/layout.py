"""Where the boxes of a lineage lie: its levels from left to right, in each the boxes beside what they are linked to.

vis-network has a layout of its own, but how much room it takes is known only once it is drawn. Here it is known
before, so that the frame has room for every box at a size at which its words can be read.

A link that leads past a level passes between its boxes, as in Sugiyama, Tagawa and Toda: Methods for Visual
Understanding of Hierarchical System Structures (1981). All of one item's share a line there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from engine.lineage import Lineage

_SWEEPS = 4
"""Times that the levels are gone through, forth and back: more move the boxes of no lineage that was tried."""


class Place(NamedTuple):
    """The middle of a box, in pixels; the middle of all of them is 0, 0."""

    x: float
    y: float


Passage = tuple[str, int]
"""The item that links come from, and a level that they pass."""
Vertex = str | Passage


class Layout(NamedTuple):
    """Places by item, the beginning and the end of each passage, and the pixels that all take together."""

    places: Mapping[str, Place]
    passages: Mapping[Passage, tuple[Place, Place]]
    width: float
    height: float


def path_of(lineage: Lineage, source: str, target: str) -> Sequence[Vertex]:
    """Where a link leads: from its source through the passages of the levels between to its target."""
    passed = range(lineage.levels[source] + 1, lineage.levels[target])
    return [source, *((source, level) for level in passed), target]


def laid_out(lineage: Lineage, heights: Mapping[str, float], *, width: float, across: float, down: float) -> Layout:
    """Lay out boxes of `width` by `heights` (by item), `across` and `down` apart from each other, in pixels.

    A passage is as wide as a box and has no height.
    """
    if not lineage.items:
        return Layout({}, {}, 0.0, 0.0)
    before: dict[Vertex, list[Vertex]] = {item: [] for item in lineage.order}
    behind: dict[Vertex, list[Vertex]] = {item: [] for item in lineage.order}
    for one, other in dict.fromkeys(_steps(lineage)):
        behind.setdefault(one, []).append(other)
        before.setdefault(other, []).append(one)
    columns: dict[int, list[Vertex]] = {}
    for vertex in before:
        columns.setdefault(lineage.levels[vertex] if isinstance(vertex, str) else vertex[1], []).append(vertex)
    high: dict[Vertex, float] = {vertex: heights[vertex] if isinstance(vertex, str) else 0.0 for vertex in before}
    middles: dict[Vertex, float] = {}
    for column in columns.values():
        middles |= _spread([(vertex, 0.0) for vertex in column], high, down)
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        neighbours = before if forth else behind
        for level in sorted(columns, reverse=not forth):
            wanted = {each: _mean([middles[n] for n in neighbours[each]], middles[each]) for each in columns[level]}
            columns[level].sort(key=lambda each, wanted=wanted: (wanted[each], middles[each]))  # type: ignore[misc]
            middles |= _spread([(each, wanted[each]) for each in columns[level]], high, down)
    top = min(y - high[vertex] / 2 for vertex, y in middles.items())
    bottom = max(y + high[vertex] / 2 for vertex, y in middles.items())
    last = max(columns)
    places: dict[str, Place] = {}
    passages: dict[Passage, tuple[Place, Place]] = {}
    for level, column in columns.items():
        x = (level - last / 2) * (width + across)
        for vertex in column:
            y = middles[vertex] - (top + bottom) / 2
            if isinstance(vertex, str):
                places[vertex] = Place(x, y)
            else:
                passages[vertex] = Place(x - width / 2, y), Place(x + width / 2, y)
    return Layout(places, passages, last * (width + across) + width, bottom - top)


def _steps(lineage: Lineage) -> Iterator[tuple[Vertex, Vertex]]:
    """From level to level, of all links."""
    for link in lineage.links:
        yield from pairwise(path_of(lineage, link.source, link.target))


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _spread(wanted: Sequence[tuple[Vertex, float]], heights: Mapping[Vertex, float], gap: float) -> dict[Vertex, float]:
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
