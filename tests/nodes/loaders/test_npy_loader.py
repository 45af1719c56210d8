from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from volume_sets import Labels, Volumes, compact, labels_for, make_delta, make_files, some_volumes

from engine.declare.datasets import Dataset, VolumeDelta
from engine.errors import DataError
from nodes.loaders import open_source
from nodes.loaders.chained_volumes import rows_as_files
from nodes.testing.loader import UNLABELLED, LoaderConformance, training


class TestNpy(LoaderConformance):
    loader = "npy"

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
        return make_files(folder, volumes, labels)

    def rewrite(self, dataset: Dataset, volumes: Volumes) -> Dataset:
        again = {volume_id: volumes[volume_id] for volume_id in reversed(list(volumes))}
        return make_files(Path(dataset.uri).parent / "again", again, labels_for(volumes, unlabelled=UNLABELLED))


class TestRowsOfATable(LoaderConformance):
    """As TransformVolumes gives them."""

    loader = "npy"

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
        return rows_as_files(make_delta(folder, volumes, labels), folder / "rows.arrow")

    def rewrite(self, dataset: Dataset, volumes: Volumes) -> Dataset:
        table = VolumeDelta(uri=dataset.uri, count=len(volumes), bytes=0, version=0, data_version=0)
        return rows_as_files(compact(table, volumes), Path(dataset.uri).parent / "again.arrow")


def test_the_order_is_that_of_the_table_made_from_the_files(tmp_path: Path) -> None:
    volumes = some_volumes(40)
    labels = labels_for(volumes)
    with (
        closing(open_source("npy", make_files(tmp_path, volumes, labels), cores=2)) as files,
        closing(open_source("arrow", make_delta(tmp_path, volumes, labels), cores=2)) as table,
    ):
        assert files.order_identity == table.order_identity
        for a, b in zip(training(files, 8).batches(), training(table, 8).batches(), strict=True):
            assert a.volumes.tobytes() == b.volumes.tobytes()


def test_fortran_order_and_big_endian_files_are_read(tmp_path: Path) -> None:
    volumes = some_volumes(8)
    dataset = make_files(tmp_path, volumes, labels_for(volumes))
    a, b = list(volumes)[:2]
    np.save(Path(dataset.uri) / a, np.asfortranarray(volumes[a]))
    np.save(Path(dataset.uri) / b, volumes[b].astype(">f4"))
    with closing(open_source("npy", dataset, cores=2)) as source:
        (batch,) = training(source, 8).batches()
        for volume, volume_id in zip(batch.volumes, source.ids(batch.rows), strict=True):
            assert volume.tobytes() == volumes[volume_id].tobytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((3, 4), np.float32), r"is \(3, 4\) float32, the other volumes are 3x4x2 float32"),
        (np.zeros((3, 4, 2), np.float64), "float64, the other volumes"),
        (b"", "cannot be read"),
        (np.array([{"a": 1}], object), "cannot be read"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: object, message: str) -> None:
    volumes = some_volumes(8)
    dataset = make_files(tmp_path, volumes, labels_for(volumes))
    path = Path(dataset.uri) / next(iter(volumes))
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content, allow_pickle=True)
    with closing(open_source("npy", dataset, cores=2)) as source, pytest.raises(DataError, match=message) as caught:
        list(training(source, 8).batches())
    assert str(path) in str(caught.value)


def test_class_names_come_from_folders_without_a_table(tmp_path: Path) -> None:
    volumes = some_volumes(10)
    dataset = make_files(tmp_path, volumes, labels_for(volumes))
    (Path(dataset.uri) / "labels.csv").unlink()
    with closing(open_source("npy", dataset, cores=2)) as source:
        assert source.spec.classes == tuple(str(n) for n in range(10))
        assert source.unlabelled == 0


def test_an_unusable_label_table_is_reported(tmp_path: Path) -> None:
    volumes = some_volumes(8)
    dataset = make_files(tmp_path, volumes, labels_for(volumes))
    (Path(dataset.uri) / "labels.csv").write_text("what,ever\n1,2\n")
    with pytest.raises(DataError, match="has no column"):
        open_source("npy", dataset, cores=2)
