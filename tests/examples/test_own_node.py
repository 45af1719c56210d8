"""The example in examples/own_node: a person's own function, and a node of their own, on a few volumes."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from readme_examples import EXAMPLES, Reader, commands
from readme_nodes import readme_blur
from scipy.ndimage import gaussian_filter

import voxelflow
from nodes.synthetic.seismic import SeismicMaker

EXAMPLE = EXAMPLES / "own_node"


def test_the_node_is_that_of_the_guide() -> None:
    assert (EXAMPLE / "my_nodes" / "blur.py").read_text() == readme_blur()


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_runs: None) -> None:
    reader = Reader(tmp_path, monkeypatch, {"sigma=1.5": "sigma=1.5 --set volumes=12"})
    *_, explained, ran = [reader.follow(command) for command in commands("own_node")]
    assert "Blur each channel of every volume." in explained
    assert "12 volumes" in ran
    assert "transforms gain.py, Blur sigma=1.5" in ran, "what a model behind them has to know"
    tables = list(Path("workspace").rglob("_delta_log"))
    assert len(tables) == 1
    transform = runpy.run_path(str(EXAMPLE / "my_transforms" / "gain.py"))["transform"]
    maker = SeismicMaker((32, 32, 8, 1), "float32", 4, 0.5, 0)
    expected = [gaussian_filter(transform(maker.volume(n)[0], {}), 1.5, axes=(0, 1, 2)) for n in range(12)]
    with voxelflow.load(tables[0].parent, batch_size=12, training=False) as batches:
        found = next(iter(batches)).volumes
    assert np.allclose(found, np.stack(expected), atol=1e-5)
