"""Screenshots of every page, light and dark, at two sizes; and those of the README.

The workspace is real: two runs of the quickstart, the second with more volumes. It is kept beside the pictures, so that
another look costs a browser and no training.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browser import FLAGS, chromium  # noqa: E402
from PIL import Image  # noqa: E402
from studio import StudioServer  # noqa: E402

from engine.store.runs import RunStore  # noqa: E402

SIZES = ((1280, 800), (1920, 1080))
MODES = ("light", "dark")
README = {"build": "editor", "run": "run", "gallery": "volumes"}
"""The README's pictures, by the page that they are of: 1280x800, light."""
_MOST_BYTES = 150_000
_SETTLE_MS = 1500


@dataclass(frozen=True)
class Shot:
    """A page by its address, and what is done there before it is taken."""

    name: str
    address: str
    then: Callable[[Page], None] = lambda page: None


def shots(runs: list[str]) -> Iterator[Shot]:
    """Of a workspace with these runs, the newest first."""
    run = runs[0]
    yield Shot("start", "/start")
    yield Shot("help", "/start", _help)
    yield Shot("build", "/?pipeline=quickstart", _pictured)
    yield Shot("build-template", "/?pipeline=volumes-to-resnet", _ready)
    yield Shot("gallery", "/?pipeline=quickstart", _gallery)
    yield Shot("viewer", "/?pipeline=quickstart", _viewer)
    yield Shot("runs", "/runs", _table)
    for tab in ("", "Graph", "Timeline", "Metrics", "Monitor", "Logs", "Pipeline"):
        yield Shot(f"run-{tab.lower()}" if tab else "run", f"/run?run={run}{f'&view={tab}' if tab else ''}")
    yield Shot("compare", f"/compare?runs={','.join(runs[:2])}")
    yield Shot("lineage", "/lineage")
    yield Shot("compute", "/compute")


def take_all(folder: Path, only: list[str], *, readme: bool) -> None:
    """Write all screenshots, or those whose names are in `only`, into `folder`; with `readme` also the README's."""
    folder.mkdir(parents=True, exist_ok=True)
    with _studio(folder / "home") as (studio, runs), _browser() as browser:
        for mode in MODES:
            for width, height in SIZES:
                context = browser.new_context(
                    viewport={"width": width, "height": height}, base_url=studio.url, color_scheme=mode
                )
                context.set_default_timeout(60_000)
                for shot in shots(runs):
                    if only and shot.name not in only:
                        continue
                    page = context.new_page()
                    try:
                        take(page, shot, folder / f"{shot.name}-{mode}-{width}x{height}.png")
                    except Exception as exc:  # the others are wanted all the same
                        print(f"{shot.name}: {type(exc).__name__}: {str(exc)[:300]}", flush=True)
                    page.close()
                context.close()
    if readme:
        for page_name, name in README.items():
            source = folder / f"{page_name}-light-{SIZES[0][0]}x{SIZES[0][1]}.png"
            if source.exists():
                print(save_small(source, ROOT / "ui" / "pictures" / f"{name}.webp"), flush=True)


def take(page: Page, shot: Shot, path: Path) -> None:
    """Go there, wait until nothing more comes, and take it."""
    page.goto(shot.address)
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    shot.then(page)
    page.wait_for_timeout(_SETTLE_MS)
    expect(page.locator(".vf-skeleton")).to_have_count(0)
    page.screenshot(path=path)
    print(path, flush=True)


def save_small(source: Path, target: Path) -> Path:
    """As WebP of at most `_MOST_BYTES`."""
    target.parent.mkdir(exist_ok=True)
    for quality in (85, 75, 60, 45):
        Image.open(source).convert("RGB").save(target, quality=quality, method=6)
        if target.stat().st_size <= _MOST_BYTES:
            break
    return target


# --- what is done on a page ------------------------------------------------------------------------


def _help(page: Page) -> None:
    page.locator(".st-key-help").get_by_role("button").click()
    expect(page.locator(".vf-help")).to_be_visible()


def _ready(page: Page) -> None:
    expect(page.locator(".toolbar").get_by_role("button", name="Undo")).to_be_visible()
    expect(page.locator(".node-card").first).to_be_visible()


def _pictured(page: Page) -> None:
    _ready(page)
    expect(page.locator(".node-card img, .node-card canvas").first).to_be_visible()
    page.wait_for_timeout(2 * _SETTLE_MS)


def _gallery(page: Page) -> None:
    _ready(page)
    page.get_by_test_id("node-table").click()
    page.keyboard.press("d")
    expect(page.get_by_role("dialog").locator("button.thumb").first).to_be_visible()
    page.wait_for_timeout(2 * _SETTLE_MS)


def _viewer(page: Page) -> None:
    _gallery(page)
    page.get_by_role("dialog").locator("button.thumb").first.click()
    page.get_by_label("Layout").select_option("all")
    expect(page.locator(".rendering canvas[data-drawn=fine]")).to_be_visible()
    page.wait_for_timeout(2 * _SETTLE_MS)


def _table(page: Page) -> None:
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()


# --- the workspace ---------------------------------------------------------------------------------


@contextmanager
def _studio(home: Path) -> Iterator[tuple[StudioServer, list[str]]]:
    home.mkdir(parents=True, exist_ok=True)
    with StudioServer(home) as studio:
        _fill(studio, home)
        store = RunStore(studio.workspace)
        runs = [run.run_id for run in store.runs() if run.state == "done"]
        store.close()
        yield studio.start(), runs


def _fill(studio: StudioServer, home: Path) -> None:
    """A pipeline, and two runs of it, unless they are there."""
    saved = studio.workspace.pipelines / "quickstart.json"
    if not saved.exists():
        shutil.copy(ROOT / "pipelines" / "quickstart.json", saved)
    store = RunStore(studio.workspace)
    done = sum(run.state == "done" for run in store.runs())
    store.close()
    for volumes in (320, 640)[done:]:
        command = [sys.executable, "-c", "import voxelflow; voxelflow.main()", "run", "quickstart"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([*command, "--set", f"volumes={volumes}"], cwd=home, check=True, env=environment)


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield running
        running.close()
