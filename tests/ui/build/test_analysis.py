"""Problems at once, and what a run would do when typing pauses."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from building import box, pipeline
from canvas_tab import OpenTab, Tab
from running import Runner
from volumes import write_volumes
from waiting import WAIT_S

import voxelflow
from engine.advisor.storage_cost import StorageCost
from engine.catalog import Catalog
from engine.document.checks import check
from engine.document.pipeline import read_pipeline
from engine.observe.observe import look_into_cache
from engine.prices import StoragePrice
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui.build import analysis, background
from ui.build.editor import Editor
from ui.build.forecast import _requests
from ui.build.open_documents import OpenDocuments
from ui.protocol.commands import Choose, MakeEdit, Recheck, Rename
from ui.protocol.document import Op
from ui.protocol.notices import Checked, RunForecast, Welcome
from ui.protocol.status import NodeForecast, RequestCostInfo
from ui.studio_context import Studio


def _codes(tab: Tab) -> list[tuple[str, str | None, str | None]]:
    return [(p.code, p.node, p.parameter or p.port) for p in tab.last(Checked).problems]


def _forecast(tab: Tab) -> dict[str, NodeForecast]:
    """The forecast for the document as it is, full look included."""
    ours = tab.editor._open.analysis  # type: ignore[union-attr]

    def now() -> bool:
        with ours._lock:  # under which it is kept, and only then sent
            known = ours._forecasts.get(tab.editor.profile)
        return known is not None and known.rev == tab.rev

    tab.wait(now, "forecast")
    return tab.turn().last(RunForecast).nodes


@pytest.mark.slow
def test_problems_follow_the_edit(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("a", "Make"), box("b", "Join"), name="d"))
    tab.wait_for(Checked)
    assert _codes(tab) == [("VF106", "b", "first")]
    tab.set("edges", "a.out->b.first", to={"source": "a.out", "target": "b.first", "order": 0})
    tab.wait_for(Checked, lambda c: c.rev == 1)
    assert _codes(tab) == []
    tab.set("nodes", "a", "params", "steps", to=99_999)
    tab.wait_for(Checked, lambda c: c.rev == 2)
    assert _codes(tab) == [("VF203", "a", "steps")]
    assert tab.last(Checked).problems[0].message == "must be at most 10,000 steps, not 99999"
    tab.set("nodes", "a", "type", to="Mkae")
    tab.wait_for(Checked, lambda c: c.rev == 3)
    assert ("VF101", "a", None) in _codes(tab)
    tab.set("edges", "a.out->b.second", to={"source": "a.nix", "target": "b.first", "order": 1})
    assert "another name" in tab.messages[-1]


def test_moving_a_node_asks_no_new_questions(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("a", "Make"), name="d"))
    _forecast(tab)
    ours = tab.editor._open.analysis  # type: ignore[union-attr]
    tab.set("nodes", "a", "position", to={"x": 5, "y": 5})
    tab.set("nodes", "a", "ui", "colour", to="red")
    assert not ours._wanted
    tab.set("nodes", "a", "title", to="it is called")
    assert ours._wanted


def test_a_tab_that_joins_gets_the_problems_of_the_document_that_it_shows(
    open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = open_tab(pipeline(box("a", "Make"), box("b", "Join"), name="d"))
    _forecast(tab)
    checking, go_on = threading.Event(), threading.Event()

    def slow_check(*arguments: Any) -> Any:
        found = check(*arguments)
        checking.set()
        assert go_on.wait(WAIT_S)
        return found

    monkeypatch.setattr(analysis, "check", slow_check)
    # What was found before a node was moved still holds.
    tab.set("nodes", "a", "position", to={"x": 5, "y": 5})
    second = open_tab(address="d", client="second")
    assert [len(c.problems) for c in second.all(Checked)] == [1]
    # A check is under way when the error is solved and the page is loaded again.
    assert checking.wait(WAIT_S)
    tab.edit(Op(path=["nodes", "b"], value=None, remove=True))
    third = open_tab(address="d", client="third")
    go_on.set()
    third.wait_for(Checked)
    assert {(c.rev, len(c.problems)) for c in third.all(Checked)} == {(third.rev, 0)}
    assert second.wait_for(Checked, lambda c: c.rev == 2).problems == []


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause in typing is a short one, for tests of what comes after it."""
    monkeypatch.setattr(analysis, "PAUSE_S", 0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
def test_a_forecast_that_failed_is_made_again(open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch) -> None:
    tab = open_tab(pipeline(box("a", "Make"), name="d"))
    _forecast(tab)
    monkeypatch.setattr(background, "_RETRY_S", 0.05)
    faults = iter([OSError("the disk is away for a moment")])

    def faulty(*arguments: Any) -> Any:
        for fault in faults:
            raise fault
        return look_into_cache(*arguments)

    monkeypatch.setattr(analysis, "look_into_cache", faulty)
    tab.set("nodes", "a", "title", to="A")
    assert _forecast(tab).keys() == {"a"}
    assert next(faults, None) is None


def test_an_edit_that_cannot_be_kept_on_disk_is_checked_all_the_same(
    open_tab: OpenTab, documents: OpenDocuments
) -> None:
    tab = open_tab(pipeline(box("a", "Make"), name="d"))
    tab.wait_for(Checked)
    (documents.drafts.folder / "d.json").unlink()
    (documents.drafts.folder / "d.json").mkdir()
    tab.set("nodes", "a", "params", "steps", to=-1)
    assert "cannot be kept" in tab.messages[-1]
    assert [p.code for p in tab.wait_for(Checked, lambda c: c.rev == 1).problems] == ["VF203"]


@pytest.mark.slow
def test_a_flood_of_edits_ends_with_the_problems_of_the_last(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("a", "Make"), name="d"))
    tab.wait_for(Checked)
    for i in range(60):
        op = Op(path=["nodes", "a", "params", "steps"], value=i - 60, remove=False)
        tab.editor._do(MakeEdit(document="d", edit=str(i), ops=[op]))
    tab.wait_for(Checked, lambda c: c.rev == 60)
    assert "not -1" in tab.last(Checked).problems[0].message
    assert len(tab.all(Checked)) < 40


