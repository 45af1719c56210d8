"""The picture of which classes are taken for which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nodes.classification_metrics import Counts

_NUMBERED = 12
"""With so many classes there is still room for a number in each cell."""
_NAMED = 40
"""So many names stand along a side; of more classes every second, third, ..."""
_NAME = 16


def draw_confusion(
    matrices: Mapping[str, Counts | Sequence[Sequence[int]]], classes: Sequence[str], target: Path | IO[bytes]
) -> None:
    """Write a PNG with a panel for each matrix, by its title: rows are labels, shaded by their share."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    short = [name if len(name) <= _NAME else f"{name[: _NAME - 3]}..." for name in classes]
    # Between two dollar signs a formula would stand.
    short = [name.replace("$", r"\$") for name in short]
    side = 2.6 + 0.22 * min(len(classes), _NAMED)
    figure = Figure(figsize=((side + 1) * len(matrices), side), layout="constrained")
    FigureCanvasAgg(figure)
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
            for (row, column), count in np.ndenumerate(matrix):
                color = "white" if shares[row, column] > 0.5 else "black"
                panel.text(column, row, f"{count:,}", ha="center", va="center", color=color, fontsize=8)
        figure.colorbar(image, ax=panel, shrink=0.8, label="share of the label")
    figure.savefig(target, dpi=120, format="png")
