"""What differs between runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from building import some_task
from compared_runs import FIRST, SECOND, compared

from engine.declare.datasets import TrainedModel, VolumeSpec
from engine.history.comparison import final_rows
from ui.runs.charts import line_colours
from ui.runs.comparison import best_of, confusions_by_name, figure_order, metric_lines
from ui.runs.feed import Feed, Series


def test_curves_of_one_metric_lie_over_each_other() -> None:
    runs = [compared(FIRST), compared(SECOND, run_id="2-bbb", name="q")]
    feeds = [Feed("1"), Feed("2")]
    feeds[0].metrics = {("a", "loss"): Series([1], [0.5])}
    feeds[1].metrics = {
        ("a", "loss"): Series([1], [0.4]),
        ("h", "loss"): Series([1], [0.3]),
        ("a", "x"): Series([1], [1]),
    }
    found = metric_lines(runs, feeds)
    assert list(found) == ["loss", "x"]
    assert [line.label for line in found["loss"]] == ["aaa p", "bbb q, Maker", "bbb q, Halve"]
    assert len({*line_colours(found["loss"], "light")}) == 3


def test_a_run_has_one_colour_in_all_charts_also_where_the_others_have_no_curve() -> None:
    runs = [compared(FIRST), compared(SECOND, run_id="2-bbb", name="q")]
    feeds = [Feed("1"), Feed("2")]
    for feed in feeds:
        feed.metrics = {("a", "loss"): Series([1], [0.5])}
    feeds[1].metrics["a", "val_auc"] = Series([1], [0.9])
    found = metric_lines(runs, feeds)
    first, second = line_colours(found["loss"], "light")
    assert line_colours(found["val_auc"], "light") == [second] != [first]


def test_matrices_stand_in_the_place_of_their_run(tmp_path: Path) -> None:
    spec = VolumeSpec(shape=(4, 4, 4, 1), dtype="float32")
    model = TrainedModel(uri=str(tmp_path), spec=spec)
    counts = {"classes": ["calm", "fault"], "rows": "label", "columns": "predicted", "validation": [[3, 1], [0, 4]]}
    (tmp_path / "confusion.json").write_text(json.dumps(counts))
    runs = [compared(FIRST), compared(SECOND, some_task("a", outputs={"out": model}), run_id="2-bbb")]
    ((name, (none, found)),) = confusions_by_name(runs).items()
    assert (name, none) == ("Maker: validation", None)
    assert found is not None
    assert (found.classes, found.counts, found.accuracy) == (("calm", "fault"), ((3, 1), (0, 4)), 7 / 8)


def test_how_good_a_model_is_comes_first() -> None:
    names = ["epoch_seconds_data", "accuracy", "val_loss", "val_brier", "step_loss", "loss", "val_accuracy", "val_auc"]
    assert sorted(names, key=figure_order) == [
        "val_auc", "val_accuracy", "val_loss", "val_brier", "accuracy", "loss", "epoch_seconds_data", "step_loss",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "figures", "best"),
    [
        ("val_auc", (0.8, 0.9, None), {1}),
        ("val_loss", (0.8, 0.9, 0.8), {0, 2}),
        ("val_loss", (0.8, 0.8), set()),
        ("rmse", (123.4, 122.6, 122.9), {1}),
        ("val_auc", (0.93124, 0.93121, math.nan), {0}),
        ("val_auc", (0.5, 0.50000001, 0.4), {0, 1}),
        ("samples_per_second", (10.0, 20.0), set()),
    ],
)
def test_the_best_of_a_figure_that_judges_a_model(name: str, figures: tuple[float | None, ...], best: set[int]) -> None:
    runs = [compared(FIRST, run_id=f"{at}-aaa") for at in range(len(figures))]
    (row,) = final_rows(runs, [{} if figure is None else {("a", name): figure} for figure in figures])
    assert best_of(row) == best
