"""The page of where data comes from, on real runs, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from building import box, pipeline
from drawn_html import html
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.testing.v1 import AppTest, local_script_runner
from waiting import wait_until

from engine.catalog import Catalog
from engine.declare.datasets import TrainedModel, VolumeSpec
from engine.document.pipeline import Pipeline, write_pipeline
from engine.lineage import Item, Origin, read_lineage
from engine.profiles import find_profile
from engine.run import launch
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui.lineage.page import facts_of, made_by

Open = Callable[..., AppTest]
pytestmark = pytest.mark.slow


def labels(page: AppTest) -> list[str]:
    """Of the boxes in the graph, sorted."""
    (graph,) = page.get("component_instance")
    assert graph.proto.component_name == "ui.lineage.drawing.graph"
    nodes = json.loads(json.loads(graph.proto.json_args)["data"])["nodes"]
    return sorted(node["label"] for node in nodes if "label" in node)


def id_of(store: RunStore, title: str) -> str:
    return next(key for key, item in read_lineage(store).items.items() if item.title == title)


def chosen(page: AppTest) -> tuple[str, str]:
    """The item that the page speaks of, and the one that is framed in the graph."""
    (graph,) = page.get("component_instance")
    nodes = json.loads(json.loads(graph.proto.json_args)["data"])["nodes"]
    framed = [node["label"].partition("\n")[0] for node in nodes if node["borderWidth"] == 4]
    title = re.search(r'<h2 title="(.*?)">', html(page))
    return title[1] if title else "", "".join(framed)


def graph_id(page: AppTest) -> str:
    return str(page.get("component_instance")[0].proto.id)


def gone_back(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page as it is drawn when the browser went back to its address."""
    with monkeypatch.context() as patch:
        patch.setattr(local_script_runner, "RerunData", partial(RerunData, is_history_navigation=True))
        page.run()


def settled(page: AppTest) -> AppTest:
    """The page once it is known what is stale."""
    asked = "Checking what is stale"
    if asked in html(page):
        wait_until(lambda: asked not in html(page.run()), "that it is known what is stale", pause_s=0.1)
    return page


def document(text: str) -> Pipeline:
    return pipeline(box("a", "Make", text=text), box("j", "Join"), wires="a.out>j.first", name="demo")


@pytest.fixture
def made(probes: Catalog, workspace: Workspace, store: RunStore, forked_runs: None) -> str:
    """The id of a run of `document("one")`; the pipeline was changed to "two" since."""
    run_id, _ = launch.start(document("one"), probes, workspace, store, profile=find_profile("local"))
    assert list(launch.ended(workspace, store, run_id))[-1].state == "done"
    write_pipeline(document("two"), workspace.pipelines / "demo.json")
    return run_id


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Make", "Make of demo"),
        ("Make (n)", "Make (n) of demo"),
        ("Maker", "Maker (Make) of demo"),
        ("", "Make of demo"),
    ],
)
def test_what_made_an_item_is_called_as_on_the_canvas_with_its_type_where_that_says_more(name: str, shown: str) -> None:
    assert made_by(Origin("f", "out", "n", "Make", "demo", "r", 1.0, name)) == shown


def test_the_figures_of_an_item_are_called_as_on_the_page_of_its_run() -> None:
    spec = VolumeSpec(shape=(4, 4, 4, 1), dtype="float32")
    model = TrainedModel(uri="m", spec=spec, metrics={"val_auc": 0.6167}, parameters=1000)
    item = Item("k", "TrainedModel", "Train", "m", dataset=model)
    assert "Validation AUC 0.6167" in dict(facts_of(item))["figures"]


def test_a_workspace_without_runs_says_what_comes_here(app: Open) -> None:
    page = app("lineage")
    assert "Nothing was made yet." in html(page)
    assert page.button(key="lineage_to_build").label == "Go to Build"


def test_what_is_stale_and_why_stands_with_the_item(
    app: Open, made: str, pictures: dict[str, dict[str, Any]], workspace: Workspace, store: RunStore
) -> None:
    page = settled(app("lineage"))
    assert labels(page) == ["Join\nReport · ⚠ stale", "Make\nReport · ⚠ stale"]
    assert "2 items" in html(page)
    items = page.selectbox[1]
    assert [option.partition(",")[0] for option in items.options] == ["Join (Report", "Make (Report"]
    items.set_value(id_of(store, "Make")).run()
    shown = html(page)
    assert "parameter text changed one" in shown
    assert "two" in shown
    assert "Make of demo" in re.sub(r"<[^>]*>", "", shown)
    assert page.button(key=f"lineage-run-{made}").label == f"Open run {made[-6:]}"
    assert [data["title"] for data in pictures.values() if "view" in data] == ["Make"]
    page.segmented_control[0].set_value("What leads to it").run()
    assert labels(page) == ["Make\nReport · ⚠ stale"]
    page.segmented_control[0].set_value("What was made from it").run()
    assert len(labels(page)) == 2
    write_pipeline(document("one"), workspace.pipelines / "demo.json")
    page = settled(app("lineage"))
    assert labels(page) == ["Join\nReport\n✓ current", "Make\nReport\n✓ current"]


