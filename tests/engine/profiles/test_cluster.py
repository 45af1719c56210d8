"""What an hour of a cluster costs: the driver's machine and those of its executors, as far as they are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.advisor.run_estimate import price_of
from engine.errors import UsageError
from engine.limit import Limit, require_price
from engine.prices.dbu import dbu_table
from engine.profiles import Profile, find_profile
from engine.profiles.file import to_toml
from engine.workspace import Workspace, open_workspace

STATIC = {"spark.executor.instances": "4"}
ELASTIC = {"spark.dynamicAllocation.enabled": "true"}
ROWS = "name,price_per_hour,spot_per_hour,currency,date,source\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = open_workspace(tmp_path / "workspace")
    rows = "small,0.1,0.05,USD,2026-01-01,here\nlarge,2,1,USD,2026-02-01,there\nfree,,,,,\neuro,1,,EUR,,\n"
    (made.root / "machines.csv").write_text(ROWS + rows)
    return made


def profile(workspace: Workspace, fields: str, master: str = "yarn", **spark: str) -> Profile:
    settings = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in spark.items())
    table = f'[it]\nbackend = "spark"\nmaster = "{master}"\n{fields}\n[it.spark]\n{settings}'
    (workspace.root / "profiles.toml").write_text(table)
    return find_profile("it", workspace)


def of(master: str, **spark: str) -> Profile:
    return Profile(name="it", backend="spark", cores=1, memory_bytes=1 << 30, master=master, spark=spark)


@pytest.mark.parametrize(
    ("master", "spark", "count", "at_most"),
    [
        ("local[*]", STATIC, 0, False),
        ("yarn", STATIC, 4, False),
        ("yarn", {}, 2, False),
        ("k8s://https://host:443", {}, 2, False),
        ("databricks", {}, 2, False),
        ("yarn", {"spark.executor.instances": "${COUNT}"}, None, False),
        ("yarn", {**STATIC, **ELASTIC, "spark.dynamicAllocation.maxExecutors": "9"}, 9, True),
        # Without a maximum Spark has none.
        ("yarn", {**STATIC, **ELASTIC}, None, True),
        ("databricks", ELASTIC, 2, True),
        # Standalone Spark takes all cores of all workers, whatever that setting says.
        ("spark://host:7077", STATIC, None, False),
        ("spark://host:7077", {"spark.cores.max": "18", "spark.executor.cores": "4"}, 4, False),
        ("spark://host:7077", {**ELASTIC, "spark.dynamicAllocation.maxExecutors": "3"}, 3, True),
    ],
)
def test_how_many_executors_there_are(master: str, spark: dict[str, str], count: int | None, at_most: bool) -> None:
    found = of(master, **spark).executors
    assert (found.count, found.at_most) == (count, at_most)
    assert found.count is not None or found.missing.startswith("spark.")


def test_a_limit_of_cost_counts_the_driver_and_four_executors(workspace: Workspace) -> None:
    found = profile(workspace, 'machine = "small"\nstop_at_cost = 1', **STATIC)
    assert found.hourly_price == pytest.approx(0.5)
    assert found.limit.seconds_left(0.0, found.hourly_price) == pytest.approx(2 * 3600)
    price, _ = price_of(found, workspace)
    assert price is not None
    assert price.line() == "0.5 USD an hour: 5 x small (driver and 4 executors), as of 2026-01-01, from here"
    assert price.scope.startswith("included: 5 machines, and")


def test_executors_may_have_machines_of_their_own(workspace: Workspace) -> None:
    found = profile(workspace, 'machine = "small"\nexecutor_machine = "large"', **STATIC)
    assert found.hourly_price == pytest.approx(0.1 + 4 * 2)
    price, _ = price_of(found, workspace)
    assert price is not None
    said = "small (driver) and 4 x large (4 executors), as of 2026-01-01, from here and there"
    assert price.line() == f"8.1 USD an hour: {said}"
    (workspace.root / "profiles.toml").write_text(to_toml(found))
    assert find_profile("it", workspace) == found
    spot = profile(workspace, 'machine = "small"\nexecutor_machine = "large"\nspot = true', **STATIC)
    assert spot.hourly_price == pytest.approx(0.05 + 4 * 1)


def test_the_most_that_dynamic_allocation_may_take_is_counted(workspace: Workspace) -> None:
    spark = ELASTIC | {"spark.dynamicAllocation.maxExecutors": "8"}
    price, _ = price_of(profile(workspace, 'machine = "large"', **spark), workspace)
    assert price is not None
    assert price.line().startswith("18 USD an hour: 9 x large (driver and at most 8 executors), as of")


def test_databricks_units_are_those_of_each_machine(workspace: Workspace) -> None:
    units = "price_per_dbu = 0.5\ndbu_per_hour = 3"
    found = profile(workspace, f'machine = "small"\n{units}', "databricks", **STATIC)
    assert found.hourly_price == pytest.approx(5 * (0.1 + 1.5))
    price, _ = price_of(found, workspace)
    assert price is not None
    assert price.line().startswith("8 USD an hour: 15 DBU x 0.5 + 0.5 for 5 x small (driver and 4 executors)")
    own = profile(workspace, f"price_per_hour = 4.0\n{units}", "databricks", **STATIC)
    assert own.hourly_price == pytest.approx(4 + 5 * 1.5)


def test_executors_with_machines_of_their_own_take_units_of_their_own(workspace: Workspace) -> None:
    rows = "Standard_D4s_v5,0.1,,USD,,\nStandard_D16s_v5,1,,USD,,\n"
    (workspace.root / "machines.csv").write_text(ROWS + rows)
    machines = 'machine = "Standard_D4s_v5"\nexecutor_machine = "Standard_D16s_v5"'
    found = profile(workspace, f"{machines}\nprice_per_dbu = 0.5", **STATIC)
    known = dbu_table()
    units = known["standard_d4s_v5"].dbu_per_hour + 4 * known["standard_d16s_v5"].dbu_per_hour
    assert found.hourly_price == pytest.approx(0.1 + 4 * 1 + units * 0.5)
    price, _ = price_of(found, workspace)
    assert price is not None
    assert price.units == units
    (workspace.root / "profiles.toml").write_text(to_toml(found))
    assert find_profile("it", workspace) == found
    # Those of the driver are not taken for those of another type, of which the table knows them.
    driver = profile(workspace, f"{machines}\nprice_per_dbu = 0.5\ndbu_per_hour = 3", **STATIC)
    each = known["standard_d16s_v5"].dbu_per_hour
    assert driver.hourly_price == pytest.approx(0.1 + 4 * 1 + (3 + 4 * each) * 0.5)
    alike = 'machine = "Standard_D4s_v5"\nexecutor_machine = "standard_d4s_v5"\nprice_per_dbu = 0.5\ndbu_per_hour = 3'
    assert profile(workspace, alike, **STATIC).hourly_price == pytest.approx(5 * (0.1 + 3 * 0.5))


def test_a_cluster_on_databricks_may_have_two_types_with_units_of_their_own(workspace: Workspace) -> None:
    machines = 'machine = "small"\nexecutor_machine = "large"\nprice_per_dbu = 0.5\ndbu_per_hour = 1'
    with pytest.raises(UsageError, match="how many units an hour of large takes is not known") as caught:
        profile(workspace, machines, "databricks", **STATIC)
    assert caught.value.hint.endswith("write for example executor_dbu_per_hour = 3.")
    found = profile(workspace, f"{machines}\nexecutor_dbu_per_hour = 6", "databricks", **STATIC)
    assert found.hourly_price == pytest.approx(0.1 + 4 * 2 + (1 + 4 * 6) * 0.5)
    price, _ = price_of(found, workspace)
    assert price is not None
    assert price.line().startswith(
        "20.6 USD an hour: 25 DBU x 0.5 + 8.1 for small (driver) and 4 x large (4 executors)"
    )
    (workspace.root / "profiles.toml").write_text(to_toml(found))
    assert find_profile("it", workspace) == found


@pytest.mark.parametrize(
    ("fields", "spark", "why"),
    [
        ('machine = "small"\nexecutor_machine = "free"', STATIC, "no price of free, the machine of its executors, is"),
        ('machine = "small"', ELASTIC, r"how many executors it has \(set spark.dynamicAllocation.maxExecutors\)"),
        ('machine = "free"', STATIC, "no price of free is known"),
        ('executor_machine = "small"', STATIC, "names no machine for its driver"),
        ("", STATIC, "names neither a machine nor a price"),
    ],
)
def test_what_is_not_known_is_said_and_no_cost_is_limited(
    workspace: Workspace, fields: str, spark: dict[str, str], why: str
) -> None:
    found = profile(workspace, fields, **spark)
    assert price_of(found, workspace) == (None, found.unpriced)
    with pytest.raises(UsageError, match=f"what an hour of it costs is not known, as .*{why}"):
        require_price(Limit(cost=1.0), found.hourly_price, found.name, why=found.unpriced)
    own = profile(workspace, f"price_per_hour = 3.0\n{fields}", **spark)
    assert (own.hourly_price, own.unpriced) == (3.0, "")


@pytest.mark.parametrize(
    ("fields", "master", "why"),
    [
        ('machine = "small"\nexecutor_machine = "none"', "yarn", "executor_machine: there is no machine none"),
        ('machine = "small"\nexecutor_machine = "euro"', "yarn", "the price of euro is in EUR, that of small in USD"),
    ],
)
def test_machines_that_do_not_go_together_are_refused(workspace: Workspace, fields: str, master: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        profile(workspace, fields, master)


def test_worker_processes_have_no_executors(workspace: Workspace) -> None:
    (workspace.root / "profiles.toml").write_text('[it]\nmachine = "small"\nexecutor_machine = "large"\n')
    with pytest.raises(UsageError, match="executor_machine: is for Spark"):
        find_profile("it", workspace)
    (workspace.root / "profiles.toml").write_text("[it]\nexecutor_dbu_per_hour = 3\n")
    with pytest.raises(UsageError, match="executor_dbu_per_hour: is for Spark"):
        find_profile("it", workspace)
