"""Every page can be read, in the light and in the dark theme, also by those who do not see it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing

from browser import SIZE
from building import box, pipeline
from canvas_page import eventually, middle, seed
from page_looks import both_themes, colours, contrast, findings, is_dark
from playwright.sync_api import Page, expect
from recorded_runs import Did, record
from runs_page import RunsPage, rgb
from studio import StudioServer
from studio_page import StudioPage, in_rows

from engine.limit import Limit
from engine.store.runs import RunStore
from ui.shell.fonts import FAMILY
from ui.shell.theme import STATE_COLOURS, SURFACE

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


def test_each_page_can_be_read_by_eye_and_by_a_screen_reader(
    open_page: Callable[..., Page], studio: StudioServer
) -> None:
    page: Page = open_page(color_scheme="light")
    canvas = StudioPage(page, studio).open(seed(studio, NODES))
    canvas.expect_state("a", "stale", "fresh", "done", "cached")  # a first attempt may have run it
    for _, rules in both_themes(page):
        assert findings(page, rules) == []
    canvas.run()
    canvas.expect_run("Failed")
    canvas.select("f")
    page.get_by_role("tab", name="Log").click()
    expect(page.get_by_role("tabpanel", name="Log").get_by_role("alert")).to_be_visible()
    for mode, rules in both_themes(page):
        assert findings(page, rules) == [], mode
        text, ground = colours(canvas.head("a"))
        assert text == rgb(SURFACE[mode]["text"])
        assert is_dark(ground) == (mode == "dark")
        for item in (
            canvas.head("a"),
            canvas.card("f").locator(".card-foot").get_by_text("Failed"),
            canvas.title,
            page.get_by_role("complementary", name="Nodes").get_by_role("button", name="Make"),
            canvas.inspector.get_by_text("How", exact=True),
            canvas.field("How"),
            page.get_by_role("tab", name="Log"),
        ):
            assert contrast(item) >= 4.5, (mode, item)
        _, ground = colours(canvas.frame)
        assert is_dark(ground) == (mode == "dark")
    first = canvas.run_id
    second = canvas.run()
    canvas.expect_run("Failed")

    pages = RunsPage(page).history()
    eventually(lambda: len(pages.rows()) >= 2, "the runs are not listed")
    for mode, rules in both_themes(page):
        assert findings(page, rules) == [], mode
        assert contrast(page.get_by_role("link", name="Runs")) >= 4.5, mode
    pages.open(first, "Graph")
    pages.shows("seen", "failed")
    expect(page.get_by_role("table", name="Parameters", exact=True)).to_be_visible()
    for mode, rules in both_themes(page):
        assert findings(page, rules) == [], mode
    heading = page.get_by_role("heading", level=1)
    for tab in ("Overview", "Timeline", "Metrics", "Monitor", "Logs", "Pipeline"):
        pages.tab(tab)
        for mode, rules in both_themes(page):
            assert findings(page, rules) == [], (tab, mode)
            assert colours(heading) == (rgb(SURFACE[mode]["text"]), rgb(SURFACE[mode]["background"]))
            for item in (heading, page.locator(".vf-title .vf-chip").first, page.locator(".vf-fact dt").first):
                assert contrast(item) >= 4.5, (mode, item)

    page.goto(f"/compare?runs={first},{second}")
    durations = page.get_by_role("table", name="Durations")
    expect(durations).to_be_visible()
    for mode, rules in both_themes(page):
        assert findings(page, rules) == [], mode
        assert colours(durations.locator("td").first) == (rgb(SURFACE[mode]["text"]), rgb(SURFACE[mode]["background"]))

    page.goto("/compute")
    expect(page.locator(".vf-fact").filter(has_text="CPU")).to_be_visible()
    for mode, rules in both_themes(page):
        assert findings(page, rules) == [], mode
        assert contrast(page.locator(".vf-profile-line").first) >= 4.5, mode


def test_the_pages_turn_dark_with_the_system(open_page: Callable[..., Page], studio: StudioServer) -> None:
    page: Page = open_page(color_scheme="light")
    canvas = StudioPage(page, studio).open(seed(studio, NODES.model_copy(update={"name": "turning"})))
    canvas.run()
    canvas.expect_run("Failed")
    run_id = canvas.run_id
    page.emulate_media(color_scheme="dark")
    eventually(lambda: is_dark(colours(canvas.frame)[1]), "the canvas stays light")
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


def test_what_the_toolbar_says_of_a_run_lies_on_no_button_however_narrow_the_window(
    open_page: Callable[..., Page], studio: StudioServer
) -> None:
    """Of a run with all that can be said of one: stopped by its limit, with values of its own, and edited since."""
    page: Page = open_page()
    ran = NODES.model_copy(update={"name": "a pipeline with a limit"})
    document = seed(studio, ran)
    words = NODES.parameters["words"].model_copy(update={"value": "other words"})
    then = {"nodes": NODES.nodes[:1], "edges": NODES.edges[:0], "parameters": {"words": words}}
    options = {"given": ["words"], **Limit(seconds=1200).as_options()}
    with closing(RunStore(studio.workspace)) as store:
        run_id = f"20260101-120000-{len(store.runs(-1)):06x}"  # a first attempt may have recorded it
        did = {"a": Did("cancelled", end=1200)}
        record(store, run_id, ran.model_copy(update=then), "cancelled", did, began=time.time() - 1300, took=1200)
        with store.write() as db:
            db.execute("UPDATE runs SET options = ? WHERE run_id = ?", (json.dumps(options), run_id))
    canvas = StudioPage(page, studio).open(document)
    canvas.expect_run("Cancelled")
    expect(canvas.run_bar.locator(".run-older")).to_have_text(["older version", "own values"])
    expect(canvas.run_bar.get_by_role("button", name="Resume for another 20 min")).to_be_visible()
    for width in (800, 959, 960, 1099, 1100, 1280, 1439, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 700})
        assert page.get_by_role("toolbar", name="Pipeline").evaluate(_ON_ONE_ANOTHER) == [], width


_ON_ONE_ANOTHER = """bar => {
    const all = [...bar.querySelectorAll('button, select, a, .state-mark, .run-older')]
        .map(e => [e.ariaLabel ?? e.innerText, e.getBoundingClientRect()]).filter(([, r]) => r.width > 1);
    return all.slice(1).flatMap(([name, r], at) => r.left < all[at][1].right - 1 ? [[all[at][0], name]] : []);
}"""
"""The neighbours of the toolbar, from left to right, of which one lies on the other."""


def test_a_window_that_becomes_narrow_folds_the_panels_until_it_is_wide_again(
    open_page: Callable[..., Page], studio: StudioServer
) -> None:
    page: Page = open_page()
    canvas = StudioPage(page, studio).open(seed(studio, NODES.model_copy(update={"name": "in a window"})))
    canvas.select("a")
    palette = page.get_by_role("searchbox", name="Search nodes")
    hide = page.get_by_role("button", name="Hide the inspector")
    zoom = canvas.zoom

    def beside_the_middle() -> tuple[int, int]:
        (x, y), (frame_x, frame_y) = middle(canvas.card("a")), middle(canvas.frame)
        return round(x - frame_x), round(y - frame_y)

    place = beside_the_middle()
    page.set_viewport_size({"width": 800, "height": 600})
    expect(palette).to_have_count(0)
    expect(hide).to_have_count(0)
    eventually(lambda: canvas.frame.evaluate("element => element.clientWidth") >= 700, "the canvas stays narrow")
    # One panel is opened while there is no room for both.
    page.get_by_role("button", name="Show the inspector").click()
    expect(hide).to_be_visible()
    page.set_viewport_size(SIZE)  # type: ignore[arg-type]
    expect(palette).to_be_visible()
    expect(hide).to_be_visible()
    # What one looked at is where it was, and still chosen.
    eventually(lambda: beside_the_middle() == place, lambda: f"the card is at {beside_the_middle()}, not at {place}")
    assert (canvas.zoom, canvas.selected()) == (zoom, ["a"])
    # What a person has folded stays so.
    page.get_by_role("button", name="Hide nodes").click()
    page.set_viewport_size({"width": 800, "height": 600})
    expect(hide).to_have_count(0)
    page.set_viewport_size(SIZE)  # type: ignore[arg-type]
    expect(hide).to_be_visible()
    expect(palette).to_have_count(0)


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


def test_what_the_app_draws_anew_is_checked_once_it_is_drawn(page: Page) -> None:
    page.set_content(
        "<html lang=en><title>a page</title><main data-testid=stApp><h1 id=text>words</h1></main></html>"
        "<script>function draw(state, colour) { const app = document.querySelector('main');"
        " app.dataset.testScriptState = state; app.style.color = colour; }</script>"
    )
    # Half drawn when it is first looked at,
    page.evaluate("() => { draw('running', '#eee'); setTimeout(() => draw('notRunning', '#000'), 500); }")
    assert findings(page) == []
    # and drawn anew while it is looked at.
    page.evaluate("""() => { const run = axe.run; axe.run = async (...given) => {
        axe.run = run;
        draw('running', '#eee');
        const found = await run(...given);
        draw('notRunning', '#000');
        return found; }; }""")
    assert findings(page) == []
    page.evaluate("draw('notRunning', '#eee')")
    assert [text.partition(": ")[0] for text in findings(page)] == ["color-contrast"]


def test_a_word_that_only_one_theme_hides_is_found(page: Page) -> None:
    page.set_content(
        "<html lang=en><title>a page</title><style>"
        "main { background: #fff; color: #000; }"
        " @media (prefers-color-scheme: dark) { main { background: #111; color: #222; } }</style>"
        "<main data-testid=stApp data-test-script-state=notRunning><h1>words</h1></main></html>"
    )
    light, dark = (findings(page, rules) for _, rules in both_themes(page))
    assert light == []
    assert [text.partition(": ")[0] for text in dark] == ["color-contrast"]
