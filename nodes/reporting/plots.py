"""The pictures in reports and beside models, as PNG. None needs a display."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodes.reporting.classification_metrics import Calibration, Counts, f1_curve, ranking, roc_curve
from nodes.reporting.page import first_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NUMBERED = 12
"""With so many classes a number still fits into each cell."""
_NAMED = 40
"""How many names fit along a side; of more classes every second, third, ... is named."""
_CURVES = 10
"""Classes whose curve is drawn: more could not be distinguished."""
_POINTS = 5000
_FEW, _FEW_POINT = 300, 16
"""So few points are drawn larger: of so many square points (1/72 inch)."""
_ROOM = 0.04
"""Beside the outermost points, of an axis' length."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def png_of(figure: Figure, dpi: int = 110) -> bytes:
    """The figure as PNG, so many pixels per inch."""
    sink = io.BytesIO()
    figure.savefig(sink, dpi=dpi, format="png")
    return sink.getvalue()


def draw_curves(history: Sequence[Mapping[str, float]], path: Path) -> None:
    """Write a PNG with one panel for the loss and one for the accuracy, or a regression's mean absolute error."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(9, 3.6)
    epochs = range(1, len(history) + 1)
    score = "mae" if "mae" in history[-1] else "accuracy"
    for panel, name in zip(figure.subplots(1, 2), ("loss", score), strict=True):
        for key, label, marker in ((name, "training", "o"), (f"val_{name}", "validation", "s")):
            if all(key in figures for figures in history):
                panel.plot(epochs, [figures[key] for figures in history], marker=marker, markersize=3, label=label)
        panel.set(title=name, xlabel="epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.3)
        panel.legend()
    figure.axes[1].set_ylim(0, 1.02 if score == "accuracy" else None)
    figure.savefig(path, dpi=120, format="png")


def draw_confusion(
    matrices: Mapping[str, Counts | Sequence[Sequence[int]]], classes: Sequence[str], target: Path | IO[bytes]
) -> None:
    """Write a PNG with a panel for each matrix, by its title: rows are labels, shaded by their share."""
    short = [_short(name, 16) for name in classes]
    side = 2.6 + 0.22 * min(len(classes), _NAMED)
    figure = new_figure((side + 1) * len(matrices), side)
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    for panel, (title, counts) in zip(panels, matrices.items(), strict=True):
        matrix = np.asarray(counts)
        shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
        image = panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        panel.set(title=title, xlabel="predicted", ylabel="label")
        ticks = range(0, len(classes), 1 + (len(classes) - 1) // _NAMED)
        panel.set_xticks(ticks, [short[tick] for tick in ticks], rotation=90 if len(classes) > 3 else 0, fontsize=8)
        panel.set_yticks(ticks, [short[tick] for tick in ticks], fontsize=8)
        if len(classes) <= _NUMBERED:
            dark = _is_dark(image.cmap(shares))
            for (row, column), count in np.ndenumerate(matrix):
                color = "white" if dark[row, column] else "black"
                panel.text(column, row, f"{count:,}", ha="center", va="center", color=color, fontsize=8)
        figure.colorbar(image, ax=panel, shrink=0.8, label="share of the label")
    figure.savefig(target, dpi=120, format="png")


class Picture(NamedTuple):
    """A PNG with its title."""

    title: str
    png: bytes


def _drawn_classes(names: Sequence[str]) -> Sequence[int]:
    """The numbers of the classes that get a curve: of two the second says all, of many only the first ones."""
    return [1] if len(names) == 2 else range(min(_CURVES, len(names)))


def draw_roc(
    scores: NDArray[np.float32], labels: Counts, aucs: Sequence[float | None], names: Sequence[str]
) -> Picture:
    """ROC curves: of class 1 where there are two, else of the first classes against all others."""
    figure = new_figure(4.6, 4.2)
    panel = figure.subplots()
    for number in _drawn_classes(names):
        area = aucs[number]
        if area is not None:
            false, true = roc_curve(ranking(scores, number), labels == number)
            panel.plot(false, true, label=_entry(names[number], area))
    panel.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    panel.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    panel.grid(alpha=0.3)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(loc="lower right", fontsize=8)
    return Picture(_title("ROC curve", _CURVES, names), png_of(figure))


def draw_class_counts(counts: Counts, names: Sequence[str]) -> Picture:
    """How many volumes each class has, the first classes."""
    figure = new_figure(4.6, min(8.0, 1.2 + 0.32 * min(len(names), _NAMED)))
    panel = figure.subplots()
    shown = min(len(names), _NAMED)
    panel.barh(np.arange(shown), counts[:shown], color="#4c78a8")
    panel.set_yticks(np.arange(shown), [_short(name, 24) for name in names[:shown]])
    panel.invert_yaxis()
    total = max(1, int(counts.sum()))
    for at, count in enumerate(counts[:shown]):
        panel.annotate(f" {count:,} ({count / total:.1%})", (int(count), at), va="center", fontsize=8)
    panel.set(xlabel="volumes", xlim=(0, 1.6 * max(1, int(counts.max()))))
    panel.spines[["top", "right"]].set_visible(False)
    return Picture(_title("Volumes of each class", _NAMED, names), png_of(figure))


def draw_thresholds(
    scores: NDArray[np.float32], labels: Counts, thresholds: Sequence[float | None], names: Sequence[str]
) -> Picture:
    """The f1 over the threshold, of the volumes that thresholds are chosen on; each chosen one is marked."""
    figure = new_figure(4.6, 4.2)
    panel = figure.subplots()
    for number in _drawn_classes(names):
        chosen = thresholds[number]
        if chosen is None:
            continue
        at, f1 = f1_curve(scores[:, number], labels == number)
        some = np.unique(np.linspace(0, len(at) - 1, min(_POINTS, len(at))).astype(np.int64))
        line = panel.plot(at[some], f1[some], label=_entry(names[number], chosen))[0]
        panel.plot([chosen], [f1.max()], marker="o", markersize=5, color=line.get_color())
    panel.set(xlabel="threshold", ylabel="f1 on the validation", xlim=(0, 1), ylim=(0, 1.02))
    panel.grid(alpha=0.3)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=8)
    return Picture(_title("Thresholds, chosen on the validation", _CURVES, names), png_of(figure))


def draw_matrix(matrix: Counts, classes: Sequence[str]) -> Picture:
    """The confusion matrix; colours are shares of each label's volumes."""
    sink = io.BytesIO()
    draw_confusion({"": matrix}, classes, sink)
    return Picture("Confusion matrix", sink.getvalue())


