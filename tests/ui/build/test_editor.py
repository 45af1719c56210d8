"""Documents through a tab's eyes: opened, edited, saved, renamed, copied, deleted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from building import box, pipeline
from canvas_tab import OpenTab, Tab

from engine.document.find import find_pipeline, shipped_pipelines
from engine.document.pipeline import Pipeline, dump, load, write_pipeline
from engine.workspace import Workspace
from ui.build.editor import Editor
from ui.build.open_documents import OpenDocuments
from ui.protocol.commands import (
    Browse,
    Delete,
    Duplicate,
    Export,
    Import,
    MakeEdit,
    NewDocument,
    OpenDocument,
    Rename,
    Revert,
    Save,
    SaveAs,
)
from ui.protocol.document import Op
from ui.protocol.notices import Edited, Exported, FileState, Library, Listing, Opened, Welcome


def _two() -> Pipeline:
    return pipeline(box("a", "Make", text="x"), box("b", "Join"), wires="a.out>b.first", name="My Pipeline")


def _file(tab: Tab) -> tuple[bool, str]:
    state = tab.last(FileState)
    assert state.document == tab.document
    return state.dirty, state.disk


def _save(tab: Tab, overwrite: bool = False) -> Tab:
    assert tab.document is not None
    return tab.say(Save(document=tab.document, overwrite=overwrite))


def _names(tab: Tab) -> dict[str, bool]:
    return {p.name: p.unsaved for p in tab.last(Library).pipelines}


# --- coming in ---------------------------------------------------------------------------------


def test_the_first_tab_of_a_workspace_shows_the_quickstart_unsaved(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab()
    assert tab.last(Welcome).types
    assert tab.document == "quickstart"
    assert dump(tab.pipeline) == dump(find_pipeline("quickstart", workspace))
    assert _file(tab) == (True, "new")
    assert _names(tab) == {"quickstart": True}
    assert [t.template for t in tab.last(Library).templates] == sorted(shipped_pipelines())
    # A second tab opens the same one, not another.
    assert open_tab(client="second").document == "quickstart"


def test_a_tab_opens_what_its_address_says_else_what_was_open_last(open_tab: OpenTab) -> None:
    first = open_tab(_two())
    open_tab(pipeline(name="other"), client="second")
    assert open_tab(client="third").document == "other"
    assert open_tab(address="my-pipeline", client="fourth").document == first.document
    gone = open_tab(address="never-was", client="fifth")
    assert gone.document == "my-pipeline"
    assert "there is no pipeline never-was" in gone.messages[0]


def test_the_address_may_name_a_template_of_which_a_copy_is_opened(
    open_tab: OpenTab, workspace: Workspace, documents: OpenDocuments
) -> None:
    tab = open_tab(address="volumes-to-resnet")
    assert tab.document == "volumes-to-resnet"
    assert dump(tab.pipeline) == dump(find_pipeline("volumes-to-resnet", workspace))
    assert not tab.messages
    # A pipeline of one's own that is called so is what is meant from then on.
    tab.editor.leave()
    tab.meet(Editor(documents, address="volumes-to-resnet"))
    assert tab.document == "volumes-to-resnet"
    assert len(tab.last(Library).pipelines) == 1
    # A canvas that comes back to what was deleted meanwhile is not given a template instead.
    tab.say(Delete(document="volumes-to-resnet"))
    tab.document = "volumes-to-resnet"
    tab.meet(Editor(documents, address="volumes-to-resnet"))
    assert tab.document == "quickstart"


def test_another_page_of_the_app_may_have_a_document_shown(documents: OpenDocuments, open_tab: OpenTab) -> None:
    tab = open_tab(_two())
    other = documents.add(pipeline(name="other")).document.id
    tab.editor.open(other)
    assert tab.turn().document == "other"
    tab.editor.open("none")
    tab.turn()
    assert tab.document == "other"
    assert "there is no pipeline none" in tab.messages[-1]
    # Before the canvas has said hello.
    fresh = Editor(documents)
    fresh.open("my-pipeline")
    assert Tab(fresh, "fresh").document == "my-pipeline"


def test_a_broken_file_is_reported_and_another_document_shown(open_tab: OpenTab, workspace: Workspace) -> None:
    (workspace.pipelines / "broken.json").write_text('{"name": "broken", "nodez": []}')
    tab = open_tab()
    assert tab.document == "quickstart"
    assert "nodez" in next(p.problem for p in tab.last(Library).pipelines if p.document == "broken")
    tab.say(OpenDocument(document="broken"))
    assert "nodez" in tab.messages[-1]
    # A path is no document, and what lies there stays as it is.
    for path in ("../../etc/passwd", "../pipelines/broken", "../workspace", ".handled"):
        tab.say(OpenDocument(document=path)).say(Delete(document=path))
        assert re.search("is not the name of a pipeline|there is no pipeline", tab.messages[-2])
        assert re.search("is not the name of a pipeline|there is no pipeline", tab.messages[-1])
    assert (workspace.pipelines / "broken.json").exists()
    assert (workspace.root / "workspace.json").exists()
    assert tab.document == "quickstart"


# --- editing and saving ------------------------------------------------------------------------


def test_edits_come_back_as_their_acknowledgement_and_are_kept_at_once(
    open_tab: OpenTab, documents: OpenDocuments
) -> None:
    tab = open_tab(_two())
    tab.set("nodes", "a", "params", "text", to="<script>alert('ü')</script>")
    edited = tab.last(Edited)
    assert (edited.rev, edited.edit, tab.unhandled) == (1, "page-2", [])
    draft = documents.drafts.read("my-pipeline")
    assert draft is not None
    assert draft.pipeline == tab.pipeline
    assert draft.pipeline.nodes[0].params == {"text": "<script>alert('ü')</script>"}


def test_saving_writes_the_command_lines_bytes_and_ends_the_draft(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(_two())
    path = workspace.pipelines / "my-pipeline.json"
    assert not path.exists()
    _save(tab)
    assert path.read_text() == dump(_two())
    assert _file(tab) == (False, "same")
    assert tab.messages == ["success: Saved"]
    assert _names(tab) == {"My Pipeline": False}
    assert not (workspace.root / "drafts" / "my-pipeline.json").exists()
    tab.set("description", to="more")
    assert _file(tab) == (True, "same")
    assert _names(tab) == {"My Pipeline": True}
    # Undone by hand: nothing to save.
    tab.set("description", to="")
    assert _file(tab) == (False, "same")
    assert _names(tab) == {"My Pipeline": False}
    _save(tab.set("nodes", "a", "title", to="First"))
    assert find_pipeline("my-pipeline", workspace).nodes[0].title == "First"


def test_a_refused_edit_is_reported_and_the_tab_takes_the_document_anew(open_tab: OpenTab) -> None:
    tab = open_tab(_two())
    before = tab.pipeline
    tab.edit(
        Op(path=["nodes", "a", "title"], value="half of it", remove=False),
        Op(path=["nodes", "A"], value=tab.doc.nodes["a"].model_dump(), remove=False),  # type: ignore[union-attr]
        edit="refused",
    )
    assert "differs from it only by case" in tab.messages[-1]
    assert tab.pipeline == before
    assert "refused" in tab.last(Opened).edits
    assert tab.all(Edited) == []
    assert tab.unhandled == []


def test_an_edit_sent_twice_counts_once(open_tab: OpenTab) -> None:
    tab = open_tab(_two())
    tab.edit(Op(path=["description"], value="once", remove=False), edit="e1")
    tab.set("description", to="later")
    tab.edit(Op(path=["description"], value="once", remove=False), edit="e1")
    assert tab.pipeline.description == "later"
    assert [e.edit for e in tab.all(Edited)] == ["e1", "page-3"]


@pytest.mark.slow
def test_someone_elses_change_of_the_file_is_noticed_and_not_overwritten(
    open_tab: OpenTab, workspace: Workspace
) -> None:
    tab = open_tab(_two())
    _save(tab).set("description", to="mine")
    path = workspace.pipelines / "my-pipeline.json"
    theirs = pipeline(box("theirs", "Make"), name="My Pipeline")
    write_pipeline(theirs, path)
    tab.wait_for(FileState, lambda s: s.disk == "changed")
    _save(tab)
    assert "changed by someone else" in tab.messages[-1]
    assert load(path.read_text()) == theirs
    tab.say(Revert(document="my-pipeline"))
    assert tab.pipeline == theirs
    assert _file(tab) == (False, "same")
    # What was dropped is not gone.
    [kept] = (workspace.root / "trash").glob("my-pipeline-unsaved-*.json")
    assert load(kept.read_text()).description == "mine"
    tab.set("description", to="again mine")
    path.unlink()
    tab.wait_for(FileState, lambda s: s.disk == "deleted")
    assert "deleted since" in _save(tab).messages[-1]
    _save(tab, overwrite=True)
    assert _file(tab) == (False, "same")
    assert load(path.read_text()).description == "again mine"


@pytest.mark.slow
def test_a_change_that_says_the_same_is_none(
    open_tab: OpenTab, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.build.shared_document.LOOK_AT_DISK_S", 0.05)
    tab = open_tab(_two())
    _save(tab).set("description", to="both of us")
    write_pipeline(tab.pipeline, workspace.pipelines / "my-pipeline.json")
    tab.wait(lambda: _file(tab) == (False, "same"))
    assert "changed" not in {s.disk for s in tab.all(FileState)}


def test_a_file_that_changed_while_nobody_had_it_open_is_taken(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(_two())
    _save(tab)
    tab.editor.leave()
    write_pipeline(pipeline(name="My Pipeline"), workspace.pipelines / "my-pipeline.json")
    second = open_tab(address="my-pipeline", client="second")
    assert second.pipeline == pipeline(name="My Pipeline")
    assert _file(second) == (False, "same")


def test_a_file_that_was_broken_while_nobody_had_it_open_leaves_the_tab_with_what_it_shows(
    open_tab: OpenTab, documents: OpenDocuments, workspace: Workspace
) -> None:
    documents.add(pipeline(name="other")).document.save()
    tab = open_tab(_two())
    (workspace.pipelines / "other.json").write_text("{")
    tab.say(OpenDocument(document="other"))
    assert "other.json is not valid JSON" in tab.messages[-1]
    tab.set("description", to="goes on")
    assert (tab.document, tab.pipeline.description) == ("my-pipeline", "goes on")


def test_a_tab_that_comes_in_shows_another_where_the_last_one_was_broken_meanwhile(
    open_tab: OpenTab, workspace: Workspace
) -> None:
    tab = open_tab(_two())
    _save(tab)
    tab.editor.leave()
    (workspace.pipelines / "my-pipeline.json").write_text("{")
    assert open_tab(client="second").document == "quickstart"
    named = open_tab(client="third", address="my-pipeline")
    assert named.document == "quickstart"
    assert "my-pipeline.json is not valid JSON" in named.messages[0]


def test_reverting_a_document_without_a_file_is_refused(open_tab: OpenTab) -> None:
    tab = open_tab(_two())
    tab.set("description", to="kept").say(Revert(document="my-pipeline"))
    assert "is not there" in tab.messages[-1]
    assert tab.pipeline.description == "kept"


# --- whole documents ---------------------------------------------------------------------------


def test_save_as_goes_on_with_the_copy_and_leaves_the_first_as_it_was(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(_two())
    _save(tab).set("description", to="second thoughts")
    tab.say(SaveAs(document="my-pipeline", name="Second / Thoughts"))
    assert tab.document == "second-thoughts"
    assert _file(tab) == (False, "same")
    assert find_pipeline("second-thoughts", workspace).description == "second thoughts"
    assert find_pipeline("my-pipeline", workspace) == _two()
    assert _names(tab) == {"My Pipeline": False, "Second / Thoughts": False}


def test_save_as_of_a_new_document_is_its_first_save(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(_two())
    tab.say(SaveAs(document="my-pipeline", name="My Pipeline"))
    assert tab.document == "my-pipeline"
    assert _file(tab) == (False, "same")
    other = open_tab(pipeline(name="draft"), client="second")
    other.say(SaveAs(document="draft", name="Final"))
    assert other.document == "final"
    assert _names(other) == {"My Pipeline": False, "Final": False}
    assert {p.name for p in workspace.pipelines.iterdir()} == {"my-pipeline.json", "final.json"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "   ", "x" * 301, "half a smile \ud83d", "Other"])
def test_a_name_that_cannot_be_is_refused(open_tab: OpenTab, name: str) -> None:
    open_tab(pipeline(name="Other"), client="second")
    tab = open_tab(_two())
    for command in (SaveAs(document="my-pipeline", name=name), Rename(document="my-pipeline", name=name)):
        tab.say(command)
        assert tab.messages[-1].startswith("error: "), tab.messages
    assert (tab.document, tab.pipeline.name) == ("my-pipeline", "My Pipeline")


def test_renaming_moves_file_and_draft(open_tab: OpenTab, workspace: Workspace, documents: OpenDocuments) -> None:
    tab = open_tab(_two())
    _save(tab).set("description", to="unsaved")
    tab.say(Rename(document="my-pipeline", name="<script>alert(1)</script>"))
    assert tab.document == "script-alert-1-script"
    assert tab.pipeline.name == "<script>alert(1)</script>"
    assert _file(tab) == (True, "same")
    assert [p.name for p in workspace.pipelines.iterdir()] == ["script-alert-1-script.json"]
    saved = find_pipeline("script-alert-1-script", workspace)
    assert (saved.name, saved.description) == ("<script>alert(1)</script>", "")
    assert documents.drafts.documents() == ["script-alert-1-script"]
    # An edit that was on its way under the old id arrives.
    tab.say(MakeEdit(document="my-pipeline", edit="late", ops=[Op(path=["ui", "k"], value=1, remove=False)]))
    assert tab.pipeline.ui == {"k": 1}
    # A new pipeline may take the old name.
    assert open_tab(_two(), client="second").document == "my-pipeline"
    tab.say(Rename(document="script-alert-1-script", name="Script alert 1 script"))
    assert (tab.document, tab.pipeline.name) == ("script-alert-1-script", "Script alert 1 script")


def test_renaming_what_was_never_saved_moves_the_draft_alone(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(_two())
    # Meanwhile someone made a file of that name: it is not ours to move.
    write_pipeline(pipeline(name="theirs"), workspace.pipelines / "my-pipeline.json")
    tab.say(Rename(document="my-pipeline", name="Mine"))
    assert (tab.document, _file(tab)) == ("mine", (True, "new"))
    assert find_pipeline("my-pipeline", workspace).name == "theirs"


@pytest.mark.slow
def test_a_copy_is_saved_under_a_name_of_its_own(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(_two())
    tab.set("description", to="as it stands").say(Duplicate(document="my-pipeline"))
    assert (tab.document, tab.pipeline.name) == ("my-pipeline-copy", "My Pipeline copy")
    assert find_pipeline("my-pipeline-copy", workspace).description == "as it stands"
    tab.say(Duplicate(document="my-pipeline"))
    assert tab.pipeline.name == "My Pipeline copy 2"
    assert _names(tab) == {"My Pipeline": True, "My Pipeline copy": False, "My Pipeline copy 2": False}


@pytest.mark.slow
def test_deleting_moves_file_and_draft_to_the_trash_and_opens_another(open_tab: OpenTab, workspace: Workspace) -> None:
    other = open_tab(pipeline(name="other"))
    tab = open_tab(_two(), client="second")
    _save(tab).set("description", to="unsaved")
    tab.say(Delete(document="my-pipeline"))
    assert "Deleted My Pipeline" in tab.messages[-1]
    assert tab.document == "other"
    assert _names(other.turn()) == {"other": True}
    kept = {load(p.read_text()).description for p in (workspace.root / "trash").iterdir()}
    assert kept == {"", "unsaved"}
    tab.say(OpenDocument(document="my-pipeline"))
    assert "there is no pipeline my-pipeline" in tab.messages[-1]
    tab.say(Delete(document="my-pipeline"))
    assert "there is no pipeline my-pipeline" in tab.messages[-1]
    # The last one: a workspace is never without a document.
    tab.say(Delete(document="other"))
    assert tab.document == "quickstart"
    # The tab that had it open keeps what it shows and may save it.
    assert _file(other.turn()) == (True, "new")
    _save(other.set("description", to="still here"))
    assert find_pipeline("other", workspace).description == "still here"
    assert _names(tab.turn()) == {"other": False, "quickstart": True}


def test_new_ones_are_empty_or_from_a_template(open_tab: OpenTab) -> None:
    tab = open_tab()
    for template, document, nodes in (
        (None, "untitled", 0),
        (None, "untitled-2", 0),
        ("volumes-to-resnet", "volumes-to-resnet", 5),
        ("quickstart", "quickstart-2", 5),
    ):
        tab.say(NewDocument(template=template))
        assert tab.document == document
        assert bool(tab.pipeline.nodes) == bool(nodes)
    assert tab.pipeline.name == "quickstart 2"
    tab.say(NewDocument(template="none"))
    assert "no template none" in tab.messages[-1]


def test_export_gives_the_canonical_text_and_import_takes_it(open_tab: OpenTab) -> None:
    tab = open_tab(_two())
    tab.set("description", to="unsaved too").say(Export(document="my-pipeline"))
    exported = tab.last(Exported)
    assert (exported.name, exported.text) == ("my-pipeline.json", dump(tab.pipeline))
    tab.say(Import(name="from-elsewhere.json", text=exported.text))
    assert (tab.document, tab.pipeline.name) == ("my-pipeline-2", "My Pipeline 2")
    assert tab.pipeline.nodes == _two().nodes
    assert _file(tab) == (True, "new")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not valid JSON"),
        ("<html>", "not valid JSON"),
        ("[]", "top level must be an object"),
        ('{"name": "x", "schema_version": 99}', "reads up to 1"),
        ('{"name": "x", "nodes": [{"id": "a", "type": "T", "position": {"x": NaN}}]}', "NaN and infinity"),
    ],
)
def test_a_file_that_is_no_pipeline_is_reported(open_tab: OpenTab, text: str, expected: str) -> None:
    tab = open_tab(_two())
    tab.say(Import(name="<b>x.json", text=text))
    assert "<b>x.json" in tab.messages[-1]
    assert expected in tab.messages[-1]
    assert tab.document == "my-pipeline"


def test_folders_are_listed_on_request(open_tab: OpenTab, tmp_path: Path) -> None:
    (tmp_path / "volumes").mkdir()
    tab = open_tab(_two())
    tab.say(Browse(request=3, path=str(tmp_path)))
    found = tab.wait_for(Listing, lambda n: n.request == 3)
    assert "volumes" in [e.name for e in found.entries]
    tab.say(Browse(request=4, path="~no such user/volumes"))
    assert tab.wait_for(Listing, lambda n: n.request == 4).problem == "~no such user/volumes: there is no such folder"
