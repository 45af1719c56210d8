"""Browser tests: a real studio, a real Chromium, a fresh page and workspace for every test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import FLAGS, SIZE, TIMEOUT_MS, Troubles, chromium
from gated_nodes import Gate
from playwright.sync_api import Browser, Page, expect, sync_playwright
from studio import StudioServer

_HERE = Path(__file__).parent
_REPORT = pytest.StashKey[pytest.TestReport]()

OpenPage = Callable[..., Page]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call":
        item.stash[_REPORT] = report
    return report


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for the whole session."""
    program = chromium()
    if program is None:
        told = "there is no Chromium: install it, or name it with VOXELFLOW_CHROMIUM"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(told)
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[StudioServer]:
    """A running studio with the test nodes in its catalogue."""
    with StudioServer(tmp_path) as server:
        server.install_probes()
        server.start()
        yield server


def _live_in(home: Path, patch: pytest.MonkeyPatch) -> None:
    """What a test starts, and this process itself, finds its settings in `home` and nowhere else."""
    patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    patch.setenv("VOXELFLOW_DATA_ROOTS", str(home))
    patch.setenv("VOXELFLOW_TRACKING", "off")
    patch.delenv("VOXELFLOW_WORKSPACE", raising=False)
    patch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def _module_studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioServer]:
    home = tmp_path_factory.mktemp("studio")
    with pytest.MonkeyPatch.context() as patch:
        _live_in(home, patch)
        with StudioServer(home) as server:
            server.install_probes()
            server.start()
            yield server


@pytest.fixture
def shared_studio(_module_studio: StudioServer, monkeypatch: pytest.MonkeyPatch) -> StudioServer:
    """One studio for the tests of a module, each with pipelines of its own. A module's `studio` gives it."""
    _live_in(_module_studio.home, monkeypatch)
    return _module_studio


@pytest.fixture
def gate(studio: StudioServer, tmp_path: Path) -> Gate:
    """For runs that are at work for as long as a test needs: the node type Learn goes as far as it lets it."""
    studio.install_probes("gated_nodes")
    return Gate(tmp_path)


@pytest.fixture
def troubles() -> Troubles:
    """What went wrong unseen; fails the test at its end. `allow` what is meant to happen."""
    return Troubles()


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest, browser: Browser, studio: StudioServer, troubles: Troubles, tmp_path: Path
) -> Iterator[OpenPage]:
    """Opens further pages, each as another person's: a context of its own, with its `options`."""
    pages: list[Page] = []
    before = len(studio.output)

    def new(**options: Any) -> Page:
        context = browser.new_context(viewport=SIZE, base_url=studio.url, **options)  # type: ignore[arg-type]
        context.set_default_timeout(TIMEOUT_MS)
        troubles.watch(context, studio.url)
        pages.append(context.new_page())
        return pages[-1]

    yield new
    report = request.node.stash.get(_REPORT, None)
    failed = report is None or report.failed
    found = troubles.all(studio.output[before:])
    if failed or found:
        for number, page in enumerate(pages):
            if not page.is_closed():
                page.screenshot(path=tmp_path / f"page-{number}.png")
        request.node.add_report_section("teardown", "pages", f"screenshots: {tmp_path}/page-*.png")
        request.node.add_report_section("teardown", "studio", studio.output)
    for page in pages:
        page.context.close()
    assert not found, "\n".join(found)


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """A page, not yet at any address: `page.goto("/")` opens the app."""
    return open_page()
