"""A curve: values by step, in order, and thin enough to be drawn."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_POINTS = 2_000
"""Of one line on a chart. A screen has no more columns to show them in."""


@dataclass
class Series:
    """Values by step, steps rising."""

    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: float, value: float) -> None:
        """A further value. A resumed run tells some steps again: what it says last counts."""
        if not self.steps or step > self.steps[-1]:
            self.steps.append(step)
            self.values.append(value)
            return
        at = bisect_left(self.steps, step)
        if self.steps[at] == step:
            self.values[at] = value
        else:
            self.steps.insert(at, step)
            self.values.insert(at, value)

    @property
    def last(self) -> float | None:
        return self.values[-1] if self.values else None


def thinned(
    steps: Sequence[float], values: Sequence[float], most: int = MOST_POINTS
) -> tuple[list[float], list[float]]:
    """At most `most` points of the curve, with the lowest and the highest value of every stretch among them.

    Peaks stay as high as they were; a mean or every n-th point would hide them. The first and the
    last point stay. Values that are not finite are left out where a stretch has others.
    """
    count = len(steps)
    if count <= most:
        return list(steps), list(values)
    stretches = (most - 2) // 2
    kept = {0, count - 1}
    for stretch in range(stretches):
        low, high = stretch * count // stretches, (stretch + 1) * count // stretches
        finite = [i for i in range(low, high) if math.isfinite(values[i])]
        if not finite:
            kept.add(low)
            continue
        kept.add(min(finite, key=values.__getitem__))
        kept.add(max(finite, key=values.__getitem__))
    order = sorted(kept)
    return [steps[i] for i in order], [values[i] for i in order]
