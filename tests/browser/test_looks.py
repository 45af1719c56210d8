"""Every page can be read, in the light and in the dark theme, also by those who do not see it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from building import box, pipeline
from canvas_page import eventually, seed
from page_looks import colours, contrast, findings
from playwright.sync_api import Page, expect
from runs_page import RunsPage, rgb
from studio import StudioServer
from studio_page import StudioPage, in_rows

from ui.shell.theme import STATE_COLOURS, SURFACE, Mode

NODES = in_rows(
    pipeline(
        box("a", "Make", text="${words}"),
        box("b", "Join"),
        box("f", "Fail", how="told"),
        wires="a.out>b.first b.out>f.first",
        name="seen",
        words="some words",
    )
)


@pytest.fixture
def studio(shared_studio: StudioServer) -> StudioServer:
    return shared_studio


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_each_page_can_be_read_and_is_told_to_a_screen_reader(
    mode: Mode, open_page: Callable[..., Page], studio: StudioServer
) -> None:
    page: Page = open_page(color_scheme=mode)
    surface = {name: rgb(colour) for name, colour in SURFACE[mode].items()}
    name = f"seen-{mode}"
    canvas = StudioPage(page, studio).open(seed(studio, NODES.model_copy(update={"name": name})))
    canvas.expect_state("a", "stale", "fresh")
    assert findings(page) == []
    canvas.run()
    canvas.expect_run("Failed")
    canvas.select("f")
    page.get_by_role("tab", name="Log").click()
    expect(page.get_by_role("tabpanel", name="Log").get_by_role("alert")).to_be_visible()
    assert findings(page) == []
    text, ground = colours(canvas.head("a"))
    assert text == surface["text"]
    assert _is_dark(ground) == (mode == "dark")
    for item in (
        canvas.head("a"),
        canvas.card("f").locator(".card-foot").get_by_text("Failed"),
        canvas.title,
        page.get_by_role("complementary", name="Nodes").get_by_role("button", name="Make"),
        canvas.inspector.get_by_text("How", exact=True),
        canvas.field("How"),
        page.get_by_role("tab", name="Log"),
    ):
        assert contrast(item) >= 4.5, item
    _, ground = colours(canvas.frame)
    assert _is_dark(ground) == (mode == "dark")
    first = canvas.run_id
    second = canvas.run()
    canvas.expect_run("Failed")

    pages = RunsPage(page).history()
    eventually(lambda: len(pages.rows()) >= 2, "the runs are not listed")
    assert findings(page) == []
    assert contrast(page.get_by_role("link", name="Runs")) >= 4.5
    pages.open(first)
    pages.shows(name, "failed")
    expect(page.get_by_role("table", name="Parameters")).to_be_visible()
    for tab in ("", "Timeline", "Metrics", "System", "Logs", "Pipeline"):
        if tab:
            pages.tab(tab)
        assert findings(page) == [], tab
    heading = page.get_by_role("heading", level=1)
    assert colours(heading) == (surface["text"], surface["background"])
    for item in (heading, page.locator(".vf-title .vf-chip").first, page.locator(".vf-fact dt").first):
        assert contrast(item) >= 4.5, item

    page.goto(f"/compare?runs={first},{second}")
    expect(page.get_by_role("table", name="Durations")).to_be_visible()
    assert findings(page) == []
    assert colours(page.get_by_role("table", name="Durations").locator("td").first) == (
        surface["text"],
        surface["background"],
    )


def test_the_pages_turn_dark_with_the_system(open_page: Callable[..., Page], studio: StudioServer) -> None:
    page: Page = open_page(color_scheme="light")
    canvas = StudioPage(page, studio).open(seed(studio, NODES.model_copy(update={"name": "turning"})))
    canvas.run()
    canvas.expect_run("Failed")
    run_id = canvas.run_id
    page.emulate_media(color_scheme="dark")
    eventually(lambda: _is_dark(colours(canvas.frame)[1]), "the canvas stays light")
    page.emulate_media(color_scheme="light")
    pages = RunsPage(page).open(run_id)
    pages.shows("turning", "failed")
    pages.tab("Timeline")
    bar = page.get_by_test_id("stVegaLiteChart").locator("path[aria-label*='state: failed']").first
    expect(bar).to_have_attribute("fill", STATE_COLOURS["light"]["failed"])
    page.emulate_media(color_scheme="dark")
    heading = page.get_by_role("heading", level=1)
    dark = tuple(rgb(SURFACE["dark"][name]) for name in ("text", "background"))
    eventually(lambda: colours(heading) == dark, "the page stays light")
    expect(bar).to_have_attribute("fill", STATE_COLOURS["dark"]["failed"])
    assert contrast(page.locator(".vf-title .vf-chip").first) >= 4.5


def _is_dark(colour: list[int]) -> bool:
    return sum(colour) < 3 * 128
