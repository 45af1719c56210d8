"""A commit that takes a file out by a damaged name is found: its rows come back, or are there twice."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from delta_tables import context, shards
from deltalake import DeltaTable, write_deltalake
from volumes import rows_by_pyarrow

from nodes.inspection.verify import check_data
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.log import commit_file


def _damages(table: Path) -> list[tuple[str, str]]:
    checked = check_data(str(table), threads=2, progress=lambda done, total: None)
    return [(damage.file, damage.problem) for damage in checked.damages]


def _misspell(table: Path, version: int, *, letters: int = 1) -> tuple[str, str]:
    """The name of a file that the commit takes out, as it is then and as it was."""
    commit = commit_file(table, version)
    removes = [json.loads(line)["remove"]["path"] for line in commit.read_text().splitlines() if '{"remove"' in line]
    path = removes[0]
    other = path[:-10] + "z" * letters + path[-10 + letters :]
    commit.write_text(commit.read_text().replace(path, other))
    return other, path


@pytest.fixture
def volumes(tmp_path: Path) -> Path:
    """Of which another program deletes a row, in version 2."""
    table = parquet_to_delta(shards(tmp_path / "p", 3, 3), ctx=context(tmp_path)).uri
    DeltaTable(table).delete("id = 'vol-00001'")
    return Path(table)


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """No volumes, by parts; version 2 takes one out whole."""
    table = tmp_path / "others"
    for part in ("a b", "ü"):
        write_deltalake(table, pa.table({"part": [part] * 3, "x": range(3)}), mode="append", partition_by=["part"])
    DeltaTable(table).delete("part = 'ü'")
    return table


def test_a_delete_that_names_no_file_is_found_in_a_table_of_volumes(volumes: Path) -> None:
    assert _damages(volumes) == []
    other, path = _misspell(volumes, 2)
    assert len(rows_by_pyarrow(str(volumes))) == 8, "two of them twice, and the deleted one"
    said = f"it removes {other}, which no commit has added; {path} stays in the table"
    assert _damages(volumes) == [(str(commit_file(volumes, 2)), said)]
    # What undoes it is no damage.
    DeltaTable(volumes).restore(1)
    assert _damages(volumes) == []


@pytest.mark.parametrize("damaged", [2, 4], ids=["before the restored version", "of a file that it did not have"])
def test_what_a_restore_does_not_undo_is_found(others: Path, damaged: int) -> None:
    write_deltalake(others, pa.table({"part": ["c"], "x": [1]}), mode="append")
    DeltaTable(others).delete("part = 'c'")
    DeltaTable(others).restore(2)
    assert _damages(others) == []
    _misspell(others, damaged)
    ((file, problem),) = _damages(others)
    assert file == str(commit_file(others, damaged))
    assert "which no commit has added" in problem


def test_a_delete_that_names_no_file_is_found_in_another_program_s_table(others: Path) -> None:
    assert _damages(others) == []
    _misspell(others, 2)
    ((file, problem),) = _damages(others)
    assert file == str(commit_file(others, 2))
    assert "which no commit has added; part=%C3%BC/" in problem
    # The rows are gone in the end.
    write_deltalake(others, pa.table({"part": ["c"], "x": [1]}), mode="overwrite")
    assert _damages(others) == []


@pytest.mark.parametrize(
    ("letters", "is_cleaned"), [(1, True), (9, False)], ids=["commits are gone", "a name like no other"]
)
def test_what_is_not_known_is_not_reported(others: Path, letters: int, is_cleaned: bool) -> None:
    _misspell(others, 2, letters=letters)
    if is_cleaned:
        DeltaTable(others).create_checkpoint()
        commit_file(others, 0).unlink()
    assert _damages(others) == []


def test_work_of_other_programs_is_no_damage(others: Path) -> None:
    write_deltalake(others, pa.table({"part": ["a b"] * 3, "x": range(3, 6)}), mode="append")
    table = DeltaTable(others)
    table.update(updates={"x": "x + 1"}, predicate="x = 4")
    table.optimize.compact()
    table.restore(3)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.merge(
        pa.table({"part": ["a b"], "x": [9]}), "t.x = s.x", source_alias="s", target_alias="t"
    ).when_not_matched_insert_all().execute()
    table.create_checkpoint()
    write_deltalake(others, pa.table({"part": ["ü"], "x": [7]}), mode="overwrite", predicate="part = 'ü'")
    names = {path.name for path in (others / "_delta_log").glob("*.json")}
    assert len(names) >= 9
    assert [said for said in _damages(others) if "no commit has added" in said[1]] == []
