"""How a run's end is recorded without space, and what is made of it later."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from engine.declare.events import Message, RunStateChanged
from engine.store import ending as run_ending
from engine.store.ending import RESERVE_BYTES, Ending
from engine.store.runs import STOPPED, RunStore
from engine.workspace import Workspace

END = Ending(attempt=1, state="failed", error="no space left on /d", ended=5.0)


def test_the_ending_takes_the_space_that_was_kept(tmp_path: Path) -> None:
    run_ending.prepare(tmp_path)
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= RESERVE_BYTES
    assert run_ending.read_ending(tmp_path) is None
    size = (tmp_path / "ending.json").stat().st_size
    assert run_ending.write_ending(tmp_path, END)
    assert run_ending.read_ending(tmp_path) == END
    assert run_ending.write_ending(tmp_path, END.model_copy(update={"error": "é\n" * 9000}))
    assert (tmp_path / "ending.json").stat().st_size == size
    assert (found := run_ending.read_ending(tmp_path)) is not None
    assert found.error.startswith("é\n")
    run_ending.prepare(tmp_path)
    assert run_ending.read_ending(tmp_path) is None
    run_ending.clear(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_end_is_recorded_also_of_a_file_whose_name_is_not_utf8(store: RunStore, workspace: Workspace) -> None:
    error = "no permission to use /data/\udcff.npy"
    run_id = store.create_run("p", "{}", {}, "local")
    store.begin_attempt(run_id)
    assert run_ending.write_ending(workspace.run_folder(run_id), END.model_copy(update={"error": error}))
    kept = run_ending.read_ending(workspace.run_folder(run_id))
    store.record_end(run_id, "failed", error)
    assert kept is not None
    assert kept.error == store.run(run_id).error == r"no permission to use /data/\udcff.npy"


@pytest.mark.parametrize("begun", [True, False])
def test_an_ending_becomes_the_runs_state(store: RunStore, workspace: Workspace, begun: bool) -> None:
    run_id = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run_id, [("a", "T", "A"), ("b", "T", "B")])
    store.update_task(run_id, "a", state="done")
    if begun:
        store.begin_attempt(run_id)
        assert (store.run(run_id).state, store.run(run_id).error) == ("lost", "")
    assert run_ending.write_ending(workspace.run_folder(run_id), END)
    run = store.run(run_id)
    assert (run.state, run.error, run.ended, run.attempt) == ("failed", END.error, 5.0, 1)
    assert [(t.state, t.reason) for t in store.tasks(run_id)] == [("done", ""), ("cancelled", STOPPED)]
    assert store.tracking.unfinished() == [run_id]
    store.record_ending(run_id)
    assert [e.state for _, e in store.events(run_id) if isinstance(e, RunStateChanged)] == ["failed"]
    # It says nothing about the next attempt.
    store.begin_attempt(run_id)
    store.finish_run(run_id, "done")
    assert store.run(run_id).state == "done"


def test_a_run_that_cannot_be_begun_leaves_nothing(store: RunStore, workspace: Workspace) -> None:
    store._connection().execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.create_run("p", "x" * 100_000, {}, "local", {"plan.json": "{}"})
    assert list((workspace.root / "runs").iterdir()) == []


def test_a_full_disk_leaves_a_run_store_that_goes_on(store: RunStore) -> None:
    run_id = store.create_run("p", "{}", {}, "local")
    big = Message(text="x" * 200_000)
    pages = store._connection().execute("PRAGMA max_page_count = 1").fetchone()[0]
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError, match="database or disk is full"):
            store.add_events(run_id, [Message(text="small"), big])
    assert store.events(run_id) == []
    store._connection().execute(f"PRAGMA max_page_count = {pages + 1000}")
    store.add_events(run_id, [big])
    assert len(store.events(run_id)) == 1


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="the system has no /dev/full")
def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    code = (
        "import sys; from engine.processes.system import tolerate_full_disk; tolerate_full_disk();"
        "print('x' * 100_000, flush=True); print('e', file=sys.stderr); print('left in the buffer')"
    )
    with Path("/dev/full").open("wb") as full:
        found = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=full)
    assert found.returncode == 0
