"""The picture of which classes are taken for which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nodes.training.scores import Confusion, shares

_NUMBERED = 12
"""With so many classes there is still room for a number in each cell."""
_NAME = 14


def draw_confusion(matrices: Mapping[str, Confusion], names: Sequence[str], path: Path) -> None:
    """Write a PNG with a panel for each matrix, by its title: rows are true classes, shaded by their share."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Between two dollar signs a formula would stand.
    names = [name.replace("$", r"\$") for name in names]
    short = [name if len(name) <= _NAME else f"{name[: _NAME - 3]}..." for name in names]
    side = 2.6 + 0.22 * min(len(names), 40)
    figure = Figure(figsize=((side + 1) * len(matrices), side), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    for panel, (title, matrix) in zip(panels, matrices.items(), strict=True):
        shaded = shares(matrix)
        image = panel.imshow(shaded, cmap="Blues", vmin=0, vmax=1)
        panel.set(title=title, xlabel="answer", ylabel="label")
        ticks = range(0, len(names), 1 + len(names) // 40)
        panel.set_xticks(ticks, [short[tick] for tick in ticks], rotation=90 if len(names) > 3 else 0)
        panel.set_yticks(ticks, [short[tick] for tick in ticks])
        if len(names) <= _NUMBERED:
            for row, counts in enumerate(matrix):
                for column, count in enumerate(counts):
                    color = "white" if shaded[row, column] > 0.5 else "black"
                    panel.text(column, row, f"{count:,}", ha="center", va="center", color=color, fontsize=8)
        figure.colorbar(image, ax=panel, shrink=0.8, label="share of the label")
    figure.savefig(path, dpi=120, format="png")
