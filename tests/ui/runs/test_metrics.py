"""Which curves share a chart, and what is drawn of them."""

from __future__ import annotations

import re

import pytest

from ui.runs import metrics
from ui.runs.charts import Line
from ui.runs.feed import Beginning, Feed, Series
from ui.runs.metrics import beginnings, chart_order, common_axis, draw_family, families, family_name, laid_over

NAMES = ("loss", "val_loss", "accuracy", "val_accuracy", "step_loss", "step_accuracy", "learning_rate")


def _metrics(*names: str, node: str = "train") -> dict[tuple[str, str], Series]:
    return {(node, name): Series([1, 2], [0.5, 0.25]) for name in names}


@pytest.mark.parametrize(
    ("metric", "family"),
    [
        ("loss", "loss"),
        ("val_loss", "loss"),
        ("validation_loss", "loss"),
        ("train_loss", "loss"),
        ("step_loss", "step_loss"),
        ("val_", "val_"),
        ("interval_x", "interval_x"),
    ],
)
def test_a_metric_and_its_validation_are_one_family(metric: str, family: str) -> None:
    assert family_name(metric) == family


def test_families_are_ordered_by_epochs_then_steps_with_losses_first() -> None:
    steps = {("train", "learning_rate"): Series(list(range(10)), [0.1] * 10)}
    found = families(_metrics(*NAMES) | steps, {"train": "Train"})
    assert [(f.title, f.axis, [line.label for line in f.lines]) for f in found] == [
        ("Loss", "epoch", ["training", "validation"]),
        ("Accuracy", "epoch", ["training", "validation"]),
        ("Loss of a step", "step", ["Loss of a step"]),
        ("Learning rate", "step", ["Learning rate"]),
        ("Accuracy of a step", "step", ["Accuracy of a step"]),
    ]


def test_a_figure_of_the_validation_alone_says_so_and_counts_epochs() -> None:
    found = families(_metrics("loss", "step_loss", "val_auc", "test_auc", "samples_per_second"), {})
    lines = {f.name: (f.axis, [line.label for line in f.lines]) for f in found}
    assert lines["auc"] == ("epoch", ["test", "validation"])
    assert lines["samples_per_second"] == ("epoch", ["Samples per second"])


def test_the_parts_of_an_epochs_time_are_one_chart() -> None:
    found = families(_metrics("loss", "step_loss", "epoch_seconds_data", "epoch_seconds_compute"), {})
    stacked = [f for f in found if f.stacked]
    assert [(f.axis, [line.label for line in f.lines]) for f in stacked] == [("epoch", ["compute", "data"])]


def test_the_title_of_an_epochs_time_has_its_unit_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("streamlit.html", shown.append)
    (parts,) = families(_metrics("epoch_seconds_data", "epoch_seconds_compute"), {})
    draw_family(parts, key="parts")
    assert [re.sub("<[^>]*>", "", title) for title in shown] == ["Seconds of an epoch"]


def test_other_runs_are_laid_over_dashed_under_their_names() -> None:
    mine, theirs = families(_metrics("loss", "val_loss"), {}), families(_metrics("loss", "accuracy"), {})
    (loss,) = laid_over(mine, {"3a0f75": theirs})
    assert [(line.label, line.dashed) for line in loss.lines] == [
        ("training", False), ("validation", False), ("3a0f75: Loss", True),
    ]  # fmt: skip


def test_runs_beside_each_other_count_the_steps_that_each_counts_alone() -> None:
    steps = {("train", "learning_rate"): Series(list(range(10)), [0.1] * 10)}
    run = _metrics("loss", "val_loss", "step_loss", "samples_per_second") | steps
    own = {family.name: family.axis for family in families(run, {})}
    assert own["samples_per_second"] == "epoch"
    for name in ("loss", "val_loss", "samples_per_second", "learning_rate", "step_loss"):
        assert common_axis(name, [run, run]) == own[family_name(name)], name
    # Of a run that says nothing of single steps, it is not known what they count.
    assert common_axis("samples_per_second", [run, _metrics("samples_per_second")]) == "step"
    assert common_axis("samples_per_second", [run, _metrics("loss")]) == "epoch"
    assert common_axis("loss", [run, _metrics("loss")]) == "epoch"


def test_where_several_nodes_train_their_titles_distinguish_the_curves() -> None:
    both = _metrics("loss", node="a") | _metrics("loss", node="b")
    (family,) = families(both, {"a": "First", "b": "Second"})
    assert [line.label for line in family.lines] == ["First: Loss", "Second: Loss"]


