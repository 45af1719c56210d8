"""A damaged log: each reader's message names the file; `verify` finds what readers cannot see."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from delta_tables import context, exactly, ids, rows_of, shards
from deltalake import DeltaTable
from volumes import rows_by_pyarrow

from engine.errors import DataError
from nodes.inspection.verify import check_data
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.log import LOG, commit_file
from nodes.table.log_sample import sample_table
from nodes.table.snapshot import open_table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Version 1 has the rows in three files, version 2 in one."""
    small = parquet_to_delta(shards(tmp_path / "p", 3, 3, 3), ctx=context(tmp_path))
    return Path(optimize_delta(small, ctx=context(tmp_path, "o")).uri)


def _damages(table: Path) -> list[str]:
    found = check_data(str(table), threads=1, progress=lambda done, total: None)
    return [f"{damage.file}: {damage.problem}" for damage in found.damages]


def test_the_first_commit_that_is_gone_is_named(table: Path) -> None:
    commit_file(table, 0).unlink()
    with pytest.raises(DataError, match=f"{commit_file(table, 0).name} is damaged: it is gone, and there are later"):
        open_table(table)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"minWriterVersion"', '"ninWriterVersion"', "the protocol in line 1 lacks minWriterVersion"),
        ('"modificationTime":', '"nodificationTime":', "the add in line {n} lacks modificationTime"),
        (
            '"appId":"voxelflow.writer","version"',
            '"appId":"voxelflow.writer","fersion"',
            "the txn in line {n} lacks version",
        ),
    ],
)
def test_a_field_that_is_missing_is_named(table: Path, before: str, after: str, said: str) -> None:
    commit = next(c for c in map(commit_file, [table] * 3, (2, 1, 0)) if before in c.read_text())
    lines = commit.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if before in line)
    commit.write_text(commit.read_text().replace(before, after, 1))
    with pytest.raises(DataError) as caught:
        open_table(table)
    assert caught.value.message == f"{commit} is damaged: {said.format(n=number)}".replace("line 1 ", f"line {number} ")


def test_bytes_that_are_no_text_name_the_commit(table: Path) -> None:
    """delta-rs reads the checkpoint; when rows changed last stands in the commits."""
    DeltaTable(table).create_checkpoint()
    commit = commit_file(table, 1)
    commit.write_bytes(commit.read_bytes().replace(b'"modificationTime"', b'"modificati\xf2nTime"'))
    version = open_table(table)
    with pytest.raises(DataError, match=rf"{commit.name} is damaged: 'utf-8' codec"):
        version.reference(str(table))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200] + bytes(200))


def _rename_column(path: Path) -> None:
    """As one flipped bit does it: pyarrow reads the file, delta-rs misses the column."""
    data = path.read_bytes()
    path.write_bytes(
        data.replace(b"deletionTimestamp", b"deletionTimestamq").replace(b"modificationTime", b"nodificationTime")
    )


@pytest.mark.parametrize("damage", [_cut, _rename_column])
@pytest.mark.parametrize("commits_are_there", [True, False])
def test_a_checkpoint_that_cannot_be_read_is_named(
    table: Path, damage: Callable[[Path], None], commits_are_there: bool
) -> None:
    DeltaTable(table).create_checkpoint()
    checkpoint = table / LOG / f"{2:020d}.checkpoint.parquet"
    damage(checkpoint)
    if not commits_are_there:
        for version in range(3):
            commit_file(table, version).unlink()
    with pytest.raises(DataError, match=rf"{checkpoint.name} is damaged: ") as caught:
        open_table(table)
    assert caught.value.hint.startswith("Delete ") == commits_are_there
    assert any(checkpoint.name in found for found in _damages(table))
    if commits_are_there:
        # What is said to do is right.
        checkpoint.unlink()
        (table / LOG / "_last_checkpoint").unlink()
        exactly(str(table), ids(0, 9))


def test_a_checkpoint_of_several_files_names_the_damaged_one(table: Path) -> None:
    DeltaTable(table).create_checkpoint()
    checkpoint = table / LOG / f"{2:020d}.checkpoint.parquet"
    whole = pq.read_table(checkpoint)
    checkpoint.unlink()
    first, second = (table / LOG / f"{2:020d}.checkpoint.{n:010d}.{2:010d}.parquet" for n in (1, 2))
    pq.write_table(whole.slice(0, 2), first)
    pq.write_table(whole.slice(2), second)
    (table / LOG / "_last_checkpoint").write_text(json.dumps({"version": 2, "size": len(whole), "parts": 2}))
    exactly(str(table), ids(0, 9))
    _cut(second)
    with pytest.raises(DataError, match=rf"{second.name} is damaged: "):
        open_table(table)


