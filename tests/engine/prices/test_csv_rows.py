"""Rows that a person brings along, and those of a workspace, whatever they are rows of."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.prices.csv_rows import Layout, brought_rows, merged_rows, own_rows, read_rows

LAYOUT = Layout(("name", "count"), needed=("name",), numbers=("count",), rows="fruit")


def read(path: Path) -> list[dict[str, str | int | float]]:
    return [cells for _, cells in read_rows(path, LAYOUT)]


def test_what_is_brought_is_there_and_has_rows(tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    with pytest.raises(UsageError, match=r"there is no file .*given\.csv"):
        brought_rows(given, read, "fruit")
    given.write_text("name\n")
    with pytest.raises(UsageError, match=r"given\.csv has no rows") as caught:
        brought_rows(given, read, "fruit")
    assert "Write a row for each fruit" in caught.value.hint
    given.write_text("name,count\nplum,many\n")
    with pytest.raises(UsageError, match=r"given\.csv, line 2, count"):
        brought_rows(given, read, "fruit")
    given.write_text("count,name\n3,plum\n")
    assert brought_rows(given, read, "fruit") == [{"name": "plum", "count": 3}]


def test_a_workspace_may_have_none_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    assert own_rows(own, read) == own_rows(None, read) == ([], None)
    own.write_bytes(b"name\n\xff\n")
    rows, problem = own_rows(own, read)
    assert rows == []
    assert problem is not None
    assert "not text in UTF-8" in problem.message
    with pytest.raises(UsageError, match="not text in UTF-8"):
        merged_rows([{"name": "plum"}], own, read, lambda row: row["name"])


def test_new_rows_come_first_and_replace_those_of_their_key(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("name,count\nplum,1\npear,2\n")
    new = [{"name": "fig", "count": 3}, {"name": "pear", "count": 4}]
    rows, replaced = merged_rows(new, own, read, lambda row: row["name"])
    assert rows == [*new, {"name": "plum", "count": 1}]
    assert replaced == 1
