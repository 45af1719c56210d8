"""Several tabs on one document, and a server that goes away."""

from __future__ import annotations

import errno
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from building import box, pipeline
from canvas_tab import OpenTab, Tab
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import wait_until

from engine.document.pipeline import Pipeline, dump, load
from engine.errors import WorkspaceError
from engine.workspace import Workspace
from ui.build import library
from ui.build.editor import Editor
from ui.build.open_documents import OpenDocuments
from ui.build.shared_document import Member, SharedDocument
from ui.protocol.commands import (
    Delete,
    Duplicate,
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
from ui.protocol.link import Sent
from ui.protocol.notices import Edited, FileState, Library, Message, Opened, Others

NODES = ("a", "b", "c")


def _two() -> Pipeline:
    return pipeline(box("a", "Make", text="x"), box("b", "Join"), wires="a.out>b.first", name="shared")


def test_two_tabs_see_each_other_and_keep_both_works(open_tab: OpenTab) -> None:
    one = open_tab(_two())
    two = open_tab(address="shared", client="second")
    assert (one.turn().last(Others).count, two.last(Others).count) == (1, 1)
    one.set("nodes", "a", "params", "text", to="from one")
    two.set("nodes", "b", "title", to="from two")
    assert one.turn().pipeline == two.turn().pipeline
    assert (one.pipeline.nodes[0].params["text"], one.pipeline.nodes[1].title) == ("from one", "from two")
    # The same field: the later one wins, in both.
    one.set("nodes", "a", "params", "text", to="1")
    two.set("nodes", "a", "params", "text", to="2")
    assert one.turn().pipeline == two.pipeline
    assert one.pipeline.nodes[0].params["text"] == "2"
    # One removes what the other is at work on.
    one.edit(Op(path=["nodes", "a"], value=None, remove=True))
    two.set("nodes", "a", "params", "text", to="too late")
    assert [n.id for n in one.turn().pipeline.nodes] == ["b"]
    assert one.pipeline == two.turn().pipeline


@pytest.mark.parametrize("first", ["remove", "connect"])
def test_a_removal_and_a_wire_that_cross_leave_no_wire_into_nowhere(open_tab: OpenTab, first: str) -> None:
    one = open_tab(_two())
    two = open_tab(address="shared", client="second")
    wire = {"source": "b.out", "target": "a.in", "order": 1}
    removal = Op(path=["nodes", "b"], value=None, remove=True)
    connection = Op(path=["edges", "b.out->a.in"], value=wire, remove=False)
    for tab, op in [(one, removal), (two, connection)] if first == "remove" else [(two, connection), (one, removal)]:
        tab.edit(op)
    assert one.turn().pipeline == two.turn().pipeline
    assert ([n.id for n in one.pipeline.nodes], one.pipeline.edges) == (["a"], ())


edits = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["set", "remove", "add", "title", "turn"]),
    st.sampled_from(NODES),
    st.integers(0, 3),
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(edits, max_size=25))
def test_tabs_that_edit_in_any_order_end_with_the_same_document(
    open_tab: OpenTab, documents: OpenDocuments, steps: list[tuple[int, str, str, int]]
) -> None:
    document = documents.add(_two()).document.id
    tabs = [open_tab(address=document, client=f"{document}-{i}") for i in range(3)]
    for tab, kind, node, number in steps:
        who = tabs[tab]
        match kind:
            case "set":
                who.set("nodes", node, "params", f"p{number}", to=number)
            case "remove":
                who.edit(Op(path=["nodes", node], value=None, remove=True))
            case "add":
                assert tabs[0].doc is not None
                who.set("nodes", node, to={
                    "type": "Make", "version": None, "title": str(number), "params": {}, "retries": 0,
                    "position": {"x": number, "y": 0}, "timeout_s": None, "ui": {}, "order": number,
                })  # fmt: skip
            case "title":
                who.set("nodes", node, "title", to=str(number))
            case "turn":
                who.turn()
    texts = {dump(tab.turn().pipeline) for tab in tabs}
    assert texts == {dump(documents.open(document).document.pipeline)}
    for tab in tabs:
        tab.editor.leave()


