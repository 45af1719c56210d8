"""The patches of the brain: their shape, their labels, and that the seed decides which they are."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from pipelines import brain_volumes

pytest.importorskip("scipy")


@pytest.fixture(autouse=True)
def _small_brain(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    image = random.uniform(0.3, 1, (60, 60, 30)).astype(np.float32)
    grey = np.zeros_like(image)
    grey[:30] = 1
    monkeypatch.setattr(brain_volumes, "read_brain", lambda: (image, grey))


def _read(folder: Path) -> dict[str, tuple[str, bytes]]:
    with (folder / "labels.csv").open() as table:
        return {row["file"]: (row["label"], (folder / row["file"]).read_bytes()) for row in csv.DictReader(table)}


@pytest.mark.slow
def test_half_of_them_are_grey_matter_and_all_lie_inside(tmp_path: Path) -> None:
    brain_volumes.write(tmp_path / "a", 7, 0)
    found = _read(tmp_path / "a")
    assert sorted(label for label, _ in found.values()) == list("0001111")
    for name in found:
        volume = np.load(tmp_path / "a" / name)
        assert (volume.shape, volume.dtype) == ((30, 30, 10, 10), np.float32)
        assert np.isfinite(volume).all()
    brain_volumes.write(tmp_path / "b", 7, 0)
    assert _read(tmp_path / "b") == found
    brain_volumes.write(tmp_path / "c", 7, 1)
    assert _read(tmp_path / "c") != found


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "nilearn", None)
    with pytest.raises(SystemExit, match="pip install nilearn"):
        brain_volumes.read_brain()