@pytest.mark.slow
def test_what_is_fresh_and_why_the_rest_is_not(
    open_tab: OpenTab, probes: Catalog, workspace: Workspace, store: RunStore
) -> None:
    document = pipeline(
        box("a", "Make", steps=3), box("b", "Join"), box("c", "Grow", epochs=2), wires="a.out>b.first", name="d"
    )
    tab = open_tab(document)
    nodes = _forecast(tab)
    assert {(o.fresh, o.reason, o.backend, o.last) for o in nodes.values()} == {
        (False, "never ran before", "embedded", None)
    }
    assert nodes.keys() == {"a", "b", "c"}
    run, _ = Runner(probes, workspace, store).run(document)
    tab.say(Recheck(document="d"))
    tab.wait_for(RunForecast, lambda f: all(o.fresh for o in f.nodes.values()))
    last = tab.last(RunForecast).nodes["a"].last
    assert last is not None
    assert (last.run_id, last.made) == (run.run_id, "steps 3")
    assert Path(last.outputs[0].uri).read_text() == "made"
    assert time.time() - last.created < 60
    # One parameter changed: it and what follows must run, and the node says what changed.
    tab.set("nodes", "a", "params", "text", to="other")
    nodes = _forecast(tab)
    assert (nodes["a"].fresh, nodes["a"].reason) == (False, "parameter text changed made -> other")
    assert (nodes["b"].fresh, nodes["b"].reason) == (False, "input first changed")
    assert nodes["c"].fresh
    assert nodes["a"].last == last
    # A problem: the rest has a forecast all the same.
    tab.set("nodes", "c", "params", "epochs", to=1_000)
    tab.set("nodes", "a", "params", "text", to="made")
    nodes = _forecast(tab)
    assert (nodes["a"].fresh, nodes["b"].fresh) == (True, True)
    assert nodes["c"].reason == "epochs: must be at most 100, not 1000"
    assert nodes["c"].last is not None
    tab.set("nodes", "a", "params", "nix", to=1)
    nodes = _forecast(tab)
    assert nodes["b"].reason == "waits for Make"


