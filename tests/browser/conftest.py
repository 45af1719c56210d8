"""Browser tests: a real studio, a real Chromium, a fresh page and workspace for every test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import FLAGS, SIZE, TIMEOUT_MS, Troubles, chromium
from playwright.sync_api import Browser, Page, expect, sync_playwright
from studio import StudioServer

_HERE = Path(__file__).parent
_REPORT = pytest.StashKey[pytest.TestReport]()

OpenPage = Callable[[], Page]


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


@pytest.fixture
def troubles() -> Troubles:
    """What went wrong unseen; fails the test at its end. `allow` what is meant to happen."""
    return Troubles()


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest, browser: Browser, studio: StudioServer, troubles: Troubles, tmp_path: Path
) -> Iterator[OpenPage]:
    """Opens further pages, each as another person's: a context of its own."""
    pages: list[Page] = []

    def new() -> Page:
        context = browser.new_context(viewport=SIZE, base_url=studio.url)  # type: ignore[arg-type]
        context.set_default_timeout(TIMEOUT_MS)
        troubles.watch(context, studio.url)
        pages.append(context.new_page())
        return pages[-1]

    yield new
    report = request.node.stash.get(_REPORT, None)
    failed = report is None or report.failed
    found = troubles.all(studio.output)
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
