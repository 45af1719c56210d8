"""The time and cost of a whole run before it is started."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
from building import box, pipeline
from earlier_runs import ran
from hypothesis import given
from hypothesis import strategies as st
from pretended_benches import bench_result

import voxelflow
from engine.advisor.machines import all_candidates
from engine.advisor.run_estimate import (
    SCATTER,
    HourPrice,
    NodeTime,
    RunEstimate,
    arithmetic,
    as_json,
    estimate_run,
    node_rows,
    price_of,
    totals,
)
from engine.bench.result import keep_result
from engine.catalog import Catalog
from engine.document.find import shipped_pipelines
from engine.document.pipeline import Pipeline, read_pipeline
from engine.prices import machine_table
from engine.profiles import Profile, find_profile
from engine.run import launch
from engine.store.estimates import Estimated
from engine.store.runs import RunStore
from engine.wording import against_estimate, expected_text
from engine.workspace import Workspace

DESK = Profile(name="desk", cores=2, memory_bytes=16 * 10**9)
VM = Profile(
    name="vm", cores=8, memory_bytes=32 << 30, machine="m5.2xlarge@us-east-1", machine_price=0.384, currency="USD"
)


def _document() -> Pipeline:
    return pipeline(box("a", "Make"), box("b", "Halve"), box("c", "Join"), wires="a.out>b.whole b.left>c.first")


def _estimate(
    document: Pipeline, catalog: Catalog, workspace: Workspace, store: RunStore, profile: Profile = DESK, **values: int
) -> RunEstimate:
    ready = launch.prepare(document, catalog, workspace, store, profile=profile, values=values)
    return estimate_run(ready.plan, ready.resolved, ready.observation, workspace, store)


def test_a_node_takes_as_long_as_in_earlier_runs(probes: Catalog, workspace: Workspace, store: RunStore) -> None:
    assert _estimate(_document(), probes, workspace, store).unknown == ("a", "b", "c")
    ran(store, "a", "Make", 10, None)
    ran(store, "a", "Make", 14, None)
    found = _estimate(_document(), probes, workspace, store)
    assert found.seconds == (pytest.approx(10 / SCATTER, rel=1e-3), pytest.approx(14 * SCATTER, rel=1e-3))
    assert found.unknown == ("b", "c")
    assert totals(found) == (
        "7.7 s to 18 s, and the unknown time of b, c",
        "unknown, as the profile desk names neither a machine nor a price",
    )
    assert node_rows(found)[0] == ("a", "7.7 s to 18 s", "as in 2 earlier runs")
    assert node_rows(found)[1] == ("b", "unknown", "it has not run here before")


def test_measurements_of_other_machines_or_of_part_of_the_work_are_left_out(
    probes: Catalog, workspace: Workspace, store: RunStore
) -> None:
    ran(store, "a", "Make", 10, None, profile="other")
    ran(store, "a", "Make", 10, None, host="elsewhere")
    ran(store, "a", "Make", 10, None, attempts=2)
    went_on = ran(store, "a", "Make", 10, None)
    with store.write() as db:
        options = '{"estimate": {"low": 1, "high": 2, "unknown": [], "amounts": {}}}'
        db.execute("UPDATE runs SET options = ? WHERE run_id = ?", (options, went_on))
    assert _estimate(_document(), probes, workspace, store).unknown == ("a", "b", "c")
    assert socket.gethostname() != "elsewhere"


QUICKSTART = "quickstart"


def _quickstart() -> Pipeline:
    return read_pipeline(shipped_pipelines()[QUICKSTART])


def test_more_work_takes_from_as_long_to_so_many_times_as_long(workspace: Workspace, store: RunStore) -> None:
    catalog = voxelflow.catalog()
    first = _estimate(_quickstart(), catalog, workspace, store, volumes=640)
    amount = next(n.amount for n in first.nodes if n.node == "convert")
    assert amount == 640 * 30 * 30 * 10 * 10 * 4
    ran(store, "convert", "NumpyToParquet", 10, amount, pipeline=QUICKSTART)
    (ten,) = (n for n in _estimate(_quickstart(), catalog, workspace, store, volumes=6400).nodes if n.node == "convert")
    assert (ten.low, ten.high) == (pytest.approx(10 / SCATTER, rel=1e-3), pytest.approx(100 * SCATTER, rel=1e-3))
    assert "10 times less work" in ten.basis
    (tenth,) = (n for n in _estimate(_quickstart(), catalog, workspace, store, volumes=64).nodes if n.node == "convert")
    assert (tenth.low, tenth.high) == (pytest.approx(1 / SCATTER, rel=1e-3), pytest.approx(10 * SCATTER, rel=1e-3))
    assert "10 times the work" in tenth.basis


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (1 / 1.006, "as in 1 earlier run with nearly as much work"),
        (1 / 325, "as in 1 earlier run with 320 times less work"),
        (325, "as in 1 earlier run with 320 times the work"),
    ],
)
def test_the_work_of_earlier_runs_is_said_in_plain_figures(
    workspace: Workspace, store: RunStore, times: float, said: str
) -> None:
    ran(store, "convert", "NumpyToParquet", 10, times * 640 * 360_000, pipeline=QUICKSTART)
    found = _estimate(_quickstart(), voxelflow.catalog(), workspace, store, volumes=640)
    assert next(n.basis for n in found.nodes if n.node == "convert") == said


def test_runs_of_half_and_of_twice_the_work_are_not_scaled_as_one(workspace: Workspace, store: RunStore) -> None:
    for volumes, seconds in ((320, 5), (1280, 20)):
        ran(store, "convert", "NumpyToParquet", seconds, volumes * 360_000, pipeline=QUICKSTART)
    found = _estimate(_quickstart(), voxelflow.catalog(), workspace, store, volumes=640)
    (convert,) = (n for n in found.nodes if n.node == "convert")
    assert convert.basis == "as in 1 earlier run with 2 times the work"
    assert (convert.low, convert.high) == (pytest.approx(10 / SCATTER, rel=1e-3), pytest.approx(20 * SCATTER, rel=1e-3))


def test_a_training_is_predicted_until_it_has_run(workspace: Workspace, store: RunStore) -> None:
    catalog = voxelflow.catalog()

    def trained(**values: int) -> NodeTime:
        return next(n for n in _estimate(_quickstart(), catalog, workspace, store, **values).nodes if n.node == "train")

    unknown = trained()
    assert not unknown.is_known
    assert "voxelflow bench" in unknown.hint
    keep_result(workspace, bench_result("desk"))
    predicted = trained()
    assert predicted.basis.startswith("predicted from `voxelflow bench`")
    ran(store, "train", "TrainResNet3D", 1000, predicted.amount, pipeline=QUICKSTART)
    assert trained().basis == "as in 1 earlier run"
    # Much more than was ever trained here: that is what the benchmark is for.
    assert trained(epochs=300).basis.startswith("predicted from `voxelflow bench`")


times = st.floats(0, 1e6)
ranges = st.tuples(times, times).map(lambda ends: (min(ends), max(ends)))


@given(st.lists(st.one_of(st.none(), ranges), max_size=5))
def test_a_run_takes_from_its_longest_path_to_the_sum_of_its_nodes(known: list[tuple[float, float] | None]) -> None:
    nodes = tuple(NodeTime(str(i), *(ends or (None, None))) for i, ends in enumerate(known))
    chain: dict[str, list[str]] = {str(i): [str(i - 1)] if i else [] for i in range(len(known))}
    apart: dict[str, list[str]] = {str(i): [] for i in range(len(known))}
    in_turn, at_once = (RunEstimate(nodes, after, None).seconds for after in (chain, apart))
    given_ends = [ends for ends in known if ends is not None]
    if not given_ends:
        assert in_turn is None
        return
    assert in_turn is not None
    assert at_once is not None
    assert in_turn == (pytest.approx(sum(low for low, _ in given_ends)), pytest.approx(sum(h for _, h in given_ends)))
    assert at_once == (max(low for low, _ in given_ends), pytest.approx(in_turn[1]))


def test_the_arithmetic_can_be_followed(workspace: Workspace) -> None:
    price, why = price_of(VM, workspace)
    assert price is not None
    assert (why, price.date) == ("", "2026-07-20")
    found = RunEstimate((NodeTime("a", 3600, 7200, "as before"),), {}, price)
    assert totals(found) == ("1 h 00 min to 2 h 00 min", "0.38 to 0.77 USD")
    assert list(arithmetic(found)) == [
        "price: 0.384 USD an hour: m5.2xlarge@us-east-1, as of 2026-07-20, from github.com/aws/karpenter-provider-aws",
        "least: 0.384 USD an hour x 1 h 00 min = 0.38 USD",
        "most: 0.384 USD an hour x 2 h 00 min = 0.77 USD",
        "included: the machine; not included: disks, requests to the storage and traffic, Databricks units (DBU), taxes"
        " and discounts",
    ]
    written = as_json(found)
    assert (written["cost_low"], written["cost_high"]) == (pytest.approx(0.384), pytest.approx(0.768))


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (DESK, "the profile desk names neither a machine nor a price"),
        (VM.model_copy(update={"machine_price": None}), "no price of m5.2xlarge"),
    ],
)
def test_what_has_no_price_is_unknown_and_says_why(workspace: Workspace, profile: Profile, why: str) -> None:
    price, said = price_of(profile, workspace)
    assert price is None
    assert why in said
    found = RunEstimate((NodeTime("a", 3600, 7200),), {}, None, said)
    assert totals(found)[1] == f"unknown, as {said}"
    assert as_json(found)["cost_low"] is None


def test_databricks_units_are_part_of_the_price_and_no_longer_missing(workspace: Workspace) -> None:
    paid = VM.model_copy(update={"price_per_dbu": 0.3, "dbu_per_hour": 3.0})
    price, _ = price_of(paid, workspace)
    assert price is not None
    assert price.amount == pytest.approx(0.384 + 0.9)
    assert price.line().startswith("1.284 USD an hour: 3 DBU x 0.3 + 0.384 for m5.2xlarge@us-east-1, as of 2026-")
    assert price.scope.startswith(
        "included: the machine and Databricks units (DBU), and known requests of trainings to"
    )
    assert "; not included: disks, other requests to the storage and traffic, taxes" in price.scope
    assert "DBU" not in price.scope.split(";")[1]
    assert as_json(RunEstimate((), {}, price))["not_included"] == [*price.not_included()]
    compared = all_candidates(paid, (), machine_table().machines)
    by_name = {c.name: c.price_per_hour for c in compared}
    assert by_name["Standard_D16s_v3@eastus"] == pytest.approx(0.768 + 3 * 0.3)
    # What Databricks takes there is not known, and so is the price.
    assert by_name["g5.xlarge@us-east-1"] is None
    in_euros = paid.model_copy(update={"price_per_hour": 1.0, "currency": "EUR"})
    by_name = {c.name: c.price_per_hour for c in all_candidates(in_euros, (), machine_table().machines)}
    assert by_name["vm"] == pytest.approx(1.0 + 0.9)
    assert by_name["Standard_D16s_v3@eastus"] is None, "its price is in USD, that of the units in EUR"


def test_a_spot_price_says_that_it_is_one(workspace: Workspace) -> None:
    rows = "name,price_per_hour,spot_per_hour,currency,date\nours,0.9,0.3,EUR,2026-05-01\n"
    (workspace.root / "machines.csv").write_text(rows)
    (workspace.root / "profiles.toml").write_text('[vm]\nmachine = "ours"\nspot = true\n')
    price, _ = price_of(find_profile("vm", workspace), workspace)
    assert price is not None
    assert price.line() == "0.3 EUR an hour: ours on the spot market, as of 2026-05-01"


def test_an_own_price_says_that_it_is_one(workspace: Workspace) -> None:
    price, _ = price_of(DESK.model_copy(update={"price_per_hour": 2.0}), workspace)
    assert price == HourPrice(2.0, "", "price_per_hour of the profile desk")
    assert price.line().endswith("an hour: price_per_hour of the profile desk, undated")


def test_what_was_expected_stands_beside_what_it_was(store: RunStore) -> None:
    kept = Estimated(3000, 4200, ("b",), {"a": None})
    options = {"price_per_hour": 2.0, "currency": "USD", **kept.as_options()}
    run_id = store.create_run("p", "{}", options, "gpu")
    store.begin_attempt(run_id)
    store.finish_run(run_id, "done")
    run = store.run(run_id)
    run = replace(run, started=0.0, ended=3600.0)
    assert run.estimated == kept
    assert expected_text(run) == (
        "expected time: 50 min 00 s to 1 h 10 min; cost: 1.67 to 2.33 USD; not counted: b, which has no earlier run"
    )
    assert against_estimate(run) == (
        "expected: 50 min 00 s to 1 h 10 min, 1.67 to 2.33 USD without b, which was unknown;"
        " it took 1 h 00 min, 2.00 USD"
    )
    for more, why in (({}, "b"), ({"price_per_hour": None}, "b or a price an hour")):
        unknown = replace(run, options={**options, **Estimated(unknown=("b",)).as_options(), **more})
        assert expected_text(unknown) == f"expected time and cost: unknown, without an earlier run of {why}"
    several = replace(run, options={**options, **Estimated(3000, 4200, ("b", "c"), {"a": None}).as_options()})
    assert "without b, c, which were unknown; it took" in against_estimate(several)
    assert against_estimate(replace(run, state="failed")) == ""
    assert expected_text(replace(run, options={})) == ""
