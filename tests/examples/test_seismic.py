"""The example in examples/seismic, on a smaller survey and for one epoch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import segyio
from running import Runner

import nodes
from engine.catalog import build_catalog
from engine.declare.datasets import VolumeParquet
from engine.document.pipeline import load
from engine.store.runs import RunStore
from engine.workspace import Workspace
from pipelines import seismic_survey

pytest.importorskip("scipy")
EXAMPLE = Path(__file__).parents[2] / "examples" / "seismic"
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
def test_the_example_runs(tmp_path: Path, store: RunStore, workspace: Workspace, forked_trainings: None) -> None:
    seismic_survey.write(tmp_path / "survey", SHAPE)
    document = json.loads((EXAMPLE / "facies.json").read_text())
    for parameter, value in (("data", str(tmp_path / "survey")), ("epochs", 1)):
        document["parameters"][parameter]["value"] = value
    # Smaller patches: blocks that are several times as long fit into the small survey.
    params = {node["id"]: node["params"] for node in document["nodes"]}
    params["cut"] |= {"size": [8, 8, 8]}
    params["split"] |= {"block": 24.0, "validation": 0.3, "test": 0.3}
    params["train"] |= {"batch_size": 8}
    run, tasks = Runner(build_catalog(nodes.BUILT_IN), workspace, store).run(load(json.dumps(document)))
    assert run.state == "done", run.error
    patches = tasks["cut"].outputs["out"]
    assert isinstance(patches, VolumeParquet)
    assert patches.found == 12 * 10 * 6 == patches.count + patches.left_out
    assert patches.spec is not None
    assert patches.spec.classes == ("layers", "channel", "salt")
    assert tasks["evaluate"].outputs["out"].figures["evaluated"]  # type: ignore[attr-defined]
