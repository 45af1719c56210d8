"""Editing: nodes added, chosen, moved, copied, renamed, deleted; and the view, which goes near and far."""

from __future__ import annotations

import re

import pytest
from building import box, pipeline
from canvas_page import CanvasPage, eventually, middle, seed
from canvas_page import box as bounds
from playwright.sync_api import Page, expect
from studio import StudioServer

SHARED_STUDIO = True

FARTHEST_TITLE = 37
"""Pixels of a title at the smallest zooms: larger ones would not fit a card."""


def at_rest(canvas: CanvasPage) -> float:
    """The zoom in per cent, once it stays; not rounded: a key pressed during a movement may stop it at 45.3."""
    seen: list[float] = []
    scale = "view => 100 * new DOMMatrixReadOnly(getComputedStyle(view).transform).a"

    def stays() -> bool:
        seen.append(canvas.page.locator(".react-flow__viewport").evaluate(scale))
        canvas.page.wait_for_timeout(200)
        return len(seen) > 1 and seen[-1] == seen[-2]

    eventually(stays, "the zoom does not come to rest")
    return seen[-1]


def test_nodes_are_found_and_added(page: Page, studio: StudioServer) -> None:
    canvas = CanvasPage(page, studio).open().new()
    menu = page.get_by_role("dialog", name="Add a node")
    search = menu.get_by_role("combobox", name="Search nodes")

    # `/` at the pointer, by a part of the name; arrow keys choose.
    x, y = canvas.place(1, 1)
    page.mouse.move(x, y)
    canvas.frame_keys("/")
    expect(search).to_be_focused()
    page.keyboard.type("delta")
    # Those called so, in the order of a pipeline; then those that say so.
    for at, name in enumerate(("DeltaTable", "ParquetToDelta", "OptimizeDelta")):
        expect(menu.get_by_role("option").nth(at)).to_have_accessible_name(name)
    expect(menu.get_by_role("option", name="DeltaTable")).to_have_attribute("aria-selected", "true")
    canvas.keys("ArrowDown", "ArrowDown", "ArrowUp", "Enter")
    canvas.expect_nodes("parquet_to_delta")
    card = bounds(canvas.card("parquet_to_delta"))
    assert card["x"] < x < card["x"] + card["width"]
    assert card["y"] < y < card["y"] + card["height"]

    # A double click on the empty canvas; Escape leaves everything as it is.
    page.mouse.dblclick(*canvas.place(3, 3))
    expect(search).to_be_focused()
    page.keyboard.type("no such node")
    expect(menu).to_contain_text("Nothing found.")
    canvas.keys("Escape")
    expect(menu).to_have_count(0)
    canvas.expect_nodes("parquet_to_delta")
    page.mouse.dblclick(*canvas.place(3, 3))
    assert canvas.pick("Make") == "make"

    # The palette: search, Enter; a second one of a type gets a number.
    nodes = page.get_by_role("complementary", name="Nodes")
    nodes.get_by_role("searchbox", name="Search nodes").fill("augment")
    first = nodes.get_by_role("listitem").first
    expect(first).to_contain_text("TrainResNet3D")
    expect(first).to_contain_text("For: augmentation")
    nodes.get_by_role("searchbox", name="Search nodes").press("ArrowDown")
    canvas.keys("Enter", "Enter")
    canvas.expect_nodes("parquet_to_delta", "make", "train_res_net3d", "train_res_net3d_2")
    nodes.get_by_role("searchbox", name="Search nodes").fill("")
    for category in ("Sources", "Conversion", "Tables", "Dataset", "Training", "Evaluation", "Probes"):
        expect(nodes.get_by_role("region", name=category)).to_be_visible()

    # What is said of a parameter is there whole.
    said = canvas.inspector.locator(".field-help")
    expect(said.first).to_be_visible()
    cut = (
        "all => all.filter(p => p.scrollHeight > p.clientHeight || p.scrollWidth > p.clientWidth).map(p => p.innerText)"
    )
    assert said.evaluate_all(cut) == []

    # The help lists what the keys do.
    canvas.frame_keys("?")
    help_panel = page.get_by_role("dialog", name="Keyboard shortcuts")
    for label, keys in (("Undo", "Ctrl+Z"), ("Add a node", "/"), ("Rename a node", "F2"), ("Duplicate", "Ctrl+D")):
        line = help_panel.locator("dl > div").filter(has=page.get_by_text(label, exact=True))
        expect(line.first.locator("kbd")).to_have_text([keys])
    canvas.keys("Escape")
    expect(help_panel).to_have_count(0)


