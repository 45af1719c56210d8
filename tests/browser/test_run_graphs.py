"""Graphs to look at: of a run, of two runs in one, and of where data comes from. They share one studio."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from browser import Troubles, settled
from building import box, pipeline
from canvas_page import box as place_of
from canvas_page import eventually
from page_looks import colours, contrast, findings
from playwright.sync_api import Locator, Page, expect
from running import Runner
from runs_page import RunsPage, pixels, rgb
from studio import StudioServer
from studio_page import in_rows

from engine.catalog import build_catalog
from engine.document.pipeline import Node, Pipeline, write_pipeline
from engine.profiles import find_profile
from engine.store.runs import RunStore
from ui.lineage.drawing import face_colour, kinds_of

SHARED_STUDIO = True


@pytest.fixture
def runner(studio: StudioServer) -> Iterator[Runner]:
    store = RunStore(studio.workspace)
    yield Runner(build_catalog((), studio.workspace), studio.workspace, store, find_profile("local"))
    store.close()


def drawn(text: str, *more: Node, wires: str = "", name: str = "drawn") -> Pipeline:
    return in_rows(
        pipeline(Node(id="a", type="Make", title="Maker", params={"text": text}), *more, wires=wires, name=name)
    )


JOINED = drawn("one", box("j", "Join"), box("h", "Halve"), wires="a.out>j.first a.out>h.whole")
OTHER = drawn("two", box("k", "Join"), box("h", "Halve"), wires="a.out>k.first a.out>h.whole")


def test_the_graph_of_a_run_is_the_canvas_and_nothing_on_it_can_be_changed(page: Page, runner: Runner) -> None:
    run, _ = runner.run(JOINED, end="j")
    pages = RunsPage(page).open(run.run_id, "Graph")
    pages.expect_in_graph("done")
    expect(pages.card("h").locator(".card-foot")).to_contain_text("Left out")
    expect(pages.card("a")).to_contain_text("Maker")
    first, second = place_of(pages.card("a")), place_of(pages.card("j"))
    assert first["x"] + first["width"] < second["x"], "as it was drawn"
    assert abs(first["y"] - second["y"]) < 2
    # Two wires, and no way to cut or draw one.
    expect(pages.graph.locator("path.wire")).to_have_count(2)
    pages.card("a").locator(".card-title").dblclick()
    page.keyboard.press("Escape")
    pages.card("a").hover()
    page.mouse.down()
    page.mouse.move(second["x"], second["y"] + 90, steps=4)
    page.mouse.up()
    page.keyboard.press("Delete")
    expect(pages.graph.locator(".node-card")).to_have_count(3)
    expect(pages.graph.locator("input")).to_have_count(0)
    panel = page.locator(".vf-title").last
    # The mouse and the keyboard choose the node that the page speaks of.
    pages.card("j").click()
    expect(panel).to_contain_text("Join")
    pages.graph.locator(".react-flow__node[data-id=a]").focus()
    page.keyboard.press("Enter")
    expect(panel).to_contain_text("Maker")
    expect(pages.graph.locator(".react-flow__node[data-id=a]")).to_have_class(re.compile(r"\bselected\b"))
    page.get_by_role("toolbar", name="View").get_by_role("button", name="Zoom in").click()
    eventually(lambda: place_of(pages.card("a"))["width"] > first["width"], "it does not grow")
    page.get_by_role("button", name="Fit view").click()
    eventually(lambda: abs(place_of(pages.card("a"))["width"] - first["width"]) < 2, "it does not fit again")


def test_what_a_node_made_opens_from_the_graph(page: Page, runner: Runner) -> None:
    run, _ = runner.run(JOINED)
    pages = RunsPage(page).open(run.run_id, "Graph")
    pages.expect_in_graph("done", "cached")
    pages.card("j").locator(".card-foot").dblclick()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="Join")).to_be_visible()
    expect(dialog.get_by_role("tabpanel", name="Report")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_two_graphs_lie_in_one_picture_and_what_differs_is_said_by_sign_word_and_colour(
    mode: str, open_page: Callable[..., Page], runner: Runner
) -> None:
    page = open_page(color_scheme=mode)
    first, _ = runner.run(JOINED)
    other, _ = runner.run(OTHER)
    page.goto(f"/compare?runs={first.run_id},{other.run_id}")
    pages = RunsPage(page)
    legend = pages.page.get_by_role("list", name="Legend")
    for kind, count in (("added", 1), ("removed", 1), ("changed", 1), ("same", 1)):
        expect(legend).to_contain_text(f"{count} {kind}")
    states = {"k": "added", "j": "removed", "a": "changed", "h": "same"}
    for node, state in states.items():
        expect(pages.card(node)).to_have_attribute("data-state", state)
        foot = pages.card(node).locator(".card-word")
        expect(foot).to_have_text(state.capitalize())
        if state != "same":
            assert contrast(foot) >= 4.5, node
    expect(pages.card("a").locator(".card-detail")).to_contain_text("text one → two")
    expect(pages.graph.locator("path.wire[data-change=added]")).to_have_count(1)
    expect(pages.graph.locator("path.wire[data-change=removed]")).to_have_count(1)
    assert not _covers(place_of(pages.card("j")), place_of(pages.card("k")))
    (text, _) = colours(pages.card("h").locator(".card-title"))
    assert (sum(text) > 380) == (mode == "dark")
    assert findings(page) == []


def _covers(one: dict[str, float], other: dict[str, float]) -> bool:
    return (
        one["x"] < other["x"] + other["width"]
        and other["x"] < one["x"] + one["width"]
        and one["y"] < other["y"] + other["height"]
        and other["y"] < one["y"] + one["height"]
    )


class LineagePage:
    """The page of where data comes from."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.goto("/lineage")
        expect(page.get_by_text("Checking what is stale")).to_have_count(0)

    @property
    def graph(self) -> Locator:
        return self.page.frame_locator("iframe").locator("canvas")

    def boxes(self, kind: str) -> list[tuple[int, int]]:
        """Where boxes of a kind are drawn."""
        return pixels(self.graph, rgb(face_colour(kinds_of(())[kind], "light")), near=2)

    def choose(self, item: str) -> None:
        settled(self.page)  # a list that is open while the page is drawn anew closes
        self.page.get_by_role("combobox", name="Item").click()
        self.page.get_by_role("option").filter(has_text=item).first.click()
        expect(self.page.get_by_role("heading", level=2)).to_contain_text(item)


