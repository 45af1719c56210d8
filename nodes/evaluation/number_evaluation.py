"""The figures of a regression's predictions, in the labels' own units."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.datasets import Predictions
from nodes.evaluation.labelled_rows import Tally, labelled_rows
from nodes.evaluation.plots import Picture, draw_numbers
from nodes.report_page import figure_text

WORST = 20


@dataclass(frozen=True)
class NumberEvaluation:
    """Predicted `values` and `labels`, float64 (n,); `worst` are (distance, id, label, value), the farthest first."""

    predictions: Predictions
    tally: Tally
    values: NDArray[np.float64]
    labels: NDArray[np.float64]
    worst: Sequence[tuple[float, str, float, float]]

    @classmethod
    def of(cls, predictions: Predictions) -> NumberEvaluation:
        """Read and measure. Raises `DataError` when nothing has a label."""
        tally = Tally()
        values: list[NDArray[np.float64]] = []
        labels: list[NDArray[np.float64]] = []
        worst: list[tuple[float, str, float, float]] = []
        for rows in labelled_rows(predictions, tally):
            own = rows.scores[:, 0].astype(np.float64)
            values.append(own)
            labels.append(rows.labels)
            distance = np.abs(own - rows.labels)
            far = np.argsort(-distance, kind="stable")[:WORST]
            told = [(float(distance[i]), rows.ids[int(i)].as_py(), float(rows.labels[i]), float(own[i])) for i in far]
            worst = heapq.nlargest(WORST, [*worst, *told])
        return cls(predictions, tally, np.concatenate(values), np.concatenate(labels), worst)

    def summary(self) -> dict[str, float | int | str]:
        """Mean absolute and root mean squared error, the mean error, and the share of the variance explained (r2).

        `r2` is missing where all labels are equal.
        """
        errors = self.values - self.labels
        spread = float(((self.labels - self.labels.mean()) ** 2).sum())
        out: dict[str, float | int | str] = {
            "mae": float(np.abs(errors).mean()),
            "rmse": float(np.sqrt((errors**2).mean())),
            "mean_error": float(errors.mean()),
        }
        return out | ({"r2": 1 - float((errors**2).sum()) / spread} if spread else {})

    def figures(self) -> dict[str, float | int | str]:
        return {}

    def details(self) -> dict[str, Any]:
        return {"worst": [dict(zip(("error", "id", "label", "value"), row, strict=True)) for row in self.worst]}

    def pictures(self) -> Mapping[str, Picture]:
        return {"numbers": draw_numbers(self.values, self.labels)}

    def tables(self) -> Iterable[tuple[str, Sequence[str], Iterable[Sequence[str]]]]:
        told = [(name, figure_text(label), figure_text(value)) for _, name, label, value in self.worst]
        yield "Farthest off", ("volume", "label", "predicted"), told
