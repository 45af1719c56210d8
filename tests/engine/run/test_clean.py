from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from stored_results import stored_result

from engine.declare.datasets import Report
from engine.run.clean import Place, free, survey
from engine.storage.process_lock import ProcessLock
from engine.store.runs import RunStore
from engine.workspace import Workspace, place_lock, place_of


@pytest.fixture
def places(workspace: Workspace, store: RunStore) -> dict[str, Path]:
    """Two results, one of which another result lies in, and half-done work."""
    out = {}
    for i, (name, place) in enumerate({"made": "Make/aaaa", "table": "Table/bbbb", "late": "Late/cccc"}.items()):
        folder = workspace.data / place / "result"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 10_000 * (i + 1))
        uri = out["table"] / "result" / "file" if name == "late" else folder / "file"
        store.results.put(
            stored_result(name, outputs={"out": Report(uri=str(uri))}, out=f"{place}/result", shared=place)
        )
        out[name] = folder.parent
    half = workspace.scratch / "f"
    half.mkdir(parents=True)
    (half / "done").write_bytes(b"x" * 5000)
    return out


def _survey(workspace: Workspace, store: RunStore) -> dict[str, Place]:
    return {p.path.name: p for p in survey(workspace, store)}


def test_the_survey_says_what_belongs_to_which_node(workspace: Workspace, store: RunStore, places) -> None:
    found = _survey(workspace, store)
    assert found["aaaa"].node == "made"
    assert found["aaaa"].bytes >= 10_000
    assert found["bbbb"].results == 2
    assert found["bbbb"].node == "table"
    assert found["f"].node_type == "scratch"
    assert not any(p.in_use for p in found.values())


def test_freeing_forgets_every_result_that_was_there(workspace: Workspace, store: RunStore, places) -> None:
    found = _survey(workspace, store)
    freed = free(workspace, store, [found["bbbb"]])
    assert freed.freed == [places["table"]]
    assert freed.freed_bytes == found["bbbb"].bytes
    assert not places["table"].exists()
    assert {r.fingerprint for r in store.results.all()} == {"made"}


def test_what_a_run_holds_is_never_freed(workspace: Workspace, store: RunStore, places) -> None:
    lock = ProcessLock(place_lock(workspace, places["made"]))
    assert lock.acquire(shared=True)
    found = _survey(workspace, store)
    assert found["aaaa"].in_use
    freed = free(workspace, store, found.values())
    assert [path for path, _ in freed.skipped] == [places["made"]]
    assert (places["made"] / "result" / "file").exists()
    assert {r.fingerprint for r in store.results.all()} == {"made"}
    lock.release()


def test_a_file_that_is_linked_elsewhere_counts_once_and_frees_nothing(
    workspace: Workspace, store: RunStore, places
) -> None:
    (places["table"] / "linked").hardlink_to(places["made"] / "result" / "file")
    found = _survey(workspace, store)
    assert sum(p.bytes for p in found.values()) < 10_000 * 9
    assert free(workspace, store, [found["aaaa"]]).freed_bytes < 10_000
    assert (places["table"] / "linked").exists()


@pytest.fixture
def link(workspace: Workspace, tmp_path: Path) -> Path:
    """Another way to the workspace."""
    link = tmp_path / "link"
    link.symlink_to(workspace.root)
    return link


def test_a_place_is_the_same_through_a_link(workspace: Workspace, places: dict[str, Path], link: Path) -> None:
    inside = Path("data/Make/aaaa/result/file")
    assert place_of(workspace, link / inside) == places["made"]
    assert place_of(Workspace(link), workspace.root / inside) == link / "data/Make/aaaa"
    assert place_of(workspace, workspace.data / "Table/bbbb/../../Make/aaaa/result") == places["made"]
    assert place_of(workspace, link / "data/Make") is None
    # A place may lie on another disk.
    moved = places["made"].rename(link.parent / "moved")
    places["made"].symlink_to(moved)
    assert place_of(workspace, workspace.root / inside) == places["made"]
    assert place_of(workspace, workspace.data / "no\ud800name/file") == workspace.data / "no\ud800name/file"
    assert place_of(workspace, Path("/no\ud800name/file")) is None


def test_a_result_that_names_its_files_through_a_link_owns_them(
    workspace: Workspace, store: RunStore, places: dict[str, Path], link: Path
) -> None:
    uri = str(link / "data/Make/aaaa/result/file")
    store.results.put(stored_result("loader", outputs={"out": Report(uri=uri)}, out="L/d/result", shared="L/d"))
    assert _survey(workspace, store)["aaaa"].results == 2
    free(workspace, store, [_survey(workspace, store)["aaaa"]])
    assert {r.fingerprint for r in store.results.all()} == {"table", "late"}


def test_what_a_run_at_work_names_through_a_link_stays(
    workspace: Workspace, store: RunStore, places: dict[str, Path], link: Path
) -> None:
    run_id = store.create_run("p", "{}", {}, "local")
    task = {"shared": "L/d", "identity": {"fingerprint": "loader"}, "params": {"table": str(link / "data/Make/aaaa")}}
    (workspace.run_folder(run_id) / "plan.json").write_text(json.dumps({"tasks": [task]}))
    found = _survey(workspace, store)
    assert [name for name, place in found.items() if place.in_use] == ["aaaa"]
    assert free(workspace, store, [found["aaaa"]]).skipped == [(places["made"], "a run is using it")]


def test_a_clean_up_that_was_killed_is_finished_by_the_next(workspace: Workspace, store: RunStore, places) -> None:
    trash = workspace.data / "Make" / ".trash-1"
    trash.mkdir()
    (trash / "left").write_text("x")
    listing = workspace.observations / "unused.arrow"
    listing.write_text("")
    young = workspace.observations / "young.arrow"
    young.write_text("")
    half = workspace.scratch / ".trash-2"
    half.mkdir()
    os.utime(listing, (0, 0))
    assert ".trash-1" not in _survey(workspace, store)
    free(workspace, store, [])
    assert not trash.exists()
    assert not half.exists()
    assert not listing.exists()
    assert young.exists()
