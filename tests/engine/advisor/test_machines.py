"""Which machine a profile and a benchmark are about: what counts as measured, at which price, with which GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pretended_advice import MACHINE, known, work
from pretended_benches import bench_result

from engine.advisor.advice import Advice, estimate
from engine.advisor.machines import (
    NO_SHEET,
    Computing,
    accelerator,
    all_candidates,
    computing_on,
    measured_machine,
)
from engine.advisor.report import missing
from engine.advisor.sources import networks
from engine.environment import Machine as Hardware
from engine.prices import Machine, machine_table
from engine.profiles import Profile
from nodes.train_resnet3d import train_resnet3d

HARDWARE = Hardware(processor="mine", cores=8, memory_bytes=32 << 30)
PROFILE = Profile(name="local", cores=8, memory_bytes=32 << 30)


def basis_of(profile: Profile, here: Hardware = HARDWARE, **benchmark: Any) -> tuple[str, list[str]]:
    """How the speed of the profile's machine is known, and the lines of benchmarks beside it."""
    table = machine_table().machines
    fields = {"name": "a", "machine": here, "cores": here.cores} | benchmark
    measured = measured_machine(bench_result(**fields), networks(train_resnet3d), table)
    assert measured is not None
    found = all_candidates(profile, [measured], table, here)
    computing = computing_on(found[0], [measured], mixed_precision=False, jit=False)
    assert computing is not None
    return computing.basis, [c.name for c in found if c.origin == "bench"]


def of_type(machine: str, **more: Any) -> Profile:
    return PROFILE.model_copy(update={"machine": machine, **more})


def test_a_profile_is_measured_by_a_benchmark_of_this_machine_and_not_of_another_with_as_many_cores() -> None:
    assert basis_of(PROFILE) == ("measured", [])
    assert basis_of(PROFILE, machine_type="m5.2xlarge@us-east-1") == ("measured", [])
    assert basis_of(PROFILE, machine=HARDWARE.model_copy(update={"processor": ""})) == ("measured", [])
    assert basis_of(PROFILE, machine=HARDWARE.model_copy(update={"processor": "a colleague's"})) == ("scaled", ["a"])
    assert basis_of(PROFILE, cores=4) == ("scaled", ["a"]), "the benchmark had half of the machine"
    card = HARDWARE.model_copy(update={"gpus": ("Tesla T4",)})
    with_gpu = PROFILE.model_copy(update={"gpus": 1})
    assert basis_of(with_gpu, card) == ("measured", [])
    faster = card.model_copy(update={"gpus": ("NVIDIA A100",)})
    assert basis_of(with_gpu, card, machine=faster) == ("guessed", ["a"])


def test_a_training_here_takes_the_gpus_that_are_here_also_under_a_profile_that_names_none() -> None:
    card = HARDWARE.model_copy(update={"gpus": ("Tesla T4",)})
    assert basis_of(PROFILE, card) == ("measured", [])
    (own,) = all_candidates(PROFILE, [], (), card)
    assert (own.gpus, own.gpu) == (1, "Tesla T4")
    # Not those of this machine: a cluster's work is done elsewhere, and the type that is named has none.
    cluster = PROFILE.model_copy(update={"backend": "spark", "master": "spark://host:7077"})
    table = machine_table().machines
    for profile in (cluster, of_type("m5.2xlarge@us-east-1")):
        assert (all_candidates(profile, [], table, card)[0].gpus, profile.gpus) == (0, 0)


def test_of_a_gpu_in_no_table_no_data_sheet_is_named() -> None:
    card = HARDWARE.model_copy(update={"gpus": ("NVIDIA GeForce RTX 4090",)})
    found = {}
    for gpus in ((), ("NVIDIA H100",), ("NVIDIA GeForce RTX 3090",)):
        other = Hardware(processor="other", cores=8, memory_bytes=32 << 30, gpus=gpus)
        measured = measured_machine(bench_result("desk", machine=other, cores=8), networks(train_resnet3d))
        assert measured is not None
        own = all_candidates(PROFILE, [measured], (), card)[0]
        computing = computing_on(own, [measured], mixed_precision=None, jit=None)
        assert computing is not None
        found[gpus] = (computing.basis, computing.source)
    assert [*found.values()] == [("guessed", NO_SHEET), ("guessed", NO_SHEET), ("guessed", "from desk")]


