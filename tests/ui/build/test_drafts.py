from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from building import box, pipeline

from engine.document.pipeline import dump
from engine.errors import PipelineError, WorkspaceError
from engine.workspace import Workspace
from ui.build.drafts import KEPT_EDITS, Base, Drafts, digest


def test_a_draft_is_found_by_whoever_comes_next(workspace: Workspace) -> None:
    document = pipeline(box("a", "Make", text="<b>ü</b>"))
    base = Base(file="1", text=digest(dump(document)))
    Drafts(workspace).write("doc", dump(document), base, 7, ["e1", "e2"])
    drafts = Drafts(workspace)
    assert drafts.documents() == ["doc"]
    found = drafts.read("doc")
    assert found is not None
    assert (found.pipeline, found.base, found.rev, found.edits) == (document, base, 7, ("e1", "e2"))
    assert not found.unsaved
    drafts.write("doc", dump(document.model_copy(update={"name": "other"})), base, 8, [])
    again = drafts.read("doc")
    assert again is not None
    assert again.unsaved
    drafts.remove("doc")
    assert (drafts.read("doc"), drafts.documents()) == (None, [])
    drafts.remove("doc")


def test_it_is_whole_at_any_moment_and_leaves_nothing_beside(workspace: Workspace) -> None:
    drafts = Drafts(workspace)
    drafts.write("doc", dump(pipeline()), None, 1, [])
    drafts.write("doc", dump(pipeline(name="second")), None, 2, [])
    drafts.remember_opened("doc")
    assert sorted(p.name for p in drafts.folder.iterdir()) == [".last-opened.json", "doc.json"]
    assert drafts.last_opened() == "doc"


def test_only_the_latest_edits_are_remembered(workspace: Workspace) -> None:
    drafts = Drafts(workspace)
    drafts.write("doc", dump(pipeline()), None, 1, [str(i) for i in range(KEPT_EDITS + 10)])
    found = drafts.read("doc")
    assert found is not None
    assert (len(found.edits), found.edits[-1]) == (KEPT_EDITS, str(KEPT_EDITS + 9))


@pytest.mark.parametrize(
    "held", ["", "{", "[]", '{"format": 1}', "\xff\xfe", '{"format":1,"rev":1,"edits":[],"base":null,"pipeline":"{}"}']
)
def test_a_damaged_draft_is_reported_and_kept_aside(workspace: Workspace, held: str) -> None:
    drafts = Drafts(workspace)
    drafts.folder.mkdir()
    (drafts.folder / "doc.damaged-1").write_text("an older one")
    (drafts.folder / "doc.json").write_bytes(held.encode("latin-1"))
    with pytest.raises(PipelineError, match="damaged") as caught:
        drafts.read("doc")
    kept = drafts.folder / "doc.damaged-2"
    assert str(kept) in caught.value.hint
    assert kept.read_bytes() == held.encode("latin-1")
    assert drafts.read("doc") is None
    assert drafts.documents() == []


def test_a_damaged_draft_that_cannot_be_set_aside_is_reported_with_its_name(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts = Drafts(workspace)
    drafts.folder.mkdir()
    path = drafts.folder / "doc.json"
    path.write_text("{")

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(PipelineError, match="damaged") as caught:
        drafts.read("doc")
    assert f"overwrites {path}, which cannot be renamed (Permission denied): copy it" in caught.value.hint


def test_two_drafts_within_one_tick_of_the_clock_are_told_apart(workspace: Workspace) -> None:
    drafts = Drafts(workspace)
    for name in ("one", "two"):
        drafts.write("doc", dump(pipeline(name=name)), None, 1, [])
        os.utime(drafts.folder / "doc.json", ns=(10**18, 10**18))
        found = drafts.read("doc")
        assert found is not None
        assert found.pipeline.name == name


@pytest.mark.parametrize("held", ["{", "17", '"../up"', "\xff"])
def test_a_damaged_memory_of_the_last_document_is_none(workspace: Workspace, held: str) -> None:
    drafts = Drafts(workspace)
    drafts.folder.mkdir()
    (drafts.folder / ".last-opened.json").write_text(held, encoding="latin-1")
    assert drafts.last_opened() is None


def test_a_folder_that_cannot_be_written_is_reported(workspace: Workspace) -> None:
    drafts = Drafts(workspace)
    Path(drafts.folder).write_text("a file where the folder should be")
    with pytest.raises(WorkspaceError, match="cannot be kept"):
        drafts.write("doc", dump(pipeline()), None, 1, [])
    os.unlink(drafts.folder)
    drafts.write("doc", dump(pipeline()), None, 1, [])
