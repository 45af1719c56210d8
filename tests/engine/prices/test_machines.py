"""The table of machine types: what is shipped, a workspace's own over it, importing CSV."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine import prices
from engine.errors import UsageError
from engine.prices import (
    COLUMNS,
    Machine,
    add_machines,
    import_machines,
    machine_table,
    machines_file,
    read_machines,
    remove_machine,
)
from engine.prices.doubts import own_doubts
from engine.prices.machines import own_machines
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
        assert machine.provider == "gcp" or machine.date, machine.key
        assert not machine.date or datetime.date.fromisoformat(machine.date), machine.key
        assert machine.specs_source.startswith("https://"), machine.key
        assert machine.cores, machine.key
        assert machine.memory_gib, machine.key
        assert bool(machine.gpus) == bool(machine.gpu), machine.key


NO_DISK_FIGURE = re.compile(r"g6e\..*|Standard_NC\d+as_T4_v3|a3-highgpu-1g")
NO_NETWORK_FIGURE = re.compile(r"p2\.xlarge|Standard_NC\d+s_v3|n1-.*\+.*")
"""Of which no document of the provider gave one."""


def test_disk_and_network_are_known_where_the_provider_says_them() -> None:
    table = machine_table()
    for machine in table.machines:
        assert (machine.disk_mb_s is None) == bool(NO_DISK_FIGURE.fullmatch(machine.name)), machine.key
        assert (machine.network_mb_s is None) == bool(NO_NETWORK_FIGURE.fullmatch(machine.name)), machine.key
    # What is kept up all day, not for the half an hour in which a smaller size does as much as a large one.
    assert (table.find("r6i.4xlarge").disk_mb_s, table.find("m6i.2xlarge").disk_mb_s) == (625, 312.5)
    assert table.find("Standard_E8s_v5@eastus").disk_mb_s == 290
    sizes = ("g6.xlarge", "g6.2xlarge", "g6.4xlarge")
    assert [table.find(name).disk_mb_s for name in sizes] == [125, 250, 1000]


def test_what_a_shipped_machine_says_of_github_names_a_commit() -> None:
    """A branch says something else tomorrow."""
    for machine in machine_table().machines:
        for source in f"{machine.source} {machine.specs_source}".split():
            assert "github.com" not in source or re.search(r"/blob/[0-9a-f]{40}/", source), (machine.key, source)


def test_the_page_of_prices_counts_the_table() -> None:
    machines = machine_table().machines
    page = Path(prices.__file__).with_name("README.md").read_text()
    counted = re.search(r"lists (\d+) machine types of three providers \((\d+) prices", page)
    assert counted is not None
    assert [int(counted[1]), int(counted[2])] == [len({m.name for m in machines}), len(machines)]


def _family(machine: Machine) -> str:
    """The name without its size: `m5`, `standard_d*s_v3`, `n1-standard+t4`."""
    name = machine.name.casefold()
    if found := re.fullmatch(r"standard_([a-z]+)\d+(.*)", name):
        return f"standard_{found[1]}*{found[2]}"
    name, plus, added = name.partition("+")
    return (name.partition(".")[0] if "." in name else name.rpartition("-")[0]) + plus + added


def wrong_prices(machines: Sequence[Machine]) -> list[tuple[str, str]]:
    """Neighbours in size whose prices do not fit each other.

    Twice the machine costs twice as much. One with GPUs costs more than a smaller one, at most by what has grown most.
    """
    out = []
    families: dict[tuple[str, str], list[Machine]] = {}
    for each in sorted(machines, key=lambda m: m.cores or 0):
        families.setdefault((_family(each), each.region), []).append(each)
    for members in families.values():
        for small, large in itertools.pairwise(members):
            assert small.price_per_hour
            assert large.price_per_hour
            assert small.cores
            assert large.cores
            times, cores = large.price_per_hour / small.price_per_hour, large.cores / small.cores
            most = max(cores, (large.gpus or 1) / (small.gpus or 1))
            if not (1.0 if large.gpus else cores / 1.25) <= times <= most * 1.25:
                out.append((small.key, large.key))
    return out


def test_a_shipped_machine_of_twice_the_size_costs_about_twice_as_much() -> None:
    machines = machine_table().machines
    assert not wrong_prices(machines)
    assert len({(_family(m), m.region) for m in machines}) < len(machines) / 2
    # As one source had it: the larger machine at almost four times the smaller one's price.
    one = Machine("Standard_D8ads_v5", region="eastus", cores=8, price_per_hour=0.412)
    other = Machine("Standard_D16ads_v5", region="eastus", cores=16, price_per_hour=1.56)
    assert wrong_prices([other, one]) == [(one.key, other.key)]


def test_no_shipped_price_is_that_of_databricks_units() -> None:
    """Some lists have units an hour times 0.55 USD where the machine's price should be (units of overwatch, 2024)."""
    units = {
        "Standard_D4s_v3": 0.75, "Standard_D8s_v3": 1.5, "Standard_D16s_v3": 3.0, "Standard_D32s_v3": 6.0,
        "Standard_D64s_v3": 12.0, "Standard_E32s_v5": 11.0, "Standard_NC24ads_A100_v4": 10.0,
        "Standard_NC48ads_A100_v4": 20.0, "Standard_NC96ads_A100_v4": 44.0, "Standard_NV36ads_A10_v5": 4.0,
        "Standard_NV72ads_A10_v5": 8.0,
    }  # fmt: skip
    table = machine_table()
    found = {m.name: m.price_per_hour for m in table.machines if m.region == "eastus" and m.name in units}
    assert found.keys() == units.keys()
    for name, price in found.items():
        assert price != pytest.approx(units[name] * 0.55, rel=1e-3), name
    # Older pages say 98.32.
    assert table.find("p5.48xlarge").price_per_hour == 55.04


