from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from volume_sets import compact, labels_for, make_delta, make_parquet, reference, some_volumes, spec_for

from engine.declare.datasets import VolumeDelta
from engine.errors import DataError, StaleInput, UsageError
from nodes.loaders.data_files import data_files

VOLUMES = some_volumes(12)


@pytest.fixture
def table(tmp_path: Path) -> VolumeDelta:
    return make_delta(tmp_path, VOLUMES, labels_for(VOLUMES), rows=5)


def test_the_files_of_a_version(table: VolumeDelta) -> None:
    found = data_files(table)
    assert sorted(Path(path).name for path in found.paths) == [f"part {n}.parquet" for n in range(3)]
    assert all(Path(path).is_file() for path in found.paths)
    newer = compact(table, VOLUMES)
    assert data_files(table) == found
    assert len(data_files(newer).paths) == 1


def test_names_that_need_quoting(tmp_path: Path) -> None:
    table = make_delta(tmp_path / "100% (ä) #1?", VOLUMES, labels_for(VOLUMES))
    assert all(Path(path).is_file() for path in data_files(table).paths)


def test_parquet_files_are_those_of_the_manifest(tmp_path: Path) -> None:
    dataset = make_parquet(tmp_path, VOLUMES, labels_for(VOLUMES), rows=5)
    (Path(dataset.uri) / "stray.parquet").write_bytes(b"")
    assert len(data_files(dataset).paths) == 3
    assert data_files(dataset.model_copy(update={"spec": None})).spec == spec_for(VOLUMES)


def test_a_version_that_is_gone(table: VolumeDelta) -> None:
    with pytest.raises(StaleInput, match="version 99"):
        data_files(table.model_copy(update={"version": 99}))


def test_an_empty_table_is_reported(table: VolumeDelta) -> None:
    DeltaTable(table.uri).delete()
    with pytest.raises(DataError, match="holds no volumes"):
        data_files(reference(Path(table.uri), VOLUMES))


def test_urls_of_unknown_kinds_are_refused(table: VolumeDelta) -> None:
    with pytest.raises(UsageError, match="does not read hdfs://"):
        data_files(table.model_copy(update={"uri": "hdfs://host/table"}))
