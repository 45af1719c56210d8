"""A run whose profile keeps its data elsewhere: executed, gone on with, and cleaned."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import box, pipeline
from running import Runner

from engine.catalog import Catalog
from engine.profiles import Profile
from engine.run.clean import free, survey
from engine.store.runs import Run, RunStore, Task
from engine.workspace import Workspace, storage_of

DOCUMENT = pipeline(box("a", "Make"), box("b", "Join"), wires="a.out>b.first")


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_results_are_at_the_storage_root_and_clean_finds_them(
    probes: Catalog, workspace: Workspace, store: RunStore, tmp_path: Path
) -> None:
    def run(profile: Profile) -> tuple[Run, dict[str, Task]]:
        return Runner(probes, workspace, store, profile).run(DOCUMENT)

    local = Profile(name="local", cores=2, memory_bytes=1 << 30)
    big = Profile(name="big", cores=2, memory_bytes=1 << 30, storage_root=tmp_path / "shared", price_per_hour=7200.0)
    there = storage_of(workspace, big.storage_root)
    done, tasks = run(big)
    assert (done.state, done.error) == ("done", "")
    for task in tasks.values():
        assert Path(task.outputs["out"].uri).is_relative_to(there.data)
    assert list(there.scratch.iterdir()) == []
    assert [p for p in workspace.data.rglob("*") if p.is_file()] == []
    assert done.seconds is not None
    assert done.cost == pytest.approx(2 * done.seconds)
    # All of it was measured, but for what lies before the first sample.
    assert 0 < done.measured_s <= done.seconds
    assert done.idle_share is not None
    assert 0 <= done.idle_share <= 1
    assert (done.options["backend"], done.options["price_per_hour"]) == ("embedded", 7200.0)

    again, cached = run(local)
    assert {t.state for t in cached.values()} == {"cached"}
    assert again.cost is None
    (tmp_path / "shared").rename(tmp_path / "unmounted")
    assert survey(workspace, store) == []
    (tmp_path / "unmounted").rename(tmp_path / "shared")

    places = survey(workspace, store)
    assert {(p.path.parent, p.node) for p in places} == {(there.data / "Make", "a"), (there.data / "Join", "b")}
    freed = free(workspace, store, places)
    assert len(freed.freed) == 2
    assert not freed.skipped
    assert store.results.all() == []
    _, made = run(local)
    assert {t.state for t in made.values()} == {"done"}
    assert Path(made["b"].outputs["out"].uri).is_relative_to(workspace.data)
