"""Confusion matrices from files, and a line for each run over axes of any values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from colours import contrast, mixed

from engine.declare.datasets import Report, TrainedModel, VolumeFiles, VolumeSpec
from engine.history.comparison import Row
from ui.runs.comparison_charts import (
    MOST_AXES,
    Axis,
    Confusion,
    axes_of_rows,
    axis_of_values,
    confusion_cells,
    confusion_chart,
    confusion_width,
    confusions,
    parallel_axes,
    parallel_chart,
    parallel_points,
)
from ui.shell.theme import SERIES, SURFACE, Mode


def test_matrices_of_an_evaluation_are_found_beside_its_page(tmp_path: Path) -> None:
    figures = {"accuracy": 0.5, "classes": [{"class": "a"}, {"class": "b"}], "confusion": [[1, 1], [0, 0]]}
    (tmp_path / "evaluation.json").write_text(json.dumps(figures))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "other.json").write_text(json.dumps({"classes": ["a"], "m": [[1, 2]], "n": [[-1]], "o": [["x"]]}))
    (found,) = confusions(Report(uri=str(tmp_path / "evaluation.html")))
    assert (found.of, found.classes) == ("evaluation", ("a", "b"))
    cells = confusion_cells(found)
    assert [(c["label"], c["answer"], c["count"], c["share"]) for c in cells] == [
        ("a", "a", 1, 0.5), ("a", "b", 1, 0.5), ("b", "a", 0, 0.0), ("b", "b", 0, 0.0),
    ]  # fmt: skip
    assert confusions(Report(uri="s3://bucket/evaluation.html")) == []
    assert confusions(Report(uri="/no/such/place.html")) == []


def test_the_folder_of_what_has_no_matrix_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "confusion.json").write_text(json.dumps({"classes": ["x"], "test": [[5]]}))
    spec = VolumeSpec(shape=(2, 2, 2), dtype="float32", classes=("x",))
    assert [found.of for found in confusions(TrainedModel(uri=str(tmp_path), spec=spec))] == ["test"]
    source = VolumeFiles(uri=str(tmp_path), spec=spec, count=1, bytes=32, manifest=str(tmp_path / "manifest.parquet"))
    monkeypatch.setattr(Path, "glob", lambda *_: pytest.fail("it was listed"))
    assert confusions(source) == []


def test_figures_stand_by_their_size_and_words_in_their_order() -> None:
    assert axis_of_values("loss", ["1,000", "500", "-", "750"], "-") == Axis(
        "loss", ("1,000", "500", "-", "750"), (1.0, 0.0, None, 0.5)
    )
    assert axis_of_values("optimizer", ["adam", "sgd", "adam"], "-") == Axis(
        "optimizer", ("adam", "sgd", "adam"), (0.0, 1.0, 0.0)
    )
    assert axis_of_values("same", ["3", "-", "3"], "-") is None


def test_a_figure_that_is_not_finite_leaves_the_others_where_they_stand() -> None:
    axis = axis_of_values("val_auc", ["0.9", "nan", "0.2", "0.55", "inf", "-inf"], "-")
    assert axis is not None
    assert axis.places == pytest.approx((1.0, None, 0.0, 0.5, 1.0, 0.0))
    ends = [point["value"] for point in parallel_points([axis], []) if point["end"]]
    assert ends == ["0.2", "0.9"]
    unknown = axis_of_values("loss", ["nan", "0.5"], "-")
    assert unknown is not None
    assert unknown.places == (None, 0.0)


def test_what_was_chosen_stands_before_what_came_of_it_and_both_have_space() -> None:
    def axes(letter: str, count: int) -> list[Axis]:
        return [Axis(f"{letter}{i}", (f"{letter}{i}", ""), (0.0, 1.0)) for i in range(count)]

    assert [a.name for a in parallel_axes(axes("p", 2), axes("f", 2))] == ["p0", "p1", "f0", "f1"]
    assert [a.name[0] for a in parallel_axes(axes("p", 2), axes("f", 20))] == ["p"] * 2 + ["f"] * (MOST_AXES - 2)
    assert [a.name[0] for a in parallel_axes(axes("p", 20), axes("f", 1))] == ["p"] * (MOST_AXES - 1) + ["f"]
    many = [a.name for a in parallel_axes(axes("p", 20), axes("f", 20))]
    assert len(many) == MOST_AXES
    assert sum(name.startswith("p") for name in many) == MOST_AXES // 2


def test_no_two_axes_have_equal_values_in_all_runs() -> None:
    rows = [
        Row("pipeline", "epochs", ("8", "5")),
        Row("Train", "epochs", ("8", "5")),
        Row("Train", "passes", ("8", "5")),
        *(Row("Train", f"p{i}", (str(i), "0")) for i in range(10, 13)),
        Row("Train", "same", ("1", "1")),
    ]
    figures = axes_of_rows([Row("Train", "f1", ("0.5", "0.6")), Row("Train", "recall", ("0.5", "0.6"))], str.upper)
    found = parallel_axes(axes_of_rows(rows), figures)
    # What is there twice takes no place from the others, and its name says no node.
    assert [axis.name for axis in found] == ["epochs", "p10", "p11", "p12", "F1"]


def test_an_axis_says_which_node_has_it_where_another_has_one_of_its_name() -> None:
    rows = [
        Row("Train", "accuracy", ("1", "1")),
        Row("Evaluate", "accuracy", ("0.5", "0.6")),
        Row("Evaluate", "auc", ("0.7", "0.8")),
    ]
    axes = axes_of_rows(rows, str.upper)
    assert [axis.name for axis in axes] == ["ACCURACY\nEvaluate", "AUC"]
    x = parallel_chart(axes, ["a", "b"], "light")["layer"][0]["encoding"]["x"]
    assert "split" in x["axis"]["labelExpr"]


def test_the_legend_of_runs_shows_the_dashes_of_their_lines() -> None:
    lines, dots = parallel_chart([Axis("loss", ("1", "2"), (0.0, 1.0))], ["a", "b"], "light")["layer"][:2]
    colour, dash = (lines["encoding"][channel] for channel in ("color", "strokeDash"))
    # With an equal title and legend Vega-Lite makes one of both.
    assert colour["legend"] == dash["legend"]
    assert (colour["title"], dash["title"], colour["legend"]["symbolType"]) == (None, None, "stroke")
    assert "strokeDash" not in dots["encoding"], "a dashed dot looks torn"


def test_a_matrix_has_room_for_its_names() -> None:
    def matrix(*classes: str) -> Confusion:
        return Confusion("test", classes, ((0,) * len(classes),) * len(classes))

    def cells(found: Confusion) -> int:
        return int(confusion_chart(found, "light")["width"])

    short, long = matrix("a", "b"), matrix("a", "carbonate reef build-up")
    assert cells(short) == cells(long)
    # As wide as names may be beside the cells, and what of the last one stands out above them.
    assert confusion_width(long) - confusion_width(short) > 130
    many = matrix(*(f"carbonate {i}" for i in range(30)))
    assert confusion_width(many) > cells(many) + 140 + 120 / 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", get_args(Mode))
def test_both_charts_can_be_drawn_in_light_and_dark(mode: Mode, tmp_path: Path) -> None:
    axis = Axis("loss", ("1", "2", "-"), (0.0, 1.0, None))
    runs = ["a", "b", "c"]
    points = parallel_points([axis], runs)
    assert [(p["run"], p["place"], p["value"], p["end"]) for p in points] == [
        ("a", 0.0, "1", ""), ("b", 1.0, "2", ""), ("c", None, "-", ""), ("", 0.0, "1", "low"), ("", 1.0, "2", "high"),
    ]  # fmt: skip
    drawn = parallel_chart([axis], runs, mode)
    assert len(drawn["layer"]) == 4
    data = {layer["data"]["name"] for layer in drawn["layer"]}
    assert data == {"empty"}, "all draw what stands beside the specification"
    (tmp_path / "c.json").write_text(json.dumps({"classes": ["x"], "test": [[5]]}))
    (found,) = confusions(Report(uri=str(tmp_path / "r.html")))
    layers = confusion_chart(found, mode)["layer"]
    assert len(layers) == 2
    # All names are there, at the middle of their cells, also the first and the last one.
    for side in "xy":
        axis = layers[0]["encoding"][side]["axis"]
        assert (axis["labelFlush"], axis["labelOverlap"]) == (False, False)


@pytest.mark.parametrize("mode", get_args(Mode))
def test_a_count_in_a_confusion_matrix_can_be_read_whatever_its_share(mode: Mode) -> None:
    colour = confusion_chart(Confusion("test", ("a",), ((1,),)), mode)["layer"][1]["encoding"]["color"]
    least = float(colour["condition"]["test"].removeprefix("datum.share > "))
    for share in (percent / 100 for percent in range(101)):
        written = colour["condition"]["value"] if share > least else colour["value"]
        assert contrast(written, mixed(SERIES[mode][0], SURFACE[mode]["raised"], share)) > 3.5, share
