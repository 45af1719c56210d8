from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from engine.errors import WorkspaceError
from engine.observe.paths import allowed_places
from engine.storage.process_lock import ProcessLock
from engine.workspace import (
    FORMAT,
    Workspace,
    data_roots,
    open_workspace,
    raise_format,
    storage_of,
    storages,
)


def test_data_roots_are_read(workspace: Workspace, tmp_path: Path) -> None:
    mark = workspace.root / "workspace.json"
    assert data_roots(workspace) == []
    mark.write_text(json.dumps({"format": 1, "data_roots": ["/mnt/volumes", "az://container/volumes"]}))
    assert Path("/mnt/volumes") in allowed_places(workspace).folders
    assert [str(url) for url in allowed_places(workspace).urls] == ["az://container/volumes"]
    mark.unlink()
    assert data_roots(workspace) == []


@pytest.mark.timeout(20)
def test_settings_that_are_no_file_or_hold_a_control_character_are_reported(workspace: Workspace) -> None:
    mark = workspace.root / "workspace.json"
    mark.write_text(json.dumps({"format": 1, "data_roots": ["/mnt/\0"]}))
    with pytest.raises(WorkspaceError, match="data_roots holds the control character"):
        allowed_places(workspace)
    mark.unlink()
    assert allowed_places(workspace, ["/mnt/\0", "/mnt"]).folders[-1] == Path("/mnt")
    mark.symlink_to("/dev/zero")
    with pytest.raises(WorkspaceError, match="it is a device"):
        allowed_places(workspace)
    mark.unlink()
    os.mkfifo(mark)
    for look in (lambda: open_workspace(workspace.root), lambda: allowed_places(workspace)):
        with pytest.raises(WorkspaceError, match="it is a named pipe"):
            look()


@pytest.mark.parametrize("text", ["", '{"format": 1, "data_roo', "[]", "\x00\x00\x00", "null"])
def test_settings_that_were_cut_short_are_an_error_with_the_way_out(workspace: Workspace, text: str) -> None:
    """Data roots are never lost in silence: a pipeline would be refused its data, and nobody knew why."""
    mark = workspace.root / "workspace.json"
    mark.write_text(text)
    for look in (lambda: open_workspace(workspace.root), lambda: allowed_places(workspace)):
        with pytest.raises(WorkspaceError) as caught:
            look()
        assert caught.value.message.startswith(f"{mark} is damaged: ")
        assert f'{{"format": {FORMAT}, "data_roots": ["/a/folder"]}}' in caught.value.hint
    # As the hint says.
    mark.write_text('{"format": 1, "data_roots": ["/a/folder"]}')
    assert data_roots(open_workspace(workspace.root)) == ["/a/folder"]


def test_data_roots_must_be_a_list(workspace: Workspace) -> None:
    (workspace.root / "workspace.json").write_text('{"data_roots": "/mnt/volumes"}')
    with pytest.raises(WorkspaceError, match="not a list"):
        allowed_places(workspace)


def test_a_workspace_of_a_newer_program_is_refused_and_left_as_it_is(workspace: Workspace) -> None:
    mark = workspace.root / "workspace.json"
    mark.write_text(json.dumps({"format": FORMAT + 1}))
    with pytest.raises(WorkspaceError, match=rf"workspace\.json says format {FORMAT + 1}, .* up to {FORMAT}") as caught:
        open_workspace(workspace.root)
    assert caught.value.hint.startswith("Update Voxelflow")
    assert json.loads(mark.read_text()) == {"format": FORMAT + 1}


def test_the_format_is_raised_and_the_rest_stays(workspace: Workspace) -> None:
    mark = workspace.root / "workspace.json"
    mark.write_text(json.dumps({"format": 1, "data_roots": ["/mnt/volumes"]}))
    raise_format(workspace)
    assert json.loads(mark.read_text()) == {"format": FORMAT, "data_roots": ["/mnt/volumes"]}


def test_a_storage_inside_the_workspace_moves_with_it_and_one_elsewhere_is_not_shared_with_a_copy(
    workspace: Workspace, tmp_path: Path
) -> None:
    inside, outside = workspace.root / "storage", tmp_path / "shared"
    places = [storage_of(workspace, root).root for root in (inside, outside)]
    for place in places:
        place.mkdir(parents=True)
    copy = Workspace(tmp_path / "copy")
    shutil.copytree(workspace.root, copy.root)
    assert storage_of(copy, copy.root / "storage").root == copy.root / "storage" / places[0].name
    # Locks and the run store know one workspace only: two in one folder would free each other's data.
    other = storage_of(copy, outside).root
    assert other != places[1]
    assert other.parent == outside
    assert storage_of(copy, outside).root == other
    assert places[1] not in [storage.root for storage in storages(copy)]
    assert storage_of(workspace, outside).root == places[1]

    moved = Workspace(tmp_path / "moved")
    workspace.root.rename(moved.root)
    assert storage_of(moved, outside).root == places[1]
    assert [storage.root for storage in storages(moved)] == [
        moved.root, moved.root / "storage" / places[0].name, places[1],
    ]  # fmt: skip


def test_a_process_that_keeps_the_name_of_a_storage_to_itself_is_named(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.workspace._PATIENCE_S", 0.05)
    other = ProcessLock(workspace.locks / "storages")
    assert other.acquire()
    other.note("process 77 (since 12:00:00)")
    with pytest.raises(WorkspaceError, match=r"process 77 \(since 12:00:00\) has kept .*/storages locked") as caught:
        storage_of(workspace, tmp_path / "elsewhere")
    assert "End it" in caught.value.hint
    other.release()
    assert storage_of(workspace, tmp_path / "elsewhere").root.parent == tmp_path / "elsewhere"
