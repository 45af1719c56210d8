"""The first minutes: from the start page to a run, by somebody who has never been here."""

from __future__ import annotations

import re

from building import box, pipeline
from canvas_page import CanvasPage, eventually, seed
from page_looks import colours
from playwright.sync_api import Page, expect
from studio import StudioServer
from studio_page import StudioPage, in_rows

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