def test_an_unfinished_document_has_a_forecast_as_far_as_it_goes(open_tab: OpenTab) -> None:
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
    nodes = _forecast(tab)
    assert "no node type FromTheFuture" in nodes["x"].reason
    assert nodes["y"].reason == "waits for FromTheFuture"
    assert {nodes["m"].fresh, nodes["n"].fresh} == {False}
    assert nodes["m"].reason
    assert nodes["n"].reason
    assert nodes["ok"].reason == "never ran before"
    assert nodes["x"].backend == ""
    empty = open_tab(pipeline(name="empty"), client="second")
    assert _forecast(empty) == {}
    assert [c for c, _, _ in _codes(empty)] == ["VF108"]


@pytest.mark.slow
def test_each_tab_is_reported_for_the_profile_chosen_in_it(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("a", "Grow"), name="d"))
    assert (_forecast(tab)["a"].backend, _forecast(tab)["a"].backend_reason) == ("embedded", "")
    assert _codes(tab) == []
    second = open_tab(address="d", client="second")
    second.wait_for(RunForecast)
    seen = len(second.all(Checked))
    tab.say(Choose(profile="spark-local"))
    tab.wait_for(Checked, lambda c: [p.code for p in c.problems] == ["VF307"])
    tab.wait_for(RunForecast, lambda f: f.nodes["a"].backend == "")
    assert "cannot run on spark, the backend of the profile spark-local" in tab.last(RunForecast).nodes["a"].reason
    # While one types as well, and only there.
    tab.set("nodes", "a", "params", "epochs", to=1000)
    tab.wait_for(Checked, lambda c: [p.code for p in c.problems] == ["VF203", "VF307"])
    second.wait_for(Checked, lambda c: [p.code for p in c.problems] == ["VF203"])
    assert "VF307" not in [p.code for c in second.all(Checked)[seen:] for p in c.problems]
    tab.say(Choose(profile="local"))
    tab.wait_for(Checked, lambda c: [p.code for p in c.problems] == ["VF203"])
    # One that is gone counts as the usual one.
    tab.say(Choose(profile="moon"))
    assert _forecast(tab)["a"].backend == "embedded"


@pytest.mark.slow
def test_the_profiles_file_is_read_again_when_it_has_changed(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(pipeline(box("a", "Make"), name="d"))
    assert [p.name for p in tab.last(Welcome).profiles] == ["local", "spark-local"]
    path = workspace.root / "profiles.toml"
    path.write_text('[cluster]\nbackend = "spark"\nmaster = "spark://host:7077"\n[bad]\ncores = 0\n')
    tab.wait_for(Welcome, lambda w: [p.name for p in w.profiles] == ["local", "spark-local", "cluster"])
    welcome = tab.last(Welcome)
    assert "Spark on spark://host:7077" in welcome.profiles[2].description
    assert [(p.code, p.severity, "profile bad, cores" in p.message) for p in welcome.problems] == [
        ("VF155", "warning", True)
    ]


def test_the_canvas_says_which_node_works_where(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("a", "Make"), box("b", "Join"), wires="a.out>b.first", name="d"))
    tab.say(Choose(profile="spark-local"))
    tab.wait_for(RunForecast, lambda f: f.nodes["a"].backend == "spark")
    nodes = tab.last(RunForecast).nodes
    assert (nodes["a"].backend_reason, nodes["b"].backend) == ("profile spark-local", "embedded")
    assert nodes["b"].backend_reason == "a probe: runs on the driver's machine"


@pytest.fixture
def real(workspace: Workspace, store: RunStore, tmp_path: Path) -> Studio:
    return Studio(workspace, store, tmp_path, voxelflow.catalog)


@pytest.fixture
def real_tab(real: Studio) -> object:
    documents = OpenDocuments(real)
    quickstart = Path(voxelflow.__file__).parent / "pipelines" / "quickstart.json"

    def open_one(*nodes: object, wires: str = "") -> Tab:
        document = pipeline(*nodes, wires=wires, name="real") if nodes else read_pipeline(quickstart)  # type: ignore[arg-type]
        return Tab(Editor(documents, address=documents.add(document).document.id))

    yield open_one
    documents.close()


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
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
    assert _forecast(tab)["train"].reason == "never ran before"


