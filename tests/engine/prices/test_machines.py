"""The table of machine types: what is shipped, a workspace's own over it, importing CSV."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.prices import COLUMNS, import_machines, machine_table, machines_file
from engine.workspace import Workspace

HEADER = "name,region,price_per_hour,currency\n"


def test_every_shipped_price_has_its_source_and_date() -> None:
    found = machine_table()
    assert found.problem is None
    assert {machine.provider for machine in found.machines} == {"aws", "azure", "gcp"}
    for machine in found.machines:
        assert machine.price_per_hour is not None, machine.key
        assert machine.price_per_hour > 0, machine.key
        assert (machine.currency, machine.source[:8]) == ("USD", "https://"), machine.key
        assert datetime.date.fromisoformat(machine.date), machine.key
        assert machine.specs_source.startswith("https://"), machine.key
        assert machine.cores, machine.key
        assert machine.memory_gib, machine.key
        assert bool(machine.gpus) == bool(machine.gpu), machine.key


def test_a_machine_is_found_by_its_name_and_region() -> None:
    table = machine_table()
    assert table.find("M5.2XLARGE") is table.find("m5.2xlarge@us-east-1")
    assert table.find("Standard_NC6s_v3@westeurope").gpu == "NVIDIA V100"
    with pytest.raises(UsageError, match="in 2 regions") as caught:
        table.find("Standard_NC6s_v3")
    assert "Standard_NC6s_v3@westeurope" in caught.value.hint
    with pytest.raises(UsageError, match=r"no machine m5\.3xlarge") as caught:
        table.find("m5.3xlarge")
    assert "m5.2xlarge" in caught.value.hint


def test_the_workspaces_rows_go_before_the_shipped_ones(workspace: Workspace) -> None:
    machines_file(workspace).write_text(HEADER + "m5.2xlarge,us-east-1,0.2,EUR\nours,,,\n")
    table = machine_table(workspace)
    mine = table.find("m5.2xlarge")
    assert (mine.price_per_hour, mine.currency, mine.origin) == (0.2, "EUR", "machines.csv")
    assert table.find("ours").price_per_hour is None
    assert len(table.machines) == len(machine_table().machines) + 1


def test_importing_adds_and_replaces_and_keeps_the_rest(workspace: Workspace, tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    given.write_text("\ufeff" + HEADER + "one,here,1,USD\ntwo,,2.50,USD\n")
    assert import_machines(given, workspace) == (2, 0)
    # Another program's order of columns and line ends.
    given.write_bytes(b"price_per_hour,name,gpus,region\r\n3,ONE,1,here\r\n4,three,,\r\n")
    assert import_machines(given, workspace) == (1, 1)
    table = machine_table(workspace)
    assert [table.find(name).price_per_hour for name in ("one", "two", "three")] == [3, 2.5, 4]
    assert table.find("one").gpus == 1
    assert machines_file(workspace).read_text().splitlines()[0] == ",".join(COLUMNS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column name"),
        ("price_per_hour\n1\n", "no column name"),
        ("name,prize\nx,1\n", "a column 'prize'"),
        ("name,name\nx,y\n", "a column twice"),
        (HEADER, "has no rows"),
        (HEADER + "x,,one,USD\n", "line 2, price_per_hour: must be a number of at least 0, not 'one'"),
        (HEADER + "x,,-1,USD\n", "must be a number"),
        (HEADER + "x,,inf,USD\n", "must be a number"),
        (HEADER + "x,,nan,USD\n", "must be a number"),
        ("name,cores\nx,1.5\n", "must be a whole number"),
        (HEADER + ",,1,USD\n", "line 2 has no name"),
        (HEADER + "x,,1,USD,more\n", "more cells"),
        (HEADER + "x,a,1,USD\nX,A,2,USD\n", "line 3: X@A stands there twice"),
        ("name,date\nx,yesterday\n", "no date"),
        ("name\nx\x1b[2J\n", "control character"),
        ('name\n"x\n', "unexpected end of data"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line_and_changes_nothing(
    workspace: Workspace, tmp_path: Path, text: str, said: str
) -> None:
    machines_file(workspace).write_text(before := HEADER + "ours,,1,USD\n")
    given = tmp_path / "given.csv"
    given.write_text(text)
    with pytest.raises(UsageError, match=r"given\.csv") as caught:
        import_machines(given, workspace)
    assert said in caught.value.message
    assert machines_file(workspace).read_text() == before


def test_a_damaged_own_table_is_reported_where_a_price_is_wanted(workspace: Workspace, tmp_path: Path) -> None:
    machines_file(workspace).write_bytes(b"name\n\xff\n")
    table = machine_table(workspace)
    assert table.problem is not None
    assert len(table.machines) == len(machine_table().machines)
    with pytest.raises(UsageError, match="not text in UTF-8"):
        table.find("m5.2xlarge")
    with pytest.raises(UsageError, match="no file"):
        import_machines(tmp_path / "nowhere.csv", workspace)
