"""Trainings from files in an object store: how fast these come, and how fast a table in their place would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretended_benches import SHAPE, bench_result, bench_row, probe, timed

from engine.advisor.advice import Advice, Estimate
from engine.advisor.reading import InputModel, from_probe
from engine.advisor.report import changes, missing
from engine.advisor.sources import Known, Training, advise_training
from engine.advisor.steps import CPU, Terms
from engine.bench.result import BenchResult, Configuration
from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeSpec
from engine.declare.workload import TrainingWork
from engine.environment import Machine
from engine.probes import StorageProbe
from engine.profiles import Profile
from engine.workspace import Workspace
from nodes.train_resnet3d import train_resnet3d

STORE = "az://c/f"
SIZE = 360_000
MINE = Profile(name="mine", cores=2, memory_bytes=16 * 10**9, gpus=1, price_per_hour=0.5, currency="USD")


def work(uri: str = STORE, **params: Any) -> TrainingWork:
    """An epoch of 72,000 files, of which none is held out."""
    data = Preview(kind="VolumeFiles", count=72_000, spec=VolumeSpec(shape=SHAPE, dtype="float32"), uri=uri)
    defaults = {p.name: p.default for p in train_resnet3d.parameters} | {"loader": "npy", "validation_share": 0.0}
    assert train_resnet3d.workload_hook is not None
    found = train_resnet3d.workload_hook(CheckContext(params=defaults | params, inputs={"data": data}))
    assert found is not None
    return found


ACCESS = work().access["files"]


def store(alone_per_s: float = 35, at_once_per_s: float = 72, streams: int = 32, place: str = STORE) -> StorageProbe:
    """A probe of a store that gives so many files a second, one by one and with so many at a time."""
    reads = {
        "small_reads": timed(alone_per_s, SIZE, ms=1000 / alone_per_s),
        "small_reads_at_once": timed(at_once_per_s, SIZE, streams=streams, ms=1000 * streams / at_once_per_s),
    }
    return probe(place, table_per_s=130, ms=20).model_copy(update={"file_bytes": SIZE, **reads})


def law(found: StorageProbe, volume_bytes: int = SIZE) -> InputModel:
    return replace(from_probe(found, "files", "npy", ACCESS, volume_bytes), processor_s=0.0)


def gpu_bench() -> BenchResult:
    """Of the profile's machine: its GPU computes so fast that a training waits for its volumes."""
    rows = [
        bench_row(
            Configuration(depth=18, shape=SHAPE, dtype="float32", batch_size=size),
            Terms(*(seconds / 60 for seconds in CPU)),
        )
        for size in (8, 32)
    ]
    machine = Machine(processor="a processor", cores=2, memory_bytes=16 * 10**9, gpus=("NVIDIA T4",))
    return bench_result("mine", machine=machine, rows=tuple(rows), price_per_hour=0.5, currency="USD")


def advised(workspace: Workspace, *probes: StorageProbe, uri: str = STORE, result: BenchResult | None = None) -> Advice:
    training = Training("train", "Train", train_resnet3d, work(uri))
    found = advise_training(training, Known([result or gpu_bench()], probes), workspace, MINE)
    assert found is not None
    return found


def own(estimates: tuple[Estimate, ...]) -> Estimate:
    (found,) = (e for e in estimates if e.machine.name == "mine")
    return found


# --- how fast the files come -------------------------------------------------------------------------


@given(st.floats(1, 1000), st.floats(1, 1000), st.integers(1, 64), st.integers(1, 64))
def test_files_come_as_fast_as_the_store_was_seen_to_give_them(
    alone_per_s: float, at_once_per_s: float, streams: int, loading: int
) -> None:
    found = store(alone_per_s, at_once_per_s, streams)
    # A read takes as long as alone, and the store gives no more than it gave to many at a time.
    each = min(1 / alone_per_s, streams / at_once_per_s)
    assert law(found).wait_s(loading) == pytest.approx(max(each / loading, 1 / at_once_per_s))
    assert law(found).wait_s(streams) == pytest.approx(1 / at_once_per_s)
    # Twice the bytes take no less time, and at most twice as much.
    large = law(found, 2 * SIZE)
    assert law(found).wait_s(loading) * (1 - 1e-9) <= large.wait_s(loading)
    assert large.wait_s(loading) <= 2 * law(found).wait_s(loading) * (1 + 1e-9)


