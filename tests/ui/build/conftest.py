"""The app's server side over the test nodes, and tabs that talk to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from canvas_tab import OpenTab, Tab

from engine.catalog import Catalog, build_catalog
from engine.pipeline import Pipeline
from engine.runs import RunStore
from engine.workspace import Workspace
from ui.build.editor import Editor
from ui.build.rooms import Rooms
from ui.studio_context import Studio


@pytest.fixture
def studio(workspace: Workspace, store: RunStore, probes: Catalog, tmp_path: Path) -> Studio:
    """An app over the test nodes."""
    return Studio(workspace, store, tmp_path, lambda place: build_catalog((), place))


@pytest.fixture
def serve(studio: Studio) -> Iterator[Callable[[], Rooms]]:
    """Starts the server's side, anew at each call; all are ended after the test."""
    started: list[Rooms] = []

    def start() -> Rooms:
        started.append(Rooms(studio))
        return started[-1]

    yield start
    for rooms in started:
        rooms.close()


@pytest.fixture
def rooms(serve: Callable[[], Rooms]) -> Rooms:
    return serve()


@pytest.fixture
def open_tab(rooms: Rooms) -> OpenTab:

    def open_one(pipeline: Pipeline | None = None, client: str = "page", server: Rooms | None = None) -> Tab:
        server = server or rooms
        address = server.add(pipeline).room.document if pipeline is not None else None
        return Tab(Editor(server, address=address), client)

    return open_one
