"""The example in examples/seismic, on a smaller survey and for one epoch."""

from __future__ import annotations

from contextlib import closing
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import segyio
from deltalake import DeltaTable
from numpy.typing import NDArray
from readme_examples import Reader, commands

from engine.declare.datasets import Dataset, VolumeDelta, VolumeParquet
from engine.store.runs import RunStore
from engine.workspace import Workspace
from nodes.loaders import open_source
from pipelines import seismic_survey

pytest.importorskip("scipy")
SHAPE = (96, 80, 48)


def test_the_survey_is_segy_with_lines_coordinates_and_a_horizon(tmp_path: Path) -> None:
    seismic_survey.write(tmp_path, (12, 10, 32), 3)
    amplitude, facies, horizon = seismic_survey.make((12, 10, 32), 3)
    for name, volume in (("amplitude", amplitude), ("facies", facies)):
        assert np.array_equal(segyio.tools.cube(str(tmp_path / f"survey_{name}.sgy")), volume.astype(np.float32))
    with segyio.open(str(tmp_path / "survey_envelope.sgy")) as file:
        assert (file.ilines[0], file.xlines[-1], file.samples[1]) == (1000, 2009, 804)
        assert file.header[11][181] == 10 * (450_000 + 25)
    points = np.loadtxt(tmp_path / "horizon.txt")
    assert points.shape == (12 * 3, 3)
    assert np.allclose(points[:, 2], 800 + 4 * horizon[:, ::4].reshape(-1), atol=0.01)


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_trainings: None) -> None:
    monkeypatch.setattr(seismic_survey, "SHAPE", SHAPE)
    # Smaller patches: blocks that are several times as long fit into the small survey.
    smaller = "epochs=1 cut.size=[8,8,8] split.block=24 split.validation=0.3 split.test=0.3 train.batch_size=8"
    settings = " ".join(f"--set {each}" for each in smaller.split())
    reader = Reader(tmp_path, monkeypatch, {"data=survey": f"data=survey {settings}"})
    _, ran = [reader.follow(command) for command in commands("seismic")]
    assert "evaluate: done" in ran
    with closing(RunStore(Workspace(tmp_path / "workspace"))) as store:
        tasks = {task.node: task for task in store.tasks(store.run("last").run_id)}
    patches = tasks["cut"].outputs["out"]
    assert isinstance(patches, VolumeParquet)
    assert patches.found == 12 * 10 * 6 == patches.count + patches.left_out
    assert patches.spec is not None
    assert patches.spec.classes == ("layers", "channel", "salt")
    parts = {name: _places(part) for name, part in tasks["split"].outputs.items()}
    assert parts.keys() == {"train", "validation", "test"}
    assert sum(map(len, parts.values())) < patches.count, "nothing lay within a gap"
    for one, other in combinations(parts.values(), 2):
        apart = np.abs(one[:, None] - other[None]).max(axis=2)
        assert apart.min() >= 8, "patches of two parts share voxels"
    assert tasks["evaluate"].outputs["out"].figures["evaluated"] == len(parts["test"])  # type: ignore[attr-defined]


def _places(part: Dataset) -> NDArray[np.int64]:
    """Where the patches of a part of the table lie, in voxels: one row each."""
    assert isinstance(part, VolumeDelta)
    rows = DeltaTable(part.uri, version=part.version).to_pyarrow_table(columns=["id", "x", "y", "z"]).to_pylist()
    places = {row["id"]: (row["x"], row["y"], row["z"]) for row in rows}
    with closing(open_source("arrow", part, cores=1)) as source:
        held = source.ids(source.rows_in(*part.selections))
    return np.array([places[name] for name in held])
