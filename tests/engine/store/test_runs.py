from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from building import some_task
from stored_results import stored_result

from engine.declare.datasets import VolumeDelta
from engine.declare.events import Metrics, Progress, TaskStateChanged
from engine.errors import UsageError, WorkspaceError
from engine.storage.process_lock import ProcessLock, is_held
from engine.store.estimates import samples
from engine.store.runs import RunStore
from engine.workspace import Workspace, is_trusted, open_workspace, trust


def test_a_run_without_its_process_is_lost(store: RunStore, workspace: Workspace) -> None:
    run_id = store.create_run("p", "{}", {"fresh": True}, "local")
    assert store.run(run_id).state == "starting"
    lock = ProcessLock(workspace.run_folder(run_id) / "lock")
    assert lock.acquire()
    store.begin_attempt(run_id)
    assert store.run(run_id).state == "running"
    assert store.run(run_id).options == {"fresh": True}
    lock.release()
    assert store.run(run_id).state == "lost"
    store.finish_run(run_id, "failed", "why")
    assert (store.run(run_id).state, store.run(run_id).error) == ("failed", "why")


@pytest.mark.parametrize("later", [61, -61])
def test_a_run_that_never_got_a_process_is_lost_also_when_the_clock_is_set_back(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, later: float
) -> None:
    run_id = store.create_run("p", "{}", {}, "local")
    now = time.time() + later
    monkeypatch.setattr("engine.store.liveness.time.time", lambda: now)
    assert store.run(run_id).state == "lost"


def test_a_task_of_a_lost_run_is_shown_to_have_ended_with_it(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("engine.store.runs.time.time", lambda: clock[0])
    run_id = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run_id, [("a", "T", "A"), ("b", "T", "B"), ("c", "T", "C")])
    store.begin_attempt(run_id)
    store.update_task(run_id, "a", state="done", attempt=1, started=1000.0, ended=1001.0)
    store.update_task(run_id, "b", state="running", attempt=1, started=1001.0)
    clock[0] = 1600.0
    store.heartbeat(run_id)
    clock[0] += 3 * 86400
    run = store.run(run_id)
    assert run.state == "lost"
    shown = [(t.state, t.seconds) for t in store.shown_tasks(run)]
    assert shown == [("done", 1.0), ("cancelled", 599.0), ("cancelled", None)]
    assert [t.state for t in store.tasks(run_id)] == ["done", "running", "queued"], "what resume goes by"


def test_a_run_that_has_ended_is_not_asked_to_stop(store: RunStore, workspace: Workspace) -> None:
    """Who asks has looked at a run that has ended since."""
    failed, unbegun = (store.create_run("p", "{}", {}, "local") for _ in range(2))
    store.begin_attempt(failed)
    store.record_end(failed, "failed", "why")
    store.end_unbegun(unbegun)
    for run_id, error in ((failed, "why"), (unbegun, "the run's process died before it began")):
        store.request_cancel(run_id)
        store.request_cancel(run_id, "the sweep was cancelled")
        assert (store.run(run_id).state, store.run(run_id).error) == ("failed", error)
        store.begin_attempt(run_id)
        assert not store.heartbeat(run_id), "the next attempt was not meant"


def test_a_request_to_cancel_without_a_reason_leaves_that_of_an_earlier_one(store: RunStore) -> None:
    run_id = store.create_run("p", "{}", {}, "local")
    store.begin_attempt(run_id)
    store.request_cancel(run_id, "it has reached its limit")
    store.request_cancel(run_id)
    assert store.heartbeat(run_id)
    store.record_end(run_id, "cancelled")
    assert store.run(run_id).error == "it has reached its limit"


def test_a_task_never_took_less_than_no_time() -> None:
    """The clock was set back while it ran."""
    assert some_task("a", started=3600.0, ended=10.0).seconds == 0.0


