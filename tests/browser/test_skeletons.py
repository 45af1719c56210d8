"""Content that is loading has a placeholder of its size, so that nothing moves when it arrives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from browser import Troubles
from building import box as node
from building import pipeline
from canvas_page import box, eventually
from playwright.sync_api import Locator, Page, Route, expect
from recorded_runs import Did, record
from runs_page import RunsPage
from studio import StudioServer
from studio_page import StudioPage

from engine.declare.datasets import VolumeDelta, VolumeSpec
from engine.store.runs import RunStore

SHARED_STUDIO = True
_SCRIPT = re.compile(r"/index-[^/]*\.js$")
_STILL = "element => element.getAnimations({ subtree: true }).length"


@contextmanager
def held(page: Page, address: re.Pattern[str]) -> Iterator[None]:
    """Requests there have no answer until the end of the block."""
    waiting: list[Route] = []
    released = False

    def take(route: Route) -> None:
        if released:
            route.continue_()
        else:
            waiting.append(route)

    page.route(address, take)
    try:
        yield
    finally:
        released = True
        for route in waiting:
            route.continue_()
        page.unroute(address)


def same(one: Locator, place: dict[str, float]) -> None:
    """Wait until it has the position and the size of the other element."""

    def has_come() -> bool:
        found = one.bounding_box()  # none at the moment when it takes its outline's place
        return found is not None and all(abs(found[side] - place[side]) <= 1 for side in place)  # type: ignore[literal-required]

    eventually(has_come, lambda: f"{one.bounding_box()} and not {place}")


def is_tall(outline: Locator) -> None:
    """Wait until it is as high as what comes there: the page may have outlined the place first, and make way for it."""

    def has_come() -> bool:
        found = outline.bounding_box()
        return found is not None and found["height"] > 300

    eventually(has_come, lambda: f"{outline.bounding_box()}")


def place(found: Locator) -> dict[str, float]:
    return dict(box(found))  # type: ignore[arg-type]


def test_a_gallery_is_outlined_until_its_volumes_are_there(
    page: Page, studio: StudioServer, volumes_document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    canvas.select("folder")
    outline = canvas.dialog.get_by_role("status", name="Loading")
    with held(page, re.compile(r"/voxelflow/view/[^/]+$")):
        canvas.frame_keys("d")
        expect(outline).to_be_visible()
        head = place(outline.locator(".look-head"))
    same(canvas.dialog.locator(".look-head"), head)
    canvas.keys("Escape")
    with held(page, re.compile(r"/volumes/content")):
        canvas.frame_keys("d")
        expect(outline.locator(".thumb").first).to_be_visible()
        assert outline.evaluate(_STILL) > 0
        page.emulate_media(reduced_motion="reduce")
        assert outline.evaluate(_STILL) == 0
        first, second = (place(outline.locator(".thumb").nth(at)) for at in (0, 1))
        # All of the dialog is taken, and nothing is to be scrolled.
        is_tall(outline)
        assert outline.evaluate("e => getComputedStyle(e).overflowY") == "hidden"
    tiles = canvas.dialog.locator(".thumbs:not([data-waiting]) .thumb")
    expect(tiles).to_have_count(13)
    # With its class, which not every volume has, a tile is a line higher.
    for tile, outlined in ((tiles.nth(0), first), (tiles.nth(1), second)):
        same(tile.locator("img, .thumb-lost"), {**outlined, **place(tile.locator("img, .thumb-lost"))})
        same(tile, {side: outlined[side] for side in ("x", "y", "width")})


def test_rows_charts_and_a_volume_are_outlined_where_they_will_be(
    page: Page, studio: StudioServer, volumes_document: str
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    canvas.select("folder")
    canvas.frame_keys("d")
    thumbs = canvas.dialog.locator(".thumb")
    expect(thumbs).to_have_count(13)
    outline = canvas.dialog.get_by_role("status", name="Loading")
    with held(page, re.compile(r"/content")):
        canvas.dialog.get_by_role("tab", name="Rows").click()
        rows = place(outline.locator(".look-table"))
    same(canvas.dialog.locator(".look-table:not(.look-table-coming)"), rows)
    with held(page, re.compile(r"/content")):
        canvas.dialog.get_by_role("tab", name="Values").click()
        chart = place(outline.locator(".chart").first)
    same(canvas.dialog.locator("figure.chart").first, {side: chart[side] for side in ("x", "y", "width")})
    canvas.dialog.get_by_role("tab", name="Volumes").click()
    with held(page, re.compile(r"/voxels")):
        thumbs.nth(1).click()
        stage = place(outline.locator(".volume-stage"))
    expect(canvas.dialog.locator("[data-fact=Value]")).to_be_visible()
    same(canvas.dialog.locator(".volume-stage"), stage)


def test_the_editor_is_outlined_until_its_script_is_there(
    page: Page, studio: StudioServer, volumes_document: str
) -> None:
    canvas = StudioPage(page, studio)
    with held(page, _SCRIPT):
        page.goto(f"/?pipeline={volumes_document}")
        outline = page.get_by_role("status", name="Loading")
        expect(outline).to_be_visible()
        parts = [place(part) for part in outline.locator("span").all()]
    canvas.ready()
    expect(outline).to_have_count(0)
    for part, at in (("toolbar", 0), ("palette", 1), ("inspector", 3)):
        same(page.locator(f".{part}"), parts[at])


@pytest.mark.parametrize("height", [800, 600])
def test_what_a_run_made_takes_its_place_before_its_pictures_come(
    page: Page, studio: StudioServer, volumes_document: str, height: int
) -> None:
    canvas = StudioPage(page, studio)
    canvas.open(volumes_document)
    canvas.run()
    canvas.expect_run("Done")
    page.set_viewport_size({"width": 1280, "height": height})
    address = canvas.run_bar.get_by_role("link", name="Open run").get_attribute("href")
    with held(page, _SCRIPT):
        page.goto(f"/{(address or '').lstrip('/')}")
        panel = page.locator("[class*=st-key-datasets-]")
        expect(panel.get_by_role("status", name="Loading")).to_be_visible()
        before = place(panel)
    expect(panel.locator(".thumb").first).to_be_visible()
    same(panel, before)
    # What is beside the tabs takes no more height than they do, as in the editor's dialog: the panel begins below them.
    head, tabs = box(panel.locator(".look-head")), box(panel.locator(".look-head .tabs"))
    assert head["height"] == pytest.approx(tabs["height"] + 1, abs=0.5)


def test_a_result_that_is_gone_takes_no_more_room_than_what_says_so(
    page: Page, studio: StudioServer, troubles: Troubles
) -> None:
    troubles.allow(r"status of 422")
    spec = VolumeSpec(shape=(8, 8, 4, 2), dtype="float32")
    table = VolumeDelta(uri=str(studio.home / "cleaned"), spec=spec, count=100, bytes=1, version=1, data_version=1)
    run, document = "20260101-120000-abcdef", pipeline(node("t", "Make", title="Table"), name="cleaned")
    with closing(RunStore(studio.workspace)) as store:
        record(store, run, document, "done", {"t": Did("done", end=9, outputs={"out": table})}, began=1.7e9, took=9)
    with held(page, re.compile(r"/voxelflow/view/")):
        RunsPage(page).open(run)
        panel = page.locator("[class*=st-key-datasets-]")
        outline = panel.get_by_role("status", name="Loading")
        is_tall(outline)
    alert = panel.get_by_role("alert")
    expect(alert).to_be_visible()
    same(alert, {side: place(panel)[side] for side in ("x", "y", "width", "height")})
