"""The example in examples/mri, with fewer patients, larger voxels and one epoch."""

from __future__ import annotations

import csv
from pathlib import Path

import nibabel
import numpy as np
import pytest
from deltalake import DeltaTable
from readme_examples import Reader, commands

from pipelines import brain_scans

pytest.importorskip("scipy")
PATIENTS = 10


@pytest.mark.slow
def test_scans_differ_in_shape_and_a_patient_keeps_the_lesion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brain = np.full((197, 233, 189), 0.5, np.float32)
    monkeypatch.setattr(brain_scans, "read_brain", lambda: (brain, brain))
    brain_scans.write(tmp_path, 2, 0)
    with (tmp_path / "patients.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["file"], row["patient"], row["label"]) for row in rows] == [
        ("P001_1.nii.gz", "P001", "healthy"),
        ("P001_2.nii.gz", "P001", "healthy"),
        ("P002_1.nii.gz", "P002", "lesion"),
        ("P002_2.nii.gz", "P002", "lesion"),
    ]
    images = [nibabel.load(tmp_path / row["file"]) for row in rows]
    assert len({(image.shape, image.header.get_zooms()) for image in images}) > 1  # type: ignore[attr-defined]
    # Brighter than all the rest of the head, and nowhere but in those who have it.
    values = [image.get_fdata() for image in images]  # type: ignore[attr-defined]
    bright = [np.mean(each > 1.7 * np.median(each[each > 0.25 * each.max()])) for each in values]
    assert max(bright[:2]) == 0 < min(bright[2:])


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_trainings: None) -> None:
    smaller = {
        "brain_scans scans": f"brain_scans scans --patients {PATIENTS}",
        "width=16": "width=16 --set transform.spacing=[12] --set transform.size=[16,20,16] --set epochs=1",
    }
    reader = Reader(tmp_path, monkeypatch, smaller)
    _, ran, predicted = [reader.follow(command) for command in commands("mri")]
    assert "transforms resample 12 mm, crop 16x20x16, z-score" in ran
    # Both scans of a patient are in one part, and all parts have some.
    (table,) = Path("workspace").rglob("table/_delta_log")
    listed = DeltaTable(table.parent).to_pyarrow_table(columns=["id", "patient", "label"]).to_pylist()
    rows = {row["id"]: row for row in listed}
    assert len(rows) == 2 * PATIENTS
    (judged,) = Path("workspace").rglob("predictions/_delta_log")
    predictions = DeltaTable(judged.parent).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    tested = {rows[name]["patient"] for name in predictions}
    assert 0 < len(tested) < PATIENTS
    assert len(predictions) == sum(row["patient"] in tested for row in rows.values()) == 2 * len(tested)
    # Scans as they come from the scanner, of two shapes.
    assert predicted.count(".nii.gz") == 2
