"""Screenshots of every page, light and dark, at two sizes; and those of the README.

The workspace is real: two runs of the quickstart, the second with more volumes, and two of volumes-to-predictions on
patches of a brain, the second with more epochs. It is kept beside the pictures, so that another look costs a browser
and no training. What is taken is in `tests.pictures.shots`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright
from pydantic import JsonValue

from pipelines.brain_volumes import write
from tests.pictures.shots import BRAINS, QUICKSTART, Shot, shots

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browser import FLAGS, TIMEOUT_MS, ColorScheme, chromium  # noqa: E402
from PIL import Image  # noqa: E402
from studio import StudioServer  # noqa: E402

from engine.document.pipeline import Pipeline, read_pipeline, write_pipeline  # noqa: E402
from engine.store.runs import RunStore  # noqa: E402

Size = tuple[int, int]
README = {"build": "editor", "run": "run", "predictions": "volumes"}
"""The README's pictures, by the page that they are of: light."""
README_SIZE = "1280x800"
_MOST_BYTES = 150_000
_SETTLE_MS = 1500
_BRAINS = 600


def take_all(
    folder: Path, only: Sequence[str], modes: Sequence[ColorScheme], sizes: Sequence[Size], *, readme: bool
) -> None:
    """Write all screenshots, or those whose names are in `only`, into `folder`; with `readme` also the README's."""
    folder.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=TIMEOUT_MS)
    with _studio(folder / "home") as (studio, runs), _browser() as browser:
        for mode in modes:
            for width, height in sizes:
                context = browser.new_context(
                    viewport={"width": width, "height": height}, base_url=studio.url, color_scheme=mode
                )
                context.set_default_timeout(TIMEOUT_MS)
                for shot in shots(runs):
                    if only and shot.name not in only:
                        continue
                    page = context.new_page()
                    path = folder / f"{shot.name}-{mode}-{width}x{height}.png"
                    try:
                        take(page, shot, path)
                    except Exception as exc:  # the others are wanted all the same
                        print(f"{shot.name}: {type(exc).__name__}: {str(exc)[:300]}", flush=True)
                        page.screenshot(path=path.with_suffix(".failed.png"))
                    page.close()
                context.close()
    if readme:
        for page_name, name in README.items():
            source = folder / f"{page_name}-light-{README_SIZE}.png"
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
    shot.after(page)


def save_small(source: Path, target: Path) -> Path:
    """As WebP of at most `_MOST_BYTES`."""
    target.parent.mkdir(exist_ok=True)
    for quality in (85, 75, 60, 45):
        Image.open(source).convert("RGB").save(target, quality=quality, method=6)
        if target.stat().st_size <= _MOST_BYTES:
            break
    return target


# --- the workspace ---------------------------------------------------------------------------------


@contextmanager
def _studio(home: Path) -> Iterator[tuple[StudioServer, dict[str, list[str]]]]:
    home.mkdir(parents=True, exist_ok=True)
    with StudioServer(home) as studio:
        _fill(studio, home)
        yield studio.start(), {name: _done(studio, name) for name in (QUICKSTART, BRAINS)}


def _done(studio: StudioServer, pipeline: str) -> list[str]:
    """Its runs that are done, the newest first."""
    store = RunStore(studio.workspace)
    try:
        return [run.run_id for run in store.runs(pipeline=pipeline) if run.state == "done"]
    finally:
        store.close()


def _fill(studio: StudioServer, home: Path) -> None:
    """The pipelines, and two runs of each, unless they are there."""
    folder = studio.workspace.pipelines
    if not (folder / f"{QUICKSTART}.json").exists():
        shutil.copy(ROOT / "pipelines" / "quickstart.json", folder)
    if not (folder / f"{BRAINS}.json").exists():
        write(home / "patches", _BRAINS, seed=0)
        template = read_pipeline(ROOT / "pipelines" / "volumes-to-predictions.json")
        values = {"data": str(home / "patches"), "width": 16}
        write_pipeline(_with_values(template, values), folder / f"{BRAINS}.json")
    _run_missing(studio, QUICKSTART, "volumes", (320, 640))
    _run_missing(studio, BRAINS, "epochs", (4, 8))


def _with_values(pipeline: Pipeline, values: Mapping[str, JsonValue]) -> Pipeline:
    """The pipeline under the name that it has here, with these values of its parameters."""
    parameters = {
        name: parameter.model_copy(update={"value": values.get(name, parameter.value)})
        for name, parameter in pipeline.parameters.items()
    }
    return pipeline.model_copy(update={"name": BRAINS, "parameters": parameters})


def _run_missing(studio: StudioServer, pipeline: str, parameter: str, values: tuple[int, ...]) -> None:
    for value in values[len(_done(studio, pipeline)) :]:
        command = [sys.executable, "-c", "import voxelflow; voxelflow.main()", "run", pipeline]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([*command, "--set", f"{parameter}={value}"], cwd=studio.home, check=True, env=environment)


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield running
        running.close()
