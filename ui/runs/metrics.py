"""Training curves: which metrics share a chart, and their points. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.cli.wording import safe
from ui.runs.series import MOST_POINTS, Series, thinned

_PREFIXES = ("val_", "validation_", "train_", "test_")
_PER_STEP = "step_"


@dataclass(frozen=True)
class Line:
    """One curve. `label` stands in the legend."""

    label: str
    series: Series


@dataclass(frozen=True)
class Family:
    """Curves that belong on one chart: `loss` and `val_loss`. `axis` says what their steps count."""

    name: str
    axis: str
    lines: tuple[Line, ...]

    @property
    def may_be_logarithmic(self) -> bool:
        """Whether a logarithmic scale makes sense: a loss, with values above zero."""
        return "loss" in self.name and any(v > 0 for line in self.lines for v in line.series.values)


def family_name(metric: str) -> str:
    """`val_loss` and `loss` belong to `loss`; `step_loss` counts other steps and is a family of its own."""
    for prefix in _PREFIXES:
        if metric.startswith(prefix) and len(metric) > len(prefix):
            return metric[len(prefix) :]
    return metric


def families(metrics: Mapping[tuple[str, str], Series], titles: Mapping[str, str]) -> list[Family]:
    """The charts of a run, from its metrics by node and name: epochs first, then steps, A to Z."""
    names = {name for _, name in metrics}
    several = len({node for node, _ in metrics}) > 1
    grouped: dict[str, list[Line]] = {}
    for (node, name), series in sorted(metrics.items(), key=lambda item: (item[0][1], item[0][0])):
        label = f"{titles.get(node, node)}: {name}" if several else name
        grouped.setdefault(family_name(name), []).append(Line(safe(label), series))
    out = [Family(name, axis_of(name, names), tuple(lines)) for name, lines in grouped.items()]
    return sorted(out, key=lambda f: chart_order(f.name, names))


def chart_order(metric: str, names: Iterable[str]) -> tuple[object, ...]:
    """Epochs before steps, losses before all else, a metric beside its validation."""
    family = family_name(metric)
    return (axis_of(family, names) != "epoch", "loss" not in family, family, metric)


def axis_of(family: str, names: Iterable[str]) -> str:
    """What a family's steps count: where figures of single steps are told too, the others are epochs'."""
    known = set(names)
    if family.startswith(_PER_STEP):
        return "step"
    return "epoch" if f"{_PER_STEP}{family}" in known else "step"


def points(lines: Iterable[Line], *, positive: bool = False, most: int = MOST_POINTS) -> list[dict[str, object]]:
    """The points to draw as records of step, value and line.

    A value that is not finite, or with `positive` (for a logarithmic scale) not above zero, is a gap.
    """
    out: list[dict[str, object]] = []
    for line in lines:
        steps, values = thinned(line.series.steps, line.series.values, most)
        for step, value in zip(steps, values, strict=True):
            drawn = math.isfinite(value) and (value > 0 or not positive)
            out.append({"step": step, "value": value if drawn else None, "line": line.label})
    return out
