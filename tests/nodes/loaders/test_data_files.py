from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from delta_tables import context
from deltalake import DeltaTable
from volume_sets import compact, flip_a_bit, labels_for, make_delta, make_parquet, reference, some_volumes, spec_for

import voxelflow
from engine.declare.datasets import VolumeDelta
from engine.errors import DataError, StaleInput, UsageError
from nodes.loaders.chained_volumes import rows_as_files
from nodes.loaders.data_files import LOCAL, data_files, read_columns
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import describe_file
from nodes.viewing.volume_rows import TableFile, TableRows
from voxelflow import Volumes, write_volumes

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


def _shown(table: VolumeDelta, path: str) -> TableRows:
    assert table.spec is not None
    return TableRows([TableFile(path, 20, path)], table.spec, LOCAL, columns=["age"])


@pytest.mark.slow
@pytest.mark.parametrize("column", ["id", "label", "age"])
def test_a_flipped_bit_beside_the_volumes_is_found_before_it_is_used(tmp_path: Path, column: str) -> None:
    names = [f"v{number}" for number in range(20)]

    def make(batch: Volumes) -> Volumes:
        volumes = np.zeros((len(batch), 2, 2, 2), np.float32)
        numbers = [int(name[1:]) for name in batch.ids]
        return replace(batch, volumes=volumes, labels=np.float32(numbers) / 2, columns={"age": numbers})

    parts = write_volumes(context(tmp_path, "parts"), batches=make, ids=names)
    table = parquet_to_delta(parts, ctx=context(tmp_path, "table"))
    with voxelflow.load(table, 4) as whole:
        assert sum(len(batch.rows) for batch in itertools.islice(whole, len(whole))) == 20
    (path,) = data_files(table).paths
    flip_a_bit(Path(path), column)
    uses: dict[str, Callable[[], object]] = {
        "rows for transforms": lambda: rows_as_files(table, tmp_path / "listing"),
        "columns": lambda: read_columns([path], [column]),
        "the editor's rows": lambda: _shown(table, path).row(19),
    }
    if column != "age":
        uses |= {
            "load": lambda: voxelflow.load(table, 4),
            "the editor's labels and ids": lambda: (_shown(table, path).labels(), _shown(table, path).find("v3")),
            "statistics for a table": lambda: describe_file(Path(table.uri), Path(path).name),
        }
    for what, use in uses.items():
        with pytest.raises(DataError) as found:
            use()
        assert path in str(found.value), what
