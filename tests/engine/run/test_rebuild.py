"""A damaged run store: every command names the command that rebuilds it, and that brings back what can be known."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
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
