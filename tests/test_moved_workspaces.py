"""A workspace is moved, renamed or copied: its results, its runs and what goes on from them come along."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from building import box, pipeline
from command_line import NO_WORK
from in_process import PROFILE, InProcess, in_process
from keras_stand_in import STAND_IN
from running import Runner
from volumes import rows_by_pyarrow, write_volumes

import voxelflow
from engine.cli import main
from engine.declare.datasets import Predictions, VolumeDelta
from engine.declare.events import Artifact, Message
from engine.document.pipeline import Pipeline
from engine.document.plan import read_plan
from engine.run import launch
from engine.run.clean import free, survey
from engine.run.launch import prepare
from engine.store.runs import RunStore
from engine.workspace import Workspace, open_workspace
from nodes.prediction.predictions_table import read_predictions
from nodes.training.learner import FRAMEWORKS

SHAPE = (4, 4, 2, 1)
SAYS_WHERE_IT_WAS = {".html"}
"""Pages for people say where a table was when it was read. No code reads them to find it."""


def etl(folder: str, table: str = "", **convert: object) -> Pipeline:
    return pipeline(
        box("folder", "VolumeFolder", folder=folder),
        box("convert", "NumpyToParquet", **convert),
        box("table", "ParquetToDelta", table=table),
        box("optimize", "OptimizeDelta"),
        box("inspect", "InspectDataset"),
        wires="folder.out>convert.files convert.out>table.parquet table.out>optimize.table"
        " optimize.out>inspect.dataset",
        name="etl",
    )


class Opened:
    """A workspace as a newly started program sees it."""

    def __init__(self, root: Path) -> None:
        self.workspace = open_workspace(root)
        self.store = RunStore(self.workspace)
        self.catalog = voxelflow.catalog(self.workspace)

    def to_run(self, document: Pipeline) -> dict[str, str]:
        ready = prepare(document, self.catalog, self.workspace, self.store, profile=PROFILE)
        return {task.node: task.reason for task in ready.plan.to_run}

    def run(self, document: Pipeline) -> str:
        with in_process(self.catalog):
            run = InProcess(self.workspace, self.catalog).run(document)
        assert run.state == "done", run.error
        return run.run_id

    def states(self, run_id: str) -> set[str]:
        return {task.state for task in self.store.tasks(run_id)}

    def table(self, run_id: str) -> VolumeDelta:
        (made,) = (t.outputs["out"] for t in self.store.tasks(run_id) if t.node == "optimize")
        assert isinstance(made, VolumeDelta)
        return made

    def rows(self, run_id: str) -> list[str]:
        made = self.table(run_id)
        assert Path(made.uri).is_relative_to(self.workspace.root)
        rows = rows_by_pyarrow(made.uri, made.version)
        assert len(rows) == made.count
        return [name for name, _, _ in rows]

    def said(self, run_id: str) -> list[str]:
        return [e.text for _, e in self.store.events(run_id, kinds=("message",)) if isinstance(e, Message)]


def names(*numbers: int) -> list[str]:
    return [f"{number:05d}.npy" for number in numbers]


@contextlib.contextmanager
def opened(root: Path) -> Iterator[Opened]:
    out = Opened(root)
    yield out
    out.store.close()


def files_that_name(root: Path) -> dict[str, str]:
    """The files below it that contain its path, with what is around it."""
    out = {}
    for path in root.rglob("*"):
        if (
            path.is_file()
            and path.suffix not in (*SAYS_WHERE_IT_WAS, ".db")
            and os.fsencode(root) in (data := path.read_bytes())
        ):
            at = data.index(os.fsencode(root))
            out[str(path.relative_to(root))] = data[max(0, at - 60) : at + 120].decode(errors="replace")
    return out


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# The folder of volumes and the table lie in the workspace too: they are named by the document, relative to it.
INSIDE = etl("incoming", "tables/volumes")


@pytest.mark.slow
def test_a_moved_workspace_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    here, there = tmp_path / "first", tmp_path / "later" / "renamed"
    write_volumes(here / "incoming", 12, shape=SHAPE)
    with opened(here) as before:
        first = before.run(INSIDE)
        assert before.rows(first) == names(*range(12))
        before.store.checkpoint()
    named = files_that_name(here)
    # delta-rs notes the table's place in its first commit; no reader looks at that.
    assert {name for name in named if "_delta_log/" not in name} == set(), named
    there.parent.mkdir()
    here.rename(there)

    with opened(there) as now:
        assert now.to_run(INSIDE) == {}
        assert now.states(now.run(INSIDE)) == {"cached"}
        run = now.store.run(first)
        assert (run.state, run.pipeline) == ("done", "etl")
        assert now.rows(first) == names(*range(12))
        artifacts = [e for _, e in now.store.events(first, kinds=("artifact",)) if isinstance(e, Artifact)]
        assert artifacts
        assert all(Path(a.path).is_relative_to(there) and Path(a.path).exists() for a in artifacts)
        plan = read_plan(now.workspace, first)
        assert plan is not None
        assert plan.task("folder").params["folder"] == str(there / "incoming")

        # It goes on with what is new, takes out what is gone, and doubles nothing.
        (there / "incoming" / "00003.npy").unlink()
        write_volumes(there / "incoming", 2, shape=SHAPE, first=12)
        second = now.run(INSIDE)
        assert now.rows(second) == names(*(n for n in range(14) if n != 3))
        assert not here.exists()


@pytest.mark.slow
def test_a_model_in_a_moved_workspace_predicts_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a model that was trained; that of `model.json`, its weights and what its volumes went through are found."""
    monkeypatch.setitem(FRAMEWORKS, "keras", STAND_IN)
    here, there = tmp_path / "first", tmp_path / "later"
    write_volumes(here / "incoming", 24, shape=SHAPE)
    new = tmp_path / "new"
    write_volumes(new, 6, shape=SHAPE, first=100)
    (new / "labels.csv").unlink()
    trained = pipeline(
        box("folder", "VolumeFolder", folder="incoming"),
        box("transform", "TransformVolumes", clip_percentiles=[1.0, 99.0], statistics="all"),
        box("convert", "NumpyToParquet"),
        box("table", "ParquetToDelta"),
        box("train", "TrainResNet3D", epochs=8, batch_size=4, learning_rate=0.05, warmup_steps=0),
        box("predict", "BatchPredict"),
        wires="folder.out>transform.volumes transform.out>convert.files convert.out>table.parquet"
        " table.out>train.data train.out>predict.model table.out>predict.data",
        name="trained",
    )

    work = replace(NO_WORK, ask_model=voxelflow._ask_model)

    def predicted(workspace: Path) -> dict[str, float]:
        """By the command, of files that no run has seen."""
        capsys.readouterr()
        arguments = ["predict", "last", str(new), "--json", "--workspace", str(workspace)]
        assert main(voxelflow.catalog, lambda *_, **__: 0, work, arguments) == 0
        found = json.loads(capsys.readouterr().out)["files"]
        return {Path(each["file"]).name: each["scores"]["1"] for each in found}

    def scores(opened: Opened, run_id: str) -> dict[str, list[float]]:
        (made,) = (t.outputs["out"] for t in opened.store.tasks(run_id) if t.node == "predict")
        assert isinstance(made, Predictions)
        rows = [row for batch in read_predictions(made, ["id", "scores"]) for row in batch.to_pylist()]
        return {row["id"]: row["scores"] for row in rows}

    with opened(here) as before:
        first = before.run(trained)
        in_tables = scores(before, first)
    assert in_tables.keys() == set(names(*range(24)))
    of_files = predicted(here)
    assert {name: score > 0.5 for name, score in of_files.items()} == {
        name: bool(number % 2) for number, name in enumerate(names(*range(100, 106)))
    }
    named = files_that_name(here)
    # Beside what delta-rs notes: a model says what it was trained on, to whoever takes it elsewhere.
    assert {name for name in named if "_delta_log/" not in name and not name.endswith("/model.json")} == set(), named
    here.rename(there)

    assert predicted(there) == of_files
    with opened(there) as now:
        assert now.to_run(trained) == {}
        assert scores(now, first) == in_tables
        more = trained.model_copy(deep=True)
        more.nodes[-1].params["batch_size"] = 4
        assert now.to_run(more).keys() == {"predict"}
        again = scores(now, now.run(more))
    assert again.keys() == in_tables.keys()
    assert all(again[name] == pytest.approx(in_tables[name], rel=1e-6) for name in again)
    assert not here.exists()


