"""Which machine a profile and a benchmark are about: what counts as measured, at which price, with which GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pretended_advice import MACHINE, known, work
from pretended_benches import bench_result

from engine.advisor.advice import Advice, Knowledge, advise, estimate, memory_needed
from engine.advisor.machines import (
    ACCELERATORS,
    GAINS,
    NO_SHEET,
    Candidate,
    Computing,
    Measured,
    accelerator,
    all_candidates,
    computing_on,
    measured_machine,
)
from engine.advisor.report import missing
from engine.advisor.sources import networks
from engine.advisor.steps import Terms
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
        computing = computing_on(own, [measured], mixed_precision=False, jit=None)
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


def with_gpu(name: str, gpus: int = 1) -> Candidate:
    return Candidate(f"one with {name}", 8, 64 << 30, gpu=name, gpus=gpus)


def measured_in(name: str, *precisions: bool, jit: bool = False, **more: Any) -> Measured:
    """A machine with this GPU that was benchmarked in these precisions, in bfloat16 (True) five times as fast."""
    assert MACHINE is not None
    law = next(iter(MACHINE.models.values()))
    fast = law.scaled(Terms(*[0.2] * len(Terms._fields)))
    laws = {(precision, jit): fast if precision else law for precision in precisions}
    return Measured(with_gpu(name), bench_result(**more), laws)


def said_of(name: str, *machines: Measured, mixed_precision: bool | None = None, jit: bool | None = None) -> str:
    found = computing_on(with_gpu(name), machines, mixed_precision=mixed_precision, jit=jit)
    assert found is not None
    return f"{found.basis} {found.source}".rstrip()


@pytest.mark.parametrize("name", ACCELERATORS)
def test_a_gpu_is_measured_in_the_precision_that_a_training_has_there(name: str) -> None:
    """Turing and Volta have no units for bfloat16: trainings on them compute in float32."""
    trains_in = name not in ("T4", "V100")
    assert ACCELERATORS[name].bfloat16 is trains_in
    other = "guessed from its benchmark in another precision"
    for given, wanted in ((None, trains_in), (True, True), (False, False)):
        assert said_of(name, measured_in(name, wanted), mixed_precision=given) == "measured"
        assert said_of(name, measured_in(name, not wanted), mixed_precision=given) == other
        both = measured_in(name, True, False)
        assert computing_on(with_gpu(name), [both], mixed_precision=given, jit=None) == Computing(
            both.models[wanted, False]
        )


def test_ratios_of_mixed_precision_are_taken_only_where_both_compute_in_it() -> None:
    for pair in GAINS:
        assert all(ACCELERATORS[name].bfloat16 for name in pair)
    assert said_of("H100", measured_in("A100", True)) == "scaled from one with A100"
    assert said_of("A100", measured_in("H100", True, False)) == "scaled from one with H100"
    by_sheets = "guessed from one with A100 by their data sheets"
    assert said_of("H100", measured_in("A100", True, False), mixed_precision=False) == by_sheets
    # The one trains in float32, the other was measured in bfloat16, and the other way round.
    assert said_of("V100", measured_in("A100", True)) == f"{by_sheets}, in another precision"
    assert said_of("H100", measured_in("A100", False)) == f"{by_sheets}, in another precision"
    assert said_of("V100", measured_in("A100", True, False)) == by_sheets
    # The same law of float32 whether or not bfloat16 was measured too.
    laws = [measured_in("A100", *precisions) for precisions in ((True, False), (False,))]
    found = [computing_on(with_gpu("V100"), [law], mixed_precision=None, jit=None) for law in laws]
    assert found[0] == found[1]
    wide = computing_on(with_gpu("V100"), [measured_in("A100", True)], mixed_precision=None, jit=None)
    assert found[0] is not None
    assert wide is not None
    assert wide.scale_spread > found[0].scale_spread


def test_xla_is_no_other_precision() -> None:
    assert said_of("T4", measured_in("T4", False, jit=True)) == "guessed from its benchmark with XLA"
    assert said_of("L4", measured_in("L4", True), jit=True) == "guessed from its benchmark without XLA"


def test_a_gpu_in_no_table_trains_as_it_said_where_it_was_benchmarked() -> None:
    """The driver knows what no table here does: a GeForce GTX 1080 has no bfloat16, a RTX 4090 has."""
    for bfloat16 in (True, False):
        assert said_of("NVIDIA card", measured_in("NVIDIA card", bfloat16, bfloat16=bfloat16)) == "measured"
        other = said_of("NVIDIA card", measured_in("NVIDIA card", not bfloat16, bfloat16=bfloat16))
        assert other == "guessed from its benchmark in another precision"
    # Of results of earlier versions nothing is known: most GPUs in use compute in it.
    assert said_of("NVIDIA card", measured_in("NVIDIA card", True)) == "measured"


def test_processors_train_in_float32_and_another_precision_of_theirs_is_a_guess() -> None:
    assert basis_of(PROFILE) == ("measured", [])
    assert MACHINE is not None
    for name, basis in (("desk", "guessed"), ("larger", "guessed")):
        found = computing_on(Candidate(name, 2), [MACHINE], mixed_precision=True, jit=None)
        assert found is not None
        assert (found.basis, found.source[-20:]) == (basis, "in another precision")


EXECUTOR = {"spark.executor.cores": "8", "spark.executor.memory": "8g", "spark.executor.instances": "3"}
MASTERS = ("yarn", "spark://host:7077", "k8s://https://host:6443", "databricks")


def on_spark(master: str, machine: str = "", **settings: str) -> Profile:
    """A profile of this machine's figures, which on a cluster are those of the driver's."""
    return PROFILE.model_copy(update={"backend": "spark", "master": master, "machine": machine, "spark": settings})


@pytest.mark.parametrize("master", MASTERS)
def test_what_does_not_run_here_is_not_measured_by_a_benchmark_of_this_machine(master: str) -> None:
    for profile in (on_spark(master), on_spark(master, **EXECUTOR), on_spark(master, **{"spark.executor.cores": "4"})):
        own = all_candidates(profile, [], (), HARDWARE)[0]
        assert (own.remote, own.processor, own.gpus) == (True, "", 0)
        assert basis_of(profile) == ("scaled", ["a"])
    # That of one of its own machines is named as the profile is, or both name their type.
    named = profile.model_copy(update={"name": "a"})
    assert basis_of(named, cores=4)[0] == "measured"
    assert basis_of(named, cores=8)[0] == "scaled"
    its = on_spark(master, "m5.2xlarge@us-east-1", **EXECUTOR)
    assert basis_of(its, machine_type="m5.2xlarge@us-east-1") == ("measured", [])
    assert basis_of(its, machine_type="c6i.2xlarge@us-east-1")[0] == "scaled"


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "local-cluster[2,1,1024]"])
def test_spark_on_this_machine_is_this_machine_whatever_it_says_of_executors(master: str) -> None:
    for profile in (on_spark(master), on_spark(master, **EXECUTOR | {"spark.executor.cores": "2"})):
        own = all_candidates(profile, [], (), HARDWARE)[0]
        assert (own.remote, own.cores, own.memory_bytes) == (False, 8, 32 << 30)
        assert basis_of(profile) == ("measured", [])


@pytest.mark.parametrize(
    ("settings", "workers", "cores"),
    [
        ({}, 1, 8),
        (EXECUTOR, 1, 8),
        (EXECUTOR, 2, 16),
        # More workers than executors share these.
        (EXECUTOR, 6, 24),
        ({"spark.executor.cores": "4"}, 3, 12),
        ({"spark.executor.cores": " 2 "}, 1, 2),
        # Nothing is known of what only the environment says, or Spark refuses.
        ({"spark.executor.cores": "${CORES}"}, 1, 8),
        ({"spark.executor.cores": "0"}, 1, 8),
        ({"spark.executor.cores": "4", "spark.executor.instances": "-1"}, 2, 8),
        ({"spark.executor.cores": "9" * 5000}, 1, 8),
        # Java's memory: the training is in a process beside it.
        ({"spark.executor.memory": "512m"}, 1, 8),
    ],
)
def test_on_a_cluster_a_training_has_its_workers_executors(settings: dict[str, str], workers: int, cores: int) -> None:
    own = all_candidates(on_spark("yarn", **settings), [], (), HARDWARE, workers=workers)[0]
    # This machine's memory says nothing of theirs.
    assert (own.cores, own.memory_bytes) == (cores, None)


@pytest.mark.parametrize(
    ("settings", "workers", "machines"), [({}, 1, 1), ({}, 2, 2), ({}, 5, 2), (EXECUTOR, 2, 2), (EXECUTOR, 8, 3)]
)
def test_machines_that_are_named_are_whole_ones(settings: dict[str, str], workers: int, machines: int) -> None:
    """As their price is: one for each executor that has a worker."""
    named = on_spark("yarn", "m5.4xlarge@us-east-1", **settings)
    own = all_candidates(named, [], machine_table().machines, HARDWARE, workers=workers)[0]
    assert (own.machines, own.cores, own.memory_bytes) == (machines, 16 * machines, 64 << 30)


def test_the_machines_of_executors_are_those_that_train_and_all_are_paid_for() -> None:
    fields = {"machine_price": 0.5, "executor_machine": "m5.4xlarge@us-east-1", "executor_price": 2.0}
    profile = on_spark("yarn", "m5.2xlarge@us-east-1", **EXECUTOR).model_copy(update=fields)
    own = all_candidates(profile, [], machine_table().machines, HARDWARE, workers=2)[0]
    assert (own.machine_type, own.cores, own.price_per_hour) == ("m5.4xlarge@us-east-1", 32, 0.5 + 3 * 2.0)


@pytest.mark.parametrize(("machines", "fits"), [(1, False), (2, False), (3, True)])
def test_workers_share_the_memory_of_the_machine_that_they_are_on(machines: int, fits: bool) -> None:
    """Each takes two thirds of what a machine has."""
    training = work()
    needed = memory_needed(training, training.batch_size, 3, Candidate("any", 8))
    cluster = Candidate("cluster", 8, memory_bytes=needed * 3 // 2, machines=machines)
    assert MACHINE is not None
    computing = computing_on(cluster, [MACHINE], mixed_precision=False, jit=False)
    assert computing is not None
    assert estimate(training, "table", cluster, computing, Knowledge([cluster]), workers=3).fits is fits


def test_of_a_cluster_it_says_where_to_measure_and_advises_no_workers() -> None:
    machine = measured_machine(bench_result("desk", machine=HARDWARE, cores=8), networks(train_resnet3d))
    assert machine is not None
    for master, hint in (
        ("yarn", "`voxelflow bench --name local` on the machine of an executor makes its figures measured ones."),
        ("local[*]", None),
    ):
        profile = on_spark(master, **EXECUTOR)
        training = work(workers=4, batch_size=32)
        candidates = all_candidates(profile, [machine], (), HARDWARE, workers=4)
        advice = advise(training, "table", Knowledge(candidates, [machine]))
        assert advice.own is not None
        assert advice.own.basis == ("scaled" if hint else "measured")
        assert (hint in missing(advice, "/data")) is (hint is not None)
        # Here fewer workers exchange less on the same cores; there each has an executor's.
        assert ("workers" in [setting.name for setting in advice.settings]) is (hint is None)


def test_it_says_with_which_options_a_benchmark_measures_what_the_training_does() -> None:
    """By default it measures as trainings compute by default; what is set otherwise has to be asked for."""
    plain = measured_in("T4", False)
    for params, own, command in (
        ({}, with_gpu("L4"), "voxelflow bench"),
        ({"mixed_precision": True}, plain.candidate, "voxelflow bench --mixed-precision on"),
        ({"mixed_precision": False}, with_gpu("L4"), "voxelflow bench --mixed-precision off"),
        ({"jit": True}, plain.candidate, "voxelflow bench --xla on"),
    ):
        advice = advise(work(**params), "table", Knowledge([own], [plain]))
        assert missing(advice, "/data")[0] == f"`{command}` on this machine makes its figures measured ones."
    # Nothing is missing where it was measured so.
    said = missing(advise(work(), "table", Knowledge([plain.candidate], [plain])), "/data")
    assert not any("voxelflow bench" in line for line in said)
