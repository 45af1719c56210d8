"""The template cross-validation on few small volumes: to the mean of five trainings, and its folds by group."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import fmean, stdev

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from running import Runner
from volumes import write_volumes

import voxelflow
from engine.declare.datasets import Report, TrainedModel, VolumeDelta
from engine.document.find import shipped_pipelines
from engine.document.pipeline import read_pipeline
from engine.document.values import with_values
from engine.run.worker_process import PROGRAM
from engine.store.runs import RunStore, Task
from engine.workspace import Workspace, open_workspace
from nodes.table.selection import held

COUNT, FOLDS = 40, 5


def sides_of(fold: Task, columns: list[str]) -> list[pa.Table]:
    """What is trained on and what is validated, in this fold."""
    found = []
    for side in ("train", "validation"):
        part = fold.outputs[side]
        assert isinstance(part, VolumeDelta)
        rows = DeltaTable(part.uri, version=part.version).to_pyarrow_table(columns=columns)
        found.append(rows.filter(held(part.selections, {name: rows[name] for name in rows.column_names})))
    return found


@pytest.mark.slow
def test_each_volume_is_validated_once_and_the_report_has_the_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_trainings: None
) -> None:
    monkeypatch.chdir(tmp_path)
    ids = write_volumes(tmp_path / "data", COUNT, shape=(8, 8, 6, 1)).keys()
    command = ["run", "cross-validation", "--set", "data=data", "--set", "epochs=1", "--set", "width=16"]
    done = subprocess.run([*PROGRAM, *command], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    store = RunStore(open_workspace(tmp_path / "workspace"))
    try:
        (run,) = store.runs()
        tasks = {task.node: task for task in store.tasks(run.run_id)}
    finally:
        store.close()
    assert run.state == "done"
    validated: list[str] = []
    labels: list[list[float]] = []
    for fold in range(1, FOLDS + 1):
        sides = sides_of(tasks[f"fold_{fold}"], ["id", "label"])
        train, validation = (set(side["id"].to_pylist()) for side in sides)
        assert not train & validation
        assert train | validation == ids
        validated += sorted(validation)
        labels.append(sorted(sides[1]["label"].to_pylist()))
    assert sorted(validated) == sorted(ids), "each volume is in one fold"
    assert labels == [[0.0] * (COUNT // FOLDS // 2) + [1.0] * (COUNT // FOLDS // 2)] * FOLDS, "as by label says"
    models = [tasks[f"train_{fold}"].outputs["out"] for fold in range(1, FOLDS + 1)]
    metrics = [model.metrics for model in models if isinstance(model, TrainedModel)]
    assert len(metrics) == FOLDS
    (report,) = [out for task in tasks.values() for out in task.outputs.values() if isinstance(out, Report)]
    for name in ("val_loss", "val_accuracy"):
        values = [float(each[name]) for each in metrics]
        assert report.figures[name] == pytest.approx(fmean(values))
        assert report.figures[f"{name}_std"] == pytest.approx(stdev(values))
    assert "fold 5" in Path(report.uri).read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_by_group_a_patient_is_in_one_fold(tmp_path: Path, workspace: Workspace, store: RunStore) -> None:
    write_volumes(tmp_path / "data", COUNT, shape=(8, 8, 6, 1))
    lines = (tmp_path / "data" / "labels.csv").read_text().splitlines()
    patients = {line.partition(",")[0]: f"P{number // 3:02d}" for number, line in enumerate(lines[1:])}
    rows = [f"{line},{patients[line.partition(',')[0]]}" for line in lines[1:]]
    (tmp_path / "data" / "labels.csv").write_text("\n".join([f"{lines[0]},patient", *rows]))
    shipped = with_values(
        read_pipeline(shipped_pipelines()["cross-validation"]),
        {"data": str(tmp_path / "data"), "by": "group", "column": "patient"},
    )
    # The trainings are those of the other test.
    kept = [node for node in shipped.nodes if node.type not in ("TrainResNet3D", "CrossValidation")]
    ids = {node.id for node in kept}
    edges = [edge for edge in shipped.edges if {edge.source_node, edge.target_node} <= ids]
    run, tasks = Runner(voxelflow.catalog(workspace), workspace, store).run(
        shipped.model_copy(update={"nodes": tuple(kept), "edges": tuple(edges)})
    )
    assert run.state == "done", run.error
    validated: list[str] = []
    for fold in range(1, FOLDS + 1):
        train, validation = sides_of(tasks[f"fold_{fold}"], ["id", "patient"])
        assert train.num_rows + validation.num_rows == COUNT
        assert not {*train["patient"].to_pylist()} & {*validation["patient"].to_pylist()}
        assert validation["patient"].to_pylist() == [patients[name] for name in validation["id"].to_pylist()]
        validated += validation["id"].to_pylist()
    assert sorted(validated) == sorted(patients), "each volume is in one fold"
