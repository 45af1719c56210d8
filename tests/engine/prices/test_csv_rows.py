"""Rows that a person brings along, and those of a workspace, whatever they are rows of."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import DataError, UsageError
from engine.prices.csv_rows import Layout, brought_rows, merged_rows, own_rows, read_rows
from nodes.conversion.label_table import read_label_table

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
    given.write_text("name,count\nplum,1e300\n")
    with pytest.raises(UsageError, match=r"given\.csv, line 2, count: '1e300' is more than there is of anything"):
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


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("name\nx\n".encode("utf-16"), "in UTF-16"),
        ("name\ngröße\n".encode("latin-1"), "perhaps in Latin-1 or Windows-1252"),
        (b"PK\x03\x04\xff\xfe", "an Excel workbook or another ZIP archive"),
    ],
)
def test_what_is_no_utf_8_is_named_as_a_label_table_is(tmp_path: Path, data: bytes, said: str) -> None:
    given, table = tmp_path / "given.csv", tmp_path / "labels.csv"
    for path in (given, table):
        path.write_bytes(data)
    with pytest.raises(UsageError) as refused:
        brought_rows(given, read, "fruit")
    assert refused.value.message == f"{given} is not text in UTF-8, but {said}"
    with pytest.raises(DataError) as other:
        read_label_table(table)
    assert other.value.message.endswith(f"is not text in UTF-8, but {said}")
    assert refused.value.hint == other.value.hint


def test_new_rows_come_first_and_replace_those_of_their_key(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("name,count\nplum,1\npear,2\n")
    new = [{"name": "fig", "count": 3}, {"name": "pear", "count": 4}]
    rows, replaced = merged_rows(new, own, read, lambda row: row["name"])
    assert rows == [*new, {"name": "plum", "count": 1}]
    assert replaced == 1


@pytest.mark.parametrize(
    "data",
    [
        b"name,count,,\r\nplum,1,,\r\npear,2,,\r\n",
        b"name,count\nplum,1\n,\n , \npear,2\n,\n",
        b"name,count\nplum,1,,\npear,2, \n",
        b"name,count\rplum,1\rpear,2\r",
    ],
    ids=["empty columns", "empty rows", "empty cells beyond the columns", "lines as on old Macs"],
)
def test_what_a_spreadsheet_adds_is_left_out(tmp_path: Path, data: bytes) -> None:
    given = tmp_path / "given.csv"
    given.write_bytes(data)
    assert brought_rows(given, read, "fruit") == [{"name": "plum", "count": 1}, {"name": "pear", "count": 2}]


def test_a_line_is_counted_however_it_ends_and_whatever_is_left_out(tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    for end in ("\n", "\r\n", "\r"):
        given.write_bytes(end.join(["name,count", ",", "plum,many", ""]).encode())
        with pytest.raises(UsageError, match=r"given\.csv, line 3, count: must be a number"):
            brought_rows(given, read, "fruit")
    given.write_text("name,count\nplum,1,,x\n")
    with pytest.raises(UsageError, match="line 2 has more cells than the first line"):
        brought_rows(given, read, "fruit")


def test_a_misspelt_column_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    for column, hint in (("Cuont", "Did you mean count? It may have: "), ("weight", "It may have: ")):
        given.write_text(f"name,{column}\nplum,1\n")
        with pytest.raises(UsageError, match=f"has a column '{column}'") as caught:
            brought_rows(given, read, "fruit")
        assert caught.value.hint.startswith(hint)


def test_columns_may_be_written_in_capitals(tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    given.write_text("Name,COUNT\nplum,1\n")
    assert brought_rows(given, read, "fruit") == [{"name": "plum", "count": 1}]
    given.write_text("name,Name\nplum,1\n")
    with pytest.raises(UsageError, match="has a column twice"):
        brought_rows(given, read, "fruit")


@pytest.mark.parametrize(
    ("text", "count"),
    [("+0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("2E-1", 0.2), ("-0", 0.0), ("-0.0", 0.0)],
)
def test_numbers_are_read_as_programs_write_them(tmp_path: Path, text: str, count: float) -> None:
    given = tmp_path / "given.csv"
    given.write_text(f"name,count\nplum,{text}\n")
    ((fruit,),) = ([row["count"]] for row in brought_rows(given, read, "fruit"))
    assert (fruit, str(fruit)) == (count, str(count))


@pytest.mark.parametrize("text", ["1_5", "\u0661", "-1", "nan", "inf", "0x1", "1..5", "$0.5", "N/A"])
def test_what_might_be_another_number_is_refused(tmp_path: Path, text: str) -> None:
    given = tmp_path / "given.csv"
    given.write_text(f"name,count\nplum,{text}\n")
    with pytest.raises(UsageError, match=r"line 2, count: must be a number of at least 0, not") as caught:
        brought_rows(given, read, "fruit")
    assert caught.value.hint == "Write it as 0.384."


def test_whole_numbers_have_an_example_of_their_own_and_decimal_commas_are_explained(tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    given.write_text("name,cores\nplum,4.5\n")
    layout = Layout(("name", "cores"), needed=("name",), numbers=(), whole=("cores",), rows="fruit")
    with pytest.raises(UsageError, match="must be a whole number") as caught:
        list(read_rows(given, layout))
    assert caught.value.hint == "Write it as 16."
    given.write_text("name,count\nplum,0,5\n")
    with pytest.raises(UsageError, match="has more cells than the first line") as caught:
        brought_rows(given, read, "fruit")
    assert caught.value.hint.startswith("Write numbers with a point")


@pytest.mark.parametrize(("mark", "named"), [(";", "semicolons"), ("\t", "tabs")])
def test_other_marks_between_columns_are_named(tmp_path: Path, mark: str, named: str) -> None:
    given = tmp_path / "given.csv"
    given.write_text(f"name{mark}count\nplum{mark}0,5\n")
    with pytest.raises(UsageError, match=rf"given\.csv has {named} between its columns") as caught:
        brought_rows(given, read, "fruit")
    assert "commas between them, and a point in numbers" in caught.value.hint