def test_where_both_machine_types_are_known_they_decide_in_any_region() -> None:
    here, other = "m5.2xlarge@us-east-1", "c6i.2xlarge@us-east-1"
    assert basis_of(of_type(here), machine_type=here) == ("measured", [])
    assert basis_of(of_type(here), machine_type=other) == ("scaled", [other])
    # Its price is another one there.
    assert basis_of(of_type(here), machine_type="m5.2xlarge@eu-west-1") == ("measured", ["m5.2xlarge@eu-west-1"])
    part = "m5.2xlarge@us-east-1, 4 of 8 cores"
    assert basis_of(of_type(here), machine_type=here, cores=4) == ("scaled", [part])
    # The table says NVIDIA T4.
    card = Hardware(processor="its", cores=4, gpus=("Tesla T4",))
    profile = of_type("g4dn.xlarge@us-east-1", cores=4, gpus=1)
    assert basis_of(profile, machine=card, cores=4, machine_type="g4dn.xlarge@us-east-1") == ("measured", [])


@pytest.mark.parametrize(
    ("machine", "cores", "gib", "gpus"),
    [("Standard_D8s_v5@eastus", 8, 32, 0), ("Standard_NC4as_T4_v3@eastus", 4, 28, 1)],
)
def test_under_databricks_the_profiles_machine_is_the_one_named(machine: str, cores: int, gib: int, gpus: int) -> None:
    table = machine_table().machines
    profile = of_type(machine, name="dbx", backend="spark", master="databricks", cores=2)
    own = all_candidates(profile, [], table, HARDWARE)[0]
    assert (own.cores, own.memory_bytes, own.gpus) == (cores, gib << 30, gpus)
    assert own.gpu == ("NVIDIA T4" if gpus else "")
    # This laptop has as many cores, and is no machine there.
    basis, listed = basis_of(profile)
    assert basis != "measured"
    assert listed == ["a"]
    its = Hardware(cores=cores, gpus=("Tesla T4",) * gpus)
    assert basis_of(profile, machine=its, cores=cores, machine_type=machine) == ("measured", [])
    # What it lacks is measured there.
    computing = Computing(next(iter(MACHINE.models.values())), "from desk", "scaled")  # type: ignore[union-attr]
    far = estimate(work(), "files", own, computing, known(own))
    said = missing(Advice(work(), "files", (far,), own=far), "/data")
    assert said[0] == f"`voxelflow bench` on {machine} makes its figures measured ones."


def test_a_machine_that_was_measured_has_the_price_of_today_and_databricks_units() -> None:
    row = next(m for m in machine_table().machines if m.key == "Standard_NC4as_T4_v3@eastus")
    paid = PROFILE.model_copy(update={"price_per_dbu": 0.3})

    def priced_as(row: Machine, profile: Profile = PROFILE, **more: Any) -> tuple[float | None, str, float]:
        fields = {"machine_type": row.key, "cores": 4, "price_per_hour": 9.0, "currency": "EUR"} | more
        measured = measured_machine(bench_result("a", **fields), networks(train_resnet3d), [row])
        assert measured is not None
        found = next(c for c in all_candidates(profile, [measured], [row]) if c.origin == "bench")
        return found.price_per_hour, found.currency, found.dbu_per_hour

    assert priced_as(row) == (0.526, "USD", 0.0)
    assert priced_as(row, paid) == (pytest.approx(0.526 + 0.3), "USD", 1.0)
    # No price there: that of the benchmark.
    assert priced_as(replace(row, price_per_hour=None)) == (9.0, "EUR", 0.0)
    # What Databricks takes for it is not known. One with a price of its own is in the table by its name.
    assert priced_as(Machine("a", price_per_hour=7.0, currency="USD"), machine_type="") == (7.0, "USD", 0.0)
    assert priced_as(Machine("a", price_per_hour=7.0, currency="USD"), paid, machine_type="")[0] is None


def test_gpus_are_known_by_any_of_their_names() -> None:
    names = {"NVIDIA A100-SXM4-40GB": 40, "A100 80GB": 80, "Tesla T4": 16, "NVIDIA A10G": 24, "NVIDIA L40S": 48}
    assert {name: accelerator(name).memory_gb for name in names} == names  # type: ignore[union-attr]
    assert accelerator("a card") is None
