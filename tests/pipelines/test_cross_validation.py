"""The template cross-validation, from files to the mean of five trainings, on few small volumes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import fmean, stdev

import pytest
from deltalake import DeltaTable
from volumes import write_volumes

from engine.declare.datasets import Report, TrainedModel, VolumeDelta
from engine.run.worker_process import PROGRAM
from engine.store.runs import RunStore
from engine.workspace import open_workspace
from nodes.table.selection import held

COUNT, FOLDS = 40, 5


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
        made = tasks[f"fold_{fold}"].outputs
        sides = []
        for side in ("train", "validation"):
            part = made[side]
            assert isinstance(part, VolumeDelta)
            rows = DeltaTable(part.uri, version=part.version).to_pyarrow_table(columns=["id", "label"])
            sides.append(rows.filter(held(part.selections, {n: rows[n] for n in rows.column_names})))
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
