"""Browser tests: a real studio, a real Chromium, a fresh page and workspace for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import FLAGS, SIZE, TIMEOUT_MS, ColorScheme, Troubles, chromium
from gated_nodes import Gate
from outcome import FAILED
from outside_parts import require
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from ports import free_port
from studio import StudioServer

_HERE = Path(__file__).parent

OpenPage = Callable[..., Page]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory, _port: int) -> Iterator[BrowserContext]:
    """One Chromium for the whole session, with a profile on the disk, as a person's.

    There it keeps the app's scripts and what it compiled of them, at an address that does not change (`_port`): to load
    the app takes two thirds of the processor time that it takes without.
    """
    require("chromium")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=chromium(), args=list(FLAGS), viewport=SIZE, base_url=f"http://127.0.0.1:{_port}",  # type: ignore[arg-type]
        )  # fmt: skip
        # Its first page stays open, empty: with the last one the browser ends.
        running.set_default_timeout(TIMEOUT_MS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def browser(profile: BrowserContext) -> Browser:
    """The same Chromium, for contexts that keep nothing."""
    assert profile.browser is not None
    return profile.browser


@pytest.fixture(scope="session")
def _port() -> int:
    """Where all the studios of these tests listen, one after the other."""
    return free_port()


@pytest.fixture
def studio(
    request: pytest.FixtureRequest,
    forked_trainings: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    _port: int,
) -> Iterator[StudioServer]:
    """A running studio with the test nodes in its catalogue. It and its runs are forked.

    In a module with `SHARED_STUDIO = True` its tests share one, each with pipelines of its own.
    """
    if getattr(request.module, "SHARED_STUDIO", False):
        server = request.getfixturevalue("_module_studio")
        if not server.is_up:  # a test that failed may have left it dead
            server.start()
        _live_in(server.home, monkeypatch)
        yield server
        return
    with StudioServer(tmp_path, port=_port) as server:
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
def _module_studio(tmp_path_factory: pytest.TempPathFactory, _port: int) -> Iterator[StudioServer]:
    home = tmp_path_factory.mktemp("studio")
    with pytest.MonkeyPatch.context() as patch:
        _live_in(home, patch)
        with StudioServer(home, port=_port) as server:
            server.install_probes()
            server.start()
            yield server


@pytest.fixture(scope="module")
def _volumes(_module_studio: StudioServer) -> str:
    from volume_viewer import seed_volumes

    return seed_volumes(_module_studio)


@pytest.fixture
def volumes_document(request: pytest.FixtureRequest, studio: StudioServer, troubles: Troubles) -> str:
    """The pipeline of `volume_viewer.seed_volumes` in the module's shared studio."""
    # The thumbnail of its bad file cannot be made, and browsers report that.
    troubles.allow(r"status of 422 .*/volumes/(thumbnail|voxels)")
    document: str = request.getfixturevalue("_volumes")  # not before the studio, which is forked, as its runs are
    return document


@pytest.fixture
def gate(studio: StudioServer, tmp_path: Path) -> Gate:
    """For runs that are at work for as long as a test needs: the node type Learn goes as far as it lets it."""
    studio.install_probes("gated_nodes")
    return Gate(tmp_path)


@pytest.fixture
def troubles() -> Troubles:
    """What went wrong unseen; fails the test at its end. `allow` what is meant to happen."""
    return Troubles()


@pytest.fixture(scope="session")
def _people(profile: BrowserContext) -> list[BrowserContext]:
    """The contexts of the people at the pages, the browser's profile first. What they have loaded stays."""
    return [profile]


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest,
    _people: list[BrowserContext],
    studio: StudioServer,
    troubles: Troubles,
    tmp_path: Path,
) -> Iterator[OpenPage]:
    """Opens pages: the first in the browser's profile, without what other tests left there, each other one as another
    person's, in a context of its own."""
    pages: list[Page] = []
    before = len(studio.output)

    def new(color_scheme: ColorScheme = "light") -> Page:
        if len(pages) == len(_people):
            browser: Browser = request.getfixturevalue("browser")
            context = browser.new_context(viewport=SIZE, base_url=studio.url)
            context.set_default_timeout(TIMEOUT_MS)
            # As in the profile, where the first page stays open and empty.
            context.new_page()
            _people.append(context)
        page = _cleared(_people[len(pages)], studio.url)
        page.emulate_media(color_scheme=color_scheme)
        troubles.watch(page.context, studio.url)
        pages.append(page)
        return page

    yield new
    failed = request.node.stash.get(FAILED, True)
    found = troubles.all(studio.output[before:])
    if failed or found:
        for number, page in enumerate(pages):
            if not page.is_closed():
                page.screenshot(path=tmp_path / f"page-{number}.png")
                request.node.add_report_section("teardown", f"page {number}", page.locator("body").aria_snapshot())
        request.node.add_report_section("teardown", "pages", f"screenshots: {tmp_path}/page-*.png")
        request.node.add_report_section("teardown", "studio", studio.output)
    troubles.leave()
    for person in _people:
        # After a failure nobody knows what its page still holds.
        for page in person.pages[1 if failed or found else 2 :]:
            page.close()
        if person.pages[1:]:
            person.set_offline(False)
            page = person.pages[1]
            # By the page itself: it then stays in its process, and at its origin.
            with page.expect_navigation(url="about:blank"):
                page.evaluate("() => { setTimeout(() => location.replace('about:blank')) }")
            page.mouse.move(0, 0)
            # What the browser itself shows in the place of a server that is away is of no origin.
            if page.evaluate("origin === 'null'"):
                page.close()
    assert not found, "\n".join(found)


def _cleared(person: BrowserContext, address: str) -> Page:
    """A page at no address yet, of a person who has not been at `address` before.

    It is the one of the test before: with what its process has compiled of the app's scripts, to load the app takes
    half of the processor time.
    """
    person.set_offline(False)
    person.clear_permissions()
    if person.pages[1:]:
        page = person.pages[1]
        page.set_viewport_size(SIZE)  # type: ignore[arg-type]
        page.evaluate("sessionStorage.clear()")
    else:
        page = person.new_page()
    tools = person.new_cdp_session(page)
    kept = "cookies,local_storage,indexeddb,service_workers,cache_storage"
    tools.send("Storage.clearDataForOrigin", {"origin": address, "storageTypes": kept})
    tools.detach()
    return page


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """A page, not yet at any address: `page.goto("/")` opens the app."""
    return open_page()