def test_a_machine_is_found_by_its_name_and_region() -> None:
    table = machine_table()
    assert table.find("M5.2XLARGE") is table.find("m5.2xlarge@us-east-1")
    assert table.find("Standard_NC6s_v3@westeurope").gpu == "NVIDIA V100"
    with pytest.raises(UsageError, match="in 2 regions") as caught:
        table.find("Standard_NC6s_v3")
    assert "Standard_NC6s_v3@westeurope" in caught.value.hint
    with pytest.raises(UsageError, match=r"no machine m5\.3xlarge") as caught:
        table.find("m5.3xlarge")
    assert "Did you mean m5.xlarge or m5." in caught.value.hint


def test_the_workspaces_rows_go_before_the_shipped_ones(workspace: Workspace) -> None:
    machines_file(workspace).write_text(HEADER + "m5.2xlarge,us-east-1,0.2,EUR\nours,,,\n")
    table = machine_table(workspace)
    mine = table.find("m5.2xlarge")
    assert (mine.price_per_hour, mine.currency, mine.origin) == (0.2, "EUR", "machines.csv")
    assert table.find("ours").price_per_hour is None
    assert len(table.machines) == len(machine_table().machines) + 1


def test_ones_own_discount_leaves_what_the_machine_is(workspace: Workspace) -> None:
    """A row of a name, a region and a price: the advice needs the cores, too."""
    shipped = machine_table().find("g4dn.xlarge")
    machines_file(workspace).write_text(
        "name,region,price_per_hour,currency,cores,gpus,specs_source\n"
        "g4dn.xlarge,us-east-1,0.2,EUR,,,\n"
        "G4DN.xlarge,elsewhere,,,8,0,ours\n"
        "g4dn.xlarge,,0.1,USD,,2,\n"
        "ours,us-east-1,1,USD,,,\n"
    )
    table = machine_table(workspace)
    mine = table.find("g4dn.xlarge@us-east-1")
    own = {"price_per_hour": 0.2, "spot_per_hour": None, "currency": "EUR", "date": "", "source": ""}
    assert mine == replace(shipped, **own, origin="machines.csv")
    # What the row says itself stays: a machine with no GPUs has none of any name.
    other = table.find("g4dn.xlarge@elsewhere")
    assert (other.cores, other.gpus, other.gpu, other.memory_gib) == (8, 0, "", shipped.memory_gib)
    assert (other.price_per_hour, other.specs_source) == (None, "ours")
    # One without a region is named by its name, though others of that name have a region.
    everywhere = table.find("g4dn.xlarge")
    assert (everywhere.region, everywhere.price_per_hour) == ("", 0.1)
    assert (everywhere.gpus, everywhere.gpu, everywhere.cores) == (2, "NVIDIA T4", 4)
    assert table.find("ours").cores is None
    # The file has what was written, and no doubts come of what was filled in.
    assert [m.provider for m in own_machines(workspace)] == ["", "", "", ""]
    header, half = "name,region,price_per_hour,currency,date\n", "m5.2xlarge,us-east-1,0.15,USD,2026-12-01\n"
    machines_file(workspace).write_text(header + half)
    assert own_doubts(workspace) == []
    add_machines([Machine("ours")], workspace)
    assert "m5.2xlarge,,us-east-1,,,,,,,0.15,,USD,2026-12-01,," in machines_file(workspace).read_text()


