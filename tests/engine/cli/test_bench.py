"""`voxelflow bench`, `compare` and `add`; what would be measured is given."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_results import result, row, runs
from command_line import NO_WORK, Command, Said

import voxelflow
from engine.bench.options import BenchOptions
from engine.bench.result import BenchResult, bench_results, read_result, write_result
from engine.catalog import build_catalog
from engine.cli import main
from engine.prices.machines import own_machines
from engine.workspace import Workspace
from nodes.loaders import LOADERS

GOLDEN = Path(__file__).parent / "golden" / "bench_compare.txt"


@pytest.fixture
def asked() -> list[BenchOptions]:
    """What the command asked to be measured."""
    return []


@pytest.fixture
def bench(home: Path, capsys: pytest.CaptureFixture[str], asked: list[BenchOptions]) -> Command:
    def measure(
        options: BenchOptions, folder: Path, *, report: Callable[[str], None], keep: Callable[[BenchResult], None]
    ) -> BenchResult:
        asked.append(options)
        report("1/3 synthetic")
        values: dict[str, Any] = {"machine_type": options.machine_type, "currency": options.currency}
        name = options.name or options.machine_type or "a processor"
        rows = runs(100, 80, 40)
        if name == "nothing":
            failed = [r.model_copy(update={"outcome": "not possible", "steps": 0, "note": "no"}) for r in rows]
            return result(name, *failed, measured_at=1.6e9, **values)
        for number in range(1, len(rows) + 1):
            keep(result(name, *rows[:number], price=options.price_per_hour, measured_at=1.6e9, **values))
            if name == f"ends after {number}":
                raise KeyboardInterrupt
        return result(name, *rows, price=options.price_per_hour, measured_at=1.6e9, **values)

    work = replace(NO_WORK, run_bench=measure, write_bench_page=voxelflow._write_bench_page)

    def run(*arguments: str) -> Said:
        status = main(lambda ws: build_catalog((), ws), lambda *_, **__: 0, work, ["bench", *arguments])
        printed = capsys.readouterr()
        return Said(status, printed.out, printed.err)

    return run


def test_a_result_is_shown_and_kept(bench: Command, workspace: Workspace, asked: list[BenchOptions]) -> None:
    said = bench("--batch-sizes", "16,64", "--xla", "both", "--mixed-precision", "on", "--out", "mine.json").done()
    lines = said.out.splitlines()
    assert lines[1].split("  ")[0] == "a processor"
    assert [word for word in lines[1].split() if word.endswith("%")] == ["20%", "50%"]
    assert lines[-1] == "kept as mine.json"
    assert said.err == "1/3 synthetic\n"
    (kept,) = bench_results(workspace)
    assert read_result(Path("mine.json")) == kept
    assert asked == [BenchOptions(batch_sizes=(16, 64), jit=(False, True), mixed_precision=(True,))]
    output = json.loads(bench("--json").done().out)
    assert Path(output["file"]).parent == workspace.root / "bench"
    assert len(output["rows"]) == 3


def test_without_a_word_of_it_the_precision_is_that_of_a_training(bench: Command, asked: list[BenchOptions]) -> None:
    for given in ((), ("--mixed-precision", "auto"), ("--mixed-precision", "off"), ("--mixed-precision", "both")):
        bench(*given).done()
    assert [options.mixed_precision for options in asked] == [None, None, (False,), (False, True)]
    bench("--xla", "auto").fails("Invalid value for '--xla'")


def test_what_was_measured_before_it_ended_is_kept(bench: Command, workspace: Workspace) -> None:
    """A machine that is paid for by the hour may be taken back before the last row."""
    said = bench("--name", "ends after 2", "--out", "mine.json")
    assert said.status == 130
    assert "what was measured until then is kept as mine.json" in said.err.splitlines()
    (kept,) = bench_results(workspace)
    assert len(kept.rows) == 2
    assert read_result(Path("mine.json")) == kept


def test_quick_leaves_alone_what_is_given(bench: Command, asked: list[BenchOptions]) -> None:
    bench("--quick", "--steps", "3", "--loaders", "npy", "--inputs", "cold,synthetic").done()
    (options,) = asked
    assert (options.shape, options.batch_sizes, options.steps) == ((12, 12, 8, 2), (8,), 3)
    assert (options.loaders, options.inputs) == (("npy",), ("cold", "synthetic"))


def test_a_shape_may_have_sides_of_one_length(bench: Command, asked: list[BenchOptions]) -> None:
    bench("--shape", "30,30,10,10", "--batch-sizes", "8,32,8").done()
    bench("--shape", "32,32,16,1").done()
    assert [(options.shape, options.batch_sizes) for options in asked] == [
        ((30, 30, 10, 10), (8, 32)), ((32, 32, 16, 1), (8, 32)),
    ]  # fmt: skip


def test_quick_leaves_alone_also_what_is_given_as_it_is_by_default(bench: Command, asked: list[BenchOptions]) -> None:
    bench("--quick", "--shape", "30,30,10,10", "--batch-sizes", "8,32", "--steps", "8").done()
    assert asked == [BenchOptions()]


def test_a_damaged_table_that_a_price_would_join_is_reported_before_anything_is_measured(
    bench: Command, workspace: Workspace, asked: list[BenchOptions]
) -> None:
    (workspace.root / "machines.csv").write_text("nome\n")
    bench("--name", "cellar", "--price", "0.5").fails("machines.csv has no column name")
    assert asked == []
    bench("--name", "cellar").done()


def test_where_the_table_of_prices_is_damaged_no_result_is_taken_in(
    bench: Command, workspace: Workspace, home: Path
) -> None:
    (workspace.root / "machines.csv").write_text("nome\n")
    write_result(home / "plain.json", result("plain", *runs(20, 20, 19)))
    write_result(home / "lab.json", result("lab", *runs(20, 20, 19), price=1.0))
    bench("add", "plain.json", "lab.json").fails("machines.csv has no column name")
    assert bench_results(workspace) == []
    bench("add", "plain.json").done()


def test_a_machine_without_a_price_joins_the_table_with_an_empty_one(
    bench: Command, home: Path, workspace: Workspace
) -> None:
    write_result(home / "plain.json", result("plain", *runs(20, 20, 19)))
    write_result(home / "try.json", result("a try", *runs(20, 20, 19), quick=True))
    bench("add", "plain.json", "try.json").done()
    assert [(m.name, m.price_per_hour, m.currency) for m in own_machines(workspace)] == [("plain", None, "")]
    # Of this machine there is a profile already.
    bench("--name", "mine").done()
    bench("add", "plain.json").done()
    assert [m.name for m in own_machines(workspace)] == ["plain"]


def test_a_try_is_marked_as_one(bench: Command, workspace: Workspace, home: Path) -> None:
    said = bench("--quick", "--out", "mine.json").done()
    assert said.out.splitlines()[-1] == "--quick is a try of the command: no prediction goes by it"
    assert [kept.quick for kept in bench_results(workspace)] == [True]
    assert read_result(home / "mine.json").quick
    assert bench("--quick", "--json").done().json["quick"]
    bench("--name", "real").done()
    assert {kept.name: kept.quick for kept in bench_results(workspace)} == {"a processor": True, "real": False}


def test_a_benchmark_in_which_nothing_was_possible_fails(bench: Command, workspace: Workspace) -> None:
    said = bench("--name", "nothing")
    assert said.status == 1
    assert "not a single row could be measured; each says why" in said.err
    assert "not possible: no" in said.out
    said = bench("--name", "nothing", "--json")
    assert (said.status, len(said.json["rows"])) == (1, 3)
    assert len(bench_results(workspace)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-sizes", "8,x"], "'8,x' is no list of whole numbers such as 8,32."),
        (["--workers", "0"], "'0' holds a number below 1."),
        (["--loaders", "arrow,tape"], f"'tape' is none of {', '.join(LOADERS)}."),
        (["--machine", "abacus"], "there is no machine abacus in the table of prices"),
        (["compare", "--epoch", "9" * 400], "Invalid value for '--epoch'"),
        (["compare"], "there are no results in"),
        (["compare", "nothing.json"], "there is no file nothing.json"),
        (["add", "nothing.json"], "there is no file nothing.json"),
    ],
)
def test_what_cannot_be_done_is_named(bench: Command, arguments: list[str], message: str) -> None:
    bench(*arguments).fails(message)


def test_a_machine_joins_the_table_of_prices(bench: Command, command: Command, workspace: Workspace) -> None:
    bench("--machine", "m5.2xlarge").done()
    (kept,) = bench_results(workspace)
    assert (kept.name, kept.machine_type, kept.price_per_hour) == (*["m5.2xlarge@us-east-1"] * 2, 0.384)
    assert not (workspace.root / "machines.csv").exists()
    lines = command("prices", "list", "m5.2xlarge").done().out.splitlines()
    assert lines[0].split()[-1] == "volumes/s"
    assert lines[1].split()[-1] == "40"
    shown = command("prices", "show", "m5.2xlarge").done().out
    assert "ResNet-18 on 30 x 30 x 10 x 10 float32, cold input, arrow, batch 32; bound by input" in shown
    assert command("prices", "show", "m5.2xlarge", "--json").json["measured_samples_per_s"] == 40
    # One that is in no table brings its own row.
    bench("--name", "cellar", "--price", "0.5").done()
    assert "given to voxelflow bench" in command("prices", "show", "cellar").done().out
    assert [line.split()[-1] for line in command("prices", "list", "cellar").out.splitlines()] == ["volumes/s", "40"]
    # A profile can name it.
    (workspace.root / "profiles.toml").write_text('[local]\nmachine = "cellar"\n')
    bench().done()
    assert bench_results(workspace)[0].machine_type == "cellar"


def test_a_row_of_ones_own_stays_as_it_is(bench: Command, home: Path, workspace: Workspace) -> None:
    table = workspace.root / "machines.csv"
    table.write_text("name,cores,price_per_hour,spot_per_hour,currency,source\nLab-box,64,2.50,1.10,EUR,our contract\n")
    before = table.read_text()
    write_result(home / "lab.json", result("lab-box", *runs(20, 20, 19), price=1.0, currency=""))
    said = bench("add", "lab.json").done()
    assert said.err == "Lab-box stays in the table of prices as it is: 2.5 EUR an hour\n"
    bench("--name", "lab-box", "--price", "0.5").done()
    assert bench("--name", "m5.2xlarge", "--price", "0.5").done().err.endswith("as it is: 0.384 USD an hour\n")
    assert table.read_text() == before


def test_the_profile_local_says_what_an_hour_costs(bench: Command, workspace: Workspace) -> None:
    for number, (fields, *wanted) in enumerate(
        (
            ('machine = "m5.2xlarge"\nprice_per_hour = 0.21\ncurrency = "EUR"', "m5.2xlarge@us-east-1", 0.21, "EUR"),
            ("price_per_hour = 3.0", "", 3.0, ""),
            ('machine = "m5.2xlarge"', "m5.2xlarge@us-east-1", 0.384, "USD"),
        )
    ):
        (workspace.root / "profiles.toml").write_text(f"[local]\n{fields}\n")
        bench("--name", f"n{number}").done()
        (kept,) = (found for found in bench_results(workspace) if found.name == f"n{number}")
        assert [kept.machine_type, kept.price_per_hour, kept.currency] == wanted
    bench("--name", "given", "--machine", "m5.4xlarge").done()
    assert {found.name: found.price_per_hour for found in bench_results(workspace)}["given"] == 0.768


def test_a_file_that_is_left_out_of_a_comparison_is_named(bench: Command, home: Path) -> None:
    for name, at, cores in (("old", 1e9, 4), ("new", 2e9, 4), ("vm16", 1e9, 16)):
        write_result(home / f"{name}.json", result("AMD", row(cores * 10), measured_at=at, cores=cores))
    files = ("old.json", "new.json", "new.json", "vm16.json")
    lines = bench("compare", *files).done().out.splitlines()
    assert "old.json is left out: new.json is of the same machine, and newer or with more to go by." in lines
    assert sum("left out" in line for line in lines) == 1
    found = bench("compare", *files, "--json").done().json
    assert [point["machine"] for point in found["points"]] == ["AMD, 16 cores", "AMD, 4 cores"]
    assert found["older"] == {"old.json": "new.json"}


def test_results_of_several_machines_are_compared(
    bench: Command, home: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    files = {
        "cpu": result("cpu", *runs(20, 20, 19), *runs(20, 19, 9, "npy"), price=0.36),
        "gpu": result("gpu", *runs(400, 390, 300), *runs(400, 300, 9, "npy"), row(700, jit=True), price=0.9),
        "big": result("big", *runs(420, 400, 290), price=30.0, measured_at=2e9),
    }
    for name, found in files.items():
        write_result(home / f"{name}.json", found)
    said = bench("compare", "cpu.json", "gpu.json", "big.json").done()
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(said.out)
    assert said.out == GOLDEN.read_text()
    page = (home / "bench-compare.html").read_text()
    assert page.count("<svg") == 3
    assert "Not bound by computing" in page
    output = json.loads(bench("compare", "cpu.json", "gpu.json", "--input", "synthetic", "--json").done().out)
    assert next((p["machine"], p["configuration"]["jit"]) for p in output["points"]) == ("gpu", True)
    assert (output["input"], output["page"], output["left_out"]) == ("synthetic", "", [])
    # Taken into the workspace, they are compared from there.
    assert "gpu: kept as " in bench("add", "cpu.json", "gpu.json").done().out
    assert len(bench_results(workspace)) == 2
    shown = bench("compare", "--epoch", "1000", "--page", "p.html").done().out
    assert "an epoch of 1,000 volumes" in shown
    assert shown.endswith("page: p.html\n")