def test_the_graph_is_filtered_by_pipeline_and_a_lost_item_is_no_error(app: Open, made: str, store: RunStore) -> None:
    store.create_run("other", "{}", {}, "local")
    page = settled(app("lineage", item="no-such-item"))
    assert len(labels(page)) == 2
    page.selectbox[0].set_value("other").run()
    assert "Nothing of these kinds was made." in html(page)


def test_going_back_chooses_the_item_of_before_in_a_graph_that_has_heard_no_click(
    app: Open, made: str, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = id_of(store, "Make"), id_of(store, "Join")
    page = settled(app("lineage", item=first))
    assert chosen(page) == ("Make", "Make")
    drawn = graph_id(page)
    assert "Nothing else went into it." in html(page)
    page.button(key=f"lineage-Used by-{second}").click().run()
    assert chosen(page) == ("Join", "Join")
    assert "Nothing uses it yet." in html(page)
    assert page.query_params["item"] == second
    assert graph_id(page) != drawn, "the old graph's last click would be heard again"
    drawn = graph_id(page)
    page.query_params["item"] = first
    gone_back(page, monkeypatch)
    assert chosen(page) == ("Make", "Make")
    assert page.selectbox[1].value == first
    assert page.query_params["item"] == first
    assert graph_id(page) != drawn
    del page.query_params["item"]
    gone_back(page, monkeypatch)
    assert chosen(page) == ("", "")
    assert page.selectbox[1].value is None
    assert "item" not in page.query_params


def test_the_choice_stays_when_the_open_page_is_asked_for_without_it(app: Open, made: str, store: RunStore) -> None:
    first = id_of(store, "Make")
    page = settled(app("lineage", item=first))
    del page.query_params["item"]
    page.run()
    assert chosen(page) == ("Make", "Make")
    assert page.query_params["item"] == first, "a reload would show another"


def test_late_events_of_a_graph_and_a_list_that_are_gone_choose_nothing(app: Open, made: str, store: RunStore) -> None:
    first, second = id_of(store, "Make"), id_of(store, "Join")
    page = settled(app("lineage"))
    page.selectbox[1].set_value(first).run()
    states = page._tree.get_widget_states()
    states.widgets.add(id=graph_id(page), json_value=json.dumps(first))
    page._run(states)  # a click in the graph
    assert chosen(page) == ("Make", "Make")
    page.button(key=f"lineage-Used by-{second}").click().run()
    assert chosen(page) == ("Join", "Join")
    page._run(states)  # a timer's question, sent before the answer was there
    assert chosen(page) == ("Join", "Join")
    assert page.query_params["item"] == second


def test_a_timers_question_with_the_address_of_before_changes_nothing(
    app: Open, made: str, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = id_of(store, "Make"), id_of(store, "Join")
    page = settled(app("lineage", item=first))
    page.button(key=f"lineage-Used by-{second}").click().run()
    page.query_params["item"] = first
    fragments = [*page._fragment_storage._fragments]
    with monkeypatch.context() as patch:
        patch.setattr(local_script_runner, "RerunData", partial(RerunData, fragment_id_queue=fragments))
        page.run()
    assert page.query_params["item"] == second
    assert chosen(page.run()) == ("Join", "Join")


def test_a_row_that_is_ticked_is_chosen_once_and_the_table_comes_back(app: Open, made: str, store: RunStore) -> None:
    page = settled(app("lineage"))
    (table,) = page.dataframe
    assert [*table.value["item"]] == ["Join", "Make"]

    def tick(row: int) -> WidgetStates:
        states = page._tree.get_widget_states()
        ticked = json.dumps({"selection": {"rows": [row], "columns": [], "cells": []}})
        states.widgets.add(id=page.dataframe[0].proto.id, string_value=ticked)
        return states

    ticked = tick(1)
    page._run(ticked)
    assert chosen(page) == ("Make", "Make")
    assert page.query_params["item"] == id_of(store, "Make")
    assert not page.dataframe
    page.button(key="lineage_all").click().run()
    assert chosen(page) == ("", "")
    assert "item" not in page.query_params
    assert page.selectbox[1].value is None
    page._run(ticked)  # a timer's question of before
    assert chosen(page) == ("", "")
    page._run(tick(0))
    assert chosen(page) == ("Join", "Join")
