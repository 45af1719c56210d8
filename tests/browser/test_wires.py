"""Wires: drawn, refused, cut, moved, dropped; nodes put into them; all of it by keyboard as well."""

from __future__ import annotations

import re

from building import box, pipeline
from canvas_page import CanvasPage, middle, seed
from canvas_page import box as bounds
from playwright.sync_api import Locator, Page, expect
from studio import StudioServer

from engine.document.pipeline import Position

SHARED_STUDIO = True


def test_only_wires_that_fit_can_be_drawn(page: Page, studio: StudioServer) -> None:
    made = pipeline(
        box("make", "Make"), box("join", "Join"), box("halve", "Halve"), box("pack", "NumpyToParquet"),
        wires="join.out>halve.whole",
    )  # fmt: skip
    canvas = CanvasPage(page, studio).open(seed(studio, made))
    canvas.expect_edges("join.out>halve.whole")
    reason = page.locator(".connection-reason")

    # What fits together has one colour, the wire too.
    report = painted(canvas.port("make", "out", "output"), "background-color")
    assert painted(canvas.port("join", "first", "input"), "border-top-color") == report
    assert painted(canvas.wire("join.out", "halve.whole").locator(".wire"), "stroke") == report
    assert painted(canvas.port("pack", "files", "input"), "border-top-color") != report
    assert painted(canvas.port("pack", "out", "output"), "background-color") != report

    # While the wire is in the hand the ports that fit are lit, the others dim and say why.
    start, wrong = canvas.ends("make.out", "pack.files")
    canvas.take(start, wrong)
    expect(canvas.port("join", "first", "input")).to_have_attribute("data-fit", "yes")
    expect(canvas.port("join", "second", "input")).to_have_attribute("data-fit", "yes")
    expect(canvas.port("pack", "files", "input")).to_have_attribute("data-fit", "no")
    expect(canvas.port("halve", "left", "output")).to_have_attribute("data-fit", "no")
    expect(canvas.card("join")).to_have_attribute("data-fits", "true")
    expect(canvas.card("pack")).to_have_attribute("data-fits", "false")
    lit, dim = (canvas.port(n, p, "input") for n, p in (("join", "first"), ("pack", "files")))
    assert shade(lit) > shade(dim)
    expect(reason).to_have_text("Takes VolumeFiles, not Report.")
    page.mouse.up()
    expect(reason).to_have_count(0)
    expect(lit).not_to_have_attribute("data-fit", re.compile("."))
    canvas.expect_edges("join.out>halve.whole")
    expect(canvas.button("Undo")).to_be_disabled()

    # Let go on the body of a node that takes no such thing: the reason stays to be read.
    canvas.drag(start, middle(canvas.head("pack")))
    expect(page.get_by_role("region", name="Notifications")).to_contain_text("Takes VolumeFiles, not Report.")

    # A cycle, also when the wire is drawn backwards.
    left, second = canvas.ends("halve.left", "join.second")
    canvas.take(left, second)
    expect(reason).to_have_text("That would be a cycle.")
    page.mouse.up()
    canvas.take(second, left)
    expect(reason).to_have_text("That would be a cycle.")
    page.mouse.up()
    canvas.expect_edges("join.out>halve.whole")

    # Backwards a wire that fits is drawn; on the body of a node it finds a free port by itself.
    canvas.drag(middle(canvas.port("join", "first", "input")), start)
    canvas.expect_edges("join.out>halve.whole", "make.out>join.first")
    canvas.drag(start, middle(canvas.head("join")))
    canvas.expect_edges("join.out>halve.whole", "make.out>join.first", "make.out>join.second")


def painted(item: Locator, what: str) -> str:
    """A colour of an element, as the browser computes it."""
    found: str = item.evaluate("(element, what) => getComputedStyle(element).getPropertyValue(what)", what)
    return found


def shade(port: Locator) -> float:
    """How strongly a port is drawn, with all that it lies in."""
    return float(
        port.evaluate(
            """element => {
                let shade = 1
                for (let at = element; at instanceof Element; at = at.parentElement) {
                    shade *= Number(getComputedStyle(at).opacity)
                }
                return shade
            }"""
        )
    )


