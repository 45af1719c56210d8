"""Runs beside each other as Streamlit draws them, on real runs, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from building import box, pipeline
from drawn_html import html
from streamlit.testing.v1 import AppTest

from engine.declare.datasets import TrainedModel, VolumeSpec
from engine.document.pipeline import Node

Open = Callable[..., AppTest]
pytestmark = pytest.mark.slow
EVIL = '<img src=x onerror="alert(1)"> [x](javascript:1) **b** :red[x]'


def test_curves_of_compared_runs_are_smoothed(app: Open, runs, done: str) -> None:
    other = runs.start(pipeline(box("a", "Make"), name="demo"))
    runs.finish(other)
    for run_id in (done, other):
        runs.train(run_id, "a", epochs=12)
    page = app("compare", runs=f"{done},{other}")
    page.slider(key="compare_smoothing").set_value(0.5).run()
    html(page)
    specifications = [chart.proto.spec for chart in page.get("vega_lite_chart")]
    assert specifications
    assert all('"raw"' in s for s in specifications)
    # The address keeps it, like every other choice on the page.
    assert page.slider(key="compare_smoothing").proto.query_param_key == "compare_smoothing"
    again = app("compare", runs=f"{done},{other}", compare_smoothing="0.5")
    assert again.slider(key="compare_smoothing").value == 0.5
    assert app("compare", runs=f"{done},{other}", compare_smoothing="x").slider(key="compare_smoothing").value == 0


def test_two_runs_side_by_side(app: Open, runs, done: str, tmp_path: Path) -> None:
    other, _ = runs.run(
        pipeline(
            Node(id="a", type="Make", title="Maker", params={"text": "${text}", "steps": 7}), name="demo", text="bye"
        )
    )
    for run_id in (done, other.run_id):
        runs.train(run_id, "a")
    page = app("compare", runs=f"{done},{other.run_id[-6:]}")
    shown = html(page)
    for part in ("hello", "bye", "removed", "wire", "Maker.out → Join.first", "whole run"):
        assert part in shown
    assert "step_s" not in shown  # equal in both
    assert len(page.get("vega_lite_chart")) == 4
    assert "Confusion matrices" not in shown
    assert page.multiselect(key="compare_runs").value == [done, other.run_id]
    page.toggle(key="compare_all").set_value(True).run()
    assert "step_s" in html(page)
    page.multiselect(key="compare_runs").set_value([done]).run()
    assert "Choose one more run above." in html(page)
    assert page.query_params["runs"] == done

    # What their models confuse, one matrix beside the other.
    spec = VolumeSpec(shape=(4, 4, 4), dtype="float32", classes=("a", "b"))
    for run_id, right in ((done, 5), (other.run_id, 9)):
        folder = tmp_path / run_id
        folder.mkdir()
        counts = {"classes": ["a", "b"], "validation": [[right, 10 - right], [10 - right, right]]}
        (folder / "confusion.json").write_text(json.dumps(counts))
        runs.store.update_task(run_id, "a", outputs={"out": TrainedModel(uri=str(folder), spec=spec)})
    page = app("compare", runs=f"{done},{other.run_id}")
    assert "Confusion matrices" in html(page)
    charts = [str(chart.proto) for chart in page.get("vega_lite_chart")]
    found = [re.findall(r"Confusion matrix of ([^\"]*): ([\d.]+) % right", chart) for chart in charts]
    assert [(label[-len("Maker: validation") :], share) for ((label, share),) in filter(None, found)] == [
        ("Maker: validation", "50.0"),
        ("Maker: validation", "90.0"),
    ]


def test_a_run_from_the_cache_is_compared_by_the_figures_of_the_one_that_made_its_results(app: Open, runs) -> None:
    def run(text: str) -> str:
        made, _ = runs.run(pipeline(Node(id="a", type="Make", title="Maker", params={"text": text}), name="demo"))
        return made.run_id

    made, other = run("one"), run("two")
    for run_id, epochs in ((made, 5), (other, 2)):
        runs.train(run_id, "a", epochs)
    again = run("one")
    assert [task.state for task in runs.store.tasks(again)] == ["cached"]
    shown = html(app("compare", runs=f"{made},{other},{again}"))
    (row,) = re.findall(r"<tr>(?:(?!</tr>).)*Validation loss.*?</tr>", shown, re.DOTALL)
    assert re.findall(r"[\d.]+", re.sub(r"<[^>]*>", " ", row)) == ["0.3", "0.75", "0.3"]


def test_a_comparison_says_which_run_is_not_there(app: Open, done: str) -> None:
    assert "there is no run nothing-like-it" in html(app("compare", runs=f"{done},nothing-like-it"))
