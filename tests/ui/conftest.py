"""What every test of the app's pages needs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner import script_runner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from waiting import WAIT_S

import ui
from engine.catalog import Catalog
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui import studio_context
from ui.studio_context import Studio

# Each page that is drawn has Streamlit read the metadata of 180 packages.
manifest_scanner.scan_component_manifests = functools.cache(manifest_scanner.scan_component_manifests)
# After it Streamlit has Keras, if that is imported, forget its models and collect all garbage: half a second, with what
# other tests have made. The studio's process does not import it.
script_runner._clean_problem_modules = lambda: None

APP = Path(ui.__file__ or "").with_name("app.py")


@pytest.fixture(autouse=True)
def _main_module_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit's AppTest leaves the page it ran as ``__main__``, which later child processes would run again."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """What the pages gave to the canvas's component, by its key: without a server it has no files."""
    drawn: dict[str, dict[str, Any]] = {}

    def draw(key: str, data: dict[str, Any], **_: object) -> None:
        drawn[key] = data

    monkeypatch.setattr("ui.shell.canvas.canvas_component", lambda: draw)
    return drawn


@pytest.fixture
def app(
    probes: Catalog, workspace: Workspace, store: RunStore, pictures: dict[str, dict[str, Any]]
) -> Iterator[Callable[..., AppTest]]:
    """`app("run", run=ID)` is the page at /run?run=ID, drawn."""
    studio_context.install(Studio(workspace, store, workspace.root, lambda _: probes))

    def open_page(path: str, **query: str) -> AppTest:
        page = AppTest.from_file(str(APP), default_timeout=WAIT_S)
        # AppTest itself only switches to pages that are files.
        page._page_hash = calc_hash(path)
        for name, value in query.items():
            page.query_params[name] = value
        return page.run()

    yield open_page
    studio_context._installed.clear()
