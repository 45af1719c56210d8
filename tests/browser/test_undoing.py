"""Undo: each of thirty edits is taken back and made again."""

from __future__ import annotations

import json
from collections.abc import Callable

from building import box, pipeline
from canvas_page import CanvasPage, middle, seed
from playwright.sync_api import Page, expect
from studio import StudioServer

from engine.document.pipeline import dump, load

SHARED_STUDIO = True


def thirty_edits(canvas: CanvasPage) -> list[tuple[str, Callable[[], object]]]:
    """Each is what a person sees as one action, with what the button for undoing it says."""
    page = canvas.page
    parameters = canvas.inspector.get_by_role("region", name="Parameters")

    def pick_by_double_click() -> None:
        page.mouse.dblclick(*canvas.place(2, 0))
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
        page.mouse.move(*canvas.place(1, 4))
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
        ("Add Make", lambda: canvas.add("Make", canvas.place(0, 1))),
        ("Add Join", pick_by_double_click),
        ("Add ParquetToDelta", lambda: canvas.drag_in("ParquetToDelta", canvas.place(4, 3))),
        ("Connect", lambda: canvas.draw("make_2.out", "join_2.first")),
        ("Connect", lambda: canvas.draw("make.out", "join_2.second")),
        ("Move node", lambda: canvas.drag(middle(canvas.head("join_2")), canvas.place(3, 1))),
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
    canvas.far()
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