@pytest.mark.slow
def test_what_only_a_listing_shows_stays_while_one_types_elsewhere(real_tab, tmp_path: Path) -> None:
    write_volumes(tmp_path / "volumes", 12)
    tab: Tab = real_tab(
        box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
        box("convert", "NumpyToParquet"),
        wires="folder.out>convert.files",
    )
    words = "12 volumes, 6x6x4x2 float32, 15 kB"
    tab.wait_for(Checked, lambda c: "folder.out" in c.previews)
    assert all(c.listed == ("folder.out" in c.previews) for c in tab.all(Checked))
    assert tab.last(Checked).previews["folder.out"] == words
    seen = len(tab.all(Checked))
    tab.set("nodes", "convert", "params", "target_file_mb", to=5)
    tab.set("nodes", "convert", "title", to="Pack")
    assert {c.previews.get("folder.out") for c in tab.all(Checked)[seen:]} <= {words}
    # Another folder: nothing is known of it until it was listed, and nothing wrong is reported.
    (tmp_path / "empty").mkdir()
    tab.set("nodes", "folder", "params", "folder", to=str(tmp_path / "empty"))
    tab.wait_for(Checked, lambda c: c.rev == tab.rev)
    assert "folder.out" not in tab.last(Checked).previews
    assert _codes(tab) == []
    assert not tab.last(Checked).listed
    tab.wait_for(Checked, lambda c: [p.code for p in c.problems][:1] == ["VF306"])
    assert tab.last(Checked).listed
    tab.set("nodes", "convert", "title", to="Still")
    assert "VF306" in [c for c, _, _ in _codes(tab)]
    # It is removed: that is seen at once.
    (tmp_path / "empty").rmdir()
    tab.set("nodes", "convert", "title", to="Gone")
    tab.wait_for(Checked, lambda c: [p.code for p in c.problems] == ["VF301"])


def test_a_folder_that_gained_files_is_seen_when_checked_again(real_tab, tmp_path: Path) -> None:
    write_volumes(tmp_path / "volumes", 3)
    tab: Tab = real_tab(box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")))
    tab.wait_for(Checked, lambda c: c.previews.get("folder.out", "").startswith("3 volumes"))
    write_volumes(tmp_path / "volumes", 2, first=3)
    tab.say(Recheck(document="real"))
    tab.wait_for(Checked, lambda c: c.previews.get("folder.out", "").startswith("5 volumes"))


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
def test_a_renamed_document_is_checked_under_its_new_name(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("b", "Join"), name="d"))
    _forecast(tab)
    tab.say(Rename(document="d", name="e"))
    tab.wait_for(Checked, lambda c: c.document == "e")
    tab.wait_for(RunForecast, lambda f: f.document == "e")
    assert tab.last(Checked).problems[0].code == "VF106"


@pytest.mark.slow
def test_the_persons_own_node_is_known_as_soon_as_it_is_saved(open_tab: OpenTab, workspace: Workspace) -> None:
    tab = open_tab(pipeline(box("a", "Shout"), name="d"))
    tab.wait_for(Checked)
    assert [c for c, _, _ in _codes(tab)] == ["VF101"]
    path = workspace.my_nodes / "probes.py"
    path.write_text(path.read_text().replace('@node("Make"', '@node("Shout"'))
    tab.wait_for(Checked, lambda c: c.problems == [])


def test_what_a_training_pays_for_requests_comes_with_its_forecast(
    open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = StoragePrice("s3", "standard", "here", per_10000_reads=0.004, currency="USD")
    cost = StorageCost("s3://data", 10_000, 1, price)
    monkeypatch.setattr("ui.build.analysis.storage_costs", lambda found, workspace: {"a": cost})
    found = _forecast(open_tab(pipeline(box("a", "Make"), box("b", "Make"), name="d")))
    assert found["a"].requests == RequestCostInfo(place="s3://data", amount=0.004, currency="USD", at_most=False)
    assert found["b"].requests is None
    went_on = _requests(cost, goes_on=True)
    assert went_on is not None
    assert went_on.at_most