def test_from_a_distance_titles_can_be_read_and_details_go(page: Page, studio: StudioServer) -> None:
    made = pipeline(box("make", "Make", text="here"), box("join", "Join"), wires="make.out>join.first")
    canvas = CanvasPage(page, studio).open(seed(studio, made))
    card = canvas.card("make")
    # Parts of a card, and the zoom in per cent below which they are not there.
    shown = {".card-type": 62, ".card-detail": 45, ".node-icon": 45}
    for most in (100, 70, 55, 33, 24, 18):
        canvas.far(most)
        zoom = at_rest(canvas)
        assert zoom < most + 0.5
        for part, least in shown.items():
            expect(card.locator(part).first).to_be_visible(visible=zoom >= least)
        title = card.locator(".card-title")
        expect(title).to_be_visible()
        eventually(
            lambda title=title, zoom=zoom: (  # type: ignore[misc]
                zoom / 100 * title.evaluate("title => parseFloat(getComputedStyle(title).fontSize)")
                >= min(7.8, zoom / 100 * FARTHEST_TITLE)
            ),
            f"at {zoom:.1f}% nobody can read the title",
        )
        assert title.evaluate("title => getComputedStyle(title).opacity") == "1"
        expect(card.locator(".card-light")).to_be_visible()
        inside, around = bounds(title), bounds(card)
        assert inside["y"] + inside["height"] <= around["y"] + around["height"]


def test_several_nodes_are_moved_copied_and_deleted(page: Page, studio: StudioServer) -> None:
    made = pipeline(
        box("make", "Make", text="here"), box("join", "Join"), box("save", "Save"),
        wires="make.out>join.first join.out>save.first",
    )  # fmt: skip
    other = seed(studio, pipeline(box("make", "Make", text="there"), name="other"))
    canvas = CanvasPage(page, studio).open(seed(studio, made))
    wires = ("make.out>join.first", "join.out>save.first")
    canvas.expect_edges(*wires)

    # A box over two of them, a third with Ctrl; moved together, one step. The box keeps away from the edges: there the
    # view moves on as long as the pointer stays.
    first, second = bounds(canvas.card("make")), bounds(canvas.card("join"))
    page.keyboard.down("Shift")
    expect(page.locator(".react-flow__pane.selection")).to_have_count(1)
    canvas.drag(
        (first["x"] + first["width"] / 2, first["y"] - 30),
        (second["x"] + second["width"] / 2, second["y"] + second["height"] + 20),
    )
    page.keyboard.up("Shift")
    eventually(lambda: canvas.selected() == ["join", "make"])
    canvas.head("save").click(modifiers=["Control"])
    eventually(lambda: canvas.selected() == ["join", "make", "save"])
    canvas.head("make").click(modifiers=["Control"])
    eventually(lambda: canvas.selected() == ["join", "save"])
    before = {n: canvas.node(n)["position"] for n in ("make", "join", "save")}
    x, y = middle(canvas.head("join"))
    canvas.drag((x, y), (x + 40, y + 90))
    eventually(lambda: canvas.node("join")["position"] != before["join"])
    moved = {n: canvas.node(n)["position"] for n in ("make", "join", "save")}
    shift = {n: (moved[n]["x"] - before[n]["x"], moved[n]["y"] - before[n]["y"]) for n in moved}
    assert shift["make"] == (0, 0)
    assert shift["join"] == shift["save"]
    assert min(shift["join"]) > 30
    canvas.keys("Control+z")
    eventually(lambda: {n: canvas.node(n)["position"] for n in before} == before)

    # Copied with the wire between them, pasted at the pointer.
    eventually(lambda: canvas.selected() == ["join", "save"])
    canvas.keys("Control+c")
    frame = bounds(canvas.frame)
    page.mouse.move(frame["x"] + 200, frame["y"] + 480)
    canvas.keys("Control+v")
    canvas.expect_nodes("make", "join", "save", "join_2", "save_2")
    canvas.expect_edges(*wires, "join_2.out>save_2.first")
    assert canvas.selected() == ["join_2", "save_2"]
    canvas.keys("Delete")
    canvas.expect_nodes("make", "join", "save")
    canvas.expect_edges(*wires)

    # Duplicated beside it, parameters included.
    canvas.select("make")
    canvas.keys("Control+d")
    canvas.expect_nodes("make", "join", "save", "make_2")
    assert canvas.params("make_2") == {"text": "here"}
    assert canvas.node("make_2")["position"] != canvas.node("make")["position"]
    canvas.keys("Control+z")

    # All of it into another pipeline: ids that are taken get a number.
    canvas.frame_keys("Control+a")
    eventually(lambda: canvas.selected() == ["join", "make", "save"])
    canvas.keys("Control+c")
    canvas.choose("Open…")
    page.get_by_role("dialog", name="Open").get_by_title(f"{other}.json").click()
    expect(page.get_by_role("button", name="Pipeline other")).to_be_visible()
    canvas.expect_document(other)
    canvas.expect_nodes("make")
    page.mouse.move(frame["x"] + 200, frame["y"] + 480)
    canvas.frame_keys("Control+v")
    canvas.expect_nodes("make", "make_2", "join", "save")
    canvas.expect_edges("make_2.out>join.first", "join.out>save.first")
    assert canvas.params("make") == {"text": "there"}
    assert canvas.params("make_2") == {"text": "here"}

    # Arranged: no two cards overlap, everything is in view.
    canvas.frame_keys("Escape", "l")
    eventually(lambda: not overlapping(canvas, "make", "make_2", "join", "save"))
    for node in ("make", "make_2", "join", "save"):
        expect(canvas.card(node)).to_be_in_viewport(ratio=0.99)

    # Renamed on the card; a name is text whatever it says. A click meets nothing while the view still moves to fit.
    at_rest(canvas)
    canvas.select("join")
    canvas.keys("F2")
    page.keyboard.type("<b>Both</b> & *more*")
    canvas.keys("Enter")
    expect(canvas.head("join")).to_have_text("<b>Both</b> & *more*")
    eventually(lambda: canvas.node("join").get("title") == "<b>Both</b> & *more*")
    canvas.keys("Delete")
    canvas.expect_nodes("make", "make_2", "save")
    canvas.expect_edges()


