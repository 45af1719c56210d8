"""A file of a table that another one of the same size has taken the place of is refused, not copied."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, context, exactly, ids, shards, write_shard

from engine.declare.datasets import VolumeDelta
from engine.errors import DataError
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import open_table
from nodes.volume_file.damage import check_file
from nodes.volume_file.id_bounds import OTHER_FILE, footer_ends, id_bounds
from nodes.volume_file.layout import writer_options
from nodes.volume_file.rewrite import read_metadata


@pytest.fixture
def table(tmp_path: Path) -> VolumeDelta:
    return parquet_to_delta(shards(tmp_path / "p", 4, 4, 4), ctx=context(tmp_path))


def _replace(path: Path, by: Path) -> None:
    """By a file of its own: a hard link's other name keeps its bytes."""
    assert path.stat().st_size == by.stat().st_size
    data = by.read_bytes()
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize("rewrite_layout", [False, True])
@pytest.mark.parametrize("which", ["of the table", "of none"])
def test_a_compaction_refuses_another_file_of_the_same_size(
    table: VolumeDelta, tmp_path: Path, which: str, rewrite_layout: bool
) -> None:
    first, second, _ = (Path(table.uri) / f.path for f in open_table(table.uri).files)
    _replace(second, first if which == "of the table" else tmp_path / write_shard(tmp_path, ids(90, 4)).path)
    names = ("vol-00000", "vol-00003") if which == "of the table" else ("vol-00090", "vol-00093")
    with pytest.raises(DataError) as caught:
        optimize_delta(table, rewrite_layout=rewrite_layout, ctx=context(tmp_path, "o"))
    assert caught.value.message == (
        f"{second} holds other rows than the table's log says: ids from {names[0]} to {names[1]}, not from vol-00004"
        " to vol-00007"
    )
    # What is said to do is right, for another process: this one remembers footers.
    second.unlink()
    read_metadata.cache_clear()
    again = parquet_to_delta(shards(tmp_path / "p", 4, 4, 4), ctx=context(tmp_path))
    exactly(optimize_delta(again, ctx=context(tmp_path, "o")).uri, ids(0, 12))


@pytest.mark.slow
def test_files_that_lie_where_the_other_belongs_are_refused(table: VolumeDelta, tmp_path: Path) -> None:
    """No row is lost for who reads all; who asks for some ids is led to the wrong file by the log."""
    first, second, _ = (Path(table.uri) / f.path for f in open_table(table.uri).files)
    kept = tmp_path / "kept"
    shutil.copyfile(first, kept)
    _replace(first, second)
    _replace(second, kept)
    with pytest.raises(DataError, match=f"{first.name} holds other rows"):
        optimize_delta(table, ctx=context(tmp_path, "o"))


@pytest.mark.parametrize("writer", [b"parquet-cpp-arrow", b"parquet-mr-elsewhere"])
def test_a_compaction_refuses_a_file_with_the_same_ids_and_other_labels(
    table: VolumeDelta, tmp_path: Path, writer: bytes
) -> None:
    """By its footer, or, where that is of a writer whose statistics are not taken, by reading them."""
    second = Path(table.uri) / open_table(table.uri).files[1].path
    rows = pq.read_table(second)
    labels = pa.array([9 if label is not None else None for label in rows["label"].to_pylist()], pa.float32())
    other = tmp_path / "other.parquet"
    pq.write_table(rows.set_column(1, "label", labels), other, **writer_options())
    created_by = pq.read_metadata(other).created_by.encode()
    other.write_bytes(other.read_bytes().replace(created_by, writer.ljust(len(created_by))))
    _replace(second, other)
    with pytest.raises(DataError) as caught:
        optimize_delta(table, ctx=context(tmp_path, "o"))
    assert (
        caught.value.message == f"{second} holds other labels than the table's log says: from 9 to 9, not from 0 to 1"
    )
    assert caught.value.hint == OTHER_FILE


