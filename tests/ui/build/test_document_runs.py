"""Real runs, started, watched, cancelled and resumed through a tab."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import box, pipeline
from canvas_tab import OpenTab, Tab
from running import Runner

from engine.catalog import Catalog
from engine.document.pipeline import Pipeline, dump, load
from engine.run import launch
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui.build.editor import Editor
from ui.build.open_documents import OpenDocuments
from ui.protocol.commands import (
    CancelRun,
    Rename,
    ResumeRun,
    RunLimit,
    StartRun,
    Watch,
)
from ui.protocol.notices import Checked, LogLines, RunForecast, RunShown, StatusChanged
from ui.protocol.status import RunInfo


def _start(tab: Tab, **fields: Any) -> StartRun:
    assert tab.document is not None
    command = StartRun(
        **{"document": tab.document, "profile": "local", "start": None, "end": None, "fresh": False, "values": {}}
        | {"limit": None}
        | fields
    )
    tab.say(command)
    return command


def _run(tab: Tab) -> RunInfo | None:
    shown = tab.all(RunShown)
    return shown[-1].run if shown else None


def _ended(tab: Tab, *states: str) -> RunInfo:
    return tab.wait(
        lambda: (run := _run(tab)) and run.state in (states or ("done",)) and run, f"a run that is {states}"
    )


def _states(tab: Tab) -> dict[str, str]:
    return {node: status.state for node, status in tab.status.items()}


def _log(tab: Tab) -> list[str]:
    out: list[str] = []
    for notice in tab.all(LogLines):
        out = [] if notice.reset else out
        out += [f"{line.level}: {line.text}" for line in notice.lines]
    return out


def _slow(name: str = "slow", steps: int = 10) -> Pipeline:
    return pipeline(
        box("first", "Make"),
        box("slow", "Make", text="slow", steps=steps, step_s=0.05),
        box("end", "Join"),
        wires="first.out>end.first slow.out>end.second",
        name=name,
    )


def test_without_a_run_there_is_none(open_tab: OpenTab) -> None:
    tab = open_tab(_slow())
    tab.wait_for(RunShown)
    assert _run(tab) is None
    tab.say(Watch(node="slow")).say(CancelRun(run_id="20200101-000000-abcdef"))
    tab.wait(lambda: tab.messages)
    assert "there is no run" in tab.messages[0]


@pytest.mark.parametrize("node", ["../../../elsewhere", "\0"])
def test_only_a_nodes_log_can_be_watched(open_tab: OpenTab, store: RunStore, workspace: Workspace, node: str) -> None:
    (workspace.root / "elsewhere.log").write_text("not for everyone\n")
    run_id = store.create_run("slow", dump(_slow()), {}, "local")
    workspace.log_file(run_id, "slow").write_text("a line\n")
    tab, other = open_tab(_slow()), open_tab(client="other")
    tab.say(Watch(node=node))
    other.say(Watch(node="slow"))
    other.wait(lambda: "output: a line" in _log(other))
    assert _log(tab.turn()) == []


@pytest.mark.slow
def test_a_run_is_watched_from_start_to_end(open_tab: OpenTab, store: RunStore, probe_gate: Path) -> None:
    tab = open_tab(_slow())
    tab.say(Watch(node="slow"))
    tab.set("nodes", "first", "params", "text", to="<b>unsaved</b>")
    _start(tab)
    tab.wait(lambda: _states(tab).get("slow") == "running" and tab.status["slow"].progress)
    progress = tab.wait(lambda: (p := tab.status["slow"].progress) and p.done > 5 and p)
    assert (progress.total, progress.unit) == (10, "steps")
    assert 0 < progress.rate <= 20
    assert progress.seconds_left is not None
    probe_gate.touch()
    run = _ended(tab)
    assert _states(tab) == {"first": "done", "slow": "done", "end": "done"}
    status = tab.status["slow"]
    assert status.made == "steps 10"
    assert Path(status.outputs[0].uri).read_text() == "slow"
    assert status.started is not None
    assert status.ended is not None
    assert status.reason == "never ran before"
    tab.wait(lambda: _log(tab))
    assert _log(tab) == ["info: wrote slow"]
    assert tab.last(LogLines).lines[-1].time is not None or tab.all(LogLines)[-1].lines[0].time is not None
    # What ran is what was shown, saved or not.
    assert load(store.run(run.run_id).document).nodes[0].params["text"] == "<b>unsaved</b>"
    # And the lights change by themselves.
    tab.wait_for(RunForecast, lambda f: all(o.fresh for o in f.nodes.values()))
    # Run again: everything is there already.
    _start(tab)
    tab.wait(lambda: (again := _run(tab)) is not None and again.run_id != run.run_id)
    _ended(tab)
    assert set(_states(tab).values()) == {"cached"}


@pytest.mark.slow
def test_cancel_and_resume(open_tab: OpenTab, probe_gate: Path) -> None:
    tab = open_tab(_slow())
    _start(tab)
    # Both begin at once: what is to be kept must be done before the rest is cancelled.
    tab.wait(lambda: _states(tab).get("first") == "done" and tab.status["slow"].progress)
    run = _run(tab)
    assert run is not None
    tab.say(CancelRun(run_id=run.run_id))
    _ended(tab, "cancelled")
    assert any(n.run is not None and n.run.cancelling for n in tab.all(RunShown))
    assert _states(tab)["first"] == "done"
    tab.say(CancelRun(run_id=run.run_id))
    tab.wait(lambda: any("is not running; its state is cancelled" in t for t in tab.messages))
    probe_gate.touch()
    tab.say(ResumeRun(run_id=run.run_id))
    assert _ended(tab, "done").run_id == run.run_id
    assert set(_states(tab).values()) == {"done"}
    assert tab.status["first"].attempt == 1
    tab.say(ResumeRun(run_id=run.run_id))
    tab.wait(lambda: any("is done" in t for t in tab.messages))


@pytest.mark.slow
def test_a_run_stopped_at_its_limit_is_resumed_with_as_much_again(
    open_tab: OpenTab, store: RunStore, probe_gate: Path
) -> None:
    tab = open_tab(_slow())
    _start(tab, limit=RunLimit(stop_after="1s", stop_at_cost=None))
    stopped = _ended(tab, "cancelled")
    assert (stopped.limit, stopped.limited) == ("1.0 s", True)
    assert stopped.error.startswith("stopped at its limit of 1.0 s;")
    tab.say(ResumeRun(run_id=stopped.run_id))
    tab.wait(lambda: store.run(stopped.run_id).attempt == 2 and not store.run(stopped.run_id).active)
    limit = store.run(stopped.run_id).limit.seconds
    assert limit is not None
    assert limit > 1


@pytest.mark.slow
def test_a_limit_of_cost_without_a_price_starts_nothing(open_tab: OpenTab, store: RunStore) -> None:
    tab = open_tab(_slow())
    _start(tab, limit=RunLimit(stop_after="", stop_at_cost=20))
    tab.wait(lambda: any("cannot be stopped at a cost" in t for t in tab.messages))
    assert store.runs() == []


@pytest.mark.slow
def test_a_failure_says_what_happened_and_where(open_tab: OpenTab) -> None:
    tab = open_tab(
        pipeline(box("bad", "Fail", how="told"), box("after", "Join"), wires="bad.out>after.first", name="d")
    )
    tab.say(Watch(node="bad"))
    _start(tab)
    run = _ended(tab, "failed")
    assert "the probe was told to fail" in run.error
    failure = tab.wait(lambda: tab.status["bad"].failure)
    assert (failure.message, failure.hint, failure.parameter) == (
        "the probe was told to fail",
        "Tell it otherwise.",
        "how",
    )
    assert _states(tab) == {"bad": "failed", "after": "skipped"}
    tab.wait(lambda: _log(tab)[-1:] == ["error: the probe was told to fail. Tell it otherwise."])


@pytest.mark.slow
def test_a_worker_that_is_killed_leaves_its_reason_in_the_log(open_tab: OpenTab) -> None:
    tab = open_tab(pipeline(box("bad", "Fail", how="kill"), name="d"))
    tab.say(Watch(node="bad"))
    _start(tab)
    _ended(tab, "failed")
    tab.wait(lambda: any("SIGKILL" in line for line in _log(tab)))


@pytest.mark.slow
def test_a_run_that_cannot_start_says_all_its_problems(open_tab: OpenTab, store: RunStore) -> None:
    document = pipeline(box("a", "Make", steps="${n}"), box("b", "Join"), name="d", n=5)
    tab = open_tab(document)
    tab.wait_for(Checked)
    _start(tab, values={"n": "many"})
    tab.wait(lambda: tab.messages)
    message = tab.messages[0]
    assert message.startswith("error: 2 problems to fix before this pipeline can run")
    checked = tab.wait_for(Checked, lambda c: len(c.problems) == 2)
    assert {(p.code, p.node) for p in checked.problems} == {("VF203", "a"), ("VF106", "b")}
    assert store.runs() == []
    # The document itself has one problem: the next check shows it.
    tab.set("nodes", "a", "title", to="x")
    tab.wait_for(Checked, lambda c: c.rev == 1)
    assert [p.code for p in tab.last(Checked).problems] == ["VF106"]
    _start(tab, profile="the moon")
    tab.wait(lambda: any("no compute profile the moon" in t for t in tab.messages))
    _start(tab, end="nobody")
    tab.wait(lambda: any("no node nobody" in t for t in tab.messages))


@pytest.mark.slow
def test_parts_of_a_pipeline_and_values_for_one_run(open_tab: OpenTab, store: RunStore) -> None:
    document = pipeline(
        box("a", "Make", text="${word}"), box("b", "Join"), box("c", "Join"), wires="a.out>b.first b.out>c.first",
        name="d", word="hello",
    )  # fmt: skip
    tab = open_tab(document)
    _start(tab, end="b", values={"word": "2024"})
    run = _ended(tab)
    assert _states(tab) == {"a": "done", "b": "done"}
    assert load(store.run(run.run_id).document).parameters["word"].value == "2024"
    assert tab.pipeline.parameters["word"].value == "hello"
    _start(tab, start="b", values={"word": "2024"})
    tab.wait(lambda: (again := _run(tab)) is not None and again.run_id != run.run_id)
    _ended(tab)
    assert _states(tab) == {"a": "cached", "b": "done", "c": "done"}


@pytest.mark.slow
def test_a_run_from_the_command_line_shows_in_every_tab(
    open_tab: OpenTab, probes: Catalog, workspace: Workspace, store: RunStore, probe_gate: Path
) -> None:
    document = _slow()
    one = open_tab(document)
    one.wait_for(RunShown)
    runner = Runner(probes, workspace, store)
    run_id = runner.start(document)
    one.wait(lambda: (run := _run(one)) is not None and run.run_id == run_id)
    # One that comes later gets the whole at once, then what changes.
    one.wait(lambda: _states(one).get("slow") == "running")
    two = open_tab(address="slow", client="second")
    assert two.wait(lambda: two.status).keys() == {"first", "slow", "end"}
    assert two.all(StatusChanged)[0].whole
    probe_gate.touch()
    _ended(one)
    _ended(two)
    assert one.status == two.status
    # Another document's run is no business of theirs.
    runner.run(pipeline(box("x", "Make"), name="another"))
    one.turn()
    assert _run(one) == _run(two)
    assert (run := _run(one)) is not None
    assert run.run_id == run_id


@pytest.mark.slow
def test_a_restarted_server_finds_the_run_that_went_on(
    open_tab: OpenTab, documents: OpenDocuments, serve: Callable[[], OpenDocuments], probe_gate: Path
) -> None:
    tab = open_tab(_slow())
    tab.say(Watch(node="slow"))
    _start(tab)
    tab.wait(lambda: _states(tab).get("slow") == "running")
    before = _run(tab)
    documents.close()
    tab.notices.clear()
    tab.meet(Editor(serve()))
    tab.say(Watch(node="slow"))
    after = tab.wait(lambda: tab.all(RunShown) and _run(tab))
    assert before is not None
    assert (after.run_id, after.state) == (before.run_id, "running")
    probe_gate.touch()
    _ended(tab)
    tab.wait(lambda: _log(tab) == ["info: wrote slow"])


@pytest.mark.slow
@pytest.mark.own_processes
def test_a_run_whose_process_is_killed_is_lost_and_its_nodes_do_not_run_for_ever(
    open_tab: OpenTab, workspace: Workspace, store: RunStore
) -> None:
    tab = open_tab(_slow(steps=400))
    _start(tab)
    tab.wait(lambda: _states(tab).get("slow") == "running" and tab.status["slow"].progress)
    run = _run(tab)
    assert run is not None
    assert launch.kill_run(workspace, store.run(run.run_id))
    _ended(tab, "lost")
    tab.wait(lambda: _states(tab)["slow"] == "cancelled")
    assert "died without reporting a result" in tab.status["slow"].reason


@pytest.mark.slow
def test_two_presses_of_run_start_one(open_tab: OpenTab, store: RunStore, probe_gate: Path) -> None:
    tab = open_tab(_slow())
    command = _start(tab)
    tab.say(command)
    tab.wait(lambda: (run := _run(tab)) is not None and run.state == "running")
    assert len(store.runs()) == 1
    assert any("just being started" in t for t in tab.messages)
    probe_gate.touch()
    _ended(tab)


@pytest.mark.slow
def test_a_start_sent_again_after_a_restart_starts_nothing(
    open_tab: OpenTab, documents: OpenDocuments, serve: Callable[[], OpenDocuments], store: RunStore
) -> None:
    tab = open_tab(_slow(steps=1))
    unacknowledged = list(tab.unhandled)
    number = tab.next
    command = _start(tab)
    tab.wait(lambda: _run(tab) is not None)
    documents.close()
    fresh = Editor(serve())
    tab.meet(fresh)
    assert unacknowledged == []
    again = {"n": number, "command": command.model_dump(mode="json")}
    fresh.handle({"client": tab.client, "session": tab.session, "seen": tab.seen, "sent": [again]})
    _ended(tab)
    assert len(store.runs()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("probe_gate")
def test_what_is_sent_while_a_run_is_live_does_not_grow_with_the_graph(open_tab: OpenTab) -> None:
    def bytes_while_running(idle: int, client: str) -> float:
        nodes = [box(f"n{i}", "Make", text=f"{client}{i}") for i in range(idle)]
        tab = open_tab(
            pipeline(box("slow", "Make", text="slow", steps=1_000, step_s=0.05), *nodes, name=client), client=client
        )
        _start(tab, end="slow")
        tab.wait(lambda: _states(tab).get("slow") == "running" and tab.status["slow"].progress)
        tab.wait_for(RunForecast)
        tab.turn().turn()
        tab.bytes = 0
        turns = 0
        while (run := _run(tab)) is not None and run.state == "running" and turns < 40:
            tab.turn()
            threading.Event().wait(0.05)
            turns += 1
        sent = tab.bytes / turns
        assert tab.all(StatusChanged)[-1].nodes.keys() == {"slow"}
        assert run is not None
        tab.say(CancelRun(run_id=run.run_id))
        _ended(tab, "cancelled")
        return sent

    few, many = bytes_while_running(2, "few"), bytes_while_running(150, "many")
    assert many < few * 2 + 200
    assert many < 1_000


@pytest.mark.slow
def test_a_renamed_document_follows_its_runs_under_the_new_name(open_tab: OpenTab) -> None:
    tab = open_tab(_slow(steps=1))
    _start(tab)
    _ended(tab)
    tab.say(Rename(document="slow", name="quick"))
    tab.wait(lambda: tab.last(RunShown).document == "quick" and _run(tab) is None)
    _start(tab)
    _ended(tab)
    assert json.dumps(_states(tab)) == json.dumps(dict.fromkeys(_states(tab), "cached"))


@pytest.mark.slow
@pytest.mark.own_processes
def test_nothing_of_ours_is_a_child_of_the_app(open_tab: OpenTab) -> None:
    tab = open_tab(_slow(steps=200))
    _start(tab)
    tab.wait(lambda: (run := _run(tab)) is not None and run.state == "running")
    run = _run(tab)
    assert run is not None
    store = tab.editor._documents.studio.store
    pid = store.run(run.run_id).pid
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)
    tab.editor.leave()
    tab.editor._documents.close()
    assert store.run(run.run_id).state == "running"
    launch.cancel(store, run.run_id)
    list(launch.ended(tab.editor._documents.studio.workspace, store, run.run_id))
