"""The picture of a training: the loss and its score over the epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def draw_curves(history: Sequence[Mapping[str, float]], path: Path) -> None:
    """Write a PNG with one panel for the loss and one for the accuracy, or a regression's mean absolute error.

    Needs no display.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
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