def test_importing_adds_and_replaces_and_keeps_the_rest(workspace: Workspace, tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    given.write_text("\ufeff" + HEADER + "one,here,1,USD\ntwo,,2.50, usd\n")
    assert import_machines(given, workspace) == (2, 0)
    # Another program's order of columns and line ends.
    given.write_bytes(b"price_per_hour,name,gpus,region\r\n3,ONE,1,here\r\n4,three,,\r\n")
    assert import_machines(given, workspace) == (1, 1)
    table = machine_table(workspace)
    assert [table.find(name).price_per_hour for name in ("one", "two", "three")] == [3, 2.5, 4]
    assert (table.find("one").gpus, table.find("two").currency) == (1, "USD")
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
        (HEADER + "x,a,1,USD\nX,A,2,USD\n", "line 3: X@A is listed twice"),
        ("name,date\nx,yesterday\n", "no date"),
        (HEADER + "x,,1,dollar\n", "line 2, currency: must be the three letters of a currency, not 'dollar'"),
        ("name\nx\x1b[2J\n", "control character"),
        ('name\n"=HYPERLINK(""http://x"")"\n', "line 2, name: '=HYPERLINK(\"http://x\")' is a formula"),
        ("name,gpu\nx,@SUM(1)\n", "line 2, gpu: '@SUM(1)' is a formula"),
        ("name,source\nx,-1+1\n", "line 2, source: '-1+1' is a formula"),
        ("name,cores\nx,=1+1\n", "line 2, cores: must be a whole number of at least 0, not '=1+1'"),
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


def test_a_file_that_lies_on_no_disk_here_is_read_by_its_content(tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    given.write_text(text := HEADER + "one,here,1,USD\n")
    assert read_machines(Path("sent.csv"), text.encode()) == read_machines(given)
    with pytest.raises(UsageError, match=r"^sent\.csv is not text in UTF-8"):
        read_machines(Path("sent.csv"), b"name\n\xff\n")
    with pytest.raises(UsageError, match=r"^sent\.csv has no rows"):
        read_machines(Path("sent.csv"), HEADER.encode())


def test_a_dash_alone_is_no_formula_and_an_own_table_keeps_what_it_has(workspace: Workspace) -> None:
    assert read_machines(Path("sent.csv"), b"name,gpu\nx,-\n")[0].gpu == "-"
    machines_file(workspace).write_text(HEADER + "=old,,0.5,EUR\n")
    assert machine_table(workspace).find("=old").price_per_hour == 0.5


def test_a_row_is_taken_out_and_the_shipped_one_counts_again(workspace: Workspace) -> None:
    machines_file(workspace).write_text(HEADER + "m5.2xlarge,us-east-1,0.1,USD\nours,,1,USD\n")
    remove_machine("M5.2xlarge@us-east-1", workspace)
    table = machine_table(workspace)
    assert (table.find("m5.2xlarge").price_per_hour, table.find("ours").price_per_hour) == (0.384, 1)
    before = machines_file(workspace).read_text()
    with pytest.raises(UsageError, match=r"machines\.csv has no machine m5\.2xlarge@us-east-1"):
        remove_machine("m5.2xlarge@us-east-1", workspace)
    assert machines_file(workspace).read_text() == before


def test_a_currency_that_an_earlier_version_took_stops_nothing(workspace: Workspace) -> None:
    machines_file(workspace).write_text(HEADER + "lab,,0.5,€\nour,,0.5,eur\n")
    table = machine_table(workspace)
    assert table.problem is None
    assert (table.find("lab").currency, table.find("our").currency) == ("€", "EUR")


def test_a_damaged_own_table_is_reported_where_a_price_is_wanted(workspace: Workspace, tmp_path: Path) -> None:
    machines_file(workspace).write_bytes(b"name\n\xff\n")
    table = machine_table(workspace)
    assert table.problem is not None
    assert len(table.machines) == len(machine_table().machines)
    with pytest.raises(UsageError, match="not text in UTF-8"):
        table.find("m5.2xlarge")
    with pytest.raises(UsageError, match="no file"):
        import_machines(tmp_path / "nowhere.csv", workspace)
