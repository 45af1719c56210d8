"""A workspace of an earlier version, in another folder than the one where it was written, is opened and goes on."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process import PROFILE, InProcess, in_process
from older_workspaces import COUNT, DONE, FAILED, KILLED, ROOT, restore_older
from volumes import rows_by_pyarrow

import voxelflow
from engine.declare.datasets import VolumeDelta
from engine.document.pipeline import Pipeline, load
from engine.document.plan import read_plan
from engine.run import launch
from engine.run.clean import survey
from engine.run.launch import prepare
from engine.store.runs import RunStore
from engine.workspace import FORMAT, open_workspace

NAMES = [f"{number:02d}.npy" for number in range(COUNT)]

CHANGED = {"inspect": "node version 1 -> 2"}
"""InspectDataset took the third axis for channels then."""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    return restore_older(tmp_path / "workspace")


@contextlib.contextmanager
def opened(root: Path) -> Iterator[RunStore]:
    store = RunStore(open_workspace(root))
    yield store
    store.close()


def document(root: Path, name: str) -> Pipeline:
    return load((root / "pipelines" / f"{name}.json").read_text(encoding="utf-8"))


def to_run(store: RunStore, pipeline: Pipeline) -> dict[str, str]:
    workspace = store.workspace
    ready = prepare(pipeline, voxelflow.catalog(workspace), workspace, store, profile=PROFILE)
    return {task.node: task.reason for task in ready.plan.to_run}


@pytest.mark.slow
def test_its_history_and_its_results_are_there(older: Path) -> None:
    with opened(older) as store:
        states = {run.run_id: run.state for run in store.runs()}
        assert states == {KILLED: "lost", FAILED: "failed", DONE: "done"}
        # Nobody measured it then.
        assert {run.idle_share for run in store.runs()} == {None}
        done = {task.node: task for task in store.tasks(DONE)}
        assert {task.state for task in done.values()} == {"done"}
        made = done["optimize"].outputs["out"]
        assert isinstance(made, VolumeDelta)
        assert made.uri == str(older / "tables" / "volumes")
        assert [name for name, _, _ in rows_by_pyarrow(made.uri, made.version)] == NAMES
        for run_id in states:
            plan = read_plan(store.workspace, run_id)
            assert plan is not None
            assert ROOT not in plan.task("folder").params["folder"]
        # All of it, its fingerprints included, counts as up to date, but for the node that works otherwise since.
        assert to_run(store, document(older, "etl")) == CHANGED
        kept = {place.path.parent.name: place.kept_for for place in survey(store.workspace, store) if place.kept_for}
        assert kept["ParquetToDelta"] == KILLED
    with contextlib.closing(sqlite3.connect(older / "runs.db")) as db:
        text = "\n".join(line for line in db.iterdump() if '"uri"' in line)
    assert "workspace:/tables/volumes" in text
    assert f'"uri": "{ROOT}' not in text
    assert json.loads((older / "workspace.json").read_text())["format"] == FORMAT


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_what_was_killed_there_is_resumed_and_what_is_new_is_added(older: Path) -> None:
    with opened(older) as store:
        workspace = store.workspace
        with in_process(catalog := voxelflow.catalog(workspace)):
            launch.resume(workspace, store, KILLED)
        run = store.run(KILLED)
        assert (run.state, run.attempt) == ("done", 2), run.error
        tasks = {task.node: task for task in store.tasks(KILLED)}
        assert {node: task.attempt for node, task in tasks.items()} == {
            "folder": 0,
            "convert": 1,
            "table": 1,
            "optimize": 2,
        }
        made = tasks["optimize"].outputs["out"]
        assert [name for name, _, _ in rows_by_pyarrow(made.uri)] == NAMES
        assert to_run(store, document(older, "killed")) == {}

        # One volume more, one less: each table has every row once.
        (older / "incoming" / "07.npy").rename(older / "incoming" / "77.npy")
        for name in ("etl", "killed"):
            with in_process(catalog):
                run = InProcess(workspace, catalog).run(document(older, name))
            assert run.state == "done", run.error
            (table,) = (t.outputs["out"] for t in store.tasks(run.run_id) if t.node == "optimize")
            assert Path(table.uri).is_relative_to(older)
            rows = [row for row, _, _ in rows_by_pyarrow(table.uri)]
            assert rows == [*(name for name in NAMES if name != "07.npy"), "77.npy"]


def test_it_can_be_moved_again_afterwards(older: Path, tmp_path: Path) -> None:
    with opened(older):
        pass
    later = tmp_path / "later"
    older.rename(later)
    with opened(later) as store:
        assert to_run(store, document(later, "etl")) == CHANGED
        plan = read_plan(store.workspace, KILLED)
        assert plan is not None
        assert os.path.exists(plan.task("folder").params["folder"])


def test_a_run_that_was_lost_before_any_result_knows_its_folders(older: Path) -> None:
    """Nothing but the run's own plan tells then where the workspace lay."""
    with contextlib.closing(sqlite3.connect(older / "runs.db")) as db, db:
        db.execute("DELETE FROM results")
    with opened(older) as store:
        plan = read_plan(store.workspace, KILLED)
    assert plan is not None
    assert plan.task("folder").params["folder"] == str(older / "incoming")
    assert all(Path(p).is_relative_to(older) for p in plan.task("folder").listings.values())
