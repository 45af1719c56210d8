"""What is looked at looks as in the committed pictures (`appearance/*.webp`), light and dark.

`UPDATE_GOLDEN=1 pytest tests/browser/test_appearance.py` writes them anew: look at each before it is committed. What
they show is the same on each machine (`pictured_workspace`); what is not, such as the clock of a run, is hidden.
"""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import SIZE, TIMEOUT_MS, ColorScheme, Troubles, settled
from pictured_workspace import (
    EARLIER,
    FAILED,
    FIRST,
    PATCHES,
    PROFILE,
    SECOND,
    STUDY,
    VOLUMES,
    begin_again,
    pictured_workspace,
)
from pictures_alike import difference, report
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect
from runs_page import RunsPage
from studio import StudioServer
from studio_page import StudioPage
from volume_viewer import loaded, open_first

from ui.shell.fonts import FAMILY

SHARED_STUDIO = True
FOLDER = Path(__file__).with_name("appearance")
ACCEPT = "UPDATE_GOLDEN=1 pytest tests/browser/test_appearance.py"
_LIMIT_S = 20.0
"""How long a page may take until it looks as it should: thumbnails and charts come after all else."""
_HIDDEN = """
[data-testid=run-elapsed] { visibility: hidden; width: 5em; overflow: hidden }
/* Its width depends on when the font came. */
:is(.st-key-metric_charts, .st-key-compare_parallel, .st-key-system_charts) .role-legend { visibility: hidden }
.run-summary header strong { visibility: hidden }
/* What the machine is, and where the workspace lies. */
.st-key-compute_lists .vf-profile-line { visibility: hidden }
.st-key-compute_lists .vf-mono { display: none }
"""
_FONT_LOADED = f"""async () => {{
    await document.fonts.ready;
    return [...document.fonts].some((face) => face.family.includes('{FAMILY}') && face.status === 'loaded');
}}"""


@dataclass(frozen=True)
class Look:
    """A part of a page: where it is, and what a person does there until it is seen."""

    name: str
    address: str
    then: Callable[[StudioPage], Locator]
    mode: ColorScheme = "light"
    height: int = SIZE["height"]
    """Pixels of the window."""
    width: int = SIZE["width"]


# --- what is looked at ----------------------------------------------------------------------------


def _editor(canvas: StudioPage) -> Locator:
    canvas.ready()
    canvas.expect_state("train", "running")
    canvas.expect_state("inspect", "failed")
    canvas.expect_state("predict", "queued")
    canvas.select("split")
    expect(canvas.inspector.locator("input").first).to_be_visible()
    expect(canvas.card("volumes").locator(".card-pictures img")).to_have_count(3)
    canvas.page.mouse.move(0, 0)
    return canvas.page.get_by_test_id("stApp")


def _narrow_editor(canvas: StudioPage) -> Locator:
    """All that a run at work says, in a window where the panels at the sides are folded."""
    expect(canvas.page.get_by_role("button", name="Show nodes")).to_be_visible()
    canvas.expect_state("train", "running")
    loaded(canvas.card("volumes").locator(".card-pictures img"))
    return canvas.page.get_by_test_id("stApp")


def _far(canvas: StudioPage) -> Locator:
    canvas.ready()
    canvas.expect_state("train", "running")
    out = canvas.page.get_by_role("button", name="Zoom out")
    for _ in range(6):
        out.click()
    expect(canvas.frame).to_have_attribute("data-titles-only", "")
    canvas.page.mouse.move(0, 0)
    return canvas.frame


def _gallery(canvas: StudioPage) -> Locator:
    canvas.ready()
    canvas.select("volumes")
    canvas.frame_keys("d")
    canvas.dialog.get_by_label("Order").select_option("stored")
    expect(canvas.dialog.locator(".thumbs:not([data-waiting]) .thumb")).to_have_count(6)
    canvas.page.mouse.move(0, 0)
    return canvas.dialog


def _templates(canvas: StudioPage) -> Locator:
    expect(canvas.page.locator(".st-key-start_templates .vf-card-picture").last).to_be_visible()
    return canvas.page.locator(".st-key-start_templates")


def _latest_runs(canvas: StudioPage) -> Locator:
    runs = canvas.page.locator(".st-key-start_runs")
    for state in ("done", "failed", "cancelled", "lost"):
        expect(runs.locator(".vf-chip", has_text=state).first).to_be_visible()
    return runs


