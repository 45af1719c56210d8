"""The native loader over tables in object storage, held to the laws of every loader."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from deltalake import ColumnProperties, DeltaTable, WriterProperties
from store_fixtures import upload_folder
from volume_sets import Labels, Volumes, labels_for, make_delta, make_files, some_volumes

import voxelflow
from engine.declare.datasets import Dataset, VolumeDelta, VolumeFiles
from engine.errors import DataError, StaleInput, UsageError
from engine.storage.cache import FOLDER, LIMIT
from engine.storage.objects import RemotePath
from nodes.loaders import open_source
from nodes.loaders.petastorm_loader import PetastormSource
from nodes.loaders.row_groups import RowGroupSource
from nodes.testing.loader import UNLABELLED, LoaderConformance, evaluation, ids_in, training

pytestmark = pytest.mark.slow


def remote_delta(folder: Path, volumes: Volumes, labels: Labels, url: str) -> VolumeDelta:
    local = make_delta(folder, volumes, labels)
    return local.model_copy(update={"uri": upload_folder(Path(local.uri), url)})


class TestRemoteTable(LoaderConformance):
    loader = "arrow"

    @pytest.fixture(autouse=True)
    def _store(self, azure: str) -> None:
        self.url = azure

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
        return remote_delta(folder, volumes, labels, f"{self.url}/{folder.name}/a table")

    def rewrite(self, dataset: Dataset, volumes: Volumes) -> Dataset:
        plain = WriterProperties(
            compression="UNCOMPRESSED",
            max_row_group_size=6,
            default_column_properties=ColumnProperties(dictionary_enabled=False),
        )
        DeltaTable(dataset.uri).optimize.compact(writer_properties=plain)
        newest = DeltaTable(dataset.uri)
        assert isinstance(dataset, VolumeDelta)
        return dataset.model_copy(update={"version": newest.version(), "files": len(newest.file_uris())})

    def test_this_is_streamed(self, source: object) -> None:
        assert isinstance(source, RowGroupSource)


class TestPetastorm(TestRemoteTable):
    loader = "petastorm"

    def test_this_is_streamed(self, source: object) -> None:
        assert isinstance(source, PetastormSource)


class TestObjectsOneByOne(LoaderConformance):
    loader = "npy"

    @pytest.fixture(autouse=True)
    def _store(self, azure: str) -> None:
        self.url = azure

    def make(self, folder: Path, volumes: Volumes, labels: Labels) -> Dataset:
        files = make_files(folder, volumes, labels)
        return files.model_copy(update={"uri": upload_folder(Path(files.uri), f"{self.url}/{folder.name}/the files")})

    def rewrite(self, dataset: Dataset, volumes: Volumes) -> Dataset:
        assert isinstance(dataset, VolumeFiles)
        again = Path(dataset.manifest).parent / "again"
        reverse = {volume_id: volumes[volume_id] for volume_id in reversed(list(volumes))}
        return self.make(again, reverse, labels_for(volumes, unlabelled=UNLABELLED))


def test_an_object_that_is_gone_or_no_volume_is_named(azure: str, tmp_path: Path) -> None:
    volumes = some_volumes(8)
    local = make_files(tmp_path, volumes, labels_for(volumes))
    remote = local.model_copy(update={"uri": upload_folder(Path(local.uri), f"{azure}/files")})
    first = RemotePath.at(remote.uri) / next(iter(volumes))
    with closing(open_source("npy", remote, cores=2)) as source:
        first.write_bytes(b"nothing")
        with pytest.raises(DataError, match=f"{first} cannot be read"):
            list(training(source, 8).batches())
        first.unlink()
        with pytest.raises(DataError, match=f"{first} cannot be read: .* is not there"):
            list(training(source, 8).batches())


def test_the_rows_are_those_of_the_local_table(container: str, tmp_path: Path) -> None:
    volumes = some_volumes(30)
    local = make_delta(tmp_path, volumes, labels_for(volumes))
    remote = local.model_copy(update={"uri": upload_folder(Path(local.uri), f"{container}/table")})
    with closing(open_source("arrow", remote, cores=2)) as source:
        for batch in evaluation(source, 7):
            for volume_id, volume in zip(source.ids(batch.rows), batch.volumes, strict=True):
                np.testing.assert_array_equal(volume, volumes[volume_id])


def test_anybody_reads_a_table_by_its_url(azure: str, tmp_path: Path) -> None:
    volumes = some_volumes(20)
    remote = remote_delta(tmp_path, volumes, labels_for(volumes), f"{azure}/table")
    with voxelflow.load(remote.uri, 5, training=False) as batches:
        found = [volume.tobytes() for batch in batches for volume in batch.volumes]
    assert sorted(found) == sorted(volume.tobytes() for volume in volumes.values())


def test_a_pinned_version_is_read_after_the_table_moved_on(azure: str, tmp_path: Path) -> None:
    volumes = some_volumes(20)
    remote = remote_delta(tmp_path, volumes, labels_for(volumes), f"{azure}/table")
    DeltaTable(remote.uri).delete()
    with closing(open_source("arrow", remote, cores=2)) as source:
        assert sorted(ids_in(source, evaluation(source, 5))) == sorted(volumes)
    with pytest.raises(StaleInput, match="version 99"):
        open_source("arrow", remote.model_copy(update={"version": 99}), cores=2)


def test_a_second_epoch_comes_from_the_cache(azure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "0.1")
    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))
    volumes = some_volumes(40, (20, 20, 20))  # files beyond what the first request brings
    remote = remote_delta(tmp_path, volumes, labels_for(volumes), f"{azure}/table")
    with closing(open_source("arrow", remote, cores=2)) as source:
        first = [batch.volumes.tobytes() for batch in training(source, 8).batches()]
        for found in list(RemotePath.at(remote.uri).walk()):
            if found.path.endswith(".parquet"):
                (RemotePath.at(remote.uri) / found.path).unlink()
        assert [batch.volumes.tobytes() for batch in training(source, 8).batches()] == first


def test_a_file_that_is_gone_or_was_replaced_is_reported(azure: str, tmp_path: Path) -> None:
    volumes = some_volumes(40, (20, 20, 20))
    remote = remote_delta(tmp_path, volumes, labels_for(volumes), f"{azure}/table")
    file = RemotePath.at(DeltaTable(remote.uri).file_uris()[0].replace("%20", " "))
    whole = file.read_bytes()
    with closing(open_source("arrow", remote, cores=2)) as source:
        file.write_bytes(whole[::-1])
        with pytest.raises(DataError, match="changed while it was read"):
            list(training(source, 8).batches())
    file.unlink()
    with pytest.raises(DataError, match="is gone"):
        open_source("arrow", remote, cores=2)


def test_what_cannot_be_read_is_reported(azure: str, tmp_path: Path) -> None:
    nowhere = VolumeDelta(uri=f"{azure}/nowhere", count=1, bytes=1, version=0, data_version=0)
    with pytest.raises(DataError, match="no Delta table"):
        open_source("arrow", nowhere, cores=2)
    with pytest.raises(UsageError, match="does not read hdfs://"):
        open_source("arrow", nowhere.model_copy(update={"uri": "hdfs://box/table"}), cores=2)
    with pytest.raises(DataError, match="no Delta table"):
        open_source("petastorm", nowhere, cores=2)
    files = make_files(tmp_path, some_volumes(2), labels_for(some_volumes(2)))
    files = files.model_copy(update={"uri": f"{azure}/nowhere", "spec": None})
    with pytest.raises(DataError, match=r"none of the files in az://.*/nowhere can be read"):
        open_source("npy", files, cores=2)
