from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

import pytest

from engine.errors import UsageError
from engine.storage.place import LocalPlace, Place, link_or_copy, place_at
from nodes.testing.place import PlaceConformance


class TestLocalPlace(PlaceConformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        (tmp_path / "place").mkdir()
        return LocalPlace(tmp_path / "place")


@pytest.mark.slow
class TestRemotePlace(PlaceConformance):
    @pytest.fixture
    def place(self, container: str) -> Place:
        return place_at(f"{container}/a place")

    def test_it_is_no_local_folder(self, place: Place) -> None:
        with pytest.raises(UsageError, match="does not lie in a local folder"):
            _ = place.folder


def test_a_local_place_is_what_a_path_names(tmp_path: Path) -> None:
    for spelling in (tmp_path / "a b", str(tmp_path / "a b"), f"file://{tmp_path}/a%20b"):
        assert place_at(spelling) == LocalPlace(tmp_path / "a b")


def test_a_place_is_asked_what_it_can_do_and_not_of_which_kind_it_is() -> None:
    """Else a kind that a package brings would be taken for another one."""
    asking = re.compile(r"isinstance\([^()]*,\s*(LocalPlace|RemotePlace)")
    root = Path(__file__).parents[3]
    files = (path for part in ("engine", "nodes", "ui") for path in (root / part).rglob("*.py"))
    found = {str(path.relative_to(root)) for path in files if asking.search(path.read_text(encoding="utf-8"))}
    assert not found


def test_a_link_shares_the_bytes_and_a_copy_does_not(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_text("x")
    os.utime(source, ns=(1, 1_700_000_000_000_000_123))
    assert not link_or_copy(source, tmp_path / "link", "link")
    assert link_or_copy(source, tmp_path / "copy", "copy")
    assert (tmp_path / "link").samefile(source)
    assert not (tmp_path / "copy").samefile(source)
    assert (tmp_path / "copy").stat().st_mtime_ns == 1_700_000_000_000_000_123
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "copy", "link"]


def test_what_stands_there_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("same")
    (tmp_path / "b").write_text("same")
    before = (tmp_path / "b").stat()
    for mode in ("link", "copy"):
        assert not link_or_copy(tmp_path / "a", tmp_path / "b", mode)
    # Also when the source is gone meanwhile.
    assert not link_or_copy(tmp_path / "none", tmp_path / "b", "link")
    after = (tmp_path / "b").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("mode", ["link", "copy"])
@pytest.mark.parametrize("left", [b"", b"whol", bytes(5)])
def test_what_a_power_cut_has_damaged_is_replaced(tmp_path: Path, mode: Literal["link", "copy"], left: bytes) -> None:
    """It may cut a copy short, or leave its size and lose the content."""
    (tmp_path / "a").write_text("whole")
    (tmp_path / "b").write_bytes(left)
    link_or_copy(tmp_path / "a", tmp_path / "b", mode)
    assert (tmp_path / "b").read_text() == "whole"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_an_error_that_a_copy_would_not_fix_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        link_or_copy(tmp_path / "none", tmp_path / "b", "link")
    assert list(tmp_path.iterdir()) == []
