"""Machines that a provider may take back: what a bundle for Databricks asks for, and what is counted."""

from __future__ import annotations

from typing import Any

import pytest
from exports_to_platforms import CLUSTER, LOCAL, files_of, words
from platforms import check_databricks

from engine.advisor.run_estimate import price_of
from engine.catalog import Catalog
from engine.errors import UsageError
from engine.profiles import Profile, find_profile
from engine.profiles.file import to_toml
from engine.workspace import Workspace

COLUMNS = "name,region,provider,price_per_hour,spot_per_hour,currency\n"
ROWS = (
    "Standard_D4s_v5,eastus,azure,0.2,,USD\nStandard_D16s_v5,eastus,azure,0.8,0.3,USD\n"
    "m5.2xlarge,us-east-1,AWS,0.4,0.1,USD\nn2-standard-8,us-central1,gcp,0.4,0.1,USD\n"
    "cellar,,ours,0.9,0.3,EUR\nspot-only,,aws,,0.3,USD\n"
)


def profile(workspace: Workspace, fields: str, master: str = "databricks") -> Profile:
    (workspace.root / "machines.csv").write_text(COLUMNS + ROWS)
    table = f'[it]\nbackend = "spark"\nmaster = "{master}"\n{fields}\n[it.spark]\n"spark.executor.instances" = 4\n'
    (workspace.root / "profiles.toml").write_text(table)
    return find_profile("it", workspace)


