"""Problems at once, and what a run would do when typing pauses."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from building import box, pipeline
from canvas_tab import OpenTab, Tab
from running import Runner
from volumes import write_volumes

import voxelflow
from engine.catalog import Catalog
from engine.pipeline import read_pipeline
from engine.runs import RunStore
from engine.workspace import Workspace
from ui.build import editor as editor_module
from ui.build.editor import Editor
from ui.build.rooms import Rooms
from ui.protocol.commands import Choose, MakeEdit, Recheck, Rename
from ui.protocol.document import Op
from ui.protocol.notices import Checked, Foreseen, Welcome
from ui.protocol.status import Outlook
from ui.studio_context import Studio


def _codes(tab: Tab) -> list[tuple[str, str | None, str | None]]:
    return [(p.code, p.node, p.parameter or p.port) for p in tab.last(Checked).problems]


def _foreseen(tab: Tab) -> dict[str, Outlook]:
    """What is foreseen of the document as it stands, full look included."""
    outlook = tab.editor._open.outlook  # type: ignore[union-attr]

    def now() -> bool:
        known = outlook._foreseen.get(tab.editor.profile)
        return known is not None and known.rev == tab.rev

    tab.wait(now, "foreseen")
    return tab.turn().last(Foreseen).nodes


def test_problems_come_back_with_the_answer_to_the_edit(open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a machine that is busy with other tests the checks may take longer than a person would wait.
    monkeypatch.setattr(editor_module, "_ANSWER_IN_S", 10)
    tab = open_tab(pipeline(box("a", "Make"), box("b", "Join"), name="d"))
    tab.wait_for(Checked)
    assert _codes(tab) == [("VF106", "b", "first")]
    tab.set("edges", "a.out->b.first", to={"source": "a.out", "target": "b.first", "order": 0})
    tab.wait_for(Checked, lambda c: c.rev == 1)
    assert _codes(tab) == []
    tab.set("nodes", "a", "params", "steps", to=99_999)
    assert _codes(tab) == [("VF203", "a", "steps")]
    assert tab.last(Checked).problems[0].message == "99999 is not possible: it must be at most 10000 steps"
    tab.set("nodes", "a", "type", to="Mkae")
    assert ("VF101", "a", None) in _codes(tab)
    tab.set("edges", "a.out->b.second", to={"source": "a.nix", "target": "b.first", "order": 1})
    assert "another name" in tab.told[-1]


def test_moving_a_node_asks_no_new_questions(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("a", "Make"), name="d"))
    _foreseen(tab)
    outlook = tab.editor._open.outlook  # type: ignore[union-attr]
    tab.set("nodes", "a", "position", to={"x": 5, "y": 5})
    tab.set("nodes", "a", "ui", "colour", to="red")
    assert not outlook._wanted
    tab.set("nodes", "a", "title", to="it is called")
    assert outlook._wanted


def test_a_flood_of_edits_ends_with_the_problems_of_the_last(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("a", "Make"), name="d"))
    tab.wait_for(Checked)
    for i in range(60):
        op = Op(path=["nodes", "a", "params", "steps"], value=i - 60, remove=False)
        tab.editor._do(MakeEdit(document="d", edit=str(i), ops=[op]))
    tab.wait_for(Checked, lambda c: c.rev == 60)
    assert "-1 is not possible" in tab.last(Checked).problems[0].message
    assert len(tab.all(Checked)) < 40


@pytest.mark.slow
def test_what_is_fresh_and_why_the_rest_is_not(
    open_tab: OpenTab, probes: Catalog, workspace: Workspace, store: RunStore, rooms: Rooms
) -> None:
    document = pipeline(
        box("a", "Make", steps=3), box("b", "Join"), box("c", "Grow", epochs=2), wires="a.out>b.first", name="d"
    )
    tab = open_tab(document)
    nodes = _foreseen(tab)
    assert {(o.fresh, o.reason, o.backend, o.last) for o in nodes.values()} == {
        (False, "never ran before", "embedded", None)
    }
    assert nodes.keys() == {"a", "b", "c"}
    run, _ = Runner(probes, workspace, store).run(document)
    tab.say(Recheck(document="d"))
    tab.wait_for(Foreseen, lambda f: all(o.fresh for o in f.nodes.values()))
    last = tab.last(Foreseen).nodes["a"].last
    assert last is not None
    assert (last.run_id, last.made) == (run.run_id, "steps 3")
    assert Path(last.outputs[0].uri).read_text() == "made"
    assert time.time() - last.created < 60
    # One parameter changed: it and what follows must run, and the node says what changed.
    tab.set("nodes", "a", "params", "text", to="other")
    nodes = _foreseen(tab)
    assert (nodes["a"].fresh, nodes["a"].reason) == (False, "parameter text changed made -> other")
    assert (nodes["b"].fresh, nodes["b"].reason) == (False, "input first changed")
    assert nodes["c"].fresh
    assert nodes["a"].last == last
    # A problem: the rest is foreseen all the same.
    tab.set("nodes", "c", "params", "epochs", to=1_000)
    tab.set("nodes", "a", "params", "text", to="made")
    nodes = _foreseen(tab)
    assert (nodes["a"].fresh, nodes["b"].fresh) == (True, True)
    assert nodes["c"].reason == "epochs: 1000 is not possible: it must be at most 100"
    assert nodes["c"].last is not None
    tab.set("nodes", "a", "params", "nix", to=1)
    nodes = _foreseen(tab)
    assert nodes["b"].reason == "waits for a"


def test_a_document_in_pieces_is_foreseen_as_far_as_it_goes(open_tab: OpenTab) -> None:
    tab = open_tab(
        pipeline(
            box("x", "FromTheFuture"),
            box("y", "Join"),
            box("m", "Join"),
            box("n", "Join"),
            box("ok", "Make"),
            wires="x.out>y.first m.out>n.first n.out>m.first gone.out>m.second",
            name="d",
        )
    )
    nodes = _foreseen(tab)
    assert "no node type FromTheFuture" in nodes["x"].reason
    assert nodes["y"].reason == "waits for x"
    assert {nodes["m"].fresh, nodes["n"].fresh} == {False}
    assert nodes["m"].reason
    assert nodes["n"].reason
    assert nodes["ok"].reason == "never ran before"
    assert nodes["x"].backend == ""
    empty = open_tab(pipeline(name="empty"), client="second")
    assert _foreseen(empty) == {}
    assert [c for c, _, _ in _codes(empty)] == ["VF108"]


def test_each_tab_is_told_for_the_profile_chosen_in_it(open_tab: OpenTab, rooms: Rooms) -> None:
    tab = open_tab(pipeline(box("a", "Grow"), name="d"))
    assert (_foreseen(tab)["a"].backend, _foreseen(tab)["a"].backend_reason) == ("embedded", "")
    assert _codes(tab) == []
    second = Tab(Editor(rooms, address="d"), "second")
    second.wait_for(Foreseen)
    seen = len(second.all(Checked))
    tab.say(Choose(profile="spark-local"))
    tab.wait_for(Checked, lambda c: [p.code for p in c.problems] == ["VF307"])
    tab.wait_for(Foreseen, lambda f: f.nodes["a"].backend == "")
    assert "cannot run on spark, the backend of the profile spark-local" in tab.last(Foreseen).nodes["a"].reason
    # While one types as well, and only there.
    tab.set("nodes", "a", "params", "epochs", to=1000)
    tab.wait_for(Checked, lambda c: [p.code for p in c.problems] == ["VF203", "VF307"])
    second.wait_for(Checked, lambda c: [p.code for p in c.problems] == ["VF203"])
    assert "VF307" not in [p.code for c in second.all(Checked)[seen:] for p in c.problems]
    tab.say(Choose(profile="local"))
    tab.wait_for(Checked, lambda c: [p.code for p in c.problems] == ["VF203"])
    # One that is gone counts as the usual one.
    tab.say(Choose(profile="moon"))
    assert _foreseen(tab)["a"].backend == "embedded"


@pytest.mark.slow
def test_the_profiles_file_is_read_again_when_it_has_changed(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(pipeline(box("a", "Make"), name="d"))
    assert [p.name for p in tab.last(Welcome).profiles] == ["local", "spark-local"]
    path = workspace.root / "profiles.toml"
    path.write_text('[cluster]\nbackend = "spark"\nmaster = "spark://host:7077"\n[bad]\ncores = 0\n')
    tab.wait_for(Welcome, lambda w: [p.name for p in w.profiles] == ["local", "spark-local", "cluster"])
    told = tab.last(Welcome)
    assert "Spark on spark://host:7077" in told.profiles[2].description
    assert [(p.code, p.severity, "profile bad, cores" in p.message) for p in told.problems] == [
        ("VF155", "warning", True)
    ]


def test_the_canvas_says_which_node_works_where(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("a", "Make"), box("b", "Join"), wires="a.out>b.first", name="d"))
    tab.say(Choose(profile="spark-local"))
    tab.wait_for(Foreseen, lambda f: f.nodes["a"].backend == "spark")
    nodes = tab.last(Foreseen).nodes
    assert (nodes["a"].backend_reason, nodes["b"].backend) == ("profile spark-local", "embedded")
    assert nodes["b"].backend_reason == "a probe: runs on the driver's machine"


@pytest.fixture
def real(workspace: Workspace, store: RunStore, tmp_path: Path) -> Studio:
    return Studio(workspace, store, tmp_path, voxelflow.catalog)


@pytest.fixture
def real_tab(real: Studio) -> object:
    rooms = Rooms(real)
    quickstart = Path(voxelflow.__file__).parent / "pipelines" / "quickstart.json"

    def open_one(*nodes: object, wires: str = "") -> Tab:
        document = pipeline(*nodes, wires=wires, name="real") if nodes else read_pipeline(quickstart)  # type: ignore[arg-type]
        return Tab(Editor(rooms, address=rooms.add(document).room.document))

    yield open_one
    rooms.close()


def test_the_built_in_nodes_say_in_words_what_will_come_out(real_tab) -> None:
    tab: Tab = real_tab()
    tab.wait_for(Checked)
    assert _codes(tab) == []
    previews = tab.last(Checked).previews
    assert previews["make.out"].startswith("640 volumes, ")
    assert previews["convert.out"].startswith("640 volumes, ")
    tab.set("parameters", "volumes", to={"value": 2000, "help": ""})
    tab.wait_for(Checked, lambda c: c.rev == 1)
    assert tab.last(Checked).previews["table.out"].startswith("2,000 volumes, ")
    assert _foreseen(tab)["train"].reason == "never ran before"


@pytest.mark.slow
def test_what_only_a_listing_tells_stays_while_one_types_elsewhere(real_tab, tmp_path: Path) -> None:
    write_volumes(tmp_path / "volumes", 12)
    tab: Tab = real_tab(
        box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
        box("convert", "NumpyToParquet"),
        wires="folder.out>convert.files",
    )
    words = "12 volumes, 6x6x4x2 float32, 15 kB"
    tab.wait_for(Checked, lambda c: "folder.out" in c.previews)
    assert tab.last(Checked).previews["folder.out"] == words
    seen = len(tab.all(Checked))
    tab.set("nodes", "convert", "params", "target_file_mb", to=5)
    tab.set("nodes", "convert", "title", to="Pack")
    assert {c.previews.get("folder.out") for c in tab.all(Checked)[seen:]} <= {words}
    # Another folder: nothing is known of it until it was listed, and nothing wrong is said.
    (tmp_path / "empty").mkdir()
    tab.set("nodes", "folder", "params", "folder", to=str(tmp_path / "empty"))
    tab.wait_for(Checked, lambda c: c.rev == tab.rev)
    assert "folder.out" not in tab.last(Checked).previews
    assert _codes(tab) == []
    tab.wait_for(Checked, lambda c: [p.code for p in c.problems][:1] == ["VF306"])
    tab.set("nodes", "convert", "title", to="Still")
    assert "VF306" in [c for c, _, _ in _codes(tab)]
    # It is removed: that is seen at once.
    (tmp_path / "empty").rmdir()
    tab.set("nodes", "convert", "title", to="Gone")
    tab.wait_for(Checked, lambda c: [p.code for p in c.problems] == ["VF301"])


def test_a_folder_that_gained_files_is_seen_when_looked_at_again(real_tab, tmp_path: Path) -> None:
    write_volumes(tmp_path / "volumes", 3)
    tab: Tab = real_tab(box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")))
    tab.wait_for(Checked, lambda c: c.previews.get("folder.out", "").startswith("3 volumes"))
    write_volumes(tmp_path / "volumes", 2, first=3)
    tab.say(Recheck(document="real"))
    tab.wait_for(Checked, lambda c: c.previews.get("folder.out", "").startswith("5 volumes"))


def test_a_renamed_document_is_looked_at_under_its_new_name(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("b", "Join"), name="d"))
    _foreseen(tab)
    tab.say(Rename(document="d", name="e"))
    tab.wait_for(Checked, lambda c: c.document == "e")
    tab.wait_for(Foreseen, lambda f: f.document == "e")
    assert tab.last(Checked).problems[0].code == "VF106"


@pytest.mark.slow
def test_the_persons_own_node_is_known_as_soon_as_it_is_saved(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(pipeline(box("a", "Shout"), name="d"))
    tab.wait_for(Checked)
    assert [c for c, _, _ in _codes(tab)] == ["VF101"]
    path = workspace.my_nodes / "probes.py"
    path.write_text(path.read_text().replace('@node("Make"', '@node("Shout"'))
    tab.wait_for(Checked, lambda c: c.problems == [])