def test_labels_that_are_nan_are_none_of_another_file(table: VolumeDelta, tmp_path: Path) -> None:
    """A log may count them as labels or not, and a footer does."""
    file = open_table(table.uri).files[1]
    path = Path(table.uri) / file.path
    assert footer_ends(read_metadata(path, file.bytes)) == (("vol-00004", "vol-00007"), (0, 1), 3, 3)
    rows = pq.read_table(path)
    labels = pa.array([0, float("nan"), 1, None], pa.float32())
    pq.write_table(rows.set_column(1, "label", labels), path.with_suffix(".new"), **writer_options())
    _replace(path, path.with_suffix(".new"))
    log = Path(table.uri) / "_delta_log" / f"{1:020d}.json"
    lines = [
        line.replace(r"{\"id\": 0, \"label\": 1", r"{\"id\": 0, \"label\": 2") if file.path in line else line
        for line in log.read_text().splitlines(keepends=True)
    ]
    log.write_text("".join(lines))
    assert [each.labelled for each in open_table(table.uri).files] == [3, 2, 4]
    assert optimize_delta(table, ctx=context(tmp_path, "o")).files == 1


def test_ids_that_the_log_cuts_short_are_those_of_the_file(table: VolumeDelta, tmp_path: Path) -> None:
    """As Spark does with long ones."""
    log = Path(table.uri) / "_delta_log" / f"{1:020d}.json"
    log.write_text(re.sub(r"vol-0\d+", "vol-0", log.read_text()))
    assert {f.id_max for f in open_table(table.uri).files} == {"vol-0"}
    made = optimize_delta(table, ctx=context(tmp_path, "o"))
    assert made.files == 1


def test_a_check_compares_the_ids_that_the_log_says(tmp_path: Path) -> None:
    shard = write_shard(tmp_path, ids(0, 7), row_group=3)
    path = tmp_path / shard.path
    for said, problem in {
        ("vol-00000", "vol-00006"): (),
        ("vol-0", "vol-0"): (),
        ("vol-00007", "vol-00013"): (
            "it holds other rows than the table's log says: ids from vol-00000 to vol-00006, not from vol-00007 to"
            " vol-00013",
        ),
    }.items():
        with pa.OSFile(str(path)) as file:
            found = check_file(file, 7, SPEC.volume_bytes, replace(shard, id_min=said[0], id_max=said[1]))
        assert (found.problems, found.lost) == (problem, 7 if problem else 0)


def test_ends_of_ids_that_are_wrong_in_a_footer_are_damage(table: VolumeDelta, tmp_path: Path) -> None:
    path = Path(table.uri) / open_table(table.uri).files[1].path
    damaged = path.read_bytes().replace(b"\x18\tvol-00004", b"\x18\tvol-00000")
    path.unlink()
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=rf"{path.name} is damaged: its footer says wrongly between which ends its ids"):
        optimize_delta(table, ctx=context(tmp_path, "o"))
    with pa.OSFile(str(path)) as file:
        found = check_file(file, 4, SPEC.volume_bytes, open_table(table.uri).files[1])
    assert (found.problems, found.lost) == (("its footer says wrongly between which ends its ids are",), 0)


@pytest.mark.parametrize("bit", [5, 6])
def test_a_column_that_lies_outside_of_its_file_names_it(table: VolumeDelta, tmp_path: Path, bit: int) -> None:
    """By a flipped bit in the offset that the footer gives."""
    path = Path(table.uri) / open_table(table.uri).files[1].path
    data = bytearray(path.read_bytes())
    place = data.rindex(b"volume\x15\0")
    at = data.index(b"&", place) + 2  # the second byte of the offset
    data[at] ^= 1 << bit
    path.unlink()
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"{path.name} is damaged: a column of it lies outside of it by its footer"):
        optimize_delta(table, ctx=context(tmp_path, "o"))


def test_bounds_of_ids_are_those_of_all_row_groups(tmp_path: Path) -> None:
    path = tmp_path / write_shard(tmp_path, ids(0, 7), row_group=3).path
    size = os.path.getsize(path)
    assert id_bounds(read_metadata(path, size)) == ("vol-00000", "vol-00006")
    other = tmp_path / "other.parquet"
    pq.write_table(pq.read_table(path), other, write_statistics=False)
    assert id_bounds(read_metadata(other, os.path.getsize(other))) is None
