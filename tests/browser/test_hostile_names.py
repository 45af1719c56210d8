"""What people name things is shown as text everywhere, however it looks, and kept as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from browser import SIZE
from canvas_page import box as place_of
from canvas_page import eventually
from playwright.sync_api import Dialog, Locator, Page, expect
from runs_page import RunsPage
from studio import StudioServer
from studio_page import StudioPage, in_rows

from engine.document.pipeline import Edge, Node, Pipeline, PipelineParameter, dump, read_pipeline, write_pipeline

SCRIPT = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">'
MARKDOWN = "**bold** [link](javascript:window.hacked=1) `code` :red[red] $x^2$ # head"
RIGHT_TO_LEFT = "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 abc \u202egnp.exe"
QUOTES = 'it\'s "quoted" \\ & &amp; {{x}} ${y}'
LONG = "long " + "n" * 295
NAME = f'{SCRIPT} "quoted" & **bold**'

HOSTILE = in_rows(
    Pipeline(
        name=NAME,
        description=f"{SCRIPT}\nsecond line of {MARKDOWN}",
        parameters={"words": PipelineParameter(value=f"{SCRIPT} {MARKDOWN}", help=f"{SCRIPT} {MARKDOWN}")},
        nodes=(
            Node(id="script", type="Make", title=SCRIPT, params={"text": "${words}"}),
            Node(id="markdown", type="Join", title=MARKDOWN),
            Node(id="rtl", type="Join", title=RIGHT_TO_LEFT),
            Node(id="long", type="Save", title=LONG, params={"folder": f"{SCRIPT}/{QUOTES}/not there"}),
            Node(id="quotes", type="Join", title=QUOTES),
            Node(id="unknown", type="<b>NoSuchType</b>", title="line\nbreak", params={"a<b>": SCRIPT}),
        ),
        edges=tuple(
            Edge(**{"from": a, "to": b})
            for a, b in (
                ("script.out", "markdown.first"),
                ("markdown.out", "rtl.first"),
                ("rtl.out", "long.first"),
                ("rtl.out", "quotes.first"),
            )
        ),
    ),
    columns=3,
)
TITLES = {n.id: n.title for n in HOSTILE.nodes}


@pytest.fixture(autouse=True)
def unharmed(page: Page) -> Iterator[Callable[[], None]]:
    """Says that no script of ours ran, here and in all frames; and no dialog came up."""
    dialogs: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)

    def check() -> None:
        assert dialogs == []
        for frame in page.frames:
            assert frame.evaluate("window.hacked === undefined"), f"a script ran in {frame.url}"
            assert frame.locator("img[src=x], a[href^=javascript]").count() == 0

    yield check
    page.remove_listener("dialog", dismiss)


def is_cut(item: Locator) -> bool:
    """Whether there is no room for all of its text."""
    cut: bool = item.evaluate("element => element.scrollWidth > element.clientWidth")
    return cut


def test_the_canvas_shows_names_as_text_and_keeps_them(
    page: Page, studio: StudioServer, unharmed: Callable[[], None]
) -> None:
    file = studio.workspace.pipelines / "hostile.json"
    write_pipeline(HOSTILE, file)
    canvas = StudioPage(page, studio).open("hostile")
    expect(canvas.title).to_have_attribute("title", NAME)
    expect(canvas.title.locator(".pipeline-title")).to_have_text(NAME)
    for node, title in TITLES.items():
        shown = canvas.head(node)
        assert eventually(lambda shown=shown: shown.text_content()) == title
        card = place_of(canvas.card(node))
        inside = place_of(shown)
        assert inside["x"] >= card["x"] - 1
        assert inside["x"] + inside["width"] <= card["x"] + card["width"] + 1, f"{node} spills over its card"
        canvas.select(node)
        expect(canvas.field("Title")).to_have_value(title.replace("\n", ""))
    expect(canvas.inspector).to_contain_text("<b>NoSuchType</b>")
    expect(canvas.inspector.get_by_text("a<b>", exact=True)).to_be_visible()
    expect(canvas.inspector.get_by_text(SCRIPT, exact=True)).to_be_visible()
    canvas.select("script")
    expect(canvas.inspector.locator(".chip-name")).to_have_text("words")
    assert not is_cut(canvas.inspector.locator(".chip-name"))
    for fact in canvas.inspector.locator(".inspector-facts span").all():
        assert place_of(fact)["x"] + place_of(fact)["width"] <= SIZE["width"], f"cut off: {fact.inner_text()}"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

    page.get_by_role("tab", name=re.compile("Problems")).click()
    expect(page.get_by_role("list", name="Problems", exact=True)).to_contain_text("NoSuchType")
    page.get_by_role("button", name="Hide the dock").click()
    canvas.deselect()
    assert canvas.inspector.get_by_label("Description").input_value() == HOSTILE.description
    canvas.button("Pipeline parameters: 1").click()
    expect(canvas.dialog.get_by_label("Value of words")).to_have_value(f"{SCRIPT} {MARKDOWN}")
    canvas.answer("Done")
    canvas.choose("Open…")
    row = canvas.dialog.get_by_role("region", name="Pipelines").get_by_role("button")
    expect(row.locator(".library-name")).to_have_text(NAME)
    canvas.keys("Escape")
    canvas.head("script").hover()
    expect(page.get_by_role("tooltip")).to_contain_text(SCRIPT)
    unharmed()

    # Typed in, saved, reopened: the same characters.
    canvas.select("quotes")
    canvas.field("Title").fill(RIGHT_TO_LEFT + QUOTES)
    canvas.select("unknown")
    canvas.keys("Delete")
    expect(canvas.cards).to_have_count(5)
    canvas.choose("Save as…")
    canvas.name_it(LONG, "Save")
    toast = canvas.notification(re.compile("^Saved as long n"))
    expect(toast).to_be_visible()
    assert place_of(toast)["x"] + place_of(toast)["width"] <= SIZE["width"]
    eventually(lambda: canvas.document != "hostile")
    saved = studio.workspace.pipelines / f"{canvas.document}.json"
    kept = read_pipeline(saved)
    assert kept.name == LONG
    assert {n.id: n.title for n in kept.nodes} == {
        **{k: v for k, v in TITLES.items() if k != "unknown"},
        "quotes": RIGHT_TO_LEFT + QUOTES,
    }
    assert kept.parameters == HOSTILE.parameters
    assert kept.description == HOSTILE.description
    assert saved.read_text() == dump(kept)
    assert file.read_text() == dump(HOSTILE)
    page.reload()
    canvas.ready()
    expect(canvas.title.locator(".pipeline-title")).to_have_text(LONG)
    assert place_of(canvas.run_bar)["x"] + place_of(canvas.run_bar)["width"] <= SIZE["width"]
    unharmed()


def test_runs_show_names_and_logs_as_text(page: Page, studio: StudioServer, unharmed: Callable[[], None]) -> None:
    nodes = tuple(n for n in HOSTILE.nodes if n.id not in ("unknown", "long"))
    told = Node(id="told", type="Fail", title=f"{SCRIPT} {MARKDOWN}", params={"how": SCRIPT})
    edges = tuple(e for e in HOSTILE.edges if "long" not in e.target)
    edges = (*edges, Edge(**{"from": "quotes.out", "to": "told.first"}))
    write_pipeline(
        in_rows(HOSTILE.model_copy(update={"nodes": (*nodes, told), "edges": edges}), columns=3),
        studio.workspace.pipelines / "hostile.json",
    )
    canvas = StudioPage(page, studio).open("hostile")
    page.get_by_role("tab", name="Log").click()
    canvas.select("script")
    canvas.run()
    canvas.expect_run("Failed")
    expect(canvas.log).to_contain_text(f"wrote {SCRIPT} {MARKDOWN}")
    unharmed()

    run_id = canvas.run_id
    pages = RunsPage(page).open(run_id, "Graph")
    pages.shows(NAME, "failed")
    pages.expect_in_graph("done", "failed")
    expect(page.locator(".vf-title").last).to_contain_text(f"{SCRIPT} {MARKDOWN}")
    pages.open_list("Node")
    expect(page.get_by_role("option").filter(has_text=SCRIPT)).not_to_have_count(0)
    page.get_by_role("option").filter(has_text=SCRIPT).first.click()
    log = page.get_by_role("log", name="Log").filter(has_text=f"wrote {SCRIPT} {MARKDOWN}")
    expect(log).to_be_visible()
    expect(page.get_by_role("table", name="Parameters")).to_contain_text(f"{SCRIPT} {MARKDOWN}")
    pages.graph.hover()
    pages.graph.dblclick()
    page.keyboard.press("Escape")  # it may have opened what lies below the pointer
    unharmed()
    for part in ("Timeline", "Metrics", "Monitor", "Logs", "Pipeline"):
        expect(pages.tab(part)).to_be_visible()
        unharmed()
    expect(page.get_by_role("tabpanel", name="Pipeline")).to_contain_text(SCRIPT)
    pages.button("Re-run with changes").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("textbox", name="words")).to_have_value(f"{SCRIPT} {MARKDOWN}")
    unharmed()

    pages.history()
    (row,) = pages.expect_rows(NAME)
    assert row.state == "failed"
    page.get_by_role("combobox", name="Pipeline").click()
    expect(page.get_by_role("option").filter(has_text=SCRIPT)).to_be_visible()
    page.goto(f"/compare?runs={run_id}")
    expect(page.get_by_text("Nothing to compare yet.")).to_be_visible()
    unharmed()
    page.goto("/run?run=" + "%3Cscript%3Ewindow.hacked=1%3C/script%3E")
    expect(page.get_by_text("There is no run <script>window.hacked=1</script>.")).to_be_visible()
    page.goto("/?pipeline=%3Cscript%3Ewindow.hacked=1%3C/script%3E")
    refusal = StudioPage(page, studio).ready().notification("is not the name of a pipeline")
    expect(refusal).to_contain_text("<script>window.hacked=1</script>")
    unharmed()