def _drop_last_line(text: str) -> str:
    return text[: text.rstrip().rindex("\n") + 1]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_drop_last_line, "it has 2 lines of the kind add, and says that there are 3"),
        (
            lambda text: text.replace('{"add":', '{"adf":', 1),
            "line 3 is a 'adf' of a file, and Delta has no such action",
        ),
        (
            lambda text: text + text.splitlines(keepends=True)[-1],
            r"line 6 adds \w+\.parquet once more",
        ),
    ],
    ids=["cut after a line", "a letter", "a line twice"],
)
def test_a_commit_that_lost_a_line_is_refused(tmp_path: Path, damage: Callable[[str], str], said: str) -> None:
    """Its JSON is right, and delta-rs reads it: a file would be missing."""
    table = parquet_to_delta(shards(tmp_path / "p", 3, 3, 3), ctx=context(tmp_path))
    commit = commit_file(Path(table.uri), 1)
    commit.write_text(damage(commit.read_text()))
    for version in (None, 1):
        with pytest.raises(DataError) as caught:
            open_table(table.uri, version)
        assert re.fullmatch(f"{commit} is damaged: {said}", caught.value.message)
    assert any(found.startswith(f"{commit}: ") for found in _damages(Path(table.uri)))


def test_a_file_that_a_compaction_no_longer_takes_out_is_noticed(table: Path) -> None:
    commit = commit_file(table, 2)
    commit.write_text(commit.read_text().replace('{"remove":', '{"re-ove":', 1))
    with pytest.raises(DataError, match="line 3 is a 're-ove' of a file, and Delta has no such action"):
        open_table(table)


def test_a_line_of_another_program_that_names_a_file_in_an_unknown_way_is_found(table: Path) -> None:
    """Delta asks readers to pass over what they do not know, so it is read."""
    commit = commit_file(table, 2)
    text = commit.read_text().replace('"engineInfo":"Voxelflow/', '"engineInfo":"Another/')
    commit.write_text(text.replace('{"remove":', '{"re-ove":', 1))
    assert open_table(table).version == 2
    assert _damages(table) == [f"{commit}: line 3 is a 're-ove' of a file, and Delta has no such action"]


def test_a_sample_of_a_commit_that_is_cut_short_names_it(tmp_path: Path) -> None:
    table = Path(parquet_to_delta(shards(tmp_path / "p", 3, 3), ctx=context(tmp_path)).uri)
    commit = commit_file(table, 1)
    text = commit.read_text()
    commit.write_text(text[: text.rindex('"path":"') + 12])
    with pytest.raises(DataError, match=rf"{commit.name} is damaged: line 4 is not JSON"):
        sample_table(table, 1, 10)


@pytest.mark.parametrize("text", ["null", "[]", '{\\"numRecords\\": 3'])
def test_statistics_that_are_none_are_found(table: Path, text: str) -> None:
    """They are made anew by who reads the files here; DataFusion refuses the table."""
    commit = commit_file(table, 2)
    lines = commit.read_text().splitlines(keepends=True)
    lines[-1] = re.sub(r'"stats":"(\\.|[^"\\])*"', lambda _: f'"stats":"{text}"', lines[-1])
    commit.write_text("".join(lines))
    assert open_table(table).files[0].rows == 9
    assert _damages(table) == [f"{commit}: the statistics in line {len(lines)} are no JSON of fields"]


def test_a_file_that_is_added_twice_is_found(tmp_path: Path) -> None:
    """In the place of another, whose rows are missing."""
    table = Path(parquet_to_delta(shards(tmp_path / "p", 3, 3), ctx=context(tmp_path)).uri)
    commit = commit_file(table, 1)
    *rest, first, second = commit.read_text().splitlines(keepends=True)
    path = json.loads(first)["add"]["path"]
    commit.write_text("".join([*rest, first, second.replace(json.loads(second)["add"]["path"], path)]))
    assert _damages(table) == [f"{commit}: line 4 adds {path} once more"]


def test_a_commit_without_the_metadata_is_named(tmp_path: Path) -> None:
    table = Path(parquet_to_delta(shards(tmp_path / "p", 3), ctx=context(tmp_path)).uri)
    commit = commit_file(table, 0)
    commit.write_text("".join(line for line in commit.read_text().splitlines(True) if '{"metaData"' not in line))
    with pytest.raises(
        DataError, match=rf"{commit.name} is damaged: neither it nor a later one has the table's metadata"
    ):
        open_table(table)


def test_a_damaged_name_in_a_compaction_is_found(table: Path, tmp_path: Path) -> None:
    """The file of that name stays in the table, so that its rows are there twice."""
    assert _damages(table) == []
    commit = commit_file(table, 2)
    line = next(line for line in commit.read_text().splitlines() if line.startswith('{"remove"'))
    path = json.loads(line)["remove"]["path"]
    commit.write_text(commit.read_text().replace(path, "z" + path[1:]))
    assert len(rows_by_pyarrow(str(table))) == 12
    (found,) = _damages(table)
    assert found.startswith(f"{commit}: rows of the table {table} are in it twice: in version 2 Voxelflow/")
    assert found.endswith(" compacted files that the table never had")
    # Without the first commits the table's files are not known.
    DeltaTable(table).create_checkpoint()
    commit_file(table, 0).unlink()
    assert _damages(table) == []


def test_files_of_commits_that_were_cleaned_up_are_known_to_have_been_there(table: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table, copy)
    DeltaTable(copy, version=1).create_checkpoint()
    for version in (0, 1):
        commit_file(copy, version).unlink()
    assert _damages(copy) == []
    assert rows_by_pyarrow(str(copy)) == rows_of(ids(0, 9))
