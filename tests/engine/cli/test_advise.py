"""`voxelflow advise`, with the built-in nodes and results of benchmarks that nobody measured."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from command_line import NO_WORK, Command
from npy_folders import make_volumes
from pretended_benches import bench_result, probe

import voxelflow
from engine.advisor.report import COLUMNS
from engine.bench.result import keep_result, write_result
from engine.cli import main
from engine.probes import keep_probe
from engine.workspace import Workspace

GOLDEN = Path(__file__).with_name("golden") / "advise.txt"
PROFILE = "[desk]\ncores = 2\nmemory = '16 GB'\nprice_per_hour = 0.2\n"


@pytest.fixture
def advise(home: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> Command:
    """`advise quickstart` in this process, under a profile of two cores."""
    from command_line import Said

    (workspace.root / "profiles.toml").write_text(PROFILE)

    def run(*arguments: str) -> Said:
        given = ["advise", *arguments, "--profile", "desk"]
        status = main(voxelflow.catalog, lambda *_, **__: 0, NO_WORK, given)
        printed = capsys.readouterr()
        return Said(status, printed.out, printed.err)

    return run


def test_before_anything_is_measured_it_says_what_to_run(advise: Command) -> None:
    said = advise("quickstart").done()
    assert said.out.splitlines() == [
        "Train ResNet-18: 3 epochs of 512 volumes from a table, in batches of 32",
        "",
        "Run `voxelflow bench` here first (some minutes): it measures how fast this machine trains.",
    ]


@pytest.mark.slow
def test_times_costs_reasons_and_settings(advise: Command, workspace: Workspace, home: Path) -> None:
    keep_result(workspace, bench_result("desk"))
    keep_probe(workspace, probe(str(workspace.root)))
    said = advise("quickstart", "--set", "volumes=50000", "--set", "epochs=20").done()
    lines = said.out.splitlines()
    assert lines[0] == "Train ResNet-18: 20 epochs of 40,000 volumes from a table, in batches of 32"
    assert re.split(r"  +", lines[2]) == list(COLUMNS)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(said.out)
    assert said.out == GOLDEN.read_text()
    (own,) = (line for line in lines if line.startswith("desk "))
    assert re.fullmatch(
        r"desk +2 +\d+ h \d\d min  +\d+ h \d\d min - \d+ h \d\d min +[\d.]+ to [\d.]+ +computing +measured", own
    )
    assert any("NVIDIA" in line and line.endswith("data sheet") for line in lines)
    at = lines.index("")
    assert at == 1
    (best,) = (line for line in lines if line.startswith("recommended: "))
    assert lines[lines.index(best) + 1].startswith("  Its price: 0.")
    why = lines[lines.index(best) + 2]
    # The machine's own price names no currency.
    cheapest = r"(the cheapest|nearly as cheap as the cheapest) with a price in USD(, and faster)?"
    assert re.match(rf"  It is {cheapest}: [\d.]+ to [\d.]+ USD,", why)
    assert "better settings on desk" in lines
    assert any(line.startswith("  batch_size = ") for line in lines)
    assert "voxelflow probe" not in said.out
    assert any("other machines: --all lists them" in line for line in lines)
    every = advise("quickstart", "--all").done()
    assert sum("scaled from desk" in line or "data sheet" in line for line in every.out.splitlines()) > 80


def test_results_of_other_machines_are_given_by_file(advise: Command, home: Path) -> None:
    write_result(home / "fast.json", bench_result("fast", cores=64, price_per_hour=1.0, currency="USD"))
    said = advise("quickstart", "--bench", "fast.json", "--json").done()
    (training,) = json.loads(said.out)["trainings"]
    by_name = {e["machine"]: e for e in training["estimates"]}
    assert by_name["fast"]["source"] == "measured"
    assert training["own"]["source"] == "scaled from fast"
    assert training["own"]["low"] < training["own"]["seconds"] < training["own"]["high"]
    assert training["missing"][0].startswith("`voxelflow bench` on this machine")
    assert training["recommended"]["cost"] > 0
    assert advise("quickstart", "--bench", "none.json").fails("there is no file none.json")


@pytest.mark.slow
def test_a_limit_of_time_and_a_longer_way_change_it(advise: Command, workspace: Workspace) -> None:
    keep_result(workspace, bench_result("desk"))
    keep_probe(workspace, probe(str(workspace.root)))

    def trained(*arguments: str) -> dict[str, dict[str, float]]:
        said = advise("quickstart", "--set", "volumes=50000", "--json", *arguments).done()
        out: dict[str, dict[str, float]] = json.loads(said.out)["trainings"][0]
        return out

    whenever, soon = trained(), trained("--within", "0.02")
    assert soon["recommended"]["seconds"] <= whenever["recommended"]["seconds"]
    assert trained("--latency-ms", "5000")["own"]["seconds"] > whenever["own"]["seconds"]


def test_a_limit_that_no_machine_keeps_is_reported(advise: Command, workspace: Workspace) -> None:
    keep_result(workspace, bench_result("desk"))
    said = advise("quickstart", "--within", "0.0001").done().out.splitlines()
    assert "  No machine is done in 0.4 s; this is the fastest." in said
    assert not any("cheap" in line for line in said)


def test_databricks_units_are_named_in_the_price_and_not_among_what_is_missing(
    advise: Command, workspace: Workspace
) -> None:
    keep_result(workspace, bench_result("desk"))
    (workspace.root / "profiles.toml").write_text(
        "[desk]\nbackend = 'spark'\nmaster = 'databricks'\nmachine = 'Standard_D16s_v5@eastus'\nprice_per_dbu = 0.3\n"
    )
    said = advise("quickstart", "--set", "volumes=50000").done().out.splitlines()
    (own,) = (line for line in said if line.startswith("desk "))
    assert re.split(r"  +", own)[1] == "16"
    assert own.endswith("scaled from desk")
    (cost,) = (line for line in said if line.startswith("cost: "))
    assert cost == (
        "cost: the price of the machine and its Databricks units (DBU) an hour by the time, of desk that of"
        " 3 x Standard_D16s_v5@eastus (driver and 2 executors); not in it: the start of a machine or cluster,"
        " checkpoints on disks of unknown speed, disks, requests to the storage and traffic, taxes and discounts"
    )
    best = next(n for n, line in enumerate(said) if line.startswith("recommended: "))
    name = said[best].removeprefix("recommended: ")
    assert re.match(rf"  Its price: [\d.]+ USD an hour: [\d.]+ DBU x 0.3 \+ [\d.]+ for {name}, as of", said[best + 1])


def test_a_try_of_the_benchmark_is_refused(advise: Command, home: Path) -> None:
    write_result(home / "try.json", bench_result("fast", quick=True))
    advise("quickstart", "--bench", "try.json").fails("try.json is of `voxelflow bench --quick`", "without --quick")


def test_a_benchmark_in_which_nothing_was_measured_is_refused(advise: Command, home: Path) -> None:
    failed = bench_result().rows[0].model_copy(update={"outcome": "not possible", "note": "no"})
    write_result(home / "failed.json", bench_result("fast", rows=(failed,)))
    advise("quickstart", "--bench", "failed.json").fails("failed.json has no row that was measured", "which say why")


def test_a_pipeline_that_trains_nothing_is_reported(advise: Command, home: Path) -> None:
    document = {"schema_version": 1, "name": "still", "nodes": [{"id": "make", "type": "SyntheticVolumes"}]}
    (home / "still.json").write_text(json.dumps(document))
    assert "still has no node that trains" in advise("still.json").done().out


def test_trainings_of_which_the_same_is_said_are_named_together(advise: Command, home: Path) -> None:
    folds = ", ".join(f"Train on all but fold {fold}" for fold in range(2, 6))
    said = advise("cross-validation").done().out
    assert said == (
        f"Train on all but fold 1, and the same for {folds}: no prediction yet: VF205 volumes.folder: the parameter"
        " data has no value. Give it one in the pipeline, or for a run with --set data=...\n"
    )
    gone = advise("cross-validation", "--set", "data=gone").done().out
    assert "no prediction yet: VF301 volumes.folder: " in gone
    assert len(gone.splitlines()) == 1
    (home / "brains").mkdir()
    make_volumes(home / "brains", [f"{number}.npy" for number in range(60)], (8, 8, 8))
    (home / "brains/labels.csv").write_text("file,label\n" + "".join(f"{n}.npy,{'ab'[n % 2]}\n" for n in range(60)))
    known = advise("cross-validation", "--set", "data=brains").done().out.splitlines()
    assert known[0].endswith("10 epochs of 48 volumes from a table, in batches of 32")
    assert len(known) == 3
    (home / "brains/labels.csv").write_text("file,label\n")
    blank = advise("cross-validation", "--set", "data=brains").done().out.splitlines()
    assert len(blank) == 1
    assert ": no prediction yet: VF504: no volume has a label" in blank[0]
    told = advise("cross-validation", "--json").json["trainings"]
    assert [each["node"] for each in told] == [f"train_{fold}" for fold in range(1, 6)]
    assert {each["unknown"][:20] for each in told} == {"VF205 volumes.folder"}
