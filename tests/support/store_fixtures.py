"""Fixtures of object stores; `tests/conftest.py` makes them known. The servers start when a test first asks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from object_stores import ObjectStore, azurite, gcs_server, s3_server
from outside_parts import require

_numbers = itertools.count()


@pytest.fixture(scope="session")
def azure_server() -> Iterator[ObjectStore]:
    require("azurite")
    with azurite() as started:
        yield started


@pytest.fixture(scope="session")
def s3_stand_in() -> Iterator[ObjectStore]:
    with s3_server() as started:
        yield started


@pytest.fixture(scope="session")
def gcs_stand_in() -> Iterator[ObjectStore]:
    with gcs_server() as started:
        yield started


def container_in(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have this process use the store; gives the URL of an empty container."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    url = store.make_container(f"box{next(_numbers)}")
    monkeypatch.setenv("VOXELFLOW_DATA_ROOTS", url)
    return url


@pytest.fixture
def azure(azure_server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty container in Azurite, which this process may use and documents may name."""
    return container_in(azure_server, monkeypatch)


@pytest.fixture(params=["azure_server", "s3_stand_in", "gcs_stand_in"])
def container(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same in each kind of store."""
    return container_in(request.getfixturevalue(request.param), monkeypatch)


def upload_folder(folder: Path, url: str) -> str:
    """Put all files of a folder below `url`; gives `url`."""
    from engine.storage.objects import RemotePath

    for path in sorted(folder.rglob("*")):
        if path.is_file():
            (RemotePath.at(url) / path.relative_to(folder).as_posix()).upload(path)
    return url