def overlapping(canvas: CanvasPage, *nodes: str) -> bool:
    boxes = [bounds(canvas.card(node)) for node in nodes]
    return any(
        a["x"] < b["x"] + b["width"]
        and b["x"] < a["x"] + a["width"]
        and a["y"] < b["y"] + b["height"]
        and b["y"] < a["y"] + a["height"]
        for i, a in enumerate(boxes)
        for b in boxes[i + 1 :]
    )


def test_moving_by_keys_and_typing_are_a_step_each(page: Page, studio: StudioServer) -> None:
    canvas = CanvasPage(page, studio).open(seed(studio, pipeline(box("make", "Make"))))
    canvas.select("make")
    # Arrow keys that come soon are one step: no machine is so slow that these do not. That their time is over means
    # nothing for what is typed meanwhile.
    canvas.keys_at_once({"key": "ArrowDown"}, {"key": "ArrowDown"}, {"key": "ArrowRight", "shiftKey": True})
    canvas.field("Text").click()
    page.keyboard.type("typed over more than a second", delay=60)
    expect(canvas.field("Text")).to_have_value("typed over more than a second")
    canvas.keys("Control+z")
    expect(canvas.field("Text")).to_have_value("made")
    eventually(lambda: canvas.params("make") == {} and canvas.node("make")["position"] == {"x": 32, "y": 96})
    canvas.keys("Control+z")
    eventually(lambda: canvas.node("make")["position"] == {"x": 0, "y": 80})
    expect(canvas.button("Undo")).to_be_disabled()


