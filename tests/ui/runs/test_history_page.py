"""The list of runs as Streamlit draws it, on real runs, without a browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from building import box, pipeline
from drawn_html import html
from streamlit.testing.v1 import AppTest

from engine.document.pipeline import Pipeline
from engine.store.runs import RunStore
from engine.sweep.options import SweepOptions
from engine.sweep.space import Space

Open = Callable[..., AppTest]
pytestmark = pytest.mark.slow
EVIL = '<img src=x onerror="alert(1)"> [x](javascript:1) **b** :red[x]'


def test_an_empty_history_shows_what_to_do(app: Open) -> None:
    page = app("runs")
    assert "There are no runs yet." in html(page)
    assert page.button(key="runs_build").label == "Go to Build"


@pytest.mark.usefixtures("done")
def test_a_sweep_says_that_its_data_or_code_has_changed(app: Open, store: RunStore) -> None:
    options = SweepOptions(Space({}, {"m.steps": (1, 2)}, {}), None).as_json(Pipeline(name="p"), "local")
    before = {"before": {"sweep": "1-aaaaaa", "node": "m"}, "changed": "n"}
    store.sweeps.create("p", "{}", options | before, "local", [{"m.steps": 1}, {"m.steps": 2}])
    page = html(app("runs"))
    assert "What n does or reads has changed since sweep" in page
    assert "A new sweep: what m does or reads has changed since sweep 1-aaaaaa" in page


@pytest.mark.usefixtures("done")
def test_a_sweep_is_closed_unless_it_is_at_work_or_the_address_names_it(app: Open, store: RunStore) -> None:
    options = SweepOptions(Space({}, {"m.steps": (1, 2)}, {}), None).as_json(Pipeline(name="p"), "local")
    sweep = store.sweeps.create("p", "{}", options, "local", [{"m.steps": 1}, {"m.steps": 2}])
    assert app("runs").expander[0].proto.expanded
    store.sweeps.end(sweep, "done")
    assert not app("runs").expander[0].proto.expanded
    assert app("runs", q=sweep).expander[0].proto.expanded


def test_the_history_lists_runs_newest_first(app: Open, runs, done: str) -> None:
    failed, _ = runs.run(pipeline(box("f", "Fail", how="told"), name="broken"))
    page = app("runs")
    assert "2 runs" in html(page)
    table = page.dataframe[0].value
    assert list(table["pipeline"]) == ["broken", "demo"]
    assert list(table["result"]) == ["Fail.how: the probe was told to fail. Tell it otherwise.", "steps 2"]
    assert [list(s) for s in table["state"]] == [["failed"], ["done"]]
    assert list(table["run"]) == [failed.run_id[-6:], done[-6:]]


def test_the_history_can_be_searched_and_filtered(app: Open, runs, done: str) -> None:
    runs.run(pipeline(box("f", "Fail", how="told"), name="broken"))
    page = app("runs")
    page.text_input(key="q").set_value("DEM").run()
    assert "1 of 2 runs" in html(page)
    assert list(page.dataframe[0].value["pipeline"]) == ["demo"]
    page.text_input(key="q").set_value("").run()
    page.multiselect(key="state").set_value(["failed"]).run()
    assert list(page.dataframe[0].value["pipeline"]) == ["broken"]
    page.multiselect(key="pipeline").set_value(["demo"]).run()
    assert "No run matches." in html(page)


def test_a_long_history_is_shown_in_parts(app: Open, store: RunStore) -> None:
    with store.write() as db:
        db.executemany(
            "INSERT INTO runs (run_id, pipeline, document, options, profile, state, created)"
            " VALUES (?, 'p', '{}', '{}', 'local', 'done', ?)",
            [(f"20260101-000000-{i:06x}", float(i)) for i in range(450)],
        )
    page = app("runs")
    assert "450 runs" in html(page)
    assert len(page.dataframe[0].value) == 200
    page.button(key="runs_more").click().run()
    page.button(key="runs_more").click().run()
    assert len(page.dataframe[0].value) == 450
    assert not any(b.key == "runs_more" for b in page.button)


def test_where_runs_are_too_many_the_page_says_which_it_has(
    app: Open, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.runs.history._READ_ANEW", 10)
    monkeypatch.setattr("ui.runs.history._MOST_READ", 30)
    with store.write() as db:
        db.executemany(
            "INSERT INTO runs (run_id, pipeline, document, options, profile, state, created, started, ended)"
            " VALUES (?, ?, '{}', ?, 'local', 'done', ?, ?, ?)",
            [(f"r-{i}", "new" if i > 10 else "old", '{"price_per_hour": 3600}', i, i, i + 2.0) for i in range(40)],
        )
    page = app("runs")
    assert "the newest 30 of 40 runs" in html(page)
    assert "of the newest 30 runs; “voxelflow runs costs” sums all" in html(page)
    assert set(page.dataframe[0].value["cost"]) == {2.0}
    page.text_input(key="q").set_value("old").run()
    assert "1 of the newest 30 of 40 runs" in html(page)
    assert "2.00" in html(page)
    monkeypatch.setattr("ui.runs.history._MOST_READ", 50)
    page.run()
    assert "11 of 40 runs" in html(page)
    assert "22.00" in html(page)
    assert "newest" not in html(page)
