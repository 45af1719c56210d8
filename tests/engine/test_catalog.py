"""A file of `my_nodes/` is what it says now, and its results are known by that."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest
from installed_package import install

from engine.catalog import Catalog, build_catalog
from engine.workspace import Workspace, trust

DECORATED = """
import contextlib

from voxelflow import Report, node


@contextlib.contextmanager
def quiet():
    yield


@node("Mine", version=1, category="Mine")
@quiet()
def mine() -> Report:
    "Mine."
    return Report(uri="one")
"""


def _mine(catalog: Catalog):
    assert catalog.problems == []
    found = catalog.find("Mine")
    assert found is not None
    return found


@pytest.fixture
def own_file(workspace: Workspace) -> Path:
    path = workspace.my_nodes / "mine.py"
    path.write_text(DECORATED)
    trust(workspace)
    return path


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def test_a_node_under_another_decorator_counts_by_its_own_file(own_file: Path, workspace: Workspace) -> None:
    before = _mine(build_catalog((), workspace))
    assert before.source_digest == _digest(own_file)
    own_file.write_text(DECORATED.replace('"one"', '"other"'))
    after = _mine(build_catalog((), workspace))
    assert after.source_digest == _digest(own_file) != before.source_digest


def test_so_does_one_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(tmp_path / "site", "mine = decorated_nodes", decorated_nodes=DECORATED)
    monkeypatch.syspath_prepend(str(site))
    try:
        assert _mine(build_catalog(())).source_digest == _digest(site / "decorated_nodes.py")
    finally:
        sys.modules.pop("decorated_nodes", None)


def test_code_of_the_same_length_and_second_is_not_that_of_before(
    own_file: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    def load(text: str) -> tuple[str, str]:
        own_file.write_text(text)
        os.utime(own_file, (1_700_000_000, 1_700_000_000))
        loaded = _mine(build_catalog((), workspace))
        return loaded().uri, loaded.source_digest

    (one, first), (two, second) = load(DECORATED), load(DECORATED.replace('"one"', '"two"'))
    assert (one, two) == ("one", "two")
    assert first != second


def test_the_digest_is_of_the_code_that_runs(own_file: Path, workspace: Workspace) -> None:
    loaded, digest = _mine(build_catalog((), workspace)), _digest(own_file)
    own_file.write_text(DECORATED.replace('"one"', '"two"'))
    assert (loaded().uri, loaded.source_digest) == ("one", digest)
    own_file.unlink()
    assert loaded.source_digest == digest


def test_an_error_in_the_file_shows_its_line(own_file: Path, workspace: Workspace) -> None:
    own_file.write_text(DECORATED.replace('return Report(uri="one")', "return 1 / 0"))
    loaded = _mine(build_catalog((), workspace))
    with pytest.raises(ZeroDivisionError) as caught:
        loaded()
    assert str(caught.traceback[-1].statement).strip() == "return 1 / 0"
    assert Path(str(caught.traceback[-1].path)) == own_file
