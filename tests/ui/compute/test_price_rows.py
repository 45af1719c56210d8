"""The table of prices as the page Compute shows it, and what a person sends or types into it."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_results import result, runs

from engine.bench.compare import best_by_machine
from engine.errors import UsageError
from engine.prices import Machine, MachineTable, add_machines, import_machines, machine_table
from engine.prices.machines import own_machines
from engine.workspace import Workspace
from ui.compute.price_rows import (
    SENT_MB,
    PriceRow,
    base_of,
    far_from,
    frame_of,
    gpus_of,
    links_of,
    matching,
    own_row,
    price_rows,
    read_sent,
    sent_in_words,
    sent_row,
)

HEADER = "name,region,price_per_hour,currency\n"


def test_all_machines_are_listed_with_where_they_come_from(workspace: Workspace) -> None:
    (workspace.root / "machines.csv").write_text(
        HEADER + "cellar,,0.0001,EUR\nattic,,,\nm5.2xlarge,us-east-1,0.3,USD\n"
    )
    table = machine_table(workspace)
    measured = best_by_machine(
        [
            result("desk", *runs(100, 90, 80), price=0.5),
            result("rented", *runs(300, 90, 80), price=0.5, machine_type="m5.xlarge@us-east-1"),
        ]
    )
    rows = price_rows(table, measured)
    assert len(rows) == len(table.machines) + 1
    of = {row.machine.key: row for row in rows}
    assert (rows[0].machine.name, rows[0].origin) == ("cellar", "own")
    assert rows[-1].machine.name == "attic", "without a price: last"
    assert of["m5.2xlarge@us-east-1"].comes_from == "own"
    assert of["m5.4xlarge@us-east-1"].comes_from == "built in"
    assert of["m5.xlarge@us-east-1"].comes_from == "built in, measured"
    desk = of["desk"]
    assert (desk.comes_from, desk.machine.cores, desk.machine.price_per_hour) == ("measured", 4, 0.5)
    assert (desk.machine.date, desk.machine.memory_gib, desk.rate) == ("2001-09-09", 14.9, pytest.approx(80, rel=1))


def test_words_and_gpus_choose_the_rows() -> None:
    rows = price_rows(machine_table(), {})
    found = matching(rows, " AZURE t4 westeurope", with_gpu=False)
    assert [row.machine.name for row in found] == [f"Standard_NC{n}as_T4_v3" for n in (4, 8, 16)]
    assert matching(rows, "", with_gpu=False) == rows
    with_gpu = matching(rows, "", with_gpu=True)
    assert with_gpu == [row for row in rows if row.machine.gpus]
    assert 0 < len(with_gpu) < len(rows)
    assert matching(rows, "quantum", with_gpu=False) == []


def test_a_price_far_from_the_known_one_is_doubted() -> None:
    shown = Machine("m", price_per_hour=0.384, currency="USD")
    for price, currency, far in ((0.3, "USD", False), (38.4, "USD", True), (0.01, "USD", True), (38.4, "EUR", False)):
        found = far_from(Machine("m", price_per_hour=price, currency=currency), shown)
        assert bool(found) is far
    assert far_from(Machine("m", price_per_hour=38.4, currency="USD"), shown) == [
        "m at 38.4 USD an hour is 100 times what the table has (0.384 USD)"
    ]
    assert far_from(shown, Machine("m", currency="USD")) == []


def test_gpus_are_counted_and_named() -> None:
    cases = ((0, "", ""), (2, "NVIDIA T4", "2 x NVIDIA T4"), (1, "", "1"), (1, "Intel Flex", "1 x Intel Flex"))
    for gpus, gpu, said in cases:
        assert gpus_of(Machine("m", gpus=gpus, gpu=gpu)) == said


def test_the_table_has_figures_as_numbers_and_prices_with_their_currency() -> None:
    machines = (
        Machine(
            "a", "aws", "here", 4, 16.0, 2, "NVIDIA T4", 1.5, None, 0.384, currency="USD", source="https://x.org/a b"
        ),
        Machine("b", price_per_hour=1.0, currency="EUR", source="my contract"),
        Machine("c", source="javascript:alert(1)"),
    )
    frame = frame_of([PriceRow(m, "own") for m in machines])
    data = frame.data
    assert data["place"].tolist() == ["aws, here", "", ""]
    assert data["gpus"].tolist() == ["2 x NVIDIA T4", "", ""]
    assert (data["cores"][0], data["disk"][0], data["price"][0]) == (4, 1.5, 0.384)
    assert data["network"].isna().all()
    assert data["source"].tolist() == ["https://x.org/a", None, None], "only addresses are links"
    assert "rate" not in data
    html = frame.to_html()
    assert "0.384 USD" in html
    assert "1 EUR" in html
    large = frame_of([PriceRow(Machine("d", cores=1024, memory_gib=1562.5, disk_mb_s=12000.0), "own")]).to_html()
    assert [figure in large for figure in (">1,024<", ">1,562<", ">12,000<")] == [True] * 3
    assert frame_of([PriceRow(machines[0], "own", 12.3456)]).data["rate"].tolist() == [12.3]


@pytest.mark.parametrize(
    ("source", "links"),
    [
        ("https://a.org/b http://c.org", ["https://a.org/b", "http://c.org"]),
        ("javascript:alert(1) data:text/html,x file:///etc/passwd", []),
        ("https:// http://[ contract", []),
        ("", []),
    ],
)
def test_only_addresses_of_the_web_are_links(source: str, links: list[str]) -> None:
    assert list(links_of(source)) == links


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "^given.csv is empty"),
        (b" \r\n", "^given.csv is empty"),
        (b"name\n" + b"x" * SENT_MB * 1_000_000, "^given.csv is larger than 5 MB"),
        (b"PK\x03\x04\xff\xfe", "^given.csv is not text in UTF-8"),
        ("name\nx\n".encode("utf-16"), "^given.csv is not text in UTF-8"),
        (HEADER.encode(), "^given.csv has no rows"),
        (b"prize\n1\n", "^given.csv has no column name"),
        (b"name,prize\nx,1\n", "^given.csv has a column 'prize'"),
        (b"name;price_per_hour\nx;0,5\n", "^given.csv has semicolons between its columns"),
        (b"name,price_per_hour\nx,=1+1\n", "^given.csv, line 2, price_per_hour: must be a number of at least 0"),
        (b"name,gpu\nx,=cmd\n", "^given.csv, line 2, gpu: '=cmd' is a formula to a spreadsheet"),
        (b"name\nx\x00\n", "^given.csv, line 2"),
        (b'name\n"x\n', "^given.csv, line 2: unexpected end of data"),
        (b"name\n" + b"x" * 200_000 + b"\n", "^given.csv, line 2: field larger than field limit"),
    ],
)
def test_what_is_wrong_with_a_sent_file_is_one_clear_message(data: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        read_sent("../../given.csv", data)
    assert caught.value.hint


def test_a_sent_file_is_read_as_the_command_reads_it(workspace: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "given.csv"
    file.write_bytes(b"\xef\xbb\xbf" + HEADER.encode() + b"cellar,,0.9,eur\r\nm5.2xlarge,us-east-1,0.3,USD\r\n")
    sent = read_sent("given.csv", file.read_bytes())
    table = machine_table(workspace)
    assert sent_in_words(sent, table) == "2 machines: 1 new, 1 instead of a built-in row"
    by_key = {machine.key.casefold(): machine for machine in table.machines}
    assert [sent_row(machine, by_key) for machine in sent] == [
        ("cellar", "", "not in the table", "0.9 EUR", ""),
        ("m5.2xlarge", "us-east-1", "0.384 USD", "0.3 USD", ""),
    ]
    import_machines(file, workspace)
    assert sent == list(own_machines(workspace))
    assert sent_in_words(sent, machine_table(workspace)) == "2 machines: 2 instead of an own row"


def test_an_own_price_of_a_shipped_machine_says_its_name_and_price_alone(workspace: Workspace) -> None:
    def row(key: str) -> PriceRow:
        return next(r for r in price_rows(machine_table(workspace), {}) if r.machine.key == key)

    shipped = row("m5.2xlarge@us-east-1")
    base = base_of(shipped, own_machines(workspace))
    new = own_row(base, 0.3, None, "eur", "2026-11-01", "contract 7")
    assert (new.name, new.region, new.provider, new.cores) == ("m5.2xlarge", "us-east-1", "", None)
    assert (new.price_per_hour, new.spot_per_hour, new.currency, new.date, new.source) == (
        0.3, None, "EUR", "2026-11-01", "contract 7",
    )  # fmt: skip
    add_machines([new], workspace)
    own = row("m5.2xlarge@us-east-1")
    assert (own.origin, own.machine.cores, own.machine.price_per_hour) == ("own", 8, 0.3)
    # Changed again: what else the row says stays.
    add_machines([Machine("cellar", cores=32, price_per_hour=1.0, currency="EUR")], workspace)
    changed = own_row(base_of(row("cellar"), own_machines(workspace)), 0.9, 0.2, "EUR", "", "")
    assert (changed.cores, changed.price_per_hour, changed.spot_per_hour) == (32, 0.9, 0.2)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ((None, 0.1, "EUR", "", ""), "Price an hour: there is none"),
        ((-1.0, None, "EUR", "", ""), "Price an hour: must be a number of at least 0"),
        ((1.0, float("inf"), "EUR", "", ""), "Spot price an hour: must be a number of at least 0"),
        ((1.0, None, "euro", "", ""), "Currency: must be the three letters of a currency, not 'euro'"),
        ((1.0, None, "EUR", "yesterday", ""), "As of: yesterday is no date"),
        ((1.0, None, "EUR", "", "=1+1"), "Source: '=1\\+1' is a formula"),
        ((1.0, None, "EUR", "", "a\x1bb"), "Source: holds the control character"),
    ],
)
def test_a_typed_price_is_checked_as_a_row_of_the_file(
    typed: tuple[float | None, float | None, str, str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        own_row(Machine("=old"), *typed)


def test_a_measured_machine_of_no_table_begins_with_what_is_known_of_it() -> None:
    (row,) = price_rows(MachineTable(()), best_by_machine([result("desk", *runs(100, 90, 80), price=0.5)]))
    assert base_of(row, ()).cores == 4
