"""The pages about runs as a person uses them. The table and the graph are drawn on canvases: found by their colours."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

from canvas_page import box as place_of
from canvas_page import eventually
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from ui.shell.theme import SERIES, STATE_COLOURS

Place = tuple[int, int]
_CONTENT = "iframe, [data-testid^=stVegaLite], [data-testid=stHtml], [data-testid=stCode]"
_ROW, _TICK_X, _RUN_X = 34, 17, 70
_FACE = 0.14
"""How much of its state's colour a box of the graph has."""
_LEAST_PIXELS, _LEAST_OF_A_LINE = 1_000, 20


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
        """What the table tells to a screen reader, which is what it draws."""
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
        eventually(lambda: [r.pipeline for r in self.rows()] == wanted, f"not {wanted} but {self.rows()}")
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

    def open(self, run_id: str) -> RunsPage:
        self.page.goto(f"/run?run={run_id}")
        return self

    def shows(self, pipeline: str, state: str) -> None:
        """Wait until the page is that of a run of the pipeline, in this state."""
        expect(self.page.get_by_role("heading", level=1)).to_have_text(pipeline)
        expect(self.page.locator(".vf-title").first.locator(".vf-chip")).to_have_text(state)

    @property
    def run_id(self) -> str:
        return self.page.locator(".vf-title .vf-id").first.inner_text()

    def tab(self, name: str) -> Locator:
        """Open a part of the run's page; gives what stands in it."""
        self.page.get_by_role("tab", name=name, exact=True).click()
        panel = self.page.get_by_role("tabpanel", name=name, exact=True)
        # Streamlit forgets a second click that comes while the first one's part is on its way.
        expect(panel.locator(_CONTENT).first).to_be_visible()
        expect(self.page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
        return panel

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    # --- the graph --------------------------------------------------------------------------

    @property
    def graph(self) -> Locator:
        return self.page.frame_locator("iframe").locator("canvas")

    def expect_in_graph(self, *states: str) -> None:
        """Wait until boxes in the colours of these states are drawn, and of no other."""
        drawn = ("done", "failed", "running", "cached", "cancelled", "waiting")
        eventually(lambda: {s for s in drawn if self._box(s)} == set(states), f"the graph does not show {states}")

    def click_in_graph(self, state: str) -> None:
        """Click the box in a state's colour, of which there is one."""
        # After a choice in the list there are two graphs for a moment, the one before and the one to come.
        expect(self.page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
        expect(self.page.locator("iframe")).to_have_count(1)
        found = eventually(lambda: self._box(state), f"the graph shows no box that is {state}")
        x = sum(at[0] for at in found) / len(found)
        y = sum(at[1] for at in found) / len(found)
        self.graph.click(position={"x": x, "y": y})

    def _box(self, state: str) -> list[Place]:
        """Where the face of a box is drawn: a little of its state's colour."""
        colour = [round(255 * (1 - _FACE) + channel * _FACE) for channel in rgb(STATE_COLOURS["light"][state])]
        found = pixels(self.graph, colour, near=1)
        return found if len(found) > _LEAST_PIXELS else []


def curves(chart: Locator, most: int = 4) -> int:
    """How many lines a chart draws, each in a colour of its own."""
    return sum(len(pixels(chart, rgb(colour), near=24)) > _LEAST_OF_A_LINE for colour in SERIES["light"][:most])


def pixels(item: Locator, colour: Sequence[int], *, near: int) -> list[Place]:
    """Where something is drawn in a colour."""
    image = Image.open(io.BytesIO(item.screenshot())).convert("RGB")
    data, width = image.tobytes(), image.width
    return [
        ((at // 3) % width, (at // 3) // width)
        for at in range(0, len(data), 3)
        if all(abs(data[at + channel] - colour[channel]) <= near for channel in range(3))
    ]


def rgb(colour: str) -> list[int]:
    """Of `#2f6fde`."""
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
