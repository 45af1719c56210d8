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

from ui.shell.fonts import FAMILY
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


SHARED_STUDIO = True


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
    pages.open(first, "Graph")
    pages.shows(name, "failed")
    expect(page.get_by_role("table", name="Parameters", exact=True)).to_be_visible()
    assert findings(page) == []
    for tab in ("Overview", "Timeline", "Metrics", "Monitor", "Logs", "Pipeline"):
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

    page.goto("/compute")
    expect(page.locator(".vf-fact").filter(has_text="CPU")).to_be_visible()
    assert findings(page) == []
    assert contrast(page.locator(".vf-profile-line").first) >= 4.5


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


def test_a_narrow_window_leaves_the_canvas_its_width(open_page: Callable[..., Page], studio: StudioServer) -> None:
    page: Page = open_page()
    page.set_viewport_size({"width": 800, "height": 600})
    document = seed(studio, NODES.model_copy(update={"name": "a pipeline with a name"}))
    page.goto(f"/?pipeline={document}")
    canvas = StudioPage(page, studio)
    canvas.expect_state("a", "stale", "fresh")

    def width() -> int:
        return int(canvas.frame.evaluate("element => element.clientWidth"))

    whole = width()
    assert whole >= 700
    assert canvas.title.evaluate("e => { const t = e.querySelector('.pipeline-title'); return t.clientWidth }") >= 80
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    # The palette lies over the canvas, and gives way to the inspector.
    page.get_by_role("button", name="Show nodes").click()
    search = page.get_by_role("searchbox", name="Search nodes")
    expect(search).to_be_visible()
    assert width() >= whole
    page.get_by_role("button", name="Show the inspector").click()
    expect(search).to_have_count(0)
    expect(page.get_by_role("button", name="Hide the inspector")).to_be_visible()
    assert width() >= whole
    assert findings(page) == []


def test_the_apps_own_font_and_logo_are_shown(open_page: Callable[..., Page], studio: StudioServer) -> None:
    page: Page = open_page()
    canvas = StudioPage(page, studio).open(seed(studio, NODES.model_copy(update={"name": "set in Inter"})))
    loaded = f"""async () => {{ await document.fonts.ready;
        return [...document.fonts].some((face) => face.family.includes('{FAMILY}') && face.status === 'loaded') }}"""
    eventually(lambda: page.evaluate(loaded), "the font is not loaded")
    for item in (canvas.head("a"), page.get_by_role("link", name="Runs")):
        assert FAMILY in item.evaluate("element => getComputedStyle(element).fontFamily")
    logo = page.get_by_test_id("stHeaderLogo")
    expect(logo).to_be_visible()
    assert logo.evaluate("element => element.naturalWidth") > 0


def _is_dark(colour: list[int]) -> bool:
    return sum(colour) < 3 * 128
