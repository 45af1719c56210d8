"""The example in examples/sweep, on few volumes, with trainings in NumPy in the place of TensorFlow."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_programs import forking
from readme_examples import Reader, commands

from tests.torture.warm import PREPARED

pytestmark = pytest.mark.slow
SMALLER = {
    "volumes=320": "volumes=40 --set make.shape=[6,6,4,1]",
    "epochs=5": "epochs=1",
    "learning_rate=1e-4,1e-3,1e-2": "learning_rate=1e-4,1e-3",
    "--trials 8": "--trials 2",
}


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    with tempfile.TemporaryDirectory() as folder, forking(Path(folder), PREPARED) as made, made.used():
        yield Reader(tmp_path, monkeypatch, SMALLER)


def test_the_example_runs(reader: Reader) -> None:
    grid, compare, search, shown = commands("sweep")
    output = reader.follow(grid)
    assert "2 done" in output
    # The last line is the command that puts its runs side by side; in the page it has the ids of those runs.
    asked = re.search(r"`(voxelflow runs compare [^`]+)`", output)
    assert asked is not None
    assert re.sub(r" [0-9a-f]{6}", "", compare) == re.sub(r" [0-9a-f]{6}", "", asked[1])
    compared = reader.follow(asked[1])
    assert "learning_rate" in compared
    assert "val_auc" in compared or "val_loss" in compared
    assert "2 done" in reader.follow(search)
    assert "train.batch_size" in reader.follow(shown)