@pytest.mark.slow
def test_a_copy_and_its_original_are_independent(tmp_path: Path) -> None:
    source, original = tmp_path / "volumes", tmp_path / "original"
    write_volumes(source, 6, shape=SHAPE)
    document = etl(str(source))
    with opened(original) as first:
        first.run(document)
    copies = [tmp_path / "copy", tmp_path / "freed"]
    for copy in copies:
        # As `cp -r` does: times are those of the copying.
        shutil.copytree(original, copy, copy_function=shutil.copy)
    with opened(copies[1]) as freed:
        assert freed.to_run(document) == {}
        done = free(freed.workspace, freed.store, survey(freed.workspace, freed.store))
        assert done.freed
        assert all(place.is_relative_to(copies[1]) for place in done.freed)
        assert freed.to_run(document).keys() == {"folder", "convert", "table", "optimize", "inspect"}
    for root in (original, copies[0]):
        with opened(root) as other:
            assert other.to_run(document) == {}

    # The original goes on: the copy has the rows that it had.
    np.save(source / "00000.npy", np.zeros(SHAPE, np.float32))
    with opened(original) as first:
        changed = first.run(document)
        assert first.rows(changed) == names(*range(6))
    with opened(copies[0]) as copy:
        (run,) = copy.store.runs()
        before = copy.rows(run.run_id)
        shutil.rmtree(original)
        assert copy.rows(run.run_id) == before == names(*range(6))
        again = copy.run(document)
        # The changed volume came in place of its former self.
        assert copy.rows(again) == names(*range(6))
        table = copy.table(again)
        values = {name: volume for name, _, volume in rows_by_pyarrow(table.uri, table.version)}
        assert set(values["00000.npy"]) == {0}