@pytest.mark.slow
def test_tabs_on_threads_of_their_own_end_with_the_same_document(open_tab: OpenTab, documents: OpenDocuments) -> None:
    tabs = [open_tab(_two()), *(open_tab(address="shared", client=f"t{i}") for i in range(3))]

    def work(tab: Tab, seed: int) -> None:
        rng = random.Random(seed)
        for i in range(40):
            tab.set("nodes", rng.choice("ab"), "params", f"p{rng.randrange(3)}", to=f"{tab.client}-{i}")

    threads = [threading.Thread(target=work, args=(tab, i)) for i, tab in enumerate(tabs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({dump(tab.turn().pipeline) for tab in tabs}) == 1
    assert tabs[0].rev == 160
    draft = documents.drafts.read("shared")
    assert draft is not None
    assert draft.pipeline == tabs[0].pipeline


def test_what_one_does_with_the_document_the_other_hears(open_tab: OpenTab) -> None:
    one = open_tab(_two())
    two = open_tab(address="shared", client="second")
    one.say(Rename(document="shared", name="Renamed"))
    assert (two.turn().document, two.pipeline.name) == ("renamed", "Renamed")
    two.set("description", to="by two")
    one.say(Save(document="renamed", overwrite=False))
    assert [p.unsaved for p in two.turn().last(Library).pipelines] == [False]
    # A copy under another name leaves the other tab where it is.
    two.set("description", to="more by two")
    one.say(SaveAs(document="renamed", name="Copy"))
    assert (one.document, two.turn().document) == ("copy", "renamed")
    assert two.pipeline.description == "more by two"
    assert two.last(Others).count == 0


def test_a_rename_whose_draft_cannot_be_kept_is_one_and_is_seen_by_all(
    open_tab: OpenTab, documents: OpenDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = open_tab(_two())
    two = open_tab(address="shared", client="second")
    one.say(Save(document="shared", overwrite=False)).set("description", to="unsaved")

    def full(*_: object) -> None:
        raise WorkspaceError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(documents.drafts, "write", full)
        one.say(Rename(document="shared", name="Renamed"))
    assert one.last(Message).text == "no space left"
    assert [(tab.turn().document, tab.pipeline.name) for tab in (one, two)] == [("renamed", "Renamed")] * 2
    two.set("ui", "x", to=1)
    draft = documents.drafts.read("renamed")
    assert draft is not None
    assert draft.pipeline.description == "unsaved"


@pytest.mark.slow
def test_what_one_edits_while_the_other_reverts_is_in_the_document_or_in_the_trash(
    open_tab: OpenTab, workspace: Workspace
) -> None:
    one = open_tab(_two())
    two = open_tab(address="shared", client="second")
    one.say(Save(document="shared", overwrite=False))

    def work() -> None:
        for i in range(150):
            two.set("ui", f"edit-{i}", to=i)

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        one.say(Revert(document="shared"))
    thread.join()
    kept = [load(p.read_text()) for p in (workspace.root / "trash").iterdir()]
    assert one.turn().pipeline == two.turn().pipeline
    assert {key for p in [one.pipeline, *kept] for key in p.ui} == {f"edit-{i}" for i in range(150)}


def test_a_copy_leaves_the_draft_that_has_more_than_the_copy(open_tab: OpenTab, documents: OpenDocuments) -> None:
    tab = open_tab(_two())
    tab.say(Save(document="shared", overwrite=False)).set("description", to="copied")
    shared = documents.open("shared").document
    copy = shared.pipeline.model_copy(update={"name": "as"})
    shared.drop_draft(copy)
    assert shared.unsaved, "a tab shows it"
    tab.set("description", to="more")
    tab.editor.leave()
    shared.drop_draft(copy)
    assert shared.pipeline.description == "more"
    shared.drop_draft(shared.pipeline.model_copy(update={"name": "as"}))
    assert (shared.pipeline.description, documents.drafts.documents()) == ("", [])


@pytest.mark.slow
def test_threads_end_when_the_last_tab_is_gone(open_tab: OpenTab, documents: OpenDocuments) -> None:
    tab = open_tab(_two())
    opened = documents.open("shared")
    loop = opened.runs._loop
    loop._linger_s = 0.05
    assert loop.alive
    tab.editor.leave()
    wait_until(lambda: not loop.alive, "the end of the thread")
    # And begin again when someone comes.
    tab.turn()
    assert loop.alive


# --- the server goes away ----------------------------------------------------------------------


@pytest.mark.slow
def test_unsaved_changes_survive_a_restart_and_nothing_is_done_twice(
    open_tab: OpenTab, documents: OpenDocuments, serve: Callable[[], OpenDocuments]
) -> None:
    tab = open_tab(_two())
    tab.set("nodes", "a", "params", "text", to="unsaved")
    # The server applies two edits and goes before the browser hears of it.
    lost = [
        MakeEdit(document="shared", edit=f"e{i}", ops=[Op(path=["ui", f"k{i}"], value=i, remove=False)]) for i in (1, 2)
    ]
    for command in lost:
        tab.unhandled.append(Sent(n=tab.next, command=command))
        tab.next += 1
    outbox = {"client": tab.client, "session": tab.session, "seen": tab.seen}
    tab.editor.handle({**outbox, "sent": [s.model_dump(mode="json") for s in tab.unhandled]})
    assert documents.open("shared").document.pipeline.ui == {"k1": 1, "k2": 2}
    documents.close()
    again = serve()
    tab.meet(Editor(again))
    assert tab.document == "shared"
    assert tab.unhandled == []
    assert {"e1", "e2"} <= set(tab.last(Opened).edits)
    assert (tab.pipeline.nodes[0].params["text"], tab.pipeline.ui) == ("unsaved", {"k1": 1, "k2": 2})
    assert not [e for e in tab.all(Edited) if e.edit in ("e1", "e2")]
    # A reload of the page is a new client; it finds the same.
    assert open_tab(server=again, client="reloaded").pipeline == tab.pipeline


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        Duplicate(document="shared"),
        NewDocument(template=None),
        Import(name="x", text='{"name": "shared"}'),
        SaveAs(document="shared", name="as"),
    ],
)
def test_what_makes_a_document_makes_one_also_when_it_is_sent_again_after_a_restart(
    open_tab: OpenTab,
    documents: OpenDocuments,
    serve: Callable[[], OpenDocuments],
    command: object,
    workspace: Workspace,
) -> None:
    tab = open_tab(_two())
    tab.say(Save(document="shared", overwrite=False))
    sent = Sent(n=tab.next, command=command)  # type: ignore[arg-type]
    tab.next += 1
    tab.unhandled.append(sent)
    outbox = {"client": tab.client, "session": tab.session, "seen": tab.seen, "sent": [sent.model_dump(mode="json")]}
    tab.editor.handle(outbox)
    documents.close()
    tab.meet(Editor(serve()))
    assert len(tab.last(Library).pipelines) == 2
    assert tab.unhandled == []


def test_a_command_is_done_once_by_two_sessions_of_one_page(open_tab: OpenTab, documents: OpenDocuments) -> None:
    tab = open_tab(_two())
    sent = Sent(n=tab.next, command=Duplicate(document="shared"))
    tab.next += 1
    tab.unhandled.append(sent)
    outbox = {"client": tab.client, "session": tab.session, "seen": tab.seen, "sent": [sent.model_dump(mode="json")]}
    # The connection breaks; Streamlit makes a new session and hands it the page's last value.
    tab.editor.handle(json.loads(json.dumps(outbox)))
    fresh = Editor(documents)
    fresh.handle(outbox)
    tab.meet(fresh)
    assert len(tab.last(Library).pipelines) == 2


def test_a_damaged_draft_is_reported_and_the_file_shown(
    open_tab: OpenTab, documents: OpenDocuments, serve: Callable[[], OpenDocuments]
) -> None:
    tab = open_tab(_two())
    tab.say(Save(document="shared", overwrite=False)).set("description", to="lost")
    documents.close()
    (documents.drafts.folder / "shared.json").write_text("{ not whole")
    tab = open_tab(server=serve(), client="reloaded")
    assert (tab.document, tab.pipeline.description) == ("shared", "")
    assert "damaged" in tab.messages[0]
    assert (documents.drafts.folder / "shared.damaged-1").read_text() == "{ not whole"


def test_a_disk_that_takes_no_draft_is_reported_and_the_work_goes_on(
    open_tab: OpenTab, documents: OpenDocuments
) -> None:
    tab = open_tab(_two())
    (documents.drafts.folder / "shared.json").unlink()
    (documents.drafts.folder / "shared.json").mkdir()
    tab.set("description", to="not kept")
    assert "cannot be kept" in tab.messages[-1]
    assert tab.pipeline.description == "not kept"
    tab.say(Save(document="shared", overwrite=False))
    assert "cannot be removed" in tab.messages[-1]
    saved = documents.files.read("shared")
    assert saved is not None
    assert saved.pipeline.description == "not kept"


@pytest.mark.parametrize("command", [Revert(document="shared"), Delete(document="shared")])
def test_what_cannot_be_kept_in_the_trash_is_not_dropped(
    open_tab: OpenTab, documents: OpenDocuments, monkeypatch: pytest.MonkeyPatch, command: Revert | Delete
) -> None:
    tab = open_tab(_two())
    tab.say(Save(document="shared", overwrite=False)).set("description", to="mine")
    other = open_tab(address="shared", client="second")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("ui.build.library.write_pipeline", full)
        tab.say(command)
    assert "the unsaved changes of shared cannot be kept" in tab.messages[-1]
    assert "No space left" in tab.messages[-1]
    assert other.turn().pipeline.description == "mine"
    draft, file = documents.drafts.read("shared"), documents.files.read("shared")
    assert draft is not None
    assert file is not None
    assert (draft.pipeline.description, file.pipeline.description) == ("mine", "")


def test_a_file_that_cannot_be_read_for_a_moment_is_neither_gone_nor_overwritten(
    open_tab: OpenTab, documents: OpenDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = open_tab(_two())
    tab.say(Save(document="shared", overwrite=False)).set("description", to="mine")
    path = documents.files.path("shared")
    path.write_text(path.read_text().replace('"shared"', '"theirs"'))
    shared = documents.open("shared").document

    def short(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("ui.build.library.read_document", short)
        tab.say(Save(document="shared", overwrite=False))
        assert "cannot be read: Too many open files" in tab.messages[-1]
        shared._looked_at = 0.0
        shared.look_at_disk()
        assert shared.disk == "same", "what was known of it last"
    assert '"theirs"' in path.read_text()
    shared._looked_at = 0.0
    shared.look_at_disk()
    assert shared.disk == "changed"


def test_a_draft_whose_file_cannot_be_read_can_be_saved_under_another_name(
    open_tab: OpenTab, documents: OpenDocuments, serve: Callable[[], OpenDocuments], monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = open_tab(_two())
    tab.say(Save(document="shared", overwrite=False)).set("description", to="mine")
    documents.close()
    read = library.read_document

    def refuse(path: Path, *more: int) -> bytes:
        if path.name == "shared.json" and path.parent.name == "pipelines":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path, *more)

    monkeypatch.setattr(library, "read_document", refuse)
    tab = open_tab(server=serve(), address="shared", client="second")
    tab.say(SaveAs(document="shared", name="other"))
    assert (tab.document, tab.pipeline.description) == ("other", "mine")
    assert "Saved as other" in tab.messages[-1]


def test_a_tab_that_leaves_as_another_reverts_shows_where_it_went(
    open_tab: OpenTab, documents: OpenDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents.add(pipeline(name="elsewhere")).document.save()
    one = open_tab(_two())
    one.say(Save(document="shared", overwrite=False))
    two = open_tab(address="shared", client="second")
    two.set("description", to="dropped")
    leave = SharedDocument.leave

    def late(shared: SharedDocument, member: Member) -> None:
        if shared.id == "shared":
            two.say(Revert(document="shared"))
        leave(shared, member)

    monkeypatch.setattr(SharedDocument, "leave", late)
    one.say(OpenDocument(document="elsewhere"))
    assert one.document == "elsewhere"
    third = open_tab(address="elsewhere", client="third")
    third.set("description", to="by the third")
    assert one.turn().pipeline.description == "by the third"
    one.set("description", to="by the first")
    assert one.pipeline.description == third.turn().pipeline.description == "by the first"


def test_a_draft_that_stays_is_reported_and_all_see_what_the_file_holds(
    open_tab: OpenTab, documents: OpenDocuments
) -> None:
    tab = open_tab(_two())
    tab.say(Save(document="shared", overwrite=False)).set("description", to="mine")
    other = open_tab(address="shared", client="second")
    (documents.drafts.folder / "shared.json").unlink()
    (documents.drafts.folder / "shared.json").mkdir()
    tab.say(Revert(document="shared"))
    assert "cannot be removed" in tab.messages[-1]
    assert (tab.pipeline.description, other.turn().pipeline.description) == ("", "")
    assert not other.last(FileState).dirty


@pytest.mark.slow
def test_a_browser_that_is_silent_for_long_gets_the_whole_document_again(open_tab: OpenTab) -> None:
    tab = open_tab(_two())
    other = open_tab(address="shared", client="second")
    for i in range(400):
        other.set("nodes", "a", "params", "text", to=str(i))
    waiting = len(json.dumps(tab.editor.inbox().model_dump(mode="json")))
    assert waiting < 50_000
    tab.turn()
    assert tab.pipeline == other.pipeline
    tab.set("description", to="still here")
    assert other.turn().pipeline.description == "still here"


def test_a_tab_that_was_thought_gone_comes_back(open_tab: OpenTab) -> None:
    tab = open_tab(_two())
    other = open_tab(address="shared", client="second")
    assert other.last(Others).count == 1
    tab.editor.leave()
    assert other.turn().last(Others).count == 0
    other.set("description", to="meanwhile")
    tab.turn()
    assert tab.pipeline.description == "meanwhile"
    assert other.turn().last(Others).count == 1