def test_the_view_goes_near_and_far_and_where_one_points(page: Page, studio: StudioServer) -> None:
    nodes = [box(f"n{i}", "Make") for i in range(12)]
    canvas = CanvasPage(page, studio).open(seed(studio, pipeline(*nodes)))
    first, last = canvas.card("n0"), canvas.card("n11")
    shown = page.get_by_role("button", name=re.compile("^Zoom .* %"))
    view = page.get_by_role("toolbar", name="View")
    # All of it is in view at first, and it is the same again by the key.
    all_of_it = canvas.zoom
    for card in (first, last):
        expect(card).to_be_in_viewport(ratio=0.99)
    shown.click()
    expect(shown).to_have_text("100%")
    view.get_by_role("button", name="Zoom in").click()
    expect(shown).not_to_have_text("100%")
    assert int(canvas.zoom.removesuffix("%")) > 100
    shown.click()
    expect(shown).to_have_text("100%")
    page.mouse.move(*middle(canvas.frame))
    page.mouse.wheel(0, 240)
    eventually(lambda: int(canvas.zoom.removesuffix("%")) < 100, "the wheel does nothing")

    # Dragged by the empty canvas, and moved by the overview; no node moves with it.
    shown.click()
    expect(shown).to_have_text("100%")
    before = bounds(canvas.card("n5"))
    frame = bounds(canvas.frame)
    start = (frame["x"] + 40, frame["y"] + 60)
    canvas.drag(start, (start[0] + 80, start[1] + 50))
    eventually(lambda: bounds(canvas.card("n5"))["x"] == pytest.approx(before["x"] + 80, abs=4), "it does not follow")
    map_of_it = bounds(page.locator(".overview"))
    y = map_of_it["y"] + map_of_it["height"] / 2
    expect(last).not_to_be_in_viewport()
    canvas.drag((map_of_it["x"] + map_of_it["width"] / 2, y), (map_of_it["x"] + map_of_it["width"] - 4, y))
    expect(last).to_be_in_viewport()
    expect(first).not_to_be_in_viewport()
    canvas.frame_keys("f")
    expect(shown).to_have_text(all_of_it)
    for card in (first, last):
        expect(card).to_be_in_viewport(ratio=0.99)
    # It would lie on a card, and show nothing that is not seen.
    page.mouse.move(*middle(canvas.frame))
    expect(page.locator(".overview")).to_be_hidden()
    expect(canvas.button("Undo")).to_be_disabled()


def test_another_page_and_back_keeps_everything(page: Page, studio: StudioServer) -> None:
    made = pipeline(box("make", "Make"), box("join", "Join"), wires="make.out>join.first")
    canvas = CanvasPage(page, studio).open(seed(studio, made))
    saved = canvas.file.read_text()
    canvas.frame_keys("-")
    canvas.wait_until_still("make")
    canvas.select("make")
    canvas.field("Text").fill("not saved")
    canvas.draw("make.out", "join.second")
    canvas.expect_edges("make.out>join.first", "make.out>join.second")
    zoom, place_of_it = canvas.zoom, bounds(canvas.card("make"))

    page.get_by_role("link", name="Runs").click()
    expect(page.get_by_text("There are no runs yet.")).to_be_visible()
    expect(canvas.cards).to_have_count(0)
    # What stood in the middle stands there again, though the window has grown meanwhile.
    page.set_viewport_size({"width": 1480, "height": 800})
    place_of_it["x"] += 100
    page.get_by_role("link", name="Build").click()
    canvas.ready()
    canvas.expect_edges("make.out>join.first", "make.out>join.second")
    assert canvas.zoom == zoom
    eventually(lambda: bounds(canvas.card("make")) == pytest.approx(place_of_it, abs=1), "the view has moved")
    expect(page.get_by_test_id("unsaved")).to_be_visible()
    canvas.button("Undo").click()
    canvas.expect_edges("make.out>join.first")
    canvas.button("Undo").click()
    eventually(lambda: canvas.params("make") == {})
    expect(canvas.button("Undo")).to_be_disabled()
    expect(page.get_by_test_id("unsaved")).to_have_count(0)
    canvas.button("Redo").click()
    eventually(lambda: canvas.params("make") == {"text": "not saved"})

    # And so do unsaved changes when the page is loaded again.
    page.reload()
    canvas.ready()
    canvas.select("make")
    expect(canvas.field("Text")).to_have_value("not saved")
    assert canvas.file.read_text() == saved
