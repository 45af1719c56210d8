"""The page of where data comes from, on real runs, without a browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from building import box, pipeline
from streamlit.testing.v1 import AppTest
from waiting import wait_until

from engine.catalog import Catalog
from engine.document.pipeline import Pipeline, write_pipeline
from engine.lineage import read_lineage
from engine.profiles import find_profile
from engine.run import launch
from engine.store.runs import RunStore
from engine.workspace import Workspace

Open = Callable[..., AppTest]
pytestmark = pytest.mark.slow


def html(page: AppTest) -> str:
    assert not page.exception, [e.message for e in page.exception]
    return "\n".join(str(element.proto.body) for element in page.get("html"))


def labels(page: AppTest) -> list[str]:
    """Of the boxes in the graph, sorted."""
    (graph,) = page.get("component_instance")
    assert graph.proto.component_name == "streamlit_agraph.agraph"
    return sorted(node["label"] for node in json.loads(json.loads(graph.proto.json_args)["data"])["nodes"])


def settled(page: AppTest) -> AppTest:
    """The page once it is known what is stale."""
    asked = "Checking what is stale"
    if asked in html(page):
        wait_until(lambda: asked not in html(page.run()), "that it is known what is stale", pause_s=0.1)
    return page


def document(text: str) -> Pipeline:
    return pipeline(box("a", "Make", text=text), box("j", "Join"), wires="a.out>j.first", name="demo")


@pytest.fixture
def made(probes: Catalog, workspace: Workspace, store: RunStore) -> str:
    """The id of a run of `document("one")`; the pipeline was changed to "two" since."""
    run_id, _ = launch.start(document("one"), probes, workspace, store, profile=find_profile("local"))
    assert list(launch.ended(workspace, store, run_id))[-1].state == "done"
    write_pipeline(document("two"), workspace.pipelines / "demo.json")
    return run_id


def test_a_workspace_without_runs_says_what_comes_here(app: Open) -> None:
    page = app("lineage")
    assert "Nothing was made yet." in html(page)
    assert page.button(key="lineage_to_build").label == "Go to Build"


def test_what_is_stale_and_why_stands_with_the_item(
    app: Open, made: str, pictures: dict[str, dict[str, Any]], workspace: Workspace, store: RunStore
) -> None:
    page = settled(app("lineage"))
    assert labels(page) == ["a\nReport · ⚠ stale", "j\nReport · ⚠ stale"]
    assert "2 items" in html(page)
    items = page.selectbox[1]
    assert [option.partition(",")[0] for option in items.options] == ["j (Report", "a (Report"]
    items.set_value(next(key for key, item in read_lineage(store).items.items() if item.title == "a")).run()
    shown = html(page)
    assert "parameter text changed one" in shown
    assert "two" in shown
    assert "Make" in shown
    assert page.button(key=f"lineage-run-{made}").label == f"Open run {made[-6:]}"
    assert [data["title"] for data in pictures.values() if "view" in data] == ["a"]
    page.segmented_control[0].set_value("What leads to it").run()
    assert labels(page) == ["a\nReport · ⚠ stale"]
    page.segmented_control[0].set_value("What was made from it").run()
    assert len(labels(page)) == 2
    write_pipeline(document("one"), workspace.pipelines / "demo.json")
    page = settled(app("lineage"))
    assert labels(page) == ["a\nReport · ✓ current", "j\nReport · ✓ current"]


def test_the_graph_is_filtered_by_pipeline_and_a_lost_item_is_no_error(app: Open, made: str, store: RunStore) -> None:
    store.create_run("other", "{}", {}, "local")
    page = settled(app("lineage", item="no-such-item"))
    assert len(labels(page)) == 2
    page.selectbox[0].set_value("other").run()
    assert "Nothing of these kinds was made." in html(page)
