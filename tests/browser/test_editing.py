"""Editing: nodes added, chosen, moved, copied, renamed, deleted; and every step of it taken back and made again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from building import box, pipeline
from canvas_page import CanvasPage, Point, eventually, middle, seed
from canvas_page import box as bounds
from playwright.sync_api import Page, expect
from studio import StudioServer

from engine.document.pipeline import dump, load

SHARED_STUDIO = True


def place(canvas: CanvasPage, column: int, row: int) -> Point:
    """A place on the canvas; cards that are half as large as they can be do not touch from place to place."""
    frame = bounds(canvas.frame)
    return frame["x"] + 75 + 145 * column, frame["y"] + 60 + 105 * row


FARTHEST_TITLE = 26
"""Pixels of a title at the smallest zooms: larger ones would not fit a card."""


def far(canvas: CanvasPage, most: int = 55) -> None:
    """About half size, or at most so many per cent."""
    shown = canvas.page.get_by_role("button", name=re.compile("^Zoom .* %"))
    while int(canvas.zoom.removesuffix("%")) > most:
        before = canvas.zoom
        canvas.frame_keys("-")
        expect(shown).not_to_have_text(before)


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
    x, y = place(canvas, 1, 1)
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
    page.mouse.dblclick(*place(canvas, 3, 3))
    expect(search).to_be_focused()
    page.keyboard.type("no such node")
    expect(menu).to_contain_text("Nothing found.")
    canvas.keys("Escape")
    expect(menu).to_have_count(0)
    canvas.expect_nodes("parquet_to_delta")
    page.mouse.dblclick(*place(canvas, 3, 3))
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
    for most in (100, 70, 55, 33):
        far(canvas, most)
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

    # Renamed on the card; a name is text whatever it says.
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


def thirty_edits(canvas: CanvasPage) -> list[tuple[str, Callable[[], object]]]:
    """Each is what a person sees as one action, with what the button for undoing it says."""
    page = canvas.page
    parameters = canvas.inspector.get_by_role("region", name="Parameters")

    def pick_by_double_click() -> None:
        page.mouse.dblclick(*place(canvas, 2, 0))
        canvas.pick("Join")

    def nudge() -> None:
        canvas.select("join_2")
        canvas.keys("ArrowDown", "ArrowDown", "ArrowRight")

    def rename_on_the_card(node: str, title: str) -> None:
        canvas.select(node)
        canvas.keys("F2")
        page.keyboard.type(title)
        canvas.keys("Enter")

    def type_into(node: str, title: str, text: str) -> None:
        canvas.select(node)
        canvas.field(title).click()
        page.keyboard.press("Control+a")
        page.keyboard.type(text)
        canvas.field(title).press("Tab")

    def press_on(node: str, name: str) -> None:
        canvas.select(node)
        canvas.inspector.get_by_role("button", name=name).click()

    def bind() -> None:
        press_on("make", "Bind Steps to a pipeline parameter")
        page.get_by_role("menuitem", name="New parameter with this value").click()

    def type_parameter(label: str, text: str) -> None:
        canvas.deselect()
        parameters.get_by_label(label, exact=True).fill(text)
        parameters.get_by_label(label, exact=True).press("Tab")

    def new_parameter() -> None:
        canvas.deselect()
        parameters.get_by_label("Name of a new parameter").fill("size")
        canvas.keys("Enter")

    def rename_parameter() -> None:
        parameters.get_by_label("Name of parameter size", exact=True).fill("volumes")
        canvas.keys("Enter")

    def describe() -> None:
        canvas.deselect()
        canvas.inspector.get_by_label("Description").click()
        page.keyboard.type("What it is for.")
        canvas.keys("Tab")

    def choose_copy() -> None:
        canvas.select("parquet_to_delta")
        canvas.inspector.get_by_role("radio", name="copy").check()

    def retries() -> None:
        canvas.select("save")
        canvas.inspector.get_by_text("Advanced").click()
        canvas.field("Retries").fill("3")
        canvas.field("Retries").press("Tab")

    def copy_and_paste() -> None:
        canvas.select("make_2")
        canvas.head("join_2").click(modifiers=["Control"])
        canvas.keys("Control+c")
        page.mouse.move(*place(canvas, 1, 4))
        canvas.keys("Control+v")

    def duplicate() -> None:
        canvas.select("save")
        canvas.keys("Control+d")

    def delete(node: str) -> None:
        canvas.select(node)
        canvas.keys("Delete")

    def cut() -> None:
        page.get_by_role("group", name="wire from out of First to second of Join").focus()
        canvas.keys("Enter", "Delete")

    def insert() -> None:
        page.mouse.click(*canvas.between("join.out", "save.first"), button="right")
        page.get_by_role("menu", name="Wire").get_by_role("menuitem", name="Insert a node here").click()
        canvas.pick("Mutate")

    def new_id() -> None:
        canvas.select("save")
        canvas.inspector.get_by_label("Id", exact=True).fill("store")
        canvas.keys("Enter")

    def two_moved() -> None:
        canvas.select("make_2")
        canvas.head("make_3").click(modifiers=["Control"])
        x, y = middle(canvas.head("make_3"))
        canvas.drag((x, y), (x + 37, y + 21))

    def cut_out() -> None:
        canvas.select("make_3")
        canvas.keys("Control+x")

    return [
        ("Add Make", lambda: canvas.add("Make", place(canvas, 0, 1))),
        ("Add Join", pick_by_double_click),
        ("Add ParquetToDelta", lambda: canvas.drag_in("ParquetToDelta", place(canvas, 4, 3))),
        ("Connect", lambda: canvas.draw("make_2.out", "join_2.first")),
        ("Connect", lambda: canvas.draw("make.out", "join_2.second")),
        ("Move node", lambda: canvas.drag(middle(canvas.head("join_2")), place(canvas, 3, 1))),
        ("Move node", nudge),
        ("Rename", lambda: rename_on_the_card("make_2", 'Second "one"')),
        ("Rename", lambda: type_into("make", "Title", "First")),
        ("Set text", lambda: type_into("make", "Text", "hello world")),
        ("Set steps", lambda: type_into("make", "Steps", "12")),
        ("Bind steps", bind),
        ("Set steps", lambda: type_parameter("Value of steps", "20")),
        ("Set help of steps", lambda: type_parameter("Help of parameter steps", "how many")),
        ("Add size", new_parameter),
        ("Rename size to volumes", rename_parameter),
        ("Remove volumes", lambda: parameters.get_by_role("button", name="Remove volumes").click()),
        ("Set description", describe),
        ("Set mode", choose_copy),
        ("Reset mode", lambda: press_on("parquet_to_delta", "Reset Mode")),
        ("Set retries", retries),
        ("Paste 2 nodes", copy_and_paste),
        ("Move 2 nodes", two_moved),
        ("Cut node", cut_out),
        ("Duplicate node", duplicate),
        ("Delete Save", lambda: delete("save_2")),
        ("Cut wire", cut),
        (
            "Move wire",
            lambda: canvas.drag(
                middle(canvas.port("join_2", "first", "input")), middle(canvas.port("join_2", "second", "input"))
            ),
        ),
        ("Insert Mutate", insert),
        ("Change id to store", new_id),
    ]


def test_thirty_edits_are_undone_and_redone(page: Page, studio: StudioServer) -> None:
    made = pipeline(
        box("make", "Make", step_s=0.1), box("join", "Join"), box("save", "Save"),
        wires="make.out>join.first join.out>save.first",
    )  # fmt: skip
    canvas = CanvasPage(page, studio).open(seed(studio, made))
    far(canvas)
    start = canvas.export()
    undo, redo = canvas.button("Undo"), canvas.button("Redo")
    expect(undo).to_be_disabled()

    edits = thirty_edits(canvas)
    assert len(edits) == 30
    for label, edit in edits:
        edit()
        expect(undo).to_have_attribute("title", f"Undo: {label} (Ctrl+Z)")
    end = canvas.export()
    assert dump(load(end)) == end
    assert json.loads(end)["parameters"]["steps"] == {"value": 20, "help": "how many"}

    canvas.select("make")
    zoom = canvas.zoom
    for label, _ in reversed(edits):
        expect(undo).to_have_attribute("title", f"Undo: {label} (Ctrl+Z)")
        canvas.keys("Control+z")
    expect(undo).to_be_disabled()
    assert canvas.export() == start
    assert (canvas.selected(), canvas.zoom) == (["make"], zoom)

    for label, _ in edits:
        expect(redo).to_have_attribute("title", f"Redo: {label} (Ctrl+Shift+Z)")
        redo.click()
    expect(redo).to_be_disabled()
    assert canvas.export() == end
    assert (canvas.selected(), canvas.zoom) == (["make"], zoom)

    # What is done after an undo takes the place of what was undone.
    canvas.frame_keys("Control+z", "Control+z", "Escape", "l")
    expect(redo).to_be_disabled()


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