def _figures(canvas: StudioPage) -> Locator:
    expect(canvas.page.locator(".vf-tile-change").first).to_be_visible()
    return canvas.page.locator(".vf-tiles")


def _curves(canvas: StudioPage) -> Locator:
    charts = canvas.page.locator(".st-key-metric_charts")
    expect(charts.locator("path[aria-label^='step: 12;']").first).to_be_visible()
    return charts


def _timeline(canvas: StudioPage) -> Locator:
    chart = canvas.page.get_by_test_id("stVegaLiteChart")
    expect(chart.locator("path[aria-label*='state: failed']").first).to_be_visible()
    return chart


def _compared(canvas: StudioPage) -> Locator:
    pages = RunsPage(canvas.page)
    expect(pages.graph.locator(".node-card[data-state=added]")).to_have_count(1)
    expect(pages.graph.locator(".node-card[data-state=removed]")).to_have_count(1)
    return pages.graph


def _parallel(canvas: StudioPage) -> Locator:
    chart = canvas.page.locator(".st-key-compare_parallel")
    expect(chart.locator("[aria-roledescription='line mark']").first).to_be_attached()
    canvas.page.mouse.move(0, 0)
    return chart


def _result(canvas: StudioPage) -> Locator:
    """The panel at the end of a run that was followed in the editor."""
    end = begin_again(canvas.studio.workspace)
    canvas.ready()
    canvas.expect_state("train", "running")
    canvas.page.mouse.move(0, 0)
    end()
    panel = canvas.page.get_by_role("complementary", name="Result of the run")
    expect(panel).to_have_attribute("data-shown", "true")
    return panel


def _monitor(canvas: StudioPage) -> Locator:
    tab = canvas.page.get_by_role("tabpanel", name="Monitor", exact=True)
    expect(tab.get_by_role("img", name=re.compile("^Train: "))).to_be_visible()
    expect(tab.get_by_test_id("stVegaLiteChart")).to_have_count(3)
    expect(tab.locator("[aria-roledescription='line mark']").last).to_be_attached()
    canvas.page.mouse.move(0, 0)
    return tab


def _compute(canvas: StudioPage) -> Locator:
    expect(canvas.page.get_by_role("heading", level=1, name=PROFILE)).to_be_visible()
    expect(canvas.page.get_by_role("button", name="Test", exact=True)).to_be_visible()
    canvas.page.mouse.move(0, 0)
    return canvas.page.locator(".st-key-compute_lists")


def _lineage(canvas: StudioPage) -> Locator:
    expect(canvas.page.get_by_text("Checking what is stale")).to_have_count(0)
    frame = canvas.page.frame_locator("iframe")
    expect(frame.locator("canvas")).to_be_visible()
    return canvas.page.locator(".st-key-lineage_graph")


def _lineage_actions(canvas: StudioPage) -> Locator:
    """What can be done with an item: the page's button beside the canvas's own."""
    _lineage(canvas)
    canvas.page.get_by_role("combobox", name="Item").click()
    canvas.page.get_by_role("option", name=re.compile("^deep ")).click()
    actions = canvas.page.locator(".st-key-lineage_actions")
    expect(actions.get_by_role("button", name="Look at the data")).to_be_visible()
    canvas.page.mouse.move(0, 0)
    return actions


def _volume(colours: str) -> Callable[[StudioPage], Locator]:
    def then(canvas: StudioPage) -> Locator:
        canvas.ready()
        stage = open_first(canvas, "volumes")
        canvas.dialog.get_by_label("Colours").select_option(colours)
        canvas.page.mouse.move(0, 0)
        return stage

    return then