def _plan(store: RunStore, reading: Callable[[], object]) -> list[str]:
    """How SQLite finds what is read."""
    statements: list[str] = []
    connection = store._connection()
    connection.set_trace_callback(statements.append)
    reading()
    connection.set_trace_callback(None)
    return [row["detail"] for each in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {each}")]


def test_the_newest_of_many_runs_are_found_without_the_documents_of_the_others(store: RunStore) -> None:
    ids = [store.create_run("p", "{}", {}, "local") for _ in range(3)]
    assert [run.run_id for run in store.runs(2)] == [ids[2], ids[1]]
    assert [run.run_id for run in store.runs(-1)] == ids[::-1]
    assert store.run("last").run_id == ids[2]
    for reading in (lambda: store.runs(2), lambda: store.run("last"), lambda: samples(store, "local", here=False)):
        scans = [line for line in _plan(store, reading) if line.startswith("SCAN ") and "json_each" not in line]
        assert scans == ["SCAN runs USING COVERING INDEX runs_of_pipeline"]


def test_the_newest_of_runs_of_one_moment_is_the_same_however_many_are_asked_for(store: RunStore) -> None:
    for run_id in "bac":
        store.put_run(run_id, run_id, "{}", {}, "local", "done", "", created=5.0, ended=6.0)
    assert [[run.run_id for run in store.runs(limit)] for limit in (1, 2, 3)] == [["b"], ["b", "a"], ["b", "a", "c"]]
    assert store.run("last").run_id == "b"


def test_two_runs_never_share_an_id(store: RunStore, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["a", "a", "a", "b"])
    monkeypatch.setattr("engine.store.runs.new_id", lambda: next(drawn))
    first = store.create_run("p", "{}", {}, "local", {"mine": "1"})
    assert (first, store.create_run("p", "{}", {}, "local")) == ("a", "b")
    assert (workspace.run_folder("a") / "mine").read_text() == "1"


def test_runs_are_found_by_part_of_their_id(store: RunStore) -> None:
    one, two = (store.create_run("p", "{}", {}, "local") for _ in range(2))
    assert store.run("last").run_id == two
    assert store.run(one[-6:]).run_id == one
    with pytest.raises(UsageError, match="2 runs"):
        store.run(one[:4])
    with pytest.raises(UsageError, match="the name of the run is empty"):
        store.run("")
    with pytest.raises(UsageError, match="no run"):
        store.run("%")
    assert [r.run_id for r in store.runs()] == [two, one]
    assert store.runs(pipeline="other") == []


def test_events_keep_their_order_and_progress_only_its_newest(store: RunStore) -> None:
    run_id = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run_id, [("a", "T", "A"), ("b", "T", "B")])
    store.set_tasks(run_id, [("a", "T", "A")])
    store.add_events(run_id, [Metrics(node="a", step=i, values={"loss": i}) for i in range(5)])
    store.add_events(run_id, [Progress(node="a", done=i) for i in range(5)])
    store.add_events(run_id, [TaskStateChanged(node="b", state="done")])
    events = store.events(run_id)
    assert [e.step for _, e in events[:5]] == list(range(5))  # type: ignore[attr-defined]
    assert len(events) == 6
    assert [e.event for _, e in store.events(run_id, after=events[4][0])] == ["task-state"]
    assert len(store.events(run_id, kinds=("metrics",), limit=2)) == 2
    tasks = store.tasks(run_id)
    assert [t.node for t in tasks] == ["a", "b"]
    assert tasks[0].progress is not None
    assert tasks[0].progress.done == 4


def test_results_are_found_by_every_key(store: RunStore) -> None:
    delta = VolumeDelta(uri="/t", count=1, bytes=1, version=3, data_version=1)
    store.results.put(stored_result("f1", lineage="l", base="b", created=1.0))
    store.results.put(stored_result("f2", lineage="l", base="b", outputs={"out": delta}, created=2.0))
    assert store.results.find("f2").outputs == {"out": delta}
    assert store.results.find("f3") is None
    assert store.results.newest_of_lineage("l").fingerprint == "f2"
    assert [r.fingerprint for r in store.results.of_base("b")] == ["f1", "f2"]
    run_id = store.create_run("pipe", "{}", {}, "local")
    store.set_tasks(run_id, [("n", "T", "N")])
    store.update_task(run_id, "n", fingerprint="f1", outputs=json.dumps({}))
    assert store.results.newest_of_node("pipe", "n").fingerprint == "f1"
    assert store.results.newest_of_node("other", "n") is None
    store.results.forget(["f1"])
    assert store.results.find("f1") is None


def test_a_use_of_a_result_is_seen_also_after_the_clock_was_set_back(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.results.put(stored_result("a", created=1000.0, used=1000.0))
    store.results.put(stored_result("b", created=9000.0, used=9000.0))
    states = [store.results.state(), store.results.state()]
    assert states[0] == states[1]
    monkeypatch.setattr("engine.store.results.time.time", lambda: 2000.0)
    for change in (
        lambda: store.results.touch("a"),
        lambda: store.results.put(stored_result("a", created=2000.0, used=2000.0)),
        lambda: store.results.forget(["a"]),
    ):
        change()
        states.append(store.results.state())
    assert len(set(states)) == 4


def test_readers_see_a_writer_in_another_thread(store: RunStore) -> None:
    run_id = store.create_run("p", "{}", {}, "local")

    def write() -> None:
        for i in range(50):
            store.add_events(run_id, [Metrics(step=i, values={"x": 1.0})])
        store.close()

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.events(run_id)) == 150


def test_tracking_goes_on_from_its_cursor(store: RunStore) -> None:
    run_id = store.create_run("p", "{}", {}, "local")
    assert store.tracking.find(run_id) == (0, {}, False)
    assert store.tracking.unfinished() == []
    store.finish_run(run_id, "done")
    assert store.tracking.unfinished() == [run_id]
    store.tracking.record(run_id, 7, {"id": "x"})
    assert store.tracking.find(run_id) == (7, {"id": "x"}, False)
    store.tracking.record(run_id, 9, {}, finished=True)
    assert store.tracking.unfinished() == []


def test_locks_are_exclusive_or_shared(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    one, two = ProcessLock(path), ProcessLock(path)
    assert one.acquire(shared=True)
    assert two.acquire(shared=True)
    assert not is_held(path)
    assert not ProcessLock(path).acquire()
    one.release()
    two.release()
    assert one.acquire()
    assert is_held(path)
    assert not two.acquire(shared=True)
    one.release()


def test_a_workspace_of_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "workspace.json").write_text('{"format": 99}')
    with pytest.raises(WorkspaceError, match="newer"):
        open_workspace(tmp_path)
    (tmp_path / "workspace.json").write_text("{")
    with pytest.raises(WorkspaceError, match="damaged"):
        open_workspace(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match="cannot be used"):
        open_workspace(tmp_path / "file" / "x")


def test_trust_is_kept_outside_the_workspace(workspace: Workspace) -> None:
    assert not is_trusted(workspace)
    before = sorted(p for p in workspace.root.rglob("*"))
    trust(workspace)
    assert is_trusted(workspace)
    assert sorted(p for p in workspace.root.rglob("*")) == before
