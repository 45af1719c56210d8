from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from building import box, pipeline

from engine.document.find import find_pipeline
from engine.document.pipeline import dump, load, write_pipeline
from engine.errors import PipelineError, WorkspaceError
from engine.storage.process_lock import ProcessLock
from engine.workspace import Workspace
from ui.build import library as library_module
from ui.build.drafts import Base
from ui.build.library import Conflict, Library, read_text


@pytest.fixture
def library(workspace: Workspace) -> Library:
    return Library(workspace)


def _base(library: Library, document: str = "doc") -> Base:
    stored = library.read(document)
    assert stored is not None
    return stored.base


def test_what_is_saved_is_the_command_lines_own_text(library: Library, workspace: Workspace) -> None:
    document = pipeline(box("b", "Make", text="ü", steps=2), box("a", "Join"), wires="b.out>a.first", q=1.5)
    base = library.write("doc", document, None)
    path = workspace.pipelines / "doc.json"
    assert path.read_text(encoding="utf-8") == dump(document)
    assert find_pipeline("doc", workspace) == document
    assert _base(library) == base
    before = path.read_bytes()
    library.write("doc", find_pipeline("doc", workspace), base)
    assert path.read_bytes() == before
    assert [p.name for p in workspace.pipelines.iterdir()] == ["doc.json"]


def test_a_file_that_someone_else_touched_is_left_alone_unless_asked(library: Library, workspace: Workspace) -> None:
    mine, theirs = pipeline(box("a", "Make")), pipeline(box("theirs", "Make"))
    path = workspace.pipelines / "doc.json"
    write_pipeline(theirs, path)
    with pytest.raises(Conflict, match="created by someone else"):
        library.write("doc", mine, None)
    base = _base(library)
    write_pipeline(pipeline(box("changed", "Make")), path)
    with pytest.raises(Conflict, match="changed by someone else"):
        library.write("doc", mine, base)
    assert load(path.read_text()).nodes[0].id == "changed"
    path.unlink()
    with pytest.raises(Conflict, match="deleted since"):
        library.write("doc", mine, base)
    assert not path.exists()
    library.write("doc", mine, base, overwrite=True)
    assert path.read_text() == dump(mine)
    # Someone wrote the very same: no quarrel.
    library.write("doc", mine, None)


