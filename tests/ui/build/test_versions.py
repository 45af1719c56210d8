from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from building import box, pipeline
from canvas_tab import OpenTab

from engine.document.pipeline import dump, load, write_pipeline
from engine.errors import PipelineError, WorkspaceError
from engine.workspace import Workspace
from ui.build import library as library_module
from ui.build import versions as versions_module
from ui.build.library import Library
from ui.build.versions import Versions
from ui.protocol.commands import KeepDraft, ListVersions, MakeEdit, ReadVersion, Rename, Save
from ui.protocol.document import Op
from ui.protocol.notices import VersionRead
from ui.protocol.notices import Versions as Listed


def _texts(versions: Versions, document: str = "doc") -> list[str]:
    return [dump(versions.read(document, v.name)) for v in versions.listed(document)]


def test_each_save_is_a_version_the_newest_first_and_equal_ones_are_one(workspace: Workspace) -> None:
    library = Library(workspace)
    made = [pipeline(box("a", "Make", text=str(i))) for i in range(3)]
    base = None
    for document in made:
        base = library.write("doc", document, base)
    library.write("doc", made[-1], base)
    assert _texts(library.versions) == [dump(document) for document in reversed(made)]
    times = [v.saved for v in library.versions.listed("doc")]
    assert times == sorted(times, reverse=True)


def test_what_others_wrote_is_a_version_before_it_is_overwritten(workspace: Workspace) -> None:
    library = Library(workspace)
    mine, theirs = pipeline(box("mine", "Make")), pipeline(box("theirs", "Make"))
    library.write("doc", mine, None)
    write_pipeline(theirs, workspace.pipelines / "doc.json")
    library.write("doc", mine, None, overwrite=True)
    assert _texts(library.versions) == [dump(mine), dump(theirs), dump(mine)]


def test_a_file_from_before_there_were_versions_is_kept(workspace: Workspace) -> None:
    old = pipeline(box("old", "Make"))
    write_pipeline(old, workspace.pipelines / "doc.json")
    library = Library(workspace)
    stored = library.read("doc")
    assert stored is not None
    library.write("doc", pipeline(box("new", "Make")), stored.base)
    assert _texts(library.versions)[-1] == dump(old)


def test_their_number_is_bounded_and_their_order_is_not_the_clocks(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions_module, "KEPT", 5)
    monkeypatch.setattr(versions_module.time, "time_ns", lambda: 1_700_000_000_000_000_000)
    versions = Versions(workspace)
    for i in range(9):
        versions.keep_pipeline("doc", pipeline(box("a", "Make", text=str(i))))
    assert [load(text).nodes[0].params["text"] for text in _texts(versions)] == ["8", "7", "6", "5", "4"]


def test_versions_follow_a_rename_and_are_set_aside_with_the_file(workspace: Workspace) -> None:
    library = Library(workspace)
    library.write("doc", pipeline(box("a", "Make")), None)
    library.rename("doc", "called", "called")
    assert library.versions.listed("doc") == []
    assert len(library.versions.listed("called")) == 2
    library.to_trash("called")
    assert library.versions.listed("called") == []
    assert [len(list(p.iterdir())) for p in (workspace.root / "versions" / ".deleted").iterdir()] == [2]


def test_versions_stay_with_a_file_that_could_not_be_renamed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(workspace)
    library.write("doc", pipeline(box("a", "Make")), None)
    before = library.versions.listed("doc")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(library_module, "write_pipeline", full)
    with pytest.raises(WorkspaceError, match="No space left"):
        library.rename("doc", "called", "called")
    assert (workspace.pipelines / "doc.json").exists()
    assert library.versions.listed("doc") == before
    assert library.versions.listed("called") == []