def bundle(profile: Profile, catalog: Catalog) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The job, its cluster and the comments of the head, without their line breaks."""
    text = files_of("databricks", words(), profile, catalog)["databricks.yml"]
    head = " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    job = check_databricks(text)
    return job, job["job_clusters"][0]["new_cluster"], head


@pytest.mark.parametrize(
    ("machine", "attributes", "spot", "on_demand"),
    [
        ("Standard_D16s_v5@eastus", "azure_attributes", "SPOT_WITH_FALLBACK_AZURE", "ON_DEMAND_AZURE"),
        ("m5.2xlarge", "aws_attributes", "SPOT_WITH_FALLBACK", "ON_DEMAND"),
        ("n2-standard-8", "gcp_attributes", "PREEMPTIBLE_WITH_FALLBACK_GCP", "ON_DEMAND_GCP"),
    ],
)
def test_executors_are_asked_for_on_the_market_that_is_counted(
    mine: Catalog, workspace: Workspace, machine: str, attributes: str, spot: str, on_demand: str
) -> None:
    for more, wanted in (("spot = true", spot), ("", on_demand)):
        _, cluster, head = bundle(profile(workspace, f'machine = "{machine}"\n{more}'), mine)
        assert {"first_on_demand": 1, "availability": wanted}.items() <= cluster[attributes].items()
        assert sum(name.endswith("_attributes") for name in cluster) == 1
        assert ("may be taken back" in head) is bool(more)
    # A price of one's own leaves the market as it is.
    own = profile(workspace, f'machine = "{machine}"\nspot = true\nprice_per_hour = 1.5')
    assert bundle(own, mine)[1][attributes]["availability"] == spot


def test_a_cluster_of_one_machine_has_its_driver_on_demand(mine: Catalog, workspace: Workspace) -> None:
    alone = profile(workspace, 'machine = "Standard_D16s_v5@eastus"\nspot = true\nstop_at_cost = 8', "local[*]")
    alone = alone.model_copy(update={"price_per_dbu": 0.0, "dbu_per_hour": 0.0})
    assert alone.hourly_price == 0.3
    job, cluster, head = bundle(alone, mine)
    assert not any(name.endswith("_attributes") for name in cluster)
    assert "one machine, which is on demand" in head
    # The profile's own runs count 0.3; this job counts what it takes.
    assert job["timeout_seconds"] == 10 * 3600
    assert "may be taken back" not in bundle(LOCAL, mine)[2]


@pytest.mark.parametrize(
    ("machine", "needs_volume"),
    [
        ("m5.2xlarge", True), ("c7i.4xlarge", True), ("r6i.2xlarge", True), ("p3.2xlarge", True), ("m5n.large", True),
        ("m5d.2xlarge", False), ("g4dn.xlarge", False), ("g5.xlarge", False), ("p3dn.24xlarge", False),
        ("p4d.24xlarge", False), ("i4i.2xlarge", False), ("c6gd.large", False), ("r3.large", False),
    ],
)  # fmt: skip
def test_machines_of_aws_without_a_disk_of_their_own_get_one(mine: Catalog, machine: str, needs_volume: bool) -> None:
    for master, market in (("databricks", {"first_on_demand": 1, "availability": "ON_DEMAND"}), ("local[*]", {})):
        fields = {"machine": f"{machine}@us-east-1", "provider": "aws", "master": master}
        found = bundle(CLUSTER.model_copy(update=fields), mine)[1].get("aws_attributes", {})
        volume = {name: found.pop(name) for name in list(found) if name.startswith("ebs_")}
        assert found == market
        assert bool(volume) is needs_volume
        assert volume.get("ebs_volume_size", 100) == 100
    # The driver's machine needs one too.
    fields = {"machine": f"{machine}@us-east-1", "executor_machine": "i4i.2xlarge@us-east-1", "provider": "aws"}
    found = bundle(CLUSTER.model_copy(update=fields), mine)[1]["aws_attributes"]
    assert ("ebs_volume_count" in found) is needs_volume
    # Another provider's, whatever its name.
    other = CLUSTER.model_copy(update={"machine": machine, "provider": "azure"})
    assert "ebs_volume_count" not in bundle(other, mine)[1]["azure_attributes"]


def test_a_provider_that_is_not_known_is_asked_for(mine: Catalog, workspace: Workspace) -> None:
    with pytest.raises(UsageError, match=r"cannot ask for cellar on the spot market, .*provider is ours") as caught:
        bundle(profile(workspace, 'machine = "cellar"\nspot = true'), mine)
    assert caught.value.hint.startswith("Write aws, azure, gcp as its provider")
    _, cluster, _ = bundle(profile(workspace, 'machine = "cellar"'), mine)
    assert not any(name.endswith("_attributes") for name in cluster)
    assert not any(name.endswith("_attributes") for name in bundle(CLUSTER, mine)[1])


def test_the_driver_is_counted_on_demand_and_the_executors_at_their_spot_price(
    mine: Catalog, workspace: Workspace
) -> None:
    same = profile(workspace, 'machine = "Standard_D16s_v5@eastus"\nspot = true')
    assert same.hourly_price == pytest.approx(0.8 + 4 * 0.3)
    price, _ = price_of(same, workspace)
    assert price is not None
    of = "5 x Standard_D16s_v5@eastus (driver and 4 executors)"
    assert price.line() == (f"2 USD an hour: {of}, the driver on demand and the executors on the spot market, undated")
    # The driver's machine needs no spot price there.
    both = 'machine = "Standard_D4s_v5@eastus"\nexecutor_machine = "Standard_D16s_v5@eastus"\nspot = true'
    assert profile(workspace, both).hourly_price == pytest.approx(0.2 + 4 * 0.3)
    with pytest.raises(UsageError, match="no spot price of Standard_D4s_v5@eastus is known"):
        profile(workspace, both, "yarn")
    everywhere = profile(workspace, 'machine = "Standard_D16s_v5@eastus"\nspot = true', "yarn")
    assert everywhere.hourly_price == pytest.approx(5 * 0.3)
    assert everywhere.counted_text == f"{of} on the spot market"
    assert bundle(everywhere, mine)[1]["azure_attributes"]["availability"] == "SPOT_WITH_FALLBACK_AZURE"


def test_a_limit_of_cost_holds_where_no_machines_are_on_the_spot_market(mine: Catalog, workspace: Workspace) -> None:
    units = "price_per_dbu = 0.1\ndbu_per_hour = 2\nstop_at_cost = 10"
    job, _, head = bundle(profile(workspace, f'machine = "Standard_D16s_v5@eastus"\nspot = true\n{units}'), mine)
    assert job["timeout_seconds"] == 2 * 3600
    assert "5 machines at 0.8 and 2 units at 0.1 each, all on demand: less with machines of the spot market" in head
    assert "all on demand" not in bundle(profile(workspace, f'machine = "Standard_D16s_v5@eastus"\n{units}'), mine)[2]


def test_what_is_known_of_the_spot_market_alone_is_no_price(mine: Catalog, workspace: Workspace) -> None:
    only = profile(workspace, 'machine = "spot-only"\nspot = true\nprice_per_dbu = 0.1\ndbu_per_hour = 2')
    assert only.hourly_price is None
    assert only.unpriced == "no price of spot-only on demand, as the driver is, is known (`voxelflow prices`)"
    assert bundle(only, mine)[1]["aws_attributes"]["availability"] == "SPOT_WITH_FALLBACK"
    with pytest.raises(UsageError, match="what its machines cost on demand is not known") as caught:
        bundle(only.model_copy(update={"stop_at_cost": 5.0}), mine)
    assert caught.value.hint.startswith("Write their price_per_hour into machines.csv")


def test_a_file_that_is_written_again_says_the_same(workspace: Workspace) -> None:
    found = profile(workspace, 'machine = "Standard_D16s_v5@eastus"\nspot = true')
    (workspace.root / "profiles.toml").write_text(to_toml(found))
    assert find_profile("it", workspace) == found
