"""The first minutes: from the start page to a run, by somebody who has never been here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from building import box, pipeline
from canvas_page import CanvasPage, eventually, seed
from canvas_page import box as box_of
from page_looks import colours
from playwright.sync_api import Page, expect
from studio import StudioServer
from studio_page import StudioPage, in_rows

import ui.shell
from engine.document.pipeline import write_pipeline
from tests.pictures.shots import BRAINS, QUICKSTART, Shot, shots
from ui.start.gallery import volumes

SHARED_STUDIO = True


def test_a_template_is_named_in_the_address_and_opens_as_a_copy(page: Page, studio: StudioServer) -> None:
    """Nothing in it is red, or said to be unsaved, before anything was done; then it is."""
    page.goto("/?pipeline=volumes-to-resnet")
    canvas = StudioPage(page, studio)
    canvas.ready()
    canvas.shows("volumes-to-resnet")
    expect(page.get_by_text("there is no pipeline")).to_have_count(0)
    badge = page.get_by_role("tab", name=re.compile("Problems")).locator(".badge")
    expect(badge).to_have_text("1")
    blue, _ = colours(badge)
    expect(canvas.unsaved).to_have_count(0)
    canvas.choose("New pipeline")
    expect(page.get_by_text("This pipeline is empty")).to_be_visible()
    expect(badge).to_have_count(0)
    canvas.open("volumes-to-resnet")
    page.get_by_test_id("node-volumes").click()
    page.keyboard.press("Control+d")
    expect(canvas.unsaved).to_be_visible()
    eventually(lambda: colours(badge)[0] != blue, "what is missing does not turn red after an edit")


def test_the_start_page_has_volumes_to_try_and_the_tab_our_icon(page: Page, studio: StudioServer) -> None:
    page.goto("/start")
    offered = page.locator(".st-key-start_volumes")
    for each in volumes():
        expect(offered).to_contain_text(each.title)
    pictures = offered.locator("img")
    expect(pictures).to_have_count(len(volumes()))
    eventually(lambda: pictures.first.evaluate("image => image.complete && image.naturalWidth > 0"))
    # In a narrow window there are fewer of them side by side, and no command is broken within a word.
    page.set_viewport_size({"width": 800, "height": 800})
    columns = "images => new Set(images.map(image => Math.round(image.getBoundingClientRect().left))).size"
    eventually(lambda: pictures.evaluate_all(columns) == 2)
    spaces = "codes => [...new Set(codes.map(code => getComputedStyle(code).whiteSpace))]"
    # They may be drawn anew when the window changes.
    eventually(lambda: offered.locator("code").evaluate_all(spaces) == ["pre"])
    cards = page.locator(".st-key-start_templates .vf-card-picture")
    eventually(lambda: cards.evaluate_all(columns) == 2)
    # Of the cards in a row the buttons are in a line, below the longest words.
    for buttons in (
        page.get_by_role("button", name="Use this"),
        offered.get_by_role("button", name=re.compile("^Use ")),
    ):
        places = [(round(found["x"]), round(found["y"])) for found in (box_of(each) for each in buttons.all())]
        rows = {y for _, y in places}
        assert len(rows) == -(-len(places) // 2), places
    page.set_viewport_size({"width": 1920, "height": 1080})
    eventually(lambda: cards.evaluate_all(columns) == 4)
    icon = page.locator("link[rel~=icon]")
    logo = Path(ui.shell.__file__ or "").with_name("logo.svg").read_text()
    shown = "link => fetch(link.href).then(answer => answer.text())"
    eventually(lambda: icon.evaluate(shown).split() == logo.split(), "the tab has another icon")


def test_the_hint_at_run_goes_for_good(page: Page, studio: StudioServer) -> None:
    seed(studio, in_rows(pipeline(box("a", "Make"), name="hinted")), "hinted")
    canvas = StudioPage(page, studio)
    canvas.open("hinted")
    hint = page.get_by_role("note").filter(has_text="Press Run")
    expect(hint).to_be_visible()
    canvas.run()
    canvas.expect_run("Done")
    expect(hint).to_have_count(0)
    seed(studio, in_rows(pipeline(box("a", "Make"), name="another")), "another")
    canvas.open("another")
    expect(hint).to_have_count(0)


_SIGNS = """canvas => {
  window.signs = [];
  const look = () => {
    const sign = canvas.getRootNode().querySelector('.opening');
    if (sign) window.signs.push(sign.textContent.trim());
  };
  new MutationObserver(look).observe(canvas.getRootNode(), { childList: true, subtree: true });
}"""
"""At each change of the page, not at each frame: on a quick machine the sign comes and goes between two frames."""


def test_a_pipeline_that_is_imported_is_named_until_it_is_there(
    page: Page, studio: StudioServer, tmp_path: Path
) -> None:
    file, name = tmp_path / "large.json", tmp_path.name  # a name of its own for each attempt
    write_pipeline(in_rows(pipeline(*(box(f"n{i}", "Make") for i in range(60)), name=name), columns=10), file)
    canvas = StudioPage(page, studio)
    canvas.open(seed(studio, pipeline(box("a", "Make"), name="before")))
    page.locator(".canvas").evaluate(_SIGNS)
    page.locator("input[type=file]").set_input_files(file)
    canvas.shows(name)
    expect(canvas.cards).to_have_count(60)
    expect(page.locator(".opening")).to_have_count(0)
    assert set(page.evaluate("window.signs")) == {"Importing large.json…"}


def test_start_leads_back_to_pipelines_and_runs(page: Page, studio: StudioServer) -> None:
    seed(studio, in_rows(pipeline(box("a", "Make"), name="again")), "again")
    canvas = StudioPage(page, studio)
    canvas.open("again")
    canvas.run()
    canvas.expect_run("Done")
    page.get_by_role("link", name="Start").click()
    runs = page.locator(".st-key-start_runs")
    expect(runs.locator(".vf-chip").first).to_have_text("done")
    runs.get_by_role("link", name="again").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("again")
    page.get_by_role("link", name="Start").click()
    page.get_by_role("button", name="again", exact=True).first.click()
    canvas.shows("again")
    # The menu's Build is the editor, as it was left.
    page.get_by_role("link", name="Runs").click()
    page.get_by_role("link", name="Build").click()
    canvas.shows("again")


def test_help_opens_on_each_page_and_hides_nothing(page: Page, studio: StudioServer) -> None:
    seed(studio, in_rows(pipeline(box("a", "Make"), name="helped")), "helped")
    canvas = CanvasPage(page, studio).open("helped")
    page.get_by_test_id("node-a").click()
    page.locator(".st-key-help").get_by_role("button").click()
    expect(page.locator(".vf-help")).to_contain_text("voxelflow explain CODE")
    page.keyboard.press("Escape")
    expect(page.locator(".vf-help")).to_be_hidden()
    expect(canvas.card("a")).to_be_visible()
    for path in ("/start", "/runs", "/compute"):
        page.goto(path)
        page.locator(".st-key-help").get_by_role("button").click()
        expect(page.locator(".vf-help")).to_contain_text("Versions")


_WITHOUT_RUNS = ("help", "build-template", "problem", "add", "dialog-new")
_SHOTS = [shot for shot in shots({QUICKSTART: ["none"] * 2, BRAINS: ["none"] * 3}) if shot.name in _WITHOUT_RUNS]


@pytest.mark.parametrize("shot", _SHOTS, ids=_WITHOUT_RUNS)
def test_what_is_done_before_a_screenshot_can_be_done(page: Page, studio: StudioServer, shot: Shot) -> None:
    """Of those that `python -m tests.pictures pages` takes without a training before them."""
    page.goto(shot.address)
    shot.then(page)
    shot.after(page)
