"""The pictures of an evaluation, as PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodes.classification_metrics import Calibration, Counts, roc_curve
from nodes.confusion_plot import draw_confusion

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVES = 10
"""Classes whose curve is drawn: more cannot be told apart."""
_POINTS = 5000
_NAME = 24


class Picture(NamedTuple):
    """A PNG with its title."""

    title: str
    png: bytes


def draw_roc(
    scores: NDArray[np.float32], labels: Counts, aucs: Sequence[float | None], names: Sequence[str]
) -> Picture:
    """ROC curves: of class 1 where there are two, else of the first classes against all others."""
    figure, panel = _figure(4.6, 4.2)
    for number in [1] if len(names) == 2 else range(min(_CURVES, len(names))):
        area = aucs[number]
        if area is not None:
            false, true = roc_curve(scores[:, number], labels == number)
            panel.plot(false, true, label=f"{_short(names[number])} ({area:.3f})")
    panel.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    panel.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    panel.grid(alpha=0.3)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(loc="lower right", fontsize=8)
    return Picture("ROC curve", _png(figure))


def draw_matrix(matrix: Counts, classes: Sequence[str]) -> Picture:
    """The confusion matrix; colours are shares of each label's volumes."""
    sink = io.BytesIO()
    draw_confusion({"": matrix}, classes, sink)
    return Picture("Confusion matrix", sink.getvalue())


def draw_calibration(found: Calibration) -> Picture:
    """How often the model was right, by how sure it was."""
    figure, panel = _figure(4.6, 4.2)
    filled = found.count > 0
    panel.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    panel.plot(found.confidence[filled], found.accuracy[filled], marker="o", markersize=4)
    panel.set(xlabel="probability of the likeliest class", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
    panel.grid(alpha=0.3)
    return Picture("Calibration", _png(figure))


def draw_numbers(values: NDArray[np.float64], labels: NDArray[np.float64]) -> Picture:
    """Predicted numbers over labels: all of them, or some thousands spread evenly."""
    figure, panel = _figure(4.6, 4.2)
    some = np.unique(np.linspace(0, len(values) - 1, min(_POINTS, len(values))).astype(np.int64))
    panel.scatter(labels[some], values[some], s=6, alpha=0.4, linewidths=0)
    ends = [float(labels.min()), float(labels.max())]
    panel.plot(ends, ends, color="grey", linewidth=0.8, linestyle="--")
    panel.set(xlabel="label", ylabel="predicted")
    panel.grid(alpha=0.3)
    return Picture("Predicted and true", _png(figure))


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _png(figure: Figure) -> bytes:
    sink = io.BytesIO()
    figure.savefig(sink, dpi=110, format="png")
    return sink.getvalue()


def _short(name: str) -> str:
    # Matplotlib would read what stands between dollar signs as mathematics.
    text = name if len(name) <= _NAME else name[: _NAME - 3] + "..."
    return text.replace("$", r"\$")