def test_a_wire_is_cut_and_taken_elsewhere(page: Page, studio: StudioServer) -> None:
    made = pipeline(box("make", "Make"), box("join", "Join"), wires="make.out>join.first")
    canvas = CanvasPage(page, studio).open(seed(studio, made))
    first, second = "make.out>join.first", "make.out>join.second"
    canvas.expect_edges(first)

    # By the button that the wire shows under the mouse.
    page.mouse.move(*canvas.between("make.out", "join.first"), steps=4)
    page.get_by_role("button", name="Cut wire").click()
    canvas.expect_edges()
    canvas.button("Undo").click()
    canvas.expect_edges(first)

    # By the Delete key, once it is chosen.
    page.mouse.click(*canvas.between("make.out", "join.first"))
    expect(canvas.inspector.get_by_role("heading", name="Wire")).to_be_visible()
    expect(canvas.inspector).to_contain_text("Report")
    canvas.keys("Delete")
    canvas.expect_edges()
    canvas.keys("Control+z")
    canvas.expect_edges(first)

    # By its menu.
    page.mouse.click(*canvas.between("make.out", "join.first"), button="right")
    page.get_by_role("menu", name="Wire").get_by_role("menuitem", name="Cut wire").click()
    canvas.expect_edges()
    canvas.keys("Control+z")
    canvas.expect_edges(first)

    # Taken by its end: to another input, and back in one step.
    canvas.drag(middle(canvas.port("join", "first", "input")), middle(canvas.port("join", "second", "input")))
    canvas.expect_edges(second)
    canvas.keys("Control+z")
    canvas.expect_edges(first)
    canvas.keys("Control+Shift+z")
    canvas.expect_edges(second)

    # Let go over nothing: cut.
    frame = bounds(canvas.frame)
    canvas.drag(middle(canvas.port("join", "second", "input")), (frame["x"] + 300, frame["y"] + 60))
    canvas.expect_edges()


def test_a_wire_dropped_on_the_empty_canvas_offers_what_fits(page: Page, studio: StudioServer) -> None:
    made = pipeline(box("pack", "NumpyToParquet"))
    canvas = CanvasPage(page, studio).open(seed(studio, made))
    frame = bounds(canvas.frame)
    menu = page.get_by_role("dialog", name="Add a node")

    canvas.drag(middle(canvas.port("pack", "out", "output")), (frame["x"] + 560, frame["y"] + 560))
    expect(menu.get_by_role("option")).to_have_text(
        [
            re.compile(f"^{name}")
            for name in (
                "TransformVolumes", "ParquetToDelta", "InspectDataset", "TrainResNet3D", "ProfileTraining",
                "BatchPredict", "RunAfter",
            )
        ]
    )  # fmt: skip
    canvas.keys("Escape")
    expect(menu).to_have_count(0)
    canvas.expect_nodes("pack")

    canvas.drag(middle(canvas.port("pack", "out", "output")), (frame["x"] + 560, frame["y"] + 560))
    assert canvas.pick("ParquetToDelta") == "parquet_to_delta"
    canvas.expect_edges("pack.out>parquet_to_delta.parquet")

    # Before an input: what makes it. One step of undo for node and wire.
    canvas.drag(middle(canvas.port("pack", "files", "input")), (frame["x"] + 60, frame["y"] + 200))
    offered = ("VolumeFolder", "SyntheticVolumes", "TransformVolumes", "RunAfter", "Count")
    expect(menu.get_by_role("option")).to_have_text([re.compile(f"^{name}") for name in offered])
    assert canvas.pick("SyntheticVolumes") == "synthetic_volumes"
    both = ("pack.out>parquet_to_delta.parquet", "synthetic_volumes.out>pack.files")
    canvas.expect_edges(*both)
    canvas.keys("Control+z")
    canvas.expect_edges(both[0])
    canvas.expect_nodes("pack", "parquet_to_delta")
    canvas.keys("Control+y")
    canvas.expect_edges(*both)
    canvas.expect_nodes("pack", "parquet_to_delta", "synthetic_volumes")