def draw_calibration(found: Calibration) -> Picture:
    """How often the model was right, by how sure it was."""
    figure = new_figure(4.6, 4.2)
    panel = figure.subplots()
    filled = found.count > 0
    panel.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    panel.plot(found.confidence[filled], found.accuracy[filled], marker="o", markersize=4)
    panel.set(xlabel="probability of the likeliest class", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
    panel.grid(alpha=0.3)
    return Picture("Calibration", png_of(figure))


def draw_numbers(values: NDArray[np.float64], labels: NDArray[np.float64]) -> Picture:
    """Predicted numbers over labels, float64 (n,): all of them that are finite, or some thousands spread evenly.

    Both axes have one scale and the same ends, so that the diagonal, where they are equal, is one.
    """
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(4.6, 4.6)
    panel = figure.subplots()
    known = np.isfinite(values) & np.isfinite(labels)
    values, labels = values[known], labels[known]
    some = np.unique(np.linspace(0, len(values) - 1, min(_POINTS, len(values))).astype(np.int64))
    low, high = _ends(labels[some], values[some])
    panel.plot([low, high], [low, high], color="grey", linewidth=0.8, linestyle="--")
    panel.scatter(labels[some], values[some], s=_FEW_POINT if len(some) <= _FEW else 6, alpha=0.4, linewidths=0)
    panel.set(xlabel="label", ylabel="predicted", xlim=(low, high), ylim=(low, high), aspect="equal")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(5))
    panel.grid(alpha=0.3)
    part = f", {len(some):,} of {len(values):,} volumes" if len(some) < len(values) else ""
    return Picture(f"Predicted and true{part}", png_of(figure))


def _ends(*numbers: NDArray[np.float64]) -> tuple[float, float]:
    """The lowest and the highest of all numbers, with room for points that lie there; of none 0 and 1."""
    every = np.concatenate(numbers)
    if not len(every):
        return 0.0, 1.0
    low, high = float(every.min()), float(every.max())
    # Where all are equal there is no width to take a part of.
    room = _ROOM * (high - low) or _ROOM * abs(high) or 0.5
    return low - room, high + room


def _title(title: str, most: int, names: Sequence[str]) -> str:
    """A picture's title, which says where it has not all classes."""
    part = first_of(most, len(names), "classes")
    return f"{title}, {part}" if part else title


def _entry(name: str, figure: float) -> str:
    """A class and its figure, for a legend."""
    text = f"{_short(name, 24)} ({figure:.3f})"
    # Matplotlib leaves out what begins with an underscore.
    return f" {text}" if text.startswith("_") else text


def _short(name: str, length: int) -> str:
    # Names of a series differ at their ends. Matplotlib would read what is between dollar signs as mathematics.
    head = (length - 2) // 2
    text = name if len(name) <= length else f"{name[:head]}...{name[head + 3 - length :]}"
    return text.replace("$", r"\$")


def _is_dark(colours: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether white is easier to read than black on colours of shape (..., 4), by WCAG's contrast ratio."""
    rgb = colours[..., :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    dark: NDArray[np.bool_] = 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05
    return dark
