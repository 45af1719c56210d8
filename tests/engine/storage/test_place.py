from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.storage.find_place import place_at
from engine.storage.local_place import LocalPlace
from engine.storage.place import Place
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
