"""Figures of several trainings on folds of the same data: their mean and deviation, and a page."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DataError
from engine.storage.files import write_whole
from engine.text import number, numbers
from nodes.reporting.page import Html, html_page, html_table

PAGE, FIGURES = "cross_validation.html", "cross_validation.json"
_ORDER = tuple(f"{of}{name}" for of in ("test_", "val_") for name in ("auc", "accuracy", "f1", "mae", "rmse", "loss"))
"""What says most comes first."""
_STYLE = """
.track { display: inline-block; position: relative; width: 14rem; height: 1rem; }
.track i { position: absolute; top: .22rem; width: .55rem; height: .55rem; margin-left: -.27rem; }
.track i { border-radius: 50%; background: #3b6ea5; }
.track b { position: absolute; width: 2px; height: 1rem; background: #d0722a; }
"""


@dataclass(frozen=True)
class FoldFigures:
    """`values` has each figure's value in each fold, in the order of `folds`."""

    folds: tuple[str, ...]
    values: Mapping[str, tuple[float, ...]]

    def mean(self, name: str) -> float:
        """The mean over the folds. Raises `KeyError` for a figure that there is not."""
        return statistics.fmean(self.values[name])

    def deviation(self, name: str) -> float:
        """The standard deviation of a sample of so many folds. Raises `KeyError` as `mean`."""
        return statistics.stdev(self.values[name])

    def figures(self) -> dict[str, float | int | str]:
        """Means by the figures' names, and deviations as `..._std`."""
        out: dict[str, float | int | str] = {"folds": len(self.folds)}
        for name in self.values:
            out |= {name: self.mean(name), f"{name}_std": self.deviation(name)}
        return out

    def headline(self) -> str:
        """The figure that says most, in a sentence."""
        name = next(iter(self.values))
        return f"{name} {number(self.mean(name))} ± {self.deviation_text(name)} over {len(self.folds)} folds"

    def deviation_text(self, name: str) -> str:
        """The deviation in two digits: of so few folds no more of them are known."""
        return number(float(f"{self.deviation(name):.2g}"))


def fold_figures(metrics: Mapping[str, Mapping[str, float]]) -> FoldFigures:
    """The figures that every fold has, finite in each. Raises `DataError` when there are none."""
    common = set.intersection(*({n for n, v in each.items() if math.isfinite(v)} for each in metrics.values()))
    names = [*(n for n in _ORDER if n in common), *sorted(common - set(_ORDER))]
    if not names:
        raise DataError(
            f"{', '.join(metrics)} have no finite figure in common", hint="Train them all with validation volumes."
        )
    return FoldFigures(tuple(metrics), {name: tuple(each[name] for each in metrics.values()) for name in names})


def write_fold_report(found: FoldFigures, folder: Path) -> Path:
    """Write `cross_validation.json` and then the page, whose path it gives."""
    details = found.figures() | {name: dict(zip(found.folds, v, strict=True)) for name, v in found.values.items()}
    write_whole(folder / FIGURES, json.dumps({"figures": found.figures(), "folds": details}, indent=2), durable=True)
    rows = [
        (
            name.replace("_", " "),
            Html(f"<strong>{number(found.mean(name))}</strong> ± {found.deviation_text(name)}"),
            _track(values, found.mean(name)),
            *numbers(values),
        )
        for name, values in found.values.items()
    ]
    table = html_table(("figure", "mean ± deviation", "spread", *found.folds), rows)
    page = folder / PAGE
    write_whole(page, html_page(f"Cross-validation over {len(found.folds)} folds", [table], _STYLE), durable=True)
    return page


def _track(values: tuple[float, ...], mean: float) -> Html:
    """A dot for each fold and a line for the mean, between the least and the greatest value."""
    low, high = min(values), max(values)

    def at(value: float) -> float:
        return 4 + 92 * (value - low) / (high - low) if high > low else 50

    dots = "".join(f'<i style="left:{at(value):.1f}%"></i>' for value in values)
    return Html(f'<span class="track"><b style="left:{at(mean):.1f}%"></b>{dots}</span>')
