"""A profile's limit in what platforms get: the time in which a run of it would be stopped, all retries included."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from exports_to_platforms import CLUSTER, LOCAL, PODS, checked, files_of, words
from hypothesis import given
from hypothesis import strategies as st
from platforms import check_kubernetes, check_kubernetes_object

from engine.catalog import Catalog
from engine.document.resolve import resolve
from engine.errors import UsageError
from engine.export.limits import deadline_s
from engine.export.platforms import PLATFORMS
from engine.export.write import write
from engine.limit import Limit
from engine.profiles import Profile
from engine.profiles.file import parse_profiles
from engine.workspace import Workspace

ON_DATABRICKS = CLUSTER.model_copy(
    update={"master": "databricks", "machine": "Standard_D8s_v5@eastus", "provider": "azure"}
)
"""Five executors: with the driver, six machines."""
ELASTIC = {f"spark.dynamicAllocation.{n}": v for n, v in {"enabled": "true", "maxExecutors": "9"}.items()}


def limited(profile: Profile = LOCAL, **fields: Any) -> Profile:
    return profile.model_copy(update={"currency": "USD", **fields})


def head(text: str) -> str:
    """The comments of a file, without their line breaks."""
    return " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))


def stops_after(platform: str, profile: Profile, catalog: Catalog) -> int | None:
    """Seconds after which the platform stops what it was given, by what it reads in the files."""
    found = checked(platform, files_of(platform, words(), profile, catalog))
    match platform:
        case "databricks":
            seconds: Any = found.get("timeout_seconds")
        case "kubernetes":
            seconds = found["Job"]["spec"].get("activeDeadlineSeconds")
        case _:
            (job,) = found["jobs"].values()
            seconds = job["timeout-minutes"] * 60
    assert seconds is None or isinstance(seconds, int)
    return seconds


@given(
    st.none() | st.floats(1e-3, 1e12), st.none() | st.floats(1e-3, 1e9), st.none() | st.floats(1e-6, 1e4)
)  # fmt: skip
def test_a_platform_stops_when_a_run_would_be_stopped(
    seconds: float | None, cost: float | None, price: float | None
) -> None:
    """In whole seconds, never later but for what takes less than one; platforms take no 0."""
    profile = limited(stop_after_s=seconds, stop_at_cost=cost)
    if cost is not None and price is None:
        with pytest.raises(UsageError, match="what an hour of it costs is not known"):
            deadline_s(profile, price)
        return
    found, left = deadline_s(profile, price), Limit(seconds, cost).seconds_left(0, price)
    assert (found is None) == math.isinf(left)
    if found is not None:
        assert found == max(1, math.floor(left)) or found == 2**31 - 1 < left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "seconds", "minutes"),
    [
        ({}, None, 360),
        ({"stop_after_s": 5400}, 5400, 90),
        ({"stop_after_s": 59.9}, 59, 1),
        ({"stop_after_s": 119}, 119, 1),
        ({"stop_after_s": 86400}, 86400, 360),
        ({"stop_at_cost": 5, "price_per_hour": 2}, 9000, 150),
        ({"stop_after_s": 5400, "stop_at_cost": 5, "price_per_hour": 2}, 5400, 90),
        ({"stop_after_s": 5400, "stop_at_cost": 5, "price_per_hour": 10}, 1800, 30),
        # A price alone stops nothing.
        ({"price_per_hour": 2}, None, 360),
    ],
)
def test_each_platform_stops_at_the_smaller_of_both(
    mine: Catalog, limit: dict[str, Any], seconds: int | None, minutes: int
) -> None:
    profile = limited(**limit)
    assert stops_after("databricks", profile, mine) == seconds
    assert stops_after("kubernetes", profile, mine) == seconds
    assert stops_after("github", profile, mine) == minutes * 60
    workflow = files_of("github", words(), profile, mine)[".github/workflows/words.yml"]
    assert ("The job is stopped after" in head(workflow)) is (seconds is not None)
    assert ("GitHub itself ends" in head(workflow)) is (seconds is not None and seconds > 6 * 3600)


@pytest.mark.parametrize(
    ("limit", "minutes"), [({}, 7200), ({"stop_after_s": 172800}, 2880), ({"stop_after_s": 9e9}, 7200)]
)
def test_a_runner_with_gpus_may_work_for_days(mine: Catalog, limit: dict[str, Any], minutes: int) -> None:
    profile = limited(gpus=1, **limit)
    assert stops_after("github", profile, mine) == minutes * 60
    workflow = files_of("github", words(), profile, mine)[".github/workflows/words.yml"]
    assert ("GitHub itself ends a job on a machine of its own after 360" in head(workflow)) is bool(limit)


@pytest.mark.parametrize(
    ("profile", "fields", "price"),
    [
        # The price of a machine type and Databricks' units are of each machine.
        (ON_DATABRICKS, {"machine_price": 0.5, "price_per_dbu": 0.1, "dbu_per_hour": 2.0}, 6 * 0.7),
        (LOCAL, {"machine_price": 0.5, "price_per_dbu": 0.1, "dbu_per_hour": 2.0}, 0.7),
        # A price of one's own is of all of it, as it is for a run.
        (ON_DATABRICKS, {"price_per_hour": 4.0}, 4.0),
        (ON_DATABRICKS, {"price_per_hour": 4.0, "machine_price": 0.5, "spot": True}, 4.0),
        (ON_DATABRICKS, {"price_per_hour": 3.0, "price_per_dbu": 0.1, "dbu_per_hour": 2.0}, 3.0 + 6 * 0.2),
        # As large as the cluster may become.
        (ON_DATABRICKS, {"machine_price": 0.5, "price_per_dbu": 0.0, "dbu_per_hour": 2.0, "spark": ELASTIC}, 10 * 0.5),
    ],
)
def test_a_cluster_on_databricks_costs_what_all_its_machines_do(
    mine: Catalog, profile: Profile, fields: dict[str, Any], price: float
) -> None:
    profile = limited(profile, stop_at_cost=price * 2.5, **fields)
    assert stops_after("databricks", profile, mine) == pytest.approx(9000, abs=1)
    assert f"at {price:.3g} USD an hour (" in head(files_of("databricks", words(), profile, mine)["databricks.yml"])


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(("price", "why"), [(None, "is not known"), (0.0, "is 0 an hour")])
def test_a_cost_limit_without_a_price_is_refused(platform: str, price: float | None, why: str, mine: Catalog) -> None:
    with pytest.raises(UsageError, match=f"cannot be stopped at a cost on the profile local: .*{why}") as caught:
        files_of(platform, words(), limited(stop_at_cost=5, price_per_hour=price), mine)
    assert all(name in caught.value.hint for name in ("machine = ", "price_per_hour = ", "stop_after = "))


@pytest.mark.parametrize(
    ("fields", "says", "hint"),
    [
        ({"machine_price": 0.5}, "what Databricks' units cost beside Standard_D8s_v5 is not known", "price_per_dbu = "),
        (
            {"machine_price": 0.1, "price_per_dbu": 0.1, "dbu_per_hour": 2.0, "spot": True},
            "what its machines cost on demand is not known",
            "price_per_hour = ",
        ),
    ],
)
def test_a_price_that_is_too_low_is_no_price_on_databricks(
    mine: Catalog, fields: dict[str, Any], says: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        files_of("databricks", words(), limited(ON_DATABRICKS, stop_at_cost=5, **fields), mine)
    assert hint in caught.value.hint
    # A limit of time needs no price.
    assert stops_after("databricks", limited(ON_DATABRICKS, stop_after_s=60, **fields), mine) == 60


def test_retries_are_within_the_limit(mine: Catalog) -> None:
    """A deadline of the Job, not of its pods, of which each try has another; a timeout of the run, not of its tasks."""
    profile = limited(stop_after_s=5400)
    job = checked("kubernetes", files_of("kubernetes", words(), profile, mine))["Job"]["spec"]
    assert (job["backoffLimit"], job["activeDeadlineSeconds"]) == (2, 5400)
    assert "activeDeadlineSeconds" not in job["template"]["spec"]
    tasks = checked("databricks", files_of("databricks", words(), profile, mine))["tasks"]
    assert [(t["max_retries"], t.get("timeout_seconds")) for t in tasks] == [(2, 90), (0, None), (0, None)]


def job_of(files: dict[str, str]) -> Any:
    (job,) = (item for item in check_kubernetes(files["words.yaml"]) if item["kind"] == "Job")
    return job["spec"]


def test_a_driver_that_spark_submit_starts_has_the_limit_of_the_job(mine: Catalog) -> None:
    for profile, seconds in ((PODS, None), (limited(PODS, stop_after_s=5400), 5400)):
        files = files_of("kubernetes", words(), profile, mine)
        driver = yaml.safe_load(files["driver-pod.yaml"])
        assert job_of(files).get("activeDeadlineSeconds") == seconds
        assert driver["spec"].pop("activeDeadlineSeconds", None) == seconds
        check_kubernetes_object(driver)
        assert ("stopped after 1 h 30 min" in head(files["words.yaml"])) is (seconds is not None)


def test_where_executors_come_the_price_is_that_of_all_machines(mine: Catalog) -> None:
    """As a run counts it, too."""
    fields = {"machine": "m5.2xlarge@us-east-1", "machine_price": 0.5}
    priced = limited(PODS, stop_at_cost=5, spark=PODS.spark | {"spark.executor.instances": "4"}, **fields)
    files = files_of("kubernetes", words(), priced, mine)
    assert job_of(files)["activeDeadlineSeconds"] == 7200
    assert "at 2.5 USD an hour (5 x m5.2xlarge@us-east-1 (driver and 4 executors))" in head(files["words.yaml"])
    files = files_of("kubernetes", words(), limited(priced, price_per_hour=4.0), mine)
    assert job_of(files)["activeDeadlineSeconds"] == 4500
    assert "executors))" not in head(files["words.yaml"])


def test_airflow_s_one_task_has_the_profile_s_limit_once(mine: Catalog, workspace: Workspace) -> None:
    """`voxelflow run` keeps it; a second try would be another run with as much again."""
    for fields, retries in (({}, 1), ({"stop_after_s": 5400}, 0), ({"stop_at_cost": 5.0, "price_per_hour": 2.0}, 0)):
        profile = limited(CLUSTER, **fields)
        files = files_of("airflow", words(), profile, mine)
        checked("airflow", files)
        assert f"\nRETRIES = {retries}\n" in files["words_dag.py"]
        assert ("Airflow makes one alone" in " ".join(files["words_dag.py"].split())) is (retries == 0)
        table = parse_profiles(workspace.root, files["workspace/profiles.toml"]).tables["cluster"]
        assert (table.get("stop_after_s"), table.get("stop_at_cost")) == (profile.stop_after_s, profile.stop_at_cost)


@pytest.mark.parametrize(
    ("profile", "fields", "says"),
    [
        (LOCAL, {}, ""),
        (LOCAL, {"stop_after_s": 5400.0}, "`timeout 5400 python words.py`"),
        (LOCAL, {"stop_at_cost": 5.0, "price_per_hour": 2.0}, "`timeout 9000 python words.py`"),
        (LOCAL, {"stop_at_cost": 5.0}, "Nothing stops this file at 5.00 USD, the limit of profile local"),
    ],
)
def test_a_plain_file_says_that_nothing_stops_it(
    mine: Catalog, profile: Profile, fields: dict[str, Any], says: str
) -> None:
    resolved = resolve(words(), mine, {}, base=Path("/base"))
    profile = limited(profile, **fields)
    text = " ".join(write(resolved, profile, {}, base=Path("/base")).split())
    assert says in text
    assert ("Nothing stops this file" in text) is bool(fields)


def test_a_file_that_a_platform_stops_does_not_say_that_nothing_does(mine: Catalog) -> None:
    files = files_of("kubernetes", words(), limited(stop_after_s=60.0), mine)
    assert "Nothing stops" not in "".join(files.values())