@pytest.mark.slow
def test_a_table_elsewhere_stays_that_of_a_moved_workspace(tmp_path: Path) -> None:
    """Its ledger knows whose rows are whose: those of a volume that changed must not be there twice."""
    source, table = tmp_path / "volumes", tmp_path / "table"
    write_volumes(source, 6, shape=SHAPE)
    document = etl(str(source), str(table))
    with opened(tmp_path / "a") as before:
        before.run(document)
    (tmp_path / "a").rename(tmp_path / "b")
    np.save(source / "00001.npy", np.zeros(SHAPE, np.float32))
    with opened(tmp_path / "b") as now:
        made = now.table(now.run(document))
        assert made.uri == str(table)
        rows = rows_by_pyarrow(made.uri, made.version)
        assert [name for name, _, _ in rows] == names(*range(6))
        assert set(rows[1][2]) == {0}


@pytest.mark.slow
def test_a_workspace_is_the_same_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_volumes(tmp_path / "real" / "incoming", 3, shape=SHAPE)
    with opened(tmp_path / "link") as linked:
        linked.run(INSIDE)
    with opened(tmp_path / "real") as real:
        assert real.to_run(INSIDE) == {}


def test_values_inside_the_workspace_move_with_it(tmp_path: Path) -> None:
    """As `--set` records them: a run can be repeated from the history."""
    document = pipeline(box("folder", "VolumeFolder", folder="${data}"), name="p", data=str(tmp_path / "a" / "in"))
    write_volumes(tmp_path / "a" / "in", 3, shape=SHAPE)
    with opened(tmp_path / "a") as before:
        before.run(document)
    (tmp_path / "a").rename(tmp_path / "b")
    with opened(tmp_path / "b") as now:
        (run,) = now.store.runs()
        assert run.document == launch.dump(document).replace(str(tmp_path / "a"), str(tmp_path / "b"))


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_killed_run_resumes_where_its_workspace_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "a", tmp_path / "b"
    write_volumes(here / "incoming", 8, shape=SHAPE)

    def runner(workspace: Workspace) -> Runner:
        return Runner(voxelflow.catalog(workspace), workspace, RunStore(workspace))

    first = runner(open_workspace(here))
    with monkeypatch.context() as killed:
        killed.setenv("VOXELFLOW_KILL_AT", "supervisor:before-result#3")
        run_id = first.start(INSIDE)
        assert first.finish(run_id).state == "lost"
    first.store.close()
    here.rename(there)
    now = runner(open_workspace(there))
    run, tasks = now.resume(run_id)
    assert run.state == "done", run.error
    table = tasks["optimize"].outputs["out"]
    assert isinstance(table, VolumeDelta)
    assert table.uri == str(there / "tables" / "volumes")
    assert [name for name, _, _ in rows_by_pyarrow(table.uri, table.version)] == names(*range(8))
    assert not here.exists()
    with opened(there) as again:
        assert again.to_run(INSIDE) == {}


@pytest.mark.slow
def test_what_outside_programs_see_in_the_database_has_no_root(tmp_path: Path) -> None:
    write_volumes(tmp_path / "a" / "incoming", 3, shape=SHAPE)
    with opened(tmp_path / "a") as before:
        before.run(INSIDE)
    with contextlib.closing(sqlite3.connect(tmp_path / "a" / "runs.db")) as db:
        # Where the workspace was opened is noted, to know its tables elsewhere after a move.
        text = "\n".join(line for line in db.iterdump() if not line.startswith('INSERT INTO "settings"'))
    assert str(tmp_path) not in text
    assert "workspace:/tables/volumes" in text
