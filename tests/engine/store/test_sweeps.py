"""Sweeps and trials as the run store keeps them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.run.rebuild import rebuild
from engine.storage.process_lock import ProcessLock
from engine.store.runs import RunStore
from engine.workspace import Workspace, open_workspace


def _made(store: RunStore) -> str:
    inside = str(store.workspace.root / "files")
    return store.sweeps.create("p", '{"name": "p"}', {"base": inside, "key": "k"}, "local", [{"n": 1}, {"f": inside}])


def test_a_sweep_and_its_trials_from_start_to_end(store: RunStore, workspace: Workspace) -> None:
    sweep_id = _made(store)
    sweep = store.sweeps.find(sweep_id)
    assert (sweep.state, sweep.active, sweep.attempt, sweep.cancel) == ("starting", True, 0, False)
    assert store.sweeps.find("last") == store.sweeps.find(sweep_id[4:-2]) == sweep
    lock = ProcessLock(workspace.sweep_folder(sweep_id) / "lock")
    assert lock.acquire()
    store.sweeps.request_cancel(sweep_id)
    store.sweeps.begin(sweep_id)
    assert (store.sweeps.find(sweep_id).state, store.sweeps.find(sweep_id).cancel) == ("running", True)
    store.sweeps.add_trial(sweep_id, 2, {"n": 3})
    store.sweeps.add_trial(sweep_id, 2, {"n": 4})
    store.sweeps.set_trial(sweep_id, 1, "done", score=0.5)
    assert [(t.values, t.state, t.score) for t in store.sweeps.trials(sweep_id)] == [
        ({"n": 1}, "waiting", None), ({"f": str(workspace.root / "files")}, "done", 0.5), ({"n": 3}, "waiting", None),
    ]  # fmt: skip
    lock.release()
    assert store.sweeps.find(sweep_id).state == "lost"
    store.sweeps.begin(sweep_id)
    assert not store.sweeps.find(sweep_id).cancel, "it meant the attempt before"
    store.sweeps.end(sweep_id, "done")
    assert (store.sweeps.find(sweep_id).state, store.sweeps.untracked()) == ("done", [sweep_id])
    store.sweeps.set_tracked(sweep_id)
    assert store.sweeps.untracked() == []
    with pytest.raises(UsageError, match="there is no sweep x"):
        store.sweeps.find("x")


def test_changes_of_two_at_once_are_both_kept(store: RunStore) -> None:
    """As of who resumes it with another number of jobs, and of its process."""
    sweep_id = _made(store)

    def change(name: str) -> None:
        for number in range(20):
            store.sweeps.change(sweep_id, {f"{name}{number}": number})
        store.close()

    threads = [threading.Thread(target=change, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.sweeps.find(sweep_id).options) == 2 + 3 * 20


def test_two_sweeps_never_share_an_id(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["a", "a", "b"])
    monkeypatch.setattr("engine.store.sweeps.new_id", lambda: next(drawn))
    assert (_made(store), _made(store)) == ("a", "b")


def test_runs_name_their_trials(store: RunStore) -> None:
    sweep_id = _made(store)
    first = store.create_run("p", "{}", {"sweep": sweep_id, "trial": 1}, "local")
    store.create_run("p", "{}", {"sweep": "another", "trial": 0}, "local")
    store.create_run("p", "{}", {}, "local")
    again = store.create_run("p", "{}", {"sweep": sweep_id, "trial": 1}, "local")
    assert first != again
    assert store.sweeps.runs_of_trials(sweep_id) == {1: again}


def test_they_move_with_their_workspace_and_come_through_a_rebuild(workspace: Workspace, tmp_path: Path) -> None:
    store = RunStore(workspace)
    sweep_id = _made(store)
    store.sweeps.end(sweep_id, "cancelled")
    store.close()
    rebuild(workspace)
    moved = workspace.root.rename(tmp_path / "moved")
    store = RunStore(open_workspace(moved))
    assert store.sweeps.find(sweep_id).options["base"] == str(moved / "files")
    assert store.sweeps.trials(sweep_id)[1].values == {"f": str(moved / "files")}
    store.close()


def test_a_middle_part_of_a_runs_id_names_it_when_nothing_begins_or_ends_so(store: RunStore) -> None:
    run = store.create_run("p", "{}", {}, "local")
    assert store.run(run[5:-3]).run_id == run
    store.create_run("p", "{}", {}, "local")
    with pytest.raises(UsageError, match="2 runs are called"):
        store.run(run[2:10])
