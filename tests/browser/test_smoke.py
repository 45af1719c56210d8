"""The app opens, by itself, and says so when it cannot."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from building import box, pipeline
from canvas_page import seed
from playwright.sync_api import Browser, Page, expect
from studio import StudioServer
from studio_page import StudioPage, in_rows


def test_the_app_opens_with_the_templates_and_the_quickstart_is_a_click_away(page: Page) -> None:
    """That nothing was asked of another host, and that nothing went wrong unseen, is checked at every test's end."""
    page.goto("/")
    expect(page.get_by_role("heading", name="From volumes to a trained network")).to_be_visible()
    expect(page.get_by_role("link", name="Build")).to_be_visible()
    expect(page.get_by_role("link", name="Runs")).to_be_visible()
    for picture in page.locator("img.vf-card-picture").all():
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 640
    page.get_by_role("button", name="Use this").first.click()
    for node in ("make", "convert", "table", "optimize", "train"):
        expect(page.locator(f'.react-flow__node[data-id="{node}"]')).to_be_visible()
    expect(page.get_by_test_id("stMainMenu")).to_have_count(0)
    expect(page.get_by_test_id("stAppDeployButton")).to_have_count(0)


def test_the_pages_lead_to_one_another(page: Page) -> None:
    page.goto("/runs")
    expect(page.get_by_role("link", name="Runs")).to_be_visible()
    page.get_by_role("link", name="Build").click()
    expect(page.locator(".react-flow__pane")).to_be_visible()
    page.get_by_role("link", name="Runs").click()
    # The canvas goes before the address is another: a step back from there would lead to the first Runs.
    expect(page.locator(".react-flow__pane")).to_have_count(0)
    expect(page).to_have_url(re.compile("/runs$"))
    page.go_back()
    expect(page.locator(".react-flow__pane")).to_be_visible()


def test_back_and_forward_go_a_page_or_a_pipeline_at_a_time(page: Page, studio: StudioServer) -> None:
    for name in ("one", "two"):
        seed(studio, in_rows(pipeline(box("a", "SyntheticVolumes"), name=name)), name)
    canvas = StudioPage(page, studio)

    def shows(name: str) -> None:
        canvas.shows(name)
        expect(page).to_have_url(f"{studio.url}/?pipeline={name}")

    page.goto("/?pipeline=one")
    shows("one")
    canvas.choose("Open…")
    canvas.dialog.get_by_role("region", name="Pipelines").get_by_role("button", name="two").click()
    shows("two")
    page.get_by_role("link", name="Runs").click()
    expect(page.get_by_text("There are no runs yet.")).to_be_visible()
    # The menu's address names no pipeline: it does once the canvas is there.
    page.get_by_role("link", name="Build").click()
    shows("two")
    page.go_back()
    expect(page.get_by_text("There are no runs yet.")).to_be_visible()
    page.go_back()
    shows("two")
    page.go_back()
    shows("one")
    page.go_forward()
    shows("two")
    page.go_forward()
    expect(page.get_by_text("There are no runs yet.")).to_be_visible()


def test_a_page_that_fails_says_what_and_shows_no_traceback(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('<b>no</b> *coffee*')\n")
    program = (
        "import pathlib, sys, ui.studio, voxelflow\n"
        "ui.studio._APP = pathlib.Path('broken.py').absolute()\n"
        "sys.argv[0] = 'voxelflow'\n"
        "voxelflow.main()\n"
    )
    with StudioServer(tmp_path, program=(sys.executable, "-P", "-c", program)) as server:
        page = browser.new_context().new_page()
        page.goto(server.start().url)
        message = page.get_by_text("This page met an unexpected error: ValueError: <b>no</b> *coffee*")
        expect(message).to_be_visible()
        expect(page.get_by_text("broken.py")).to_have_count(0)
        page.context.close()
        assert "broken.py" in server.output
