"""The app's server side over the test nodes, and tabs that talk to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from canvas_tab import OpenTab, Tab

from engine.catalog import Catalog, build_catalog
from engine.document.pipeline import Pipeline
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui.build.editor import Editor
from ui.build.open_documents import OpenDocuments
from ui.studio_context import Studio


@pytest.fixture(autouse=True)
def _forked(request: pytest.FixtureRequest) -> None:
    """The slow tests are those that start runs."""
    if request.node.get_closest_marker("slow") and not request.node.get_closest_marker("own_processes"):
        request.getfixturevalue("forked_runs")


@pytest.fixture
def studio(workspace: Workspace, store: RunStore, probes: Catalog, tmp_path: Path) -> Studio:
    """An app over the test nodes."""
    return Studio(workspace, store, tmp_path, lambda place: build_catalog((), place))


@pytest.fixture
def serve(studio: Studio) -> Iterator[Callable[[], OpenDocuments]]:
    """Starts the server's side, anew at each call; all are ended after the test."""
    started: list[OpenDocuments] = []

    def start() -> OpenDocuments:
        started.append(OpenDocuments(studio))
        return started[-1]

    yield start
    for documents in started:
        documents.close()


@pytest.fixture
def documents(serve: Callable[[], OpenDocuments]) -> OpenDocuments:
    return serve()


@pytest.fixture
def open_tab(documents: OpenDocuments) -> OpenTab:

    def open_one(
        pipeline: Pipeline | None = None,
        client: str = "page",
        server: OpenDocuments | None = None,
        address: str | None = None,
    ) -> Tab:
        server = server or documents
        if pipeline is not None:
            address = server.add(pipeline).document.id
        return Tab(Editor(server, address=address), client)

    return open_one
