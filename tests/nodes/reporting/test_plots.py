"""What stands in the pictures of reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from nodes.reporting import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.1, 0.8, 0.1]], np.float32)
LABELS = np.array([0, 1, 2, 1])
NAMES = ("_background", "_", "tooth $1")


@pytest.mark.slow
@pytest.mark.parametrize("drawn", ["draw_roc", "draw_thresholds"])
def test_a_class_whose_name_begins_with_an_underscore_is_in_the_legend(
    drawn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(plots, "png_of", lambda figure: figures.append(figure) or b"")
    getattr(plots, drawn)(SCORES, LABELS, [0.5, 0.25, 1.0], NAMES)
    legend = figures[0].axes[0].get_legend()
    assert legend is not None
    assert [text.get_text().strip() for text in legend.get_texts()] == [
        "_background (0.500)",
        "_ (0.250)",
        r"tooth \$1 (1.000)",
    ]


@pytest.mark.slow
def test_a_picture_that_has_not_all_classes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "png_of", lambda figure: b"")
    names = [f"c{n}" for n in range(50)]
    scores, labels = np.eye(50, dtype=np.float32), np.arange(50)
    thresholds = [0.5] * 50
    assert [
        plots.draw_roc(scores, labels, thresholds, names).title,
        plots.draw_thresholds(scores, labels, thresholds, names).title,
        plots.draw_class_counts(np.ones(50, np.int64), names).title,
        plots.draw_roc(SCORES, LABELS, [0.5, 0.25, 1.0], NAMES).title,
    ] == [
        "ROC curve, the first 10 of 50 classes",
        "Thresholds, chosen on the validation, the first 10 of 50 classes",
        "Volumes of each class, the first 40 of 50 classes",
        "ROC curve",
    ]
