from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from volume_sets import labels_for, make_delta, some_volumes

from engine.errors import DataError
from nodes.loaders import open_source
from nodes.training.normalisation import Normalisation, measure


def measured(folder: Path, volumes: dict[str, NDArray[Any]]) -> Normalisation:
    with closing(open_source("arrow", make_delta(folder, volumes, labels_for(volumes)), cores=2)) as source:
        return measure(source, source.rows_in())


def test_mean_and_variance_of_each_channel(tmp_path: Path) -> None:
    volumes = some_volumes(50, (4, 3, 2, 3))
    # A large offset shows lost digits.
    volumes = {i: v + np.array([0, 1e4, -5], np.float32) for i, v in volumes.items()}
    every = np.stack(list(volumes.values())).astype(np.float64).reshape(-1, 3)
    out = measured(tmp_path, volumes)
    assert out.mean == pytest.approx(every.mean(axis=0), rel=1e-9)
    assert out.variance == pytest.approx(every.var(axis=0), rel=1e-9)
    assert out.rows == 50


def test_three_axes_are_one_channel(tmp_path: Path) -> None:
    assert len(measured(tmp_path, some_volumes(20, (4, 3, 2), "uint8")).mean) == 1


@pytest.mark.slow
def test_many_volumes_are_sampled_the_same_way_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    volumes = some_volumes(80, (4, 3, 2, 3))
    monkeypatch.setattr("nodes.training.normalisation.SAMPLE_BYTES", 30 * 288)
    first = measured(tmp_path / "a", volumes)
    assert first.rows == 30
    assert measured(tmp_path / "b", dict(reversed(volumes.items()))) == first
    monkeypatch.setattr("nodes.training.normalisation.SAMPLE_BYTES", 1 << 30)
    assert measured(tmp_path / "c", volumes) != first


def test_a_constant_channel_keeps_its_scale(tmp_path: Path) -> None:
    volumes = some_volumes(20, (4, 3, 2, 2))
    for volume in volumes.values():
        volume[..., 1] = 0.1
    out = measured(tmp_path, volumes)
    assert out.constant == (1,)
    assert out.variance[1] == 1


@pytest.mark.parametrize("value", [np.inf, np.nan, -np.inf, -3.4e38, 2e18])
def test_values_that_no_network_learns_from_are_named(tmp_path: Path, value: float) -> None:
    volumes = some_volumes(20)
    bad = list(volumes)[5]
    volumes[bad][0, 0, 0] = value
    with pytest.raises(DataError, match=bad):
        measured(tmp_path, volumes)