def test_a_node_is_put_into_a_wire(page: Page, studio: StudioServer) -> None:
    made = pipeline(
        box("make", "Make"), box("save", "Save"), box("loose", "Join"), wires="make.out>save.first",
    )  # fmt: skip
    places = {"make": Position(x=0, y=0), "save": Position(x=420, y=0), "loose": Position(x=200, y=260)}
    nodes = tuple(n.model_copy(update={"position": places[n.id]}) for n in made.nodes)
    canvas = CanvasPage(page, studio).open(seed(studio, made.model_copy(update={"nodes": nodes})))
    canvas.expect_edges("make.out>save.first")
    wire = canvas.between("make.out", "save.first")

    # By the button on the wire: only what fits between its ends is offered.
    page.mouse.move(*wire, steps=4)
    page.get_by_role("button", name="Insert a node here").click()
    menu = page.get_by_role("dialog", name="Add a node")
    expect(menu.get_by_role("option", name="Join")).to_be_visible()
    expect(menu.get_by_role("option", name=re.compile("^(Make|SyntheticVolumes|TrainResNet3D)$"))).to_have_count(0)
    assert canvas.pick("Mutate") == "mutate"
    canvas.expect_edges("make.out>mutate.first", "mutate.out>save.first")
    canvas.keys("Control+z")
    canvas.expect_edges("make.out>save.first")
    canvas.expect_nodes("make", "save", "loose")

    # By dragging a node that lies there onto it.
    canvas.drag(middle(canvas.head("loose")), canvas.between("make.out", "save.first"))
    canvas.expect_edges("make.out>loose.first", "loose.out>save.first")
    canvas.button("Undo").click()
    canvas.expect_edges("make.out>save.first")
    assert canvas.node("loose")["position"] == {"x": 200.0, "y": 260.0}

    # By dragging a node type onto it.
    canvas.drag_in("Join", canvas.between("make.out", "save.first"))
    canvas.expect_edges("make.out>join.first", "join.out>save.first")


def test_a_pipeline_is_drawn_with_the_keyboard_alone(page: Page, studio: StudioServer) -> None:
    canvas = CanvasPage(page, studio).open().new()
    said = page.locator(".for-screen-readers")
    for letters, node in (("make", "make"), ("join", "join"), ("parquettod", "parquet_to_delta")):
        canvas.frame_keys("/")
        page.keyboard.type(letters)
        canvas.keys("Enter")
        expect(canvas.card(node)).to_be_visible()
    places = [(bounds(canvas.card(n))["x"], bounds(canvas.card(n))["y"]) for n in ("make", "join", "parquet_to_delta")]
    assert len(set(places)) == 3, "nodes lie upon each other"

    canvas.frame_keys("Escape", "n")
    expect(page.locator('.react-flow__node[data-id="make"]')).to_be_focused()
    canvas.keys("Tab")
    expect(canvas.port("make", "out", "output")).to_be_focused()
    expect(canvas.port("make", "out", "output")).to_have_accessible_name("output out of Make, Report")
    canvas.keys("Enter")
    expect(said).to_contain_text("Wire from out of Make.")
    # Tab passes by what does not fit.
    walked = []
    for _ in range(12):
        canvas.keys("Tab")
        walked.append(page.evaluate(FOCUSED))
        if walked[-1] == "second":
            break
    assert walked[-2:] == ["first", "second"]
    assert "parquet" not in walked
    canvas.keys("Enter")
    canvas.expect_edges("make.out>join.second")
    expect(said).to_have_text("Connected make.out to join.second.")

    # A wire that was begun is given up; a wire is reached, chosen and cut.
    canvas.port("make", "out", "output").focus()
    canvas.keys("Enter", "Escape")
    expect(canvas.port("make", "out", "output")).to_have_attribute("aria-pressed", "false")
    wire = page.get_by_role("group", name="wire from out of Make to second of Join")
    wire.focus()
    canvas.keys("Enter", "Delete")
    canvas.expect_edges()
    canvas.keys("Control+z")
    canvas.expect_edges("make.out>join.second")


FOCUSED = """() => {
    let at = document.activeElement
    while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement
    return at?.getAttribute('data-port') ?? ''
}"""
"""The port that has the focus, inside the shadow root."""
