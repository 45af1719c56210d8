"""A sample of a table's files: of that version, all when there are few, and little memory for any number."""

from __future__ import annotations

import json
import re
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from volume_sets import compact, labels_for, make_delta, some_volumes

from engine.declare.datasets import VolumeDelta
from engine.errors import DataError, VoxelflowError
from nodes.table.log_sample import _Sample, sample_table
from nodes.table.snapshot import open_table


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> VolumeDelta:
    """Versions of 8 files, of the same and some of them twice, of fewer, and of one."""
    volumes = some_volumes(40)
    first = make_delta(tmp_path_factory.mktemp("made"), volumes, labels_for(volumes), rows=5)
    more = pq.read_table(next(Path(first.uri).glob("*.parquet")))
    for _ in range(3):
        DeltaTable(first.uri).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
        _append(first.uri, more)
    DeltaTable(first.uri).delete("label = 1")
    return compact(first, volumes)


def _append(uri: str, rows: object) -> None:
    from deltalake import write_deltalake

    write_deltalake(uri, rows, mode="append")  # type: ignore[arg-type]


def _versions(table: VolumeDelta) -> range:
    return range(1, table.version + 1)


@pytest.fixture(params=["commits", "checkpoint", "checkpoint and no commits before"])
def table(request: pytest.FixtureRequest, made: VolumeDelta, tmp_path: Path) -> VolumeDelta:
    copy = made.model_copy(update={"uri": shutil.copytree(made.uri, tmp_path / "copy").as_posix()})
    if request.param != "commits":
        DeltaTable(copy.uri, version=6).create_checkpoint()
    if "no commits" in request.param:
        for version in range(6):
            (Path(copy.uri) / "_delta_log" / f"{version:020d}.json").unlink()
    return copy


@pytest.mark.slow
def test_all_files_where_there_are_few(table: VolumeDelta) -> None:
    whole = 0
    for version in _versions(table):
        try:
            expected = open_table(table.uri, version)
        except DataError:
            with pytest.raises(DataError):
                sample_table(table.uri, version, 100)
            continue
        found = sample_table(table.uri, version, 100)
        assert found.files == expected.files
        assert (found.spec, found.version, found.columns) == (expected.spec, version, expected.columns)
        whole += 1
    assert whole > 1


@pytest.mark.slow
def test_some_files_of_the_version_and_always_the_same(table: VolumeDelta) -> None:
    version = 7
    every = set(open_table(table.uri, version).files)
    found = sample_table(table.uri, version, 4).files
    assert len(found) == 4 < len(every)
    assert set(found) < every
    assert sample_table(table.uri, version, 4).files == found


def test_a_commit_that_is_no_json_is_named(made: VolumeDelta, tmp_path: Path) -> None:
    copy = shutil.copytree(made.uri, tmp_path / "copy")
    commit = copy / "_delta_log" / f"{3:020d}.json"
    commit.write_text('{"remove": {"path')
    with pytest.raises(DataError, match=commit.name):
        sample_table(copy, 7, 4)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [(r'"size":\d+', '"size":"x"'), ('"partitionColumns"', '"partitionColumnz"'), ('"protocol"', '"protocoll"')],
)
def test_a_log_that_cannot_be_read_is_named_as_when_the_table_is_opened(
    made: VolumeDelta, tmp_path: Path, wrong: str, right: str
) -> None:
    """The error names the table, not the temporary copy of its log."""
    copy = shutil.copytree(made.uri, tmp_path / "copy")
    for commit in (copy / "_delta_log").glob("*.json"):
        commit.write_text(re.sub(wrong, right, commit.read_text()))
    with pytest.raises(VoxelflowError) as opened:
        open_table(copy, 3)
    with pytest.raises(VoxelflowError) as sampled:
        sample_table(copy, 3, 4)
    assert (sampled.value.message, sampled.value.hint) == (opened.value.message, opened.value.hint)
    assert str(copy) in opened.value.message


def _adds(count: int) -> Iterator[bytes]:
    for number in range(count):
        statistics = json.dumps({"numRecords": 1, "minValues": {"id": str(number)}, "maxValues": {"id": str(number)}})
        yield json.dumps({"add": {"path": f"{number}.parquet", "size": 1, "stats": statistics}}).encode() + b"\n"


def _memory(count: int) -> int:
    """Bytes that a sample of 100 of so many files takes at most."""
    sample = _Sample(100)
    tracemalloc.start()
    try:
        sample.take(_adds(count))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_is_that_of_the_sample_whatever_the_number_of_files() -> None:
    assert _memory(2000) < 2 * _memory(400)


def test_every_part_of_a_long_log_is_in_the_sample() -> None:
    sample = _Sample(100)
    sample.take(_adds(5000))
    numbers = [int(json.loads(line)["add"]["path"].removesuffix(".parquet")) for line in sample.lines()]
    assert len(set(numbers)) == 100
    assert {number // 1000 for number in numbers} == set(range(5))