_START = "/start"
LOOKS = (
    Look("editor-light", f"/?pipeline={PATCHES}", _editor),
    Look("editor-dark", f"/?pipeline={PATCHES}", _editor, "dark"),
    Look("editor-narrow", f"/?pipeline={PATCHES}", _narrow_editor, height=600, width=800),
    Look("editor-far", f"/?pipeline={PATCHES}", _far, "dark"),
    Look("gallery", f"/?pipeline={VOLUMES}", _gallery),
    Look("start-templates", _START, _templates, height=1500),
    Look("latest-runs-light", _START, _latest_runs),
    Look("latest-runs-dark", _START, _latest_runs, "dark"),
    Look("figures", f"/run?run={SECOND}", _figures),
    Look("curves", f"/run?run={SECOND}&view=Metrics", _curves, height=1500),
    Look("timeline", f"/run?run={FAILED}&view=Timeline", _timeline),
    Look("compare", f"/compare?runs={FIRST},{SECOND}", _compared, height=1500),
    Look("parallel", f"/compare?runs={EARLIER},{FIRST},{SECOND}", _parallel, height=1500),
    Look("lineage", "/lineage", _lineage),
    Look("lineage-actions", "/lineage", _lineage_actions),
    Look("monitor", f"/run?run={SECOND}&view=Monitor", _monitor, "dark", height=1600),
    Look("compute", f"/compute?profile={PROFILE}", _compute),
    Look("compute-dark", f"/compute?profile={PROFILE}", _compute, "dark"),
    Look("result", f"/?pipeline={STUDY}", _result),
    Look("volume-grey", f"/?pipeline={VOLUMES}", _volume("grey")),
    Look("volume-seismic", f"/?pipeline={VOLUMES}", _volume("seismic"), "dark"),
)


# --- how ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def _in_utc() -> Iterator[None]:
    """Set the studio's time zone before it starts: pictures drawn there show times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        yield


@pytest.fixture(scope="module")
def _workspace(_module_studio: StudioServer) -> Iterator[None]:
    with pictured_workspace(_module_studio.workspace, _module_studio.home):
        yield


@pytest.fixture
def seeded(request: pytest.FixtureRequest, studio: StudioServer) -> StudioServer:
    """The studio with all that is looked at."""
    request.getfixturevalue("_workspace")  # not before the studio, which is forked
    return studio


@pytest.fixture(scope="module")
def own_page(browser: Browser) -> Iterator[Page]:
    """One page for all pictures, in a context where nothing depends on the machine."""
    context = browser.new_context(
        viewport=SIZE, device_scale_factor=1, locale="en-GB", timezone_id="UTC", reduced_motion="reduce"  # type: ignore[arg-type]
    )  # fmt: skip
    context.set_default_timeout(TIMEOUT_MS)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_it_looks_as_it_did(
    look: Look, seeded: StudioServer, own_page: Page, troubles: Troubles, tmp_path: Path
) -> None:
    page, before = own_page, len(seeded.output)
    # The tables and models of the recorded runs are not there.
    troubles.allow(r"status of (404|422)")
    troubles.watch(page.context, seeded.url)
    page.set_viewport_size({"width": look.width, "height": look.height})
    page.emulate_media(color_scheme=look.mode)
    page.goto(seeded.url + look.address)
    settled(page)
    seen = look.then(StudioPage(page, seeded))
    assert page.evaluate(_FONT_LOADED), "the font is not loaded"
    _compare(look.name, lambda: _shot(seen), tmp_path)
    troubles.leave()
    assert troubles.all(seeded.output[before:]) == []


def test_each_committed_picture_is_compared() -> None:
    assert {path.stem for path in FOLDER.glob("*.webp")} == {look.name for look in LOOKS}
    assert sum(path.stat().st_size for path in FOLDER.glob("*.webp")) < 1_000_000


def _shot(seen: Locator) -> Image.Image:
    settled(seen.page)
    data = seen.screenshot(animations="disabled", caret="hide", scale="css", style=_HIDDEN)
    return Image.open(io.BytesIO(data)).convert("RGB")


def _compare(name: str, shot: Callable[[], Image.Image], folder: Path) -> None:
    """The picture looks as the committed one, by now or in a moment."""
    golden = FOLDER / f"{name}.webp"
    if os.environ.get("UPDATE_GOLDEN"):
        _at_rest(shot).save(golden, lossless=True, method=6)
        return
    assert golden.exists(), f"{golden} is not there: `{ACCEPT}` writes it"
    with Image.open(golden) as wanted:
        until = time.monotonic() + _LIMIT_S
        now = shot()
        while (found := difference(wanted, now)).is_seen and time.monotonic() < until:
            time.sleep(0.2)
            now = shot()
    assert not found.is_seen, report(name, golden, now, found, folder, ACCEPT)


def _at_rest(shot: Callable[[], Image.Image]) -> Image.Image:
    """The picture once it has looked the same for two seconds."""
    picture, since = shot(), time.monotonic()
    while time.monotonic() < since + 2:
        time.sleep(0.2)
        now = shot()
        if difference(picture, now).is_seen:
            picture, since = now, time.monotonic()
    return picture