def test_two_writers_from_one_state_do_not_both_win(workspace: Workspace) -> None:
    start = Library(workspace).write("doc", pipeline(name="start"), None)
    outcomes: list[str] = []

    def save(name: str) -> None:
        try:
            Library(workspace).write("doc", pipeline(name=name), start)
            outcomes.append(name)
        except Conflict:
            outcomes.append("conflict")

    threads = [threading.Thread(target=save, args=(f"writer {i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("conflict") == 7
    winner = next(o for o in outcomes if o != "conflict")
    assert load((workspace.pipelines / "doc.json").read_text()).name == winner


def test_a_writer_that_waits_too_long_is_reported(
    library: Library, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "_LOCK_TIMEOUT_S", 0.05)
    other = ProcessLock(workspace.locks / "pipelines")
    assert other.acquire()
    with pytest.raises(WorkspaceError, match="another program"):
        library.write("doc", pipeline(), None)
    other.release()
    library.write("doc", pipeline(), None)


def test_the_list_shows_what_is_wrong_with_a_file_and_reads_only_what_changed(
    library: Library, workspace: Workspace
) -> None:
    library.write("good", pipeline(name="Good"), None)
    (workspace.pipelines / "bad.json").write_text('{"name": "bad", "nodez": []}')
    (workspace.pipelines / "pipeline.schema.json").write_text("{}")
    (workspace.pipelines / "notes.txt").write_text("x")
    (workspace.pipelines / ".hidden.json").write_text("{}")
    (workspace.pipelines / "folder.json").mkdir()
    bad, good = library.listed()
    assert (bad.document, bad.stored, good.document) == ("bad", None, "good")
    assert "nodez" in bad.problem
    assert good.stored is not None
    assert good.stored.pipeline.name == "Good"
    assert library.listed()[1] is good
    before = library.state()
    library.write("good", pipeline(name="Better"), good.stored.base)
    assert library.state() != before
    again = library.listed()[1].stored
    assert again is not None
    assert again.pipeline.name == "Better"


def test_what_cannot_be_looked_at_hides_no_other_file(library: Library, workspace: Workspace) -> None:
    # A folder is listed in an order of its own: one of the files comes behind the link.
    library.write("first", pipeline(name="First"), None)
    link = workspace.pipelines / "circle.json"
    link.symlink_to(link)
    library.write("last", pipeline(name="Last"), None)
    assert [item.document for item in library.listed()] == ["first", "last"]


def test_a_file_is_read_again_when_its_permissions_were_changed(
    library: Library, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.write("doc", pipeline(name="Doc"), None)
    path = workspace.pipelines / "doc.json"

    def refused(_: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as closed:  # root may write anywhere
        closed.setattr(library_module, "read_document", refused)
        assert "Permission denied" in library.listed()[0].problem
    before = library.state()
    path.chmod(0o640)
    assert library.state() != before
    assert library.listed()[0].problem == ""


def test_a_lock_that_cannot_be_opened_is_reported(library: Library, workspace: Workspace) -> None:
    (workspace.locks / "pipelines").mkdir(parents=True)
    with pytest.raises(WorkspaceError, match="pipelines cannot be opened: Is a directory"):
        library.write("doc", pipeline(), None)


def test_renaming_moves_the_file_and_changes_the_name_in_it(library: Library, workspace: Workspace) -> None:
    library.write("old", pipeline(box("a", "Make"), name="Old"), None)
    base = library.rename("old", "new", "New")
    assert not (workspace.pipelines / "old.json").exists()
    assert find_pipeline("new", workspace).name == "New"
    assert _base(library, "new") == base
    assert library.rename("new", "new", "NEW").file != base.file
    assert find_pipeline("new", workspace).name == "NEW"
    library.write("other", pipeline(name="other"), None)
    with pytest.raises(Conflict, match="exists already"):
        library.rename("new", "other", "other")
    with pytest.raises(PipelineError, match="is gone"):
        library.rename("none", "x", "x")


def test_what_is_deleted_is_in_the_trash(library: Library, workspace: Workspace) -> None:
    for _ in range(3):
        base = library.write("doc", pipeline(name="saved"), None)
        library.to_trash("doc", pipeline(name="unsaved"))
    library.write("doc", pipeline(name="saved"), None)
    library.to_trash("doc")
    assert base
    assert library.read("doc") is None
    names = [load(p.read_text()).name for p in (workspace.root / "trash").iterdir()]
    assert sorted(names) == ["saved"] * 4 + ["unsaved"] * 3


@pytest.mark.parametrize("document", ["../up", "a/b", "", ".x", "x\0"])
def test_an_id_that_leads_elsewhere_is_refused(library: Library, document: str) -> None:
    for attempt in (
        lambda: library.read(document),
        lambda: library.write(document, pipeline(), None),
        lambda: library.to_trash(document),
    ):
        with pytest.raises(PipelineError, match="is not the name"):
            attempt()


def test_a_link_out_of_the_folder_is_replaced_not_followed(
    library: Library, workspace: Workspace, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("precious")
    (workspace.pipelines / "doc.json").symlink_to(outside)
    library.write("doc", pipeline(), None, overwrite=True)
    assert outside.read_text() == "precious"


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"x","nodes":[{"id":"a","type":"T","position":{"x":NaN}}]}',
        '{"name":"x","nodes":[{"id":"a","type":"T","timeout_s":1e400}]}',
        '{"name":"x","ui":{"a":"\\ud800"}}',
        "",
        "[1]",
        '{"name": ""}',
    ],
)
def test_a_text_that_could_not_be_written_again_is_refused(text: str) -> None:
    with pytest.raises(PipelineError, match="my file"):
        read_text(text, "my file")


def test_templates_are_those_that_come_with_voxelflow(library: Library) -> None:
    assert {"quickstart", "volumes-to-resnet"} <= library.templates().keys()


def test_a_folder_that_cannot_be_written_is_reported(library: Library, workspace: Workspace) -> None:
    (workspace.pipelines / "doc.json").mkdir()
    with pytest.raises(PipelineError, match="it is a folder"):
        library.write("doc", pipeline(), None)
    with pytest.raises(WorkspaceError, match="cannot be written") as caught:
        library.write("doc", pipeline(), None, overwrite=True)
    assert "draft" in caught.value.hint


@pytest.mark.timeout(20)
def test_what_is_no_file_among_the_pipelines_is_never_waited_for(library: Library, workspace: Workspace) -> None:
    os.mkfifo(workspace.pipelines / "pipe.json")
    (workspace.pipelines / "device.json").symlink_to("/dev/zero")
    assert library.listed() == []
    for document, reason in (("pipe", "a named pipe"), ("device", "a device")):
        with pytest.raises(PipelineError, match=f"it is {reason}, not a regular file"):
            library.read(document)
        with pytest.raises(PipelineError, match=f"it is {reason}, not a regular file"):
            library.digest(document)
