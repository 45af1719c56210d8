"""Two recorded runs beside each other: every point of every curve, and every figure, exactly.

What is measured of the machine (time, rate, memory) is never twice the same and is left out: names that say so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.reproduction.recorded import Curve, NodeRecord, Recorded

_MEASURED = re.compile(
    r"(^|[_/.])(seconds|elapsed|duration|latency|throughput|system|time|speed|memory)([_/.]|$)"
    r"|_(s|ms|per_s|per_second|mb|gb|bytes|megabytes|percent|percentage)$"
)
_LARGEST = 1.7976931348623157e308
"""What MLflow's databases keep in the place of infinity."""


@dataclass(frozen=True)
class CurveCompared:
    """One curve of both runs. Steps are those of the curve, differences those of values at the same step.

    `missing` steps only the first run has, `extra` ones only the second. `earlier` counts those of the second before
    the first one's beginning: a training that went on from a shorter one did not report them again. `largest` is the
    largest absolute difference (infinite when only one of two values is a number), first seen at `first`.
    """

    node: str
    name: str
    points: int
    missing: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()
    earlier: int = 0
    differing: int = 0
    largest: float = 0.0
    first: int | None = None

    @property
    def equal(self) -> bool:
        """Whether every point is the same."""
        return not (self.missing or self.extra or self.differing)


@dataclass(frozen=True)
class FigureCompared:
    """One figure of both runs, in words; None where a run does not have it."""

    node: str
    name: str
    before: str | None
    now: str | None

    @property
    def equal(self) -> bool:
        return self.before == self.now


@dataclass(frozen=True)
class Comparison:
    """All curves and figures of two runs. `measured` names those that were left out."""

    curves: tuple[CurveCompared, ...]
    figures: tuple[FigureCompared, ...]
    measured: tuple[str, ...]

    @property
    def unequal(self) -> int:
        """Curves and figures that are not the same."""
        return sum(not c.equal for c in self.curves) + sum(not f.equal for f in self.figures)

    @property
    def equal(self) -> bool:
        """Whether there was something to compare and all of it is the same."""
        return bool(self.curves or self.figures) and not self.unequal


def is_measured(name: str) -> bool:
    """Whether a name says that the figure is about the machine and not about the result."""
    return _MEASURED.search(name) is not None


def compare(before: Recorded, now: Recorded) -> Comparison:
    """Curves and figures of `now` beside those of `before`, node by node."""
    curves: list[CurveCompared] = []
    figures: list[FigureCompared] = []
    measured: set[str] = set()
    for node in sorted(before.nodes.keys() | now.nodes.keys()):
        old, new = before.nodes.get(node, NodeRecord()), now.nodes.get(node, NodeRecord())
        for name in sorted(old.curves.keys() | new.curves.keys()):
            if is_measured(name):
                measured.add(f"{node}.{name}")
            else:
                curves.append(_curve(node, name, old.curves.get(name, {}), new.curves.get(name, {})))
        for name in sorted(old.figures.keys() | new.figures.keys()):
            if is_measured(name):
                measured.add(f"{node}.{name}")
            else:
                figures.append(FigureCompared(node, name, old.figures.get(name), new.figures.get(name)))
    return Comparison(tuple(curves), tuple(figures), tuple(sorted(measured)))


def _curve(node: str, name: str, old: Curve, new: Curve) -> CurveCompared:
    both = sorted(old.keys() & new.keys())
    apart = dict(_apart(old, new, both))
    begin = min(old, default=None)
    extra = sorted(step for step in new.keys() - old.keys() if begin is None or step > begin)
    return CurveCompared(
        node,
        name,
        points=len(both),
        missing=tuple(sorted(old.keys() - new.keys())),
        extra=tuple(extra),
        earlier=len(new.keys() - old.keys()) - len(extra),
        differing=len(apart),
        largest=max(apart.values(), default=0.0),
        first=min(apart, default=None),
    )


def _apart(old: Mapping[int, float], new: Mapping[int, float], steps: list[int]) -> Iterator[tuple[int, float]]:
    """Steps at which the values are not the same, with the difference; two that are not numbers are the same."""
    for step in steps:
        a, b = _as_kept(old[step]), _as_kept(new[step])
        if a == b or (math.isnan(a) and math.isnan(b)):
            continue
        difference = abs(a - b)
        yield step, difference if math.isfinite(difference) else math.inf


def _as_kept(value: float) -> float:
    return math.copysign(_LARGEST, value) if math.isinf(value) else value
