"""The Build page as a person uses it: mouse and keyboard, and what then lies in the workspace's files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qs, urlsplit

from browser import TIMEOUT_MS
from playwright.sync_api import FloatRect, Locator, Page, expect
from studio import StudioServer
from waiting import Details, wait_until

from engine.document.pipeline import Pipeline, Position, write_pipeline

T = TypeVar("T")
Side = Literal["input", "output"]
Point = tuple[float, float]

_STEPS = 8
"""Moves of the mouse on its way: a drag is more than a jump."""


def seed(studio: StudioServer, pipeline: Pipeline, document: str = "") -> str:
    """Write a pipeline into the workspace, its nodes in a row unless they have places. Gives the document's id.

    Without a `document` it is the pipeline's name, with a number where another test's has it.
    """
    nodes = pipeline.nodes
    if all(node.position == Position() for node in nodes):
        nodes = tuple(n.model_copy(update={"position": Position(x=320 * i, y=80)}) for i, n in enumerate(nodes))
    folder = studio.workspace.pipelines
    if not document:
        names = (pipeline.name, *(f"{pipeline.name}-{number}" for number in range(2, 100)))
        document = next(name for name in names if not (folder / f"{name}.json").exists())
    write_pipeline(pipeline.model_copy(update={"nodes": nodes}), folder / f"{document}.json")
    return document


def eventually(ask: Callable[[], T], details: Details = "", *, within_s: float = TIMEOUT_MS / 1000) -> T:
    """What `ask` gives as soon as it is true. Asked seldom: each time the page answers."""
    return wait_until(ask, "what the test asks the page for", within_s, details=details, pause_s=0.05)


class CanvasPage:
    """The editor in one tab."""

    def __init__(self, page: Page, studio: StudioServer) -> None:
        self.page = page
        self.studio = studio

    # --- opening ----------------------------------------------------------------------------

    def open(self, document: str | None = None) -> CanvasPage:
        """Go to the Build page and wait until it can be used. Without a `document` it shows what was open last, or
        a copy of the quickstart."""
        workspace = self.studio.workspace
        empty = not [*workspace.pipelines.glob("*.json"), *(workspace.root / "drafts").glob("*.json")]
        named = "quickstart" if document is None and empty else document
        self.page.goto("/" if named is None else f"/?pipeline={named}")
        return self.ready()

    def ready(self) -> CanvasPage:
        expect(self.button("Undo")).to_be_visible()
        expect(self.page.get_by_role("complementary", name="Nodes").get_by_role("button", name="Make")).to_be_visible()
        return self

    def new(self) -> CanvasPage:
        """An empty pipeline, from the menu."""
        before = self.document
        self.choose("New pipeline")
        eventually(lambda: self.document != before, "no new pipeline was opened")
        expect(self.page.get_by_text("This pipeline is empty")).to_be_visible()
        return self

    def choose(self, item: str) -> None:
        """An item of the pipeline's menu."""
        self.page.get_by_role("button", name=re.compile("^Pipeline (?!parameters(: \\d+)?$)")).click()
        self.page.get_by_role("menuitem", name=item).click()

    def button(self, name: str) -> Locator:
        """A button of the bar above the canvas."""
        return self.page.locator(".toolbar").get_by_role("button", name=name, exact=True)

    # --- what there is ----------------------------------------------------------------------

    @property
    def document(self) -> str:
        """Id of the document, as the page's address says."""
        # `page.url` stands still while nothing waits for the page.
        found = parse_qs(urlsplit(self.page.evaluate("location.href")).query).get("pipeline")
        return found[0] if found else ""

    def expect_document(self, name: str) -> None:
        """The page's address follows the canvas, a moment later."""
        eventually(lambda: self.document == name, f"the page's address does not become that of {name}")

    @property
    def frame(self) -> Locator:
        """The canvas itself, where nodes lie."""
        return self.page.get_by_role("region", name="Canvas", exact=True)

    @property
    def cards(self) -> Locator:
        return self.page.get_by_test_id(re.compile("^node-"))

    def card(self, node: str) -> Locator:
        return self.page.get_by_test_id(f"node-{node}")

    def port(self, node: str, name: str, side: Side) -> Locator:
        return self.card(node).locator(f'[data-port="{name}"][data-side="{side}"]')

    def wires(self) -> Locator:
        return self.page.locator(".react-flow__edge")

    def wire(self, source: str, target: str) -> Locator:
        """The wire from `node.port` to `node.port`."""
        return self.page.locator(f'.react-flow__edge[data-id="{source}->{target}"]')

    @property
    def inspector(self) -> Locator:
        return self.page.get_by_role("complementary", name="Inspector")

    def field(self, title: str) -> Locator:
        """The control of a parameter of the chosen node."""
        return self.inspector.get_by_label(title, exact=True)

    def notes(self, name: str) -> Locator:
        """What is written under the field of the parameter called so in the declaration."""
        return self.inspector.locator(f'[role=alert][data-field="{name}"]')

    @property
    def zoom(self) -> str:
        """In per cent, as the canvas shows it."""
        return self.page.get_by_role("button", name=re.compile("^Zoom .* %")).inner_text()

    def wait_until_still(self, node: str) -> None:
        """Wait until the view has come to rest: a card that moves away from under the pointer is not clicked."""
        places = [box(self.card(node))]

        def is_still() -> bool:
            self.page.wait_for_timeout(100)
            places.append(box(self.card(node)))
            return places[-1] == places[-2]

        eventually(is_still, "the view still moves")

    def selected(self) -> list[str]:
        """Ids of the chosen nodes."""
        chosen = self.page.locator(".react-flow__node.selected").all()
        return sorted(item.get_attribute("data-id") or "" for item in chosen)

    # --- what lies in the workspace -----------------------------------------------------------

    @property
    def file(self) -> Path:
        return self.studio.workspace.pipelines / f"{self.document}.json"

    @property
    def text(self) -> str:
        """The document as Python has it: the draft's text, or the file's when nothing is unsaved."""
        draft = self.studio.workspace.root / "drafts" / f"{self.document}.json"
        try:
            found: str = json.loads(draft.read_text())["pipeline"]
        except FileNotFoundError:
            return self.file.read_text() if self.file.exists() else ""
        return found

    @property
    def doc(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text or "{}")
        return found

    def node(self, node: str) -> dict[str, Any]:
        """A node of the document; empty when it is not there (yet)."""
        return next((n for n in self.doc.get("nodes", ()) if n["id"] == node), {})

    def params(self, node: str) -> dict[str, Any]:
        found: dict[str, Any] = self.node(node).get("params", {})
        return found

    def edges(self) -> list[str]:
        """`a.out>b.first` of every wire, sorted."""
        return sorted(f"{e['from']}>{e['to']}" for e in self.doc.get("edges", ()))

    def expect_edges(self, *wires: str) -> None:
        """On the canvas and in the document."""
        expect(self.wires()).to_have_count(len(wires))
        eventually(lambda: self.edges() == sorted(wires), lambda: f"the wires are {self.edges()}, not {sorted(wires)}")

    def expect_nodes(self, *nodes: str) -> None:
        expect(self.cards).to_have_count(len(nodes))
        wanted = sorted(nodes)
        eventually(lambda: sorted(n["id"] for n in self.doc.get("nodes", ())) == wanted, "the document differs")

    def export(self) -> str:
        """The JSON that the menu's export gives: made by Python after all that was edited before."""
        with self.page.expect_download() as download:
            self.choose("Export JSON")
        return download.value.path().read_text()

    # --- nodes ------------------------------------------------------------------------------

    def add(self, node_type: str, at: Point | None = None) -> str:
        """Add a node through the menu of `/`, at the pointer if `at` is given. Gives its id."""
        if at is not None:
            self.page.mouse.move(*at)
        self.frame_keys("/")
        return self.pick(node_type)

    def pick(self, node_type: str) -> str:
        """Pick a node type in the menu that is open; gives the new node's id."""
        menu = self.page.get_by_role("dialog", name="Add a node")
        menu.get_by_role("combobox", name="Search nodes").fill(node_type)
        menu.get_by_role("option", name=node_type, exact=True).click()
        expect(menu).to_have_count(0)
        selected = self.page.locator(".react-flow__node.selected")
        expect(selected).to_have_count(1)
        return selected.get_attribute("data-id") or ""

    def drag_in(self, node_type: str, at: Point) -> str:
        """Drag a node type from the palette to a place on the screen; gives the new node's id."""
        before = self.cards.count()
        item = self.page.get_by_role("complementary", name="Nodes").get_by_role("button", name=node_type, exact=True)
        # The palette may be longer than the screen.
        item.scroll_into_view_if_needed()
        self.drag(middle(item), at)
        expect(self.cards).to_have_count(before + 1)
        selected = self.page.locator(".react-flow__node.selected")
        expect(selected).to_have_count(1)
        return selected.get_attribute("data-id") or ""

    def select(self, node: str) -> None:
        self.head(node).click()
        expect(self.page.locator(f'.react-flow__node.selected[data-id="{node}"]')).to_have_count(1)

    def head(self, node: str) -> Locator:
        """Where a card is taken to be moved."""
        return self.card(node).locator(".card-title")

    def deselect(self) -> None:
        self.frame_keys("Escape")
        expect(self.page.locator(".react-flow__node.selected")).to_have_count(0)

    # --- wires ------------------------------------------------------------------------------

    def draw(self, source: str, target: str) -> None:
        """Drag a wire from an output to an input, each `node.port`."""
        self.drag(*self.ends(source, target))

    def ends(self, source: str, target: str) -> tuple[Point, Point]:
        from_node, from_port = source.split(".")
        to_node, to_port = target.split(".")
        return middle(self.port(from_node, from_port, "output")), middle(self.port(to_node, to_port, "input"))

    def between(self, source: str, target: str) -> Point:
        """The middle of a wire."""
        (x, y), (x2, y2) = self.ends(source, target)
        return (x + x2) / 2, (y + y2) / 2

    # --- mouse and keys -----------------------------------------------------------------------

    def take(self, start: Point, to: Point) -> None:
        """Press the mouse and drag, and keep it pressed."""
        mouse = self.page.mouse
        mouse.move(*start)
        mouse.down()
        mouse.move(start[0] + (3 if to[0] >= start[0] else -3), start[1] + 3)
        mouse.move(*to, steps=_STEPS)

    def drag(self, start: Point, to: Point) -> None:
        self.take(start, to)
        self.page.mouse.up()

    def place(self, column: int, row: int) -> Point:
        """A place on the canvas; cards that are half as large as they can be do not touch from place to place."""
        frame = box(self.frame)
        return frame["x"] + 75 + 145 * column, frame["y"] + 60 + 105 * row

    def far(self, most: int = 55) -> None:
        """Zoom out to about half size, or to at most so many per cent."""
        shown = self.page.get_by_role("button", name=re.compile("^Zoom .* %"))
        while int(self.zoom.removesuffix("%")) > most:
            before = self.zoom
            self.frame_keys("-")
            expect(shown).not_to_have_text(before)

    def frame_keys(self, *keys: str) -> None:
        """Press keys while the canvas has the focus."""
        self.frame.focus()
        self.keys(*keys)

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def keys_at_once(self, *keys: dict[str, Any]) -> None:
        """Press keys, each as a `KeyboardEvent` describes it, with no time between them, however slow the machine."""
        self.page.evaluate(
            """keys => {
                let focused = document.activeElement;
                while (focused.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
                for (const key of keys) focused.dispatchEvent(
                    new KeyboardEvent('keydown', { ...key, bubbles: true, cancelable: true, composed: true }));
            }""",
            keys,
        )


def box(item: Locator) -> FloatRect:
    found = item.bounding_box()
    assert found is not None, f"{item} is not shown"
    return found


def middle(item: Locator) -> Point:
    found = box(item)
    return found["x"] + found["width"] / 2, found["y"] + found["height"] / 2
