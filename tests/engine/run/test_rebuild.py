"""A damaged run store: every command names the command that rebuilds it, and that brings back what can be known."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from building import box, pipeline
from running import Runner
from stored_results import stored_result

from engine.errors import DamagedStore, UsageError
from engine.run.rebuild import rebuild
from engine.storage.process_lock import ProcessLock
from engine.store.results import RECORD
from engine.store.runs import RunStore
from engine.workspace import Workspace


def _fill(workspace: Workspace, runs: int = 3, results: int = 40) -> list[str]:
    store = RunStore(workspace)
    made = [store.create_run(f"p{n}", '{"name": "p"}', {"start": None}, "local") for n in range(runs)]
    for run_id in made:
        store.finish_run(run_id, "done")
    for number in range(results):
        result = stored_result(f"f{number:03}", out=f"T/l/f{number:03}", shared="T/l", created=float(number))
        (workspace.data / result.out).mkdir(parents=True)
        store.results.put(result)
    store.checkpoint()
    store.close()
    return made


def _overwrite(path: Path, at: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * length)


def test_a_whole_store_is_rebuilt_with_all_rows(workspace: Workspace) -> None:
    runs = _fill(workspace)
    before = RunStore(workspace).results.all()
    made = rebuild(workspace)
    assert made.whole
    assert made.aside.exists()
    assert (made.read["runs"], made.read["results"], made.results, made.runs) == (3, 40, 0, 0)
    store = RunStore(workspace)
    assert store.results.all() == before
    assert {run.run_id for run in store.runs()} == set(runs)


def test_results_come_back_from_beside_their_files(workspace: Workspace) -> None:
    _fill(workspace)
    before = RunStore(workspace).results.all()
    workspace.database.write_bytes(b"no database" * 1000)
    for suffix in ("-wal", "-shm"):
        workspace.database.with_name(f"{workspace.database.name}{suffix}").unlink(missing_ok=True)
    with pytest.raises(DamagedStore, match="is damaged") as caught:
        RunStore(workspace)
    assert "`voxelflow runs rebuild`" in caught.value.hint
    damaged = workspace.database.read_bytes()
    (workspace.data / "T/l/f007" / RECORD).write_text("{")  # cut short by a power cut
    made = rebuild(workspace)
    assert not made.whole
    assert made.aside.read_bytes() == damaged
    assert made.results == 39
    assert RunStore(workspace).results.all() == [r for r in before if r.fingerprint != "f007"]


@pytest.mark.slow
@pytest.mark.parametrize("page", range(1, 20, 3))
def test_whatever_page_is_damaged_no_result_is_lost(workspace: Workspace, page: int) -> None:
    _fill(workspace)
    before = {r.fingerprint for r in RunStore(workspace).results.all()}
    with sqlite3.connect(workspace.database) as db:
        size = db.execute("PRAGMA page_size").fetchone()[0]
    db.close()
    _overwrite(workspace.database, page * size, size)
    made = rebuild(workspace)
    assert made.aside.exists()
    assert {r.fingerprint for r in RunStore(workspace).results.all()} == before


@pytest.mark.slow
def test_damage_met_on_the_way_is_no_other_error(workspace: Workspace) -> None:
    _fill(workspace, runs=200)
    size = workspace.database.stat().st_size
    _overwrite(workspace.database, 4096, size - 4096)
    with pytest.raises(DamagedStore):
        RunStore(workspace).runs()


def test_a_rebuild_waits_for_nobody_and_disturbs_nobody(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match="no run store"):
        rebuild(workspace)
    (run_id, *_) = _fill(workspace)
    for path, text in (
        (workspace.locks / "studio", "the app is open"),
        (workspace.run_folder(run_id) / "lock", f"run {run_id} is at work"),
    ):
        lock = ProcessLock(path)
        assert lock.acquire()
        with pytest.raises(UsageError, match=text):
            rebuild(workspace)
        lock.release()
    assert len(rebuild(workspace).read) > 3


def test_a_row_with_a_flipped_bit_in_its_text_is_left_out(workspace: Workspace) -> None:
    _fill(workspace)
    with sqlite3.connect(workspace.database) as db:
        db.execute("UPDATE results SET identity = '{broken' WHERE fingerprint = 'f003'")
    db.close()
    made = rebuild(workspace)
    assert (made.read["results"], made.results) == (39, 1)
    assert json.dumps(dict(RunStore(workspace).results.all()[3].identity))


def test_a_store_of_an_earlier_version_is_rebuilt(workspace: Workspace) -> None:
    (run_id, *others) = _fill(workspace)
    with sqlite3.connect(workspace.database) as db:
        for table, column in (("runs", "paused_s"), ("sweeps", "worked_s"), ("sweeps", "heartbeat")):
            db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        db.execute("DROP TABLE trials")
        db.execute("UPDATE runs SET started = 1000, ended = 1060 WHERE run_id = ?", (run_id,))
        db.execute("PRAGMA user_version = 4")
    db.close()
    made = rebuild(workspace)
    assert (made.whole, made.read["runs"], made.read["results"]) == (True, 3, 40)
    store = RunStore(workspace)
    assert {run.run_id for run in store.runs()} == {run_id, *others}
    assert (store.run(run_id).paused_s, store.run(run_id).seconds) == (0.0, 60.0)


@pytest.mark.slow
def test_a_run_has_its_tasks_again_also_where_their_rows_alone_were_lost(runner: Runner) -> None:
    document = pipeline(
        box("one", "Make"),
        box("two", "Make", text="b"),
        box("end", "Join"),
        wires="one.out>end.first two.out>end.second",
    )
    run, before = runner.run(document)
    assert run.state == "done"
    with runner.store.write() as db:
        db.execute("DELETE FROM tasks WHERE run_id = ? AND node != 'one'", (run.run_id,))
        # Of this one it is not known any more what it made.
        db.execute("DELETE FROM results WHERE fingerprint = ?", (before["two"].fingerprint,))
    runner.store.close()
    for path in runner.workspace.data.rglob(RECORD):
        if json.loads(path.read_bytes())["fingerprint"] == before["two"].fingerprint:
            path.unlink()
    runner.wait_for_release(run.run_id)
    rebuild(runner.workspace)
    store = RunStore(runner.workspace)
    tasks = {task.node: task for task in store.tasks(run.run_id)}
    assert list(tasks) == list(before)
    assert {task.state for task in tasks.values()} == {"done"}
    assert tasks["end"].outputs == before["end"].outputs
    assert not tasks["two"].outputs
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["state = 'dona'", "outputs = '5'"])
def test_a_task_whose_row_is_none_that_can_be_read_does_not_stop_it(runner: Runner, damage: str) -> None:
    run, _ = runner.run(pipeline(box("one", "Make")))
    with runner.store.write() as db:
        db.execute(f"UPDATE tasks SET {damage}")
    runner.store.close()
    runner.wait_for_release(run.run_id)
    assert rebuild(runner.workspace).read["runs"] == 1
