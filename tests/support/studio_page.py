"""The Build page with what is around its canvas: documents, runs, logs, notifications."""

from __future__ import annotations

import re
from collections.abc import Callable

from canvas_page import CanvasPage, eventually
from playwright.sync_api import Locator, Page, expect
from studio import StudioServer

from engine.document.pipeline import Pipeline, Position

COLUMN, ROW = 290, 190
AWAY = (
    r"Cannot send rerun|server is not responding|reaching server endpoint|ERR_CONNECTION|ERR_EMPTY_RESPONSE|WebSocket"
)
"""What the browser's console says while the server is away."""


def in_rows(document: Pipeline, columns: int = 5) -> Pipeline:
    """Its nodes in rows, so that none covers another."""
    nodes = tuple(
        node.model_copy(update={"position": Position(x=40 + COLUMN * (i % columns), y=40 + ROW * (i // columns))})
        for i, node in enumerate(document.nodes)
    )
    return document.model_copy(update={"nodes": nodes})


class StudioPage(CanvasPage):
    """One tab that shows the editor."""

    def __init__(self, page: Page, studio: StudioServer) -> None:
        super().__init__(page, studio)
        self.toolbar = page.locator(".toolbar")
        self.run_bar = page.get_by_role("group", name="Run", exact=True)
        self.dialog = page.get_by_role("dialog")
        self.unsaved = page.get_by_test_id("unsaved")
        self._last_run = ""
        self.log = page.get_by_role("log", name="Log lines")

    # --- the document -----------------------------------------------------------------------

    @property
    def title(self) -> Locator:
        """The button that opens the pipeline's menu; its name ends in the pipeline's."""
        return self.toolbar.locator("button[aria-haspopup=menu]").first

    def shows(self, name: str) -> None:
        """Wait until the pipeline called so is shown."""
        expect(self.title).to_have_accessible_name(f"Pipeline {name}")

    def choose(self, item: str) -> None:
        """An item of the pipeline's menu."""
        self.title.click()
        self.page.get_by_role("menuitem", name=re.compile(f"^{re.escape(item)}( (Ctrl|⌘).*)?$")).click()

    @property
    def save_button(self) -> Locator:
        return self.toolbar.get_by_role("button", name="Save", exact=True)

    def name_it(self, name: str, verb: str) -> None:
        """Answer the dialog that asks for a name."""
        self.dialog.get_by_label("Name").fill(name)
        self.dialog.get_by_role("button", name=verb, exact=True).click()
        expect(self.dialog).to_have_count(0)

    def answer(self, verb: str) -> None:
        """Press a button of the dialog that is open."""
        self.dialog.get_by_role("button", name=verb, exact=True).click()

    def notification(self, text: str | re.Pattern[str]) -> Locator:
        """The notification that says so."""
        return self.page.get_by_role("region", name="Notifications").locator(".toast").filter(has_text=text)

    def set(self, node: str, title: str, value: str) -> None:
        """Choose the node and type a value into one of its fields."""
        self.select(node)
        self.field(title).fill(value)
        self.field(title).press("Tab")

    # --- runs -------------------------------------------------------------------------------

    def run(self) -> str:
        """Press Run; gives the new run's id."""
        return self.started(self.run_bar.get_by_role("button", name="Run", exact=True).click)

    def run_as(self, way: str) -> str:
        """Choose an item of the menu beside Run; gives the new run's id."""
        self.run_bar.get_by_role("button", name="More ways to run").click()
        return self.started(self.page.get_by_role("menuitem", name=way).click)

    def started(self, press: Callable[[], None]) -> str:
        """The id of the run that `press` starts, as soon as the run bar shows it."""
        before = self.run_id
        press()
        return eventually(lambda: self.run_id if self.run_id != before else "", "no run was started")

    def expect_state(self, node: str, *states: str) -> None:
        """Wait until the node's card shows one of the states."""
        expect(self.card(node)).to_have_attribute("data-state", re.compile(f"^({'|'.join(states)})$"))

    def expect_run(self, word: str) -> None:
        """Wait until the run bar says so: `Running`, `Done`, `Failed`, `Cancelled`."""
        expect(self.run_bar.get_by_role("status")).to_have_text(word)

    @property
    def run_id(self) -> str:
        """Of the run that is shown; while another one is starting, of the one before."""
        links = self.run_bar.get_by_role("link", name="Open run").all()
        address = links[0].get_attribute("href") if links else self._last_run
        self._last_run = address or ""
        return self._last_run.partition("=")[2]
