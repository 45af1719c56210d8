"""Looking at a folder of Parquet files before any run: what is there to see, and what is said of the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from volume_sets import labels_for, make_listed_parquet, some_volumes

from engine.declare.datasets import VolumeParquet
from engine.declare.view import DatasetView, Gallery
from engine.errors import DataError
from engine.viewing.info import info_of
from nodes.viewing import open_view


def _view(dataset: VolumeParquet) -> DatasetView:
    view = open_view(dataset, {})
    assert view is not None
    return view


def _gallery(view: DatasetView) -> Gallery:
    panel = view.panels["volumes"]
    assert isinstance(panel, Gallery)
    return panel


def _listing_of(folder: Path, files: int) -> VolumeParquet:
    """As many files of one volume each."""
    volumes = some_volumes(files)
    return make_listed_parquet(folder, volumes, labels_for(volumes), rows=1)


def test_a_folder_of_parquet_files_has_its_figures_before_any_run(tmp_path: Path) -> None:
    dataset = _listing_of(tmp_path, 5)
    facts = info_of(dataset, _view(dataset)).facts
    assert facts == {"volumes": 5, "bytes": dataset.bytes, "shape": "3x4x2", "dtype": "float32"}


def test_of_many_parquet_files_before_a_run_some_are_opened_and_the_view_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.viewing.listed_parquet._OPENED", 4)
    dataset = _listing_of(tmp_path, 12)
    view = _view(dataset)
    facts = info_of(dataset, view).facts
    assert facts["note"] == "a sample: 4 of 12 files, the run looks into all of them"
    assert "volumes" not in facts
    assert len({item.id for item in _gallery(view).pick(0, 40, 0, {}).items}) == 4


def test_what_is_no_file_of_volumes_hides_no_other_before_a_run(tmp_path: Path) -> None:
    dataset = _listing_of(tmp_path, 5)
    names = [path.name for path in sorted(Path(dataset.uri).glob("*.parquet"))]
    (Path(dataset.uri) / names[0]).write_bytes(b"PAR1 and no more")
    (Path(dataset.uri) / names[1]).unlink()
    os.mkfifo(Path(dataset.uri) / names[1])
    pq.write_table(pa.table({"id": ["a"], "other": [1]}), Path(dataset.uri) / names[2])
    view = _view(dataset)
    assert len(_gallery(view).pick(0, 40, 0, {}).items) == 2
    assert view.note == "3 files cannot be read as such volumes, the run says why"
    for name in names[3:]:
        (Path(dataset.uri) / name).unlink()
    with pytest.raises(DataError, match="have no volumes"):
        open_view(dataset, {})
