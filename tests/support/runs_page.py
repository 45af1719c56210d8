"""The pages about runs as a person uses them. Charts are drawn on canvases: found by their colours."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from browser import settled
from canvas_page import box as place_of
from canvas_page import eventually
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from ui.shell.theme import SERIES

Place = tuple[int, int]
_CONTENT = ".stBidiComponent, [data-testid^=stVegaLite], [data-testid=stHtml], [data-testid=stCode]"
_ROW, _TICK_X, _RUN_X = 34, 17, 70
_LEAST_OF_A_LINE = 20


class Row(NamedTuple):
    run: str
    state: str
    pipeline: str
    result: str
    started: str
    duration: str
    profile: str
    attempt: str


class RunsPage:
    """The history, a run, a comparison: whichever the tab shows."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.table = page.get_by_test_id("stDataFrame")

    # --- the history ------------------------------------------------------------------------

    def history(self) -> RunsPage:
        self.page.goto("/runs")
        return self

    def rows(self) -> list[Row]:
        """What the table gives to a screen reader, which is what it draws."""
        cells: dict[str, str] = self.table.evaluate_all(
            """tables => Object.fromEntries(tables.flatMap(
                table => [...table.querySelectorAll('[data-testid^=glide-cell-]')].map(
                    cell => [cell.dataset.testid.slice('glide-cell-'.length), cell.textContent])))"""
        )
        out: list[Row] = []
        while f"1-{len(out)}" in cells:
            out.append(Row(*(cells[f"{column + 1}-{len(out)}"] for column in range(len(Row._fields)))))
        return out

    def expect_rows(self, *pipelines: str) -> list[Row]:
        """Wait until exactly these pipelines' runs are listed, in this order."""
        wanted = list(pipelines)
        eventually(lambda: [r.pipeline for r in self.rows()] == wanted, lambda: f"not {wanted} but {self.rows()}")
        return self.rows()

    def tick(self, row: int) -> None:
        self._click(_TICK_X, row)

    def open_row(self, row: int) -> None:
        """Press the button with the run's id."""
        self._click(_RUN_X, row)

    def _click(self, x: float, row: int) -> None:
        corner = place_of(self.table.locator("canvas").first)
        self.page.mouse.click(corner["x"] + x, corner["y"] + _ROW * (row + 1.5))

    # --- a run ------------------------------------------------------------------------------

    def open(self, run_id: str, view: str = "") -> RunsPage:
        self.page.goto(f"/run?run={run_id}{f'&view={view}' if view else ''}")
        return self

    def shows(self, pipeline: str, state: str) -> None:
        """Wait until the page is that of a run of the pipeline, in this state."""
        expect(self.page.get_by_role("heading", level=1)).to_have_text(pipeline)
        expect(self.page.locator(".vf-title").first.locator(".vf-chip")).to_have_text(state)

    @property
    def run_id(self) -> str:
        return self.page.locator(".vf-title .vf-id").first.inner_text()

    def tab(self, name: str) -> Locator:
        """Open a tab of the run's page; gives its content. Clicks again if nothing happens: Streamlit drops a click
        made while it redraws the page."""
        panel = self.page.get_by_role("tabpanel", name=name, exact=True)
        for _ in range(5):
            settled(self.page)
            self.page.get_by_role("tab", name=name, exact=True).click()
            with suppress(AssertionError):
                expect(panel.locator(_CONTENT).first).to_be_visible(timeout=10_000)
                break
        expect(panel.locator(_CONTENT).first).to_be_visible()
        settled(self.page)
        return panel

    def open_list(self, name: str) -> None:
        """Open a list. One that is drawn anew while it is clicked stays closed."""
        options = self.page.get_by_role("option")
        for _ in range(5):
            settled(self.page)
            self.page.get_by_role("combobox", name=name).click()
            with suppress(AssertionError):
                expect(options.first).to_be_visible(timeout=3000)
                return
        raise AssertionError(f"the list {name} does not open")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    # --- the graph --------------------------------------------------------------------------

    @property
    def graph(self) -> Locator:
        return self.page.get_by_role("region", name="Graph")

    def card(self, node: str) -> Locator:
        return self.graph.get_by_test_id(f"node-{node}")

    def expect_in_graph(self, *states: str) -> None:
        """Wait until there are cards in these states, and in no other but those that the run left out."""
        cards = self.graph.locator(".node-card")
        expect(cards.first).to_be_visible()
        eventually(
            lambda: (
                {card.get_attribute("data-state") for card in cards.all()} - {"left-out", "queued", "skipped"}
                == set(states)
            ),
            f"the graph does not show {states}",
        )

    def click_in_graph(self, state: str) -> None:
        """Click the card in a state, of which there is one."""
        self.graph.locator(f".node-card[data-state={state}]").click()


def curves(chart: Locator, most: int = 4) -> int:
    """How many lines a chart draws, each in a colour of its own."""
    picture = _picture(chart)
    drawn = (_near(picture, rgb(colour), 24).sum() for colour in SERIES["light"][:most])
    return sum(int(count) > _LEAST_OF_A_LINE for count in drawn)


def pixels(item: Locator, colour: Sequence[int], *, near: int) -> list[Place]:
    """Where something is drawn in a colour."""
    rows, columns = np.nonzero(_near(_picture(item), colour, near))
    return [(int(x), int(y)) for x, y in zip(columns, rows, strict=True)]


def _picture(item: Locator) -> NDArray[np.int16]:
    return np.asarray(Image.open(io.BytesIO(item.screenshot())).convert("RGB"), np.int16)


def _near(picture: NDArray[np.int16], colour: Sequence[int], near: int) -> NDArray[np.bool_]:
    """Which points are in a colour."""
    return (np.abs(picture - np.array(colour, np.int16)) <= near).all(axis=2)


def rgb(colour: str) -> list[int]:
    """Of `#2f6fde`."""
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