def test_a_rename_whose_old_file_cannot_be_removed_leaves_all_as_it_was(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(workspace)
    library.versions.keep_pipeline("called", pipeline(box("b", "Make")))
    library.write("doc", pipeline(box("a", "Make")), None)
    before = {name: library.versions.listed(name) for name in ("doc", "called")}
    unlink = Path.unlink

    def kept(path: Path, missing_ok: bool = False) -> None:
        if path.name == "doc.json":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", kept)
    with pytest.raises(WorkspaceError, match=r"doc\.json cannot be renamed: Operation not permitted"):
        library.rename("doc", "called", "called")
    assert [path.name for path in workspace.pipelines.iterdir()] == ["doc.json"]
    assert {name: library.versions.listed(name) for name in ("doc", "called")} == before


def test_those_of_a_document_with_a_long_name_are_set_aside_too(workspace: Workspace) -> None:
    versions, document = Versions(workspace), "ü" * 125
    versions.keep_pipeline(document, pipeline())
    versions.set_aside(document)
    assert versions.listed(document) == []


@pytest.mark.parametrize(
    "name", ["../../doc", "x", "1700000000000000000", "", "../other/1700000000000000001", "\0/1700000000000000001"]
)
def test_only_a_version_can_be_read(workspace: Workspace, name: str) -> None:
    versions = Versions(workspace)
    versions.keep_pipeline("doc", pipeline())
    versions.keep_pipeline("other", pipeline())
    (version,) = versions.folder("other").iterdir()
    version.rename(version.with_name("1700000000000000001.json"))
    with pytest.raises(PipelineError):
        versions.read("doc", name)


def test_one_that_cannot_be_read_is_listed_with_its_problem(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(pipeline(box("a", "Make", text="x"), name="doc"))
    assert tab.document is not None
    tab.say(Save(document=tab.document, overwrite=False))
    edit = Op(path=["nodes", "a", "params", "text"], value="y", remove=False)
    tab.say(MakeEdit(document=tab.document, edit="e", ops=[edit]))
    tab.say(KeepDraft(document=tab.document))
    (first,) = (p for p in (workspace.root / "versions" / "doc").iterdir() if "unsaved" not in p.name)
    tab.say(ListVersions(request=1, document=tab.document))
    assert [(v.unsaved, v.nodes, v.problem) for v in tab.last(Listed).versions] == [(True, 1, ""), (False, 1, "")]
    tab.say(ReadVersion(request=2, document=tab.document, version=Path(first).stem))
    read = tab.last(VersionRead)
    assert read.doc is not None
    assert read.doc.nodes["a"].params["text"] == "x"
    first.write_text("{")
    tab.say(ListVersions(request=3, document=tab.document))
    assert "not valid JSON" in tab.last(Listed).versions[1].problem
    tab.say(ReadVersion(request=4, document=tab.document, version=Path(first).stem))
    assert tab.last(VersionRead).doc is None


def test_they_follow_a_rename_after_the_file_was_deleted_by_another_program(
    open_tab: OpenTab, workspace: Workspace
) -> None:
    tab = open_tab(pipeline(box("a", "Make", text="x"), name="alpha"))
    tab.say(Save(document="alpha", overwrite=False))
    (workspace.pipelines / "alpha.json").unlink()
    tab.say(Rename(document="alpha", name="beta"))
    tab.say(ListVersions(request=1, document="beta"))
    assert len(tab.last(Listed).versions) == 1
    # Another pipeline of the old name begins with none.
    assert Versions(workspace).listed("alpha") == []


def test_they_stay_with_a_file_of_the_old_name_that_another_program_has_made(
    open_tab: OpenTab, workspace: Workspace
) -> None:
    tab = open_tab(pipeline(box("a", "Make", text="x"), name="alpha"))
    Library(workspace).write("alpha", pipeline(box("b", "Make"), name="alpha"), None)
    tab.say(Rename(document="alpha", name="beta"))
    versions = Versions(workspace)
    assert (tab.document, versions.listed("beta")) == ("beta", [])
    assert [versions.read("alpha", item.name).nodes[0].id for item in versions.listed("alpha")] == ["b"]
