"""What a cluster on Databricks can be made of, before a bundle asks for it."""

from __future__ import annotations

import pytest

from engine.profiles import find_profile
from engine.profiles.checks import databricks_checks
from engine.profiles.profile import Check, Profile
from engine.workspace import Workspace

ROWS = (
    "name,provider,gpus,price_per_hour\nazure-1,azure,0,1\nazure-2,Azure,0,2\nazure-gpu,azure,1,3\n"
    "aws-1,aws,0,1\nours,,,1\n"
)

SPOT = "name,provider,price_per_hour,spot_per_hour\nazure-2,Azure,2,1\nours,,1,0.5\n"


def machine_types(workspace: Workspace, machine: str, executor_machine: str) -> Check:
    (workspace.root / "machines.csv").write_text(ROWS)
    profile = Profile(
        name="it", backend="spark", master="databricks", cores=1, memory_bytes=1 << 30,
        machine=machine, executor_machine=executor_machine,
    )  # fmt: skip
    return next(databricks_checks(profile, workspace))


@pytest.mark.parametrize(
    ("machine", "executor_machine", "said"),
    [
        ("azure-1", "azure-2", ""),
        ("azure-1", "ours", ""),
        ("azure-1", "aws-1", "of azure and aws"),
        ("azure-1", "azure-gpu", "and azure-1 has no GPU"),
    ],
)
def test_both_types_of_machines_go_together(
    workspace: Workspace, machine: str, executor_machine: str, said: str
) -> None:
    found = machine_types(workspace, machine, executor_machine)
    assert found.ok is (not said)
    assert found.said.endswith(said)
    assert bool(found.hint) is bool(said)


@pytest.mark.parametrize(("machine", "said"), [("azure-2", "of Azure, for the executors"), ("ours", "is not known")])
def test_whose_spot_market_is_asked_is_known(workspace: Workspace, machine: str, said: str) -> None:
    (workspace.root / "machines.csv").write_text(SPOT)
    table = f'backend = "spark"\nmaster = "databricks"\nmachine = "{machine}"\n'
    (workspace.root / "profiles.toml").write_text(f"[demand]\n{table}[spot]\n{table}spot = true\n")
    checks = {each.name: each for each in databricks_checks(find_profile("spot", workspace), workspace)}
    market = checks["spot market"]
    assert market.said.endswith(said)
    assert market.ok is (machine == "azure-2")
    assert market.hint.startswith("Write aws, azure, gcp as its provider") is not market.ok
    assert "spot market" not in [each.name for each in databricks_checks(find_profile("demand", workspace), workspace)]