def test_a_store_that_is_full_with_many_reads_is_not_with_the_few_of_a_loader(workspace: Workspace) -> None:
    """28 ms a file one by one, 72 a second with 32 at a time, each of which then takes 440 ms."""
    assert [law(store()).wait_s(streams) for streams in (1, 2, 4, 32)] == pytest.approx(
        [1 / 35, 1 / 70, 1 / 72, 1 / 72]
    )
    assert law(store()).cached.wait_s(1) == 0.0
    # Half a second more for each request: these are waited for side by side.
    assert law(store()).farther(0.5).wait_s(4) == pytest.approx((1 / 35 + 0.5) / 4)
    found = own(advised(workspace, store()).estimates)
    assert found.bound == "input"
    assert found.later_epoch_s == pytest.approx(72_000 / 70, rel=0.02)


def test_a_probe_that_measured_nothing_gives_a_law_without_waiting() -> None:
    nothing = timed(1, SIZE).model_copy(update={"operations": 0})
    found = store().model_copy(update={"small_reads": nothing, "small_reads_at_once": nothing})
    assert law(found).wait_s(2) == 0.0
    half = store().model_copy(update={"small_reads": nothing})
    assert law(half).wait_s(32) == pytest.approx(1 / 72)


def test_files_in_a_store_come_through_the_network_and_not_from_the_disk(workspace: Workspace) -> None:
    quick = store(alone_per_s=5000, at_once_per_s=20_000)
    (small,) = (e for e in advised(workspace, quick).estimates if e.machine.name == "g6.xlarge@us-east-1")
    disk, network = small.machine.disk_mb_s, small.machine.network_mb_s
    assert disk is not None
    assert network is not None
    assert disk < network
    assert small.input_s == pytest.approx(32 * SIZE / (network * 1e6))


# --- from a table in their place -----------------------------------------------------------------------


def test_a_table_in_the_place_of_files_in_a_store_lies_in_the_store(workspace: Workspace) -> None:
    advice = advised(workspace, store(), probe(str(workspace.root)))
    table = own(advice.from_table)
    assert {e.way for e in advice.from_table} == {"remote table"}
    assert table.bound == "input"
    # 130 volumes a second, as that probe says: they are not in memory.
    assert table.later_epoch_s - (table.saving_s or 0.0) == pytest.approx(72_000 / 130, rel=0.05)
    assert advice.pays_after is not None
    saved = own(advice.estimates).later_epoch_s - table.later_epoch_s
    assert (advice.pays_after - 1) * saved < (advice.conversion_s or 0.0) <= advice.pays_after * saved
    assert any(line.startswith("From a table in an object store mine takes ") for line in changes(advice))
    assert not missing(advice, STORE)


def test_of_a_table_in_a_place_that_was_not_probed_nothing_is_said(workspace: Workspace) -> None:
    for probes in ((), (probe(str(workspace.root)), store(place="s3://other/f"))):
        advice = advised(workspace, *probes)
        assert advice.assumed_input
        assert (advice.from_table, advice.conversion_s, advice.pays_after) == ((), None, None)
        assert not any("table" in line for line in changes(advice))
        assert f"`voxelflow probe {STORE}` measures it" in missing(advice, STORE)[0]


def test_a_benchmark_of_local_files_says_nothing_of_those_in_a_store(workspace: Workspace) -> None:
    result = gpu_bench()
    cold = result.rows[0].configuration.model_copy(update={"loader": "npy", "input": "cold", "storage": "local"})
    waited = bench_row(cold, waiting_s=1.0)
    result = result.model_copy(update={"rows": (*result.rows, waited)})
    here, there = (advised(workspace, uri=uri, result=result) for uri in ("/data/f", STORE))
    assert own(here.estimates).bound == "input"
    assert not here.assumed_input
    assert there.assumed_input
    assert own(there.estimates).input_s < 0.1 * own(here.estimates).input_s
    # Of files that were measured and a table that was not, it says what would make the table known.
    assert here.from_table == ()
    assert missing(here, "/data/f")[:1] == [
        "What a table in that place would take is not known: `voxelflow probe /data/f` measures it."
    ]
    far = bench_row(cold.model_copy(update={"storage": "az"}), waiting_s=1.0)
    measured = advised(workspace, result=result.model_copy(update={"rows": (*result.rows, far)}))
    assert not measured.assumed_input
