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


def test_the_counts_in_a_confusion_matrix_can_be_read_on_every_shade() -> None:
    import matplotlib

    shades = matplotlib.colormaps["Blues"](np.linspace(0, 1, 101))
    dark = plots._is_dark(shades)
    # One change, from black to white, at the shade that has the same contrast to both: 4.58.
    (change,) = np.flatnonzero(np.diff(dark.astype(int)))
    assert not dark[0]
    assert dark[-1]
    assert 60 < change < 72


def test_long_names_of_a_series_stay_apart() -> None:
    names = [f"a rather long class {number}" for number in range(12)]
    short = [plots._short(name, 16) for name in names]
    assert len(set(short)) == 12
    assert {len(name) for name in short} == {16}
    assert plots._short("exactly 16 chars", 16) == "exactly 16 chars"
    assert plots._short("costs $5", 16) == r"costs \$5"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that became pictures; as pictures they are made all the same."""
    figures: list[Figure] = []
    made = plots.png_of

    def png_of(figure: Figure, dpi: int = 110) -> bytes:
        figures.append(figure)
        return made(figure, dpi)

    monkeypatch.setattr(plots, "png_of", png_of)
    return figures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "values"),
    [
        ([0.1, 0.5, 0.9], [0.2, 0.5, 0.7]),
        ([0.0, 1.0, 0.5], [-3e6, 4e6, 2.0]),
        ([1e6, 1e6 + 1e-3], [1e6, 1e6]),
        ([7.0, 7.0], [7.0, 7.0]),
        ([0.0], [0.0]),
        ([-1e300, 1e300], [3e38, -3e38]),
        ([1.0, 2.0, 3.0, 4.0], [2.0, np.nan, np.inf, -np.inf]),
        ([], []),
    ],
)
def test_predicted_and_true_numbers_have_one_scale(
    labels: list[float], values: list[float], drawn: list[Figure]
) -> None:
    plots.draw_numbers(np.array(values), np.array(labels))
    (panel,) = drawn[0].axes
    low, high = panel.get_xlim()
    assert panel.get_ylim() == (low, high)
    assert panel.get_aspect() == 1
    (diagonal,) = panel.lines
    assert np.asarray(diagonal.get_xydata()).tolist() == [[low, low], [high, high]]
    assert [*panel.get_xticks()] == [*panel.get_yticks()]
    # No point lies on the frame, and none that is not finite moves it.
    shown = [each for pair in zip(labels, values, strict=True) if np.isfinite(pair).all() for each in pair]
    assert all(low < each < high for each in shown)
    assert len(set(shown)) < 2 or high - low <= 1.2 * (max(shown) - min(shown))


@pytest.mark.slow
def test_of_many_numbers_it_is_said_how_many_are_drawn(drawn: list[Figure], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "_POINTS", 50)
    numbers = np.linspace(0, 1, 2_000)
    assert plots.draw_numbers(numbers, numbers).title == "Predicted and true, 50 of 2,000 volumes"
    assert len(drawn[0].axes[0].collections[0].get_offsets()) == 50
    assert plots.draw_numbers(numbers[:50], numbers[:50]).title == "Predicted and true"
