from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.workspace import Workspace, allow, data_roots
from ui.build import file_browser as files
from ui.build.file_browser import browse, to_allow
from ui.protocol.notices import Listing


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An allowed folder (see `_isolated`), with a forbidden one beside it."""
    return tmp_path


def _look(workspace: Workspace, base: Path, path: str | Path | None) -> Listing:
    return browse(workspace, base, 7, None if path is None else str(path))


def test_a_folder_is_listed_folders_first_in_natural_order(workspace: Workspace, root: Path) -> None:
    data = root / "data"
    for name in ("b10", "b2", "A1", ".hidden"):
        (data / name).mkdir(parents=True)
    for name in ("v10.npy", "v9.npy", ".secret", "<b>.txt", "\u0661.npy", "²"):
        (data / name).write_bytes(b"123")
    found = _look(workspace, root, data)
    assert [e.name for e in found.entries] == [
        "A1", "b2", "b10", "<b>.txt", "v9.npy", "v10.npy", "²", "\u0661.npy",
    ]  # fmt: skip
    assert [e.kind for e in found.entries] == ["folder"] * 3 + ["file"] * 5
    assert (found.request, found.path, found.parent, found.problem) == (7, str(data), str(root), "")
    assert {e.bytes for e in found.entries} == {None, 3}
    assert found.entries[0].path == str(data / "A1")
    assert _look(workspace, root, "data").entries == found.entries


def test_the_roots_are_where_one_starts(workspace: Workspace, root: Path) -> None:
    found = _look(workspace, root, None)
    assert str(root.resolve()) in [e.path for e in found.entries]
    assert (found.path, found.parent) == (None, None)
    assert _look(workspace, root, root).parent is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "outside"),
        ("/etc", "outside"),
        ("data/../..", ".. is not followed"),
        ("data/..", ".. is not followed"),
        ("none", "no such folder"),
        ("file.txt", "is a file"),
        ("out", "outside"),
        ("circle", "loop"),
        ("~no such user", "no such folder"),
        ("~no such user/volumes", "no such folder"),
        ("a\0b", "no path"),
        ("x" * 5000, "x"),
    ],
)
def test_what_cannot_be_listed_is_reported(workspace: Workspace, root: Path, path: str, expected: str) -> None:
    (root / "data").mkdir()
    (root / "file.txt").write_text("x")
    (root / "out").symlink_to("/usr")
    (root / "circle").symlink_to(root / "circle")
    found = _look(workspace, root, path)
    assert expected in found.problem
    assert len(found.problem) < 1000
    assert found.entries == []


def test_links_inside_are_followed_and_broken_ones_do_no_harm(workspace: Workspace, root: Path) -> None:
    (root / "real").mkdir()
    (root / "real" / "x.npy").write_bytes(b"1")
    (root / "inside").symlink_to(root / "real")
    (root / "circle").symlink_to(root / "circle")
    (root / "nowhere").symlink_to(root / "none")
    assert [e.name for e in _look(workspace, root, "inside").entries] == ["x.npy"]
    found = {e.name: e for e in _look(workspace, root, ".").entries}
    assert found["inside"].kind == "folder"
    assert found["nowhere"].bytes is None


def test_a_huge_folder_is_cut_at_its_natural_beginning(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root / "many"
    folder.mkdir()
    for i in range(2_100):
        (folder / f"{i}.npy").touch()
    found = _look(workspace, root, folder)
    assert found.truncated
    assert [e.name for e in found.entries] == [f"{i}.npy" for i in range(2_000)]
    monkeypatch.setattr(files, "_MAX_LOOKED_AT", 50)
    found = _look(workspace, root, folder)
    assert (found.truncated, len(found.entries)) == (True, 50)


def test_a_folder_without_permission_and_names_that_are_no_text(workspace: Workspace, root: Path) -> None:
    folder = root / "odd"
    folder.mkdir()
    with open(os.fsencode(folder) + b"/\xff.npy", "wb"):
        pass
    assert _look(workspace, root, folder).entries == []
    if os.geteuid() != 0:
        folder.chmod(0)
        assert "denied" in _look(workspace, root, folder).problem
        folder.chmod(0o700)


def test_people_of_this_computer_look_anywhere_and_see_where_the_border_is(workspace: Workspace, root: Path) -> None:
    top = browse(workspace, root, 7, None, anywhere=True)
    assert {e.name for e in top.elsewhere} == {"Home", "This computer"}
    assert _look(workspace, root, None).elsewhere == []
    out = browse(workspace, root, 7, "/usr", anywhere=True)
    assert (out.allowed, out.parent, out.problem) == (False, "/", "")
    assert "bin" in {e.name for e in out.entries}
    inside = browse(workspace, root, 7, str(root), anywhere=True)
    assert (inside.allowed, inside.parent) == (True, str(root.parent))
    assert browse(workspace, root, 7, "/", anywhere=True).parent is None
    # A link out of the workspace leads outside, whatever its own place is.
    (root / "out").symlink_to("/usr")
    assert not browse(workspace, root, 7, "out", anywhere=True).allowed


def test_an_allowed_folder_is_inside_from_then_on(
    workspace: Workspace, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("elsewhere") / "volumes"
    place.mkdir()
    (place / "labels.csv").write_text("a")
    assert "outside" in _look(workspace, root, place).problem
    assert to_allow(root, str(place / "labels.csv")) == str(place)
    assert to_allow(root, "az://container/volumes") == "az://container/volumes"
    allow(workspace, to_allow(root, str(place)))
    allow(workspace, str(place))
    assert data_roots(workspace) == [str(place)]
    assert [e.name for e in _look(workspace, root, place).entries] == ["labels.csv"]
    with pytest.raises(UsageError, match="there is no folder"):
        to_allow(root, "/none/at/all")
    with pytest.raises(UsageError, match="there is no folder"):
        to_allow(root, "~no such user/volumes")
    with pytest.raises(UsageError, match="File name too long"):
        to_allow(root, "a" * 5000)
    (root / "circle").symlink_to(root / "circle")
    with pytest.raises(UsageError, match="circle"):
        to_allow(root, "circle/volumes")