def test_two_metrics_of_one_node_that_were_measured_on_the_same_volumes_are_two_curves() -> None:
    (family,) = families(_metrics("loss", "train_loss", "val_loss", "validation_loss", "test_loss"), {})
    assert [line.label for line in family.lines] == ["loss", "test", "train_loss", "val_loss", "validation_loss"]
    both = _metrics("loss", "train_loss", "val_loss", node="a") | _metrics("loss", "val_loss", node="b")
    (family,) = families(both, {"a": "First", "b": "Second"})
    assert [line.label for line in family.lines] == [
        "First: loss", "Second: training", "First: train_loss", "First: validation", "Second: validation",
    ]  # fmt: skip


def test_only_losses_above_zero_may_be_logarithmic() -> None:
    found = {f.name: f.may_be_logarithmic for f in families(_metrics(*NAMES), {})}
    assert found == {
        "loss": True,
        "accuracy": False,
        "step_loss": True,
        "learning_rate": False,
        "step_accuracy": False,
    }
    (negative,) = families({("t", "loss"): Series([1], [-1.0])}, {})
    assert not negative.may_be_logarithmic


@pytest.mark.parametrize(("axis", "points", "smoothed"), [("epoch", 10, 0.0), ("epoch", 11, 0.5), ("step", 2, 0.5)])
def test_few_epochs_are_not_smoothed(axis: str, points: int, smoothed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []
    monkeypatch.setattr(metrics, "draw_curves", lambda *_, smoothing, **__: drawn.append(smoothing))
    series = Series([float(i) for i in range(points)], [0.5] * points)
    draw_family(metrics.Family("loss", axis, (Line("training", series),)), key="k", smoothing=0.5)
    assert drawn == [smoothed]


def test_curves_that_begin_with_an_earlier_run_say_so() -> None:
    feed = Feed("20260101-000000-cccccc")
    feed.metrics = {("t", "loss"): Series([1, 2, 3], [1.0] * 3), ("t", "step_loss"): Series([1, 2], [1.0] * 2)}
    assert beginnings(feed, {}) == []
    earlier = "20260101-000000-aaaaaa"
    feed._beginnings = {"t": [Beginning(earlier, {"loss": 2, "step_loss": 1_200})]}
    assert beginnings(feed, {"t": "Train"}) == [("Train, up to epoch 2: of run aaaaaa, which it went on from", earlier)]
    feed._beginnings = {}
    feed.metrics["t", "loss"] = Series([5, 6], [1.0] * 2)
    (said,) = beginnings(feed, {"t": "Train"})
    # The run that was stopped after them may still have their figures.
    assert said == ("Train: its curves lack epochs 1 to 4, which a run before it may have done.", None)


def test_epochs_that_no_curve_has_between_two_runs_are_said() -> None:
    """The run went on from a checkpoint of one that was stopped, and that from an earlier result."""
    feed = Feed("20260101-000000-cccccc")
    feed.metrics = {("t", "loss"): Series([1, 2, 4, 5], [1.0] * 4), ("t", "step_loss"): Series([1, 2], [1.0] * 2)}
    feed._beginnings = {"t": [Beginning("20260101-000000-aaaaaa", {"loss": 2, "step_loss": 4})]}
    assert [words for words, _ in beginnings(feed, {"t": "Train"})] == [
        "Train, up to epoch 2: of run aaaaaa, which it went on from",
        "Train: its curves lack epoch 3, which a run before it may have done.",
    ]


def test_steps_of_a_node_that_names_no_epochs_are_not_called_so() -> None:
    feed = Feed("r")
    feed.metrics = {("t", "energy"): Series([100, 200], [1.0] * 2)}
    assert beginnings(feed, {}) == []
    feed._beginnings = {"t": [Beginning("20260101-000000-aaaaaa", {"energy": 50})]}
    assert beginnings(feed, {})[0][0] == "t, at first: of run aaaaaa, which it went on from"


def test_a_run_that_took_turns_is_said_once_where_no_epochs_tell_its_turns_apart() -> None:
    feed = Feed("r")
    feed.metrics = {("t", "energy"): Series([400, 500], [1.0] * 2)}
    one, other = "20260101-000000-aaaaaa", "20260101-000000-bbbbbb"
    feed._beginnings = {
        "t": [Beginning(one, {"energy": 300}), Beginning(other, {"energy": 200}), Beginning(one, {"energy": 100})]
    }
    assert [run_id for _, run_id in beginnings(feed, {})] == [one, other]


def test_what_an_epochs_time_went_into_comes_after_what_came_of_it() -> None:
    names = ["val_f1", "epoch_seconds_compute", "val_loss", "accuracy", "loss", "auc", "epoch_seconds_data"]
    assert sorted(names, key=lambda name: chart_order(name, "epoch")) == [
        *("loss", "val_loss", "accuracy", "auc", "val_f1"),
        *("epoch_seconds_compute", "epoch_seconds_data"),
    ]
