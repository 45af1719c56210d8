"""Graphs to look at: of a run, of two runs in one, and of where data comes from. They share one studio."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise

import pytest
from browser import Troubles, settled
from building import box, pipeline
from canvas_page import box as place_of
from canvas_page import eventually
from page_looks import colours, contrast, findings
from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from running import Runner
from runs_page import RunsPage, pixels, rgb
from stored_results import stored_result
from studio import StudioServer
from studio_page import in_rows

from engine.catalog import build_catalog
from engine.declare.datasets import BUILT_IN_TYPES, Report
from engine.document.pipeline import Node, Pipeline, write_pipeline
from engine.lineage import read_lineage
from engine.profiles import find_profile
from engine.store.runs import RunStore
from ui.lineage.drawing import BOX, FONT, face_colour, kinds_of

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
def test_two_graphs_are_in_one_picture_and_what_differs_is_marked_by_sign_word_and_colour(
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

    def __init__(self, page: Page, item: str = "") -> None:
        self.page = page
        page.goto(f"/lineage?item={item}" if item else "/lineage")
        # With the last answer the graph is drawn anew in another size.
        expect(page.get_by_role("note", name="Legend")).to_be_visible()
        expect(page.get_by_text("Checking what is stale")).to_have_count(0)
        settled(page)
        expect(page.locator("iframe")).to_have_count(1)

    @property
    def graph(self) -> Locator:
        return self.page.frame_locator("iframe").locator("canvas")

    def boxes(self, kind: str) -> list[tuple[int, int]]:
        """Where boxes of a kind are drawn."""
        return pixels(self.graph, self.colour(kind), near=2)

    def colour(self, kind: str) -> list[int]:
        """What such boxes are filled with."""
        return rgb(face_colour(kinds_of(BUILT_IN_TYPES)[kind], "light"))

    def choose_pipeline(self, name: str) -> None:
        self.page.get_by_role("combobox", name="Pipeline").click()
        self.page.get_by_role("option", name=name, exact=True).click()

    def choose(self, item: str) -> None:
        """Choose it in the list, again if that closes: it does when the page is drawn anew meanwhile."""
        for _ in range(5):
            settled(self.page)
            self.page.get_by_role("combobox", name="Item").click()
            with suppress(PlaywrightTimeout):
                self.page.get_by_role("option").filter(has_text=item).first.click(timeout=5_000)
                break
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
    lineage.choose_pipeline("looked")
    lineage.choose("Maker")
    look = page.get_by_role("button", name="Look at the data")
    look.click()
    expect(page.get_by_role("dialog").get_by_role("heading", name="Maker")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("radio", name="What leads to it").click()
    expect(page.get_by_text(re.compile(r"^1 of \d+ items"))).to_be_visible()
    page.get_by_role("radio", name="Everything").click()
    expect(page.get_by_text(re.compile(r"^2 items"))).to_be_visible()


def test_the_browsers_back_and_forward_choose_items_of_the_lineage(page: Page, runner: Runner) -> None:
    runner.run(drawn("led to", box("j", "Join"), wires="a.out>j.first", name="led"))
    lineage = LineagePage(page)
    lineage.choose_pipeline("led")
    lineage.choose("Maker")
    heading, framed = page.get_by_role("heading", level=2), page.get_by_role("combobox", name="Item")
    page.get_by_role("button", name=re.compile("^Join · ")).click()
    expect(heading).to_have_text("Join")
    page.go_back()
    expect(heading).to_have_text("Maker")
    expect(framed).to_have_value(re.compile("^Maker "))
    page.go_forward()
    expect(heading).to_have_text("Join")
    page.go_back()
    expect(heading).to_have_text("Maker")
    page.go_back()
    expect(heading).to_have_count(0)
    page.go_forward()
    expect(heading).to_have_text("Maker")
    # Another page, and from the menu to this one again, where nothing is chosen: its address names nothing.
    page.get_by_role("link", name="Runs").click()
    expect(RunsPage(page).table).to_be_visible()
    page.get_by_role("link", name="Lineage").click()
    expect(framed).to_be_visible()
    expect(heading).to_have_count(0)
    expect(page).not_to_have_url(re.compile("item="))


def test_nine_levels_of_a_lineage_can_be_read_and_the_graph_fits_a_frame_that_changes_its_size(
    page: Page, runner: Runner
) -> None:
    name, before = "nine levels", ""
    runner.store.create_run(name, pipeline(name=name).model_dump_json(), {}, "local")
    for at in range(9):
        identity = {"inputs": {"in": f"{before}.out"}} if before else {}
        outputs = {"out": Report(uri=f"/out/the predictions of level {at}, as a report")}
        made = stored_result(
            f"nine-{at}", node=f"n{at}", pipeline=name, created=float(at), identity=identity, outputs=outputs
        )
        runner.store.results.put(made)
        before = f"nine-{at}"
    last = next(key for key, item in read_lineage(runner.store).items.items() if "level 8" in item.title)
    lineage = LineagePage(page, item=last)
    page.get_by_role("radio", name="What leads to it").click()
    expect(page.get_by_text(re.compile("^9 of [0-9]+ items|^9 items"))).to_be_visible()

    def boxes() -> list[tuple[int, int]]:
        """Where boxes begin and end, from left to right, without those that are cut off. The canvas itself is wider
        than what is seen of it."""
        found = pixels(page.locator(".st-key-lineage_graph"), lineage.colour("Report"), near=2)
        line = max((y for _, y in found), key=Counter(y for _, y in found).__getitem__, default=0)  # without letters
        columns = sorted(x for x, y in found if y == line)
        gaps = [(x, after) for x, after in pairwise(columns) if after - x > 5]
        begins, ends = [*columns[:1], *(after for _, after in gaps)], [*(x for x, _ in gaps), *columns[-1:]]
        return [(x, end) for x, end in zip(begins, ends, strict=True) if end - x > 60]  # not what letters leave

    eventually(lambda: len(boxes()) >= 8, "the boxes are not drawn")
    widths = [last - first for first, last in boxes()]
    assert max(widths) >= BOX * 11 / FONT - 4, "letters of less than 11 pixels"
    for size in ((1920, 1080), (1280, 800)):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        if size[0] == 1920:
            eventually(lambda: max(b - a for a, b in boxes()) > BOX - 6, "not drawn larger")
            assert len(boxes()) == 9
        else:
            eventually(lambda: abs(max(b - a for a, b in boxes()) - max(widths)) <= 2, "not drawn smaller again")
    # No zoom of its own: the wheel scrolls the frame's box and the page.
    lineage.graph.hover()
    page.mouse.wheel(0, 300)
    assert abs(max(b - a for a, b in boxes()) - max(widths)) <= 2
    frame = page.frame_locator("iframe").locator("body")
    loaded = frame.evaluate("() => [...document.fonts].map((font) => [font.family, font.status])")
    # Browsers differ in whether they quote it.
    assert [[family.strip('"'), status] for family, status in loaded] == [["Inter Variable", "loaded"]]
    assert findings(page) == []
    # What is cut off at the side is reached with the keyboard.
    page.set_viewport_size({"width": 1000, "height": 800})
    box = page.get_by_role("region", name="Graph")
    box.evaluate("box => box.scrollTo(0, 0)")
    box.press("ArrowRight")
    eventually(lambda: box.evaluate("box => box.scrollLeft") > 0, "it does not scroll")
    assert findings(page) == []