def test_the_lineage_leads_across_pipelines_to_runs_and_data_and_says_what_is_stale_and_why(
    page: Page, runner: Runner, studio: StudioServer, troubles: Troubles
) -> None:
    troubles.allow("status of 422")  # the probe counts texts, of which no card has a picture
    folder = studio.home / "texts"
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("x")
    counting = in_rows(pipeline(box("c", "Count", folder=str(folder)), name="counting"))
    counted, _ = runner.run(counting)
    # The same work in another pipeline is the same data.
    _, tasks = runner.run(counting.model_copy(update={"name": "counting again"}))
    assert {task.state for task in tasks.values()} == {"cached"}
    write_pipeline(counting, studio.workspace.pipelines / "counting.json")
    lineage = LineagePage(page)
    eventually(lambda: len(lineage.boxes("Folder")) > 500, "the folder is not drawn")
    # Clicked in the graph.
    at = lineage.boxes("Folder")
    lineage.graph.click(position={"x": sum(x for x, _ in at) / len(at), "y": sum(y for _, y in at) / len(at)})
    heading = page.get_by_role("heading", level=2)
    expect(heading).to_have_text("texts")
    facts = page.locator("dl[aria-label=Facts]")
    expect(facts).to_contain_text(str(folder))
    expect(facts).to_contain_text("counting, counting again")
    page.get_by_role("button", name=re.compile("^texts.*Volume files")).click()
    chip = page.locator(".vf-title .vf-chip")
    expect(chip).to_have_text("current")
    # Another file: what was counted is stale, and why stands there.
    (folder / "b.txt").write_text("x")
    page.wait_for_timeout(2_100)  # a younger answer would be taken for news enough
    page.reload()
    expect(chip).to_have_text("stale")
    expect(page.get_by_text("folder gained 1 file")).to_be_visible()
    assert findings(page) == []
    page.get_by_role("button", name=f"Open run {counted.run_id[-6:]}").click()
    RunsPage(page).shows("counting", "done")


def test_a_dataset_opens_from_the_lineage_and_what_leads_to_it_is_shown_alone(page: Page, runner: Runner) -> None:
    runner.run(drawn("looked at", box("j", "Join"), wires="a.out>j.first", name="looked"))
    lineage = LineagePage(page)
    page.get_by_role("combobox", name="Pipeline").click()
    page.get_by_role("option", name="looked", exact=True).click()
    lineage.choose("Maker")
    look = page.get_by_role("button", name="Look at the data")
    look.click()
    expect(page.get_by_role("dialog").get_by_role("heading", name="Maker")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("radio", name="What leads to it").click()
    expect(page.get_by_text(re.compile(r"^1 of \d+ items"))).to_be_visible()
    page.get_by_role("radio", name="Everything").click()
    expect(page.get_by_text(re.compile(r"^2 items"))).to_be_visible()
