"""The pictures of an evaluation, as PNG."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from nodes.classification_metrics import roc_curve
from nodes.evaluation.evaluated import Evaluated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVES = 10
"""Classes whose curve is drawn: more cannot be told apart."""
_CELLS = 30
"""Up to so many classes the matrix has its numbers in it."""
_NAME = 24


def draw_roc(evaluated: Evaluated) -> bytes:
    """ROC curves: of class 1 where there are two, else of the first classes against all others."""
    figure, panel = _figure(4.6, 4.2)
    names, scores, labels = evaluated.predictions.classes, evaluated.rows.scores, evaluated.rows.labels
    for number in [1] if len(names) == 2 else range(min(_CURVES, len(names))):
        area = evaluated.aucs[number]
        if area is not None:
            false, true = roc_curve(scores[:, number], labels == number)
            panel.plot(false, true, label=f"{_short(names[number])} ({area:.3f})")
    panel.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    panel.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    panel.grid(alpha=0.3)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(loc="lower right", fontsize=8)
    return _png(figure)


def draw_confusion(evaluated: Evaluated) -> bytes:
    """The confusion matrix; colours are shares of each label's volumes."""
    matrix, names = evaluated.confusion, [_short(name) for name in evaluated.predictions.classes]
    size = min(10.0, 2.6 + 0.45 * len(names))
    figure, panel = _figure(size + 0.6, size)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    panel.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    panel.set(xlabel="predicted", ylabel="label")
    if len(names) <= _CELLS:
        panel.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        panel.set_yticks(range(len(names)), names, fontsize=8)
        for (row, column), count in np.ndenumerate(matrix):
            colour = "white" if shares[row, column] > 0.5 else "black"
            panel.text(column, row, f"{count:,}", ha="center", va="center", fontsize=7, color=colour)
    return _png(figure)


def draw_calibration(evaluated: Evaluated) -> bytes:
    """How often the model was right, by how sure it was."""
    figure, panel = _figure(4.6, 4.2)
    found = evaluated.calibration
    filled = found.count > 0
    panel.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    panel.plot(found.confidence[filled], found.accuracy[filled], marker="o", markersize=4)
    panel.set(xlabel="probability of the likeliest class", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
    panel.grid(alpha=0.3)
    return _png(figure)


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
    text = name.replace("$", r"\$")
    return text if len(text) <= _NAME else text[: _NAME - 3] + "..."
