"""Estimates, the recommendation and what would change it: laws that hold for every machine and storage."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretended_advice import HERE, MACHINE, known, one, reading, work
from pretended_benches import bench_result, probe

from engine.advisor.advice import Advice, Estimate, Knowledge, advise, frontier, recommend
from engine.advisor.machines import (
    DATA_SHEET,
    DEVIATIONS,
    Candidate,
    Computing,
    Measured,
    accelerator,
    computing_on,
    promised,
)
from engine.advisor.reading import from_memory, from_probe
from engine.advisor.report import (
    as_json,
    changes,
    chosen_few,
    elsewhere,
    in_a_line,
    missing,
    reasons,
    row,
    source_of,
)
from engine.advisor.sources import Known, Training, advise_training
from engine.prices import machine_table
from engine.profiles import Profile
from engine.workspace import Workspace
from nodes.train_resnet3d import train_resnet3d

# --- laws ----------------------------------------------------------------------------------------


@given(st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 1e-7), st.integers(1, 64))
def test_more_latency_is_never_faster(near: float, more: float, byte_s: float, batch: int) -> None:
    def seconds(latency_s: float) -> float:
        first = reading(0.0, byte_s).farther(latency_s)
        return one(work(batch_size=batch), cold={"files": first}).seconds

    assert seconds(near + more) >= seconds(near)


@given(st.integers(64, 10**6), st.integers(0, 10**6), st.integers(1, 50), st.integers(0, 50))
def test_more_volumes_and_epochs_are_never_faster_or_cheaper(volumes: int, more: int, epochs: int, then: int) -> None:
    small, large = one(work(volumes, epochs=epochs)), one(work(volumes + more, epochs=epochs + then))
    assert large.seconds >= small.seconds
    assert (large.cost or 0) >= (small.cost or 0)
    assert small.low <= small.seconds <= small.high


def points() -> st.SearchStrategy[list[Estimate]]:
    def made(numbers: list[tuple[float, float]]) -> list[Estimate]:
        return [
            Estimate(replace(HERE, name=str(n), price_per_hour=price), "table", 32, 1, "compute", seconds=seconds)
            for n, (price, seconds) in enumerate(numbers)
        ]

    return st.lists(st.tuples(st.floats(0.01, 100), st.floats(1, 1e5)), min_size=1, max_size=30).map(made)


@given(points())
def test_nothing_on_the_frontier_is_beaten_and_everything_else_is(estimates: list[Estimate]) -> None:
    efficient = frontier(estimates)
    assert efficient
    for each in estimates:
        cost = each.cost or 0.0
        better = [e for e in estimates if (e.cost or 0.0) <= cost and e.seconds <= each.seconds and e is not each]
        beaten = any((e.cost or 0.0) < cost or e.seconds < each.seconds for e in better)
        assert not (beaten and each in efficient)
        assert beaten or each in efficient or any(e.seconds == each.seconds and e.cost == cost for e in efficient)


@given(points(), st.floats(1, 1e5))
def test_the_recommended_one_costs_nearly_the_least_of_those_in_time(estimates: list[Estimate], limit: float) -> None:
    best = recommend(estimates)
    assert best is not None
    assert (best.cost or 0.0) <= 1.1 * min(e.cost or 0.0 for e in estimates) * (1 + 1e-9)
    in_time = recommend(estimates, limit)
    assert in_time is not None
    assert in_time.seconds <= limit or in_time.seconds == min(e.seconds for e in estimates)


def test_every_machine_of_the_table_is_scaled_and_says_so() -> None:
    unknown = {m.gpu for m in machine_table().machines if m.gpus and not accelerator(m.gpu)}
    # TensorFlow runs on a K80 no more, and nobody knows what a part of a GPU is worth: no advice names these.
    assert unknown == {"NVIDIA K80", "1/6 NVIDIA A10", "1/3 NVIDIA A10", "1/2 NVIDIA A10"}
    fast = Candidate("fast", 16, 64 * 10**9)
    computing = computing_on(fast, (MACHINE,), mixed_precision=None, jit=None)
    assert computing is not None
    assert (computing.basis, computing.source) == ("scaled", "from desk")
    here = computing_on(HERE, (MACHINE,), mixed_precision=None, jit=None)
    assert here is not None
    assert (here.basis, here.source, here.scale_spread) == ("measured", "", 0.0)
    # Eight times the cores: faster, by at most that, and the bar is wider.
    wide, own = one(work(), fast), one(work())
    assert own.step_s / 8 <= wide.step_s < own.step_s
    assert wide.high / wide.low > own.high / own.low
    with_gpu = computing_on(replace(fast, gpu="NVIDIA T4", gpus=1), (MACHINE,), mixed_precision=None, jit=None)
    assert with_gpu is not None
    assert (with_gpu.basis, with_gpu.source) == ("guessed", DATA_SHEET)
    assert with_gpu.model.seconds == promised(replace(fast, gpu="NVIDIA T4", gpus=1))


def gpu(name: str, gpus: int = 1) -> Candidate:
    return Candidate(f"{gpus} x {name}", 8, 64 * 10**9, gpu=name, gpus=gpus)


def on_gpu(wanted: Candidate, *names: str, mixed_precision: bool = True) -> Computing:
    """What is said of a machine where those with these GPUs were measured, in mixed precision and without."""
    assert MACHINE is not None
    law = next(iter(MACHINE.models.values()))
    measured = [Measured(gpu(n), MACHINE.result, {(True, False): law, (False, False): law}) for n in names]
    found = computing_on(wanted, measured, mixed_precision=mixed_precision, jit=False)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("here", "there", "gpus", "best"),
    [
        ("NVIDIA A100-SXM4-40GB", "NVIDIA H100", 1, 1.97),
        ("NVIDIA H100", "NVIDIA A100 80GB", 1, 1 / 1.97),
        ("NVIDIA A100 80GB", "NVIDIA H100", 8, 8 * 1.97),
        ("NVIDIA T4", "NVIDIA T4", 4, 4.0),
    ],
)
def test_a_gpu_that_others_have_measured_lies_between_the_best_ratio_and_none(
    here: str, there: str, gpus: int, best: float
) -> None:
    assert MACHINE is not None
    law = next(iter(MACHINE.models.values()))
    found = on_gpu(gpu(there, gpus), here)
    assert (found.basis, found.source) == ("scaled", f"from 1 x {here}")
    gained = law.step(work().network, 32) / found.model.step(work().network, 32)
    width = math.exp(DEVIATIONS * found.scale_spread)
    ends = sorted((gained / width, gained * width))
    assert ends == pytest.approx(sorted((1.0, best)))


def test_a_gpu_that_nobody_has_measured_beside_it_is_guessed() -> None:
    assert on_gpu(gpu("NVIDIA T4"), "NVIDIA L4").source == "from 1 x NVIDIA L4 by their data sheets"
    assert on_gpu(gpu("NVIDIA T4"), "NVIDIA L4").basis == "guessed"
    # The ratios are those of mixed precision.
    assert on_gpu(gpu("NVIDIA H100"), "NVIDIA A100", mixed_precision=False).basis == "guessed"
    # One with a ratio goes before one without, the same model before both.
    assert on_gpu(gpu("NVIDIA H100"), "NVIDIA L4", "NVIDIA A100").source == "from 1 x NVIDIA A100"
    assert on_gpu(gpu("NVIDIA H100", 2), "NVIDIA A100", "NVIDIA H100").source == "from 1 x NVIDIA H100"


def test_every_figure_says_whether_it_was_measured_scaled_or_guessed() -> None:
    candidates = (HERE, Candidate("fast", 16, 64 * 10**9), gpu("NVIDIA T4"))
    advice = advise(work(), "table", known(*candidates))
    assert {e.machine.name: source_of(e) for e in advice.estimates} == {
        "local": "measured", "fast": "scaled from desk", "1 x NVIDIA T4": "guessed by its data sheet",
    }  # fmt: skip
    assert [e["basis"] for e in as_json(advice, "/data")["estimates"]] == ["measured", "scaled", "guessed"]


def test_what_does_not_fit_is_reported_and_costs_nothing() -> None:
    tight = replace(HERE, memory_bytes=10**9)
    found = one(work(batch_size=512), tight)
    assert (found.bound, found.fits, found.cost, found.seconds) == ("memory", False, None, 0.0)
    advice = advise(work(batch_size=512), "table", known(tight))
    assert in_a_line(advice).startswith("Does not fit into the memory of local")
    assert recommend([found]) is None


# --- the advice ---------------------------------------------------------------------------------------


def files_known(**more: Any) -> Knowledge:
    training = work(kind="VolumeFiles")
    cold = {
        way: from_probe(probe("/data", files_per_s=60), way, "npy", training.access[way], 360_000)
        for way in ("files", "table")
    }  # type: ignore[arg-type]
    cached = {way: from_memory(way, "arrow", training.access[way], 360_000) for way in cold}  # type: ignore[arg-type]
    gpu = Candidate("gpu", 4, 16 * 10**9, gpu="NVIDIA T4", gpus=1, price_per_hour=1.5, currency="USD")
    return Knowledge((HERE, gpu), (MACHINE,), cold=cold, cached=cached, write_mb_s=200.0, **more)


def test_a_gpu_pays_off_once_the_data_is_a_table() -> None:
    advice = advise(work(200_000, kind="VolumeFiles"), "files", files_known())
    assert advice.recommended is not None
    assert advice.recommended.machine.name == "local"
    fast = next(e for e in advice.estimates if e.machine.name == "gpu")
    assert fast.bound == "input"
    said = changes(advice)
    assert any(line.startswith("A GPU pays off once the data is a table: gpu then takes") for line in said)
    # On two cores the reading hides behind the computing, so a conversion saves little there.
    assert advice.conversion_s is not None
    assert advice.pays_after is None or advice.pays_after > 5
    assert not missing(advice, "/data")
    assert reasons(advice)[0].startswith("It is the cheapest: ")


def test_a_training_of_one_epoch_waits_as_in_that_epoch() -> None:
    """Whatever would be in memory in a second one."""
    slow = reading(2.0)
    alone, several = (
        one(work(2_000, epochs=epochs), cold={"files": slow}, cached={"files": slow.cached}) for epochs in (1, 20)
    )
    assert (alone.bound, several.bound) == ("input", "compute")
    assert alone.input_s > alone.compute_s == several.compute_s > several.input_s
    steps = work(2_000).steps
    assert steps * alone.step_s <= alone.first_epoch_s
    assert alone.rate < several.rate


def test_a_place_in_a_command_is_quoted_where_the_shell_needs_it() -> None:
    advice = advise(work(), "table", known())
    assert "`voxelflow probe '/my data'`" in missing(advice, "/my data")[0]
    assert "`voxelflow probe az://c/table`" in missing(advice, "az://c/table")[0]


def test_the_same_training_is_predicted_for_the_other_places_that_were_probed(workspace: Workspace) -> None:
    here, far, farther = probe(str(workspace.root)), probe("az://c/probed", ms=20.0), probe("s3://b/x", files_per_s=4.0)
    older = probe("az://c/other", ms=0.1)
    training = Training(
        "t", "t", train_resnet3d, replace(work(kind="VolumeFiles", batch_size=8), uri=str(workspace.root))
    )
    profile = Profile(name="mine", cores=2, memory_bytes=16 * 10**9)
    advice = advise_training(training, Known([bench_result()], [farther, here, far, older]), workspace, profile)
    assert advice is not None
    found = [(p.place, p.way) for p in advice.elsewhere]
    assert found == [(p, w) for p in ("s3://b/x", "az://c/probed") for w in ("files", "remote table")]
    own = [next(e for e in p.estimates if e.machine.name == "mine") for p in advice.elsewhere]
    assert [e.bound for e in own] == ["input", "compute", "compute", "compute"]
    assert own[0].later_epoch_s > 0.9 * own[0].first_epoch_s, "files in an object store are read again in each epoch"
    lines = elsewhere(advice)
    assert len(lines) == 4
    assert lines[3].startswith("From az://c/probed, as a table in an object store, mine takes ")
    assert [p["place"] for p in as_json(advice, "x")["elsewhere"]] == [place for place, _ in found]


def test_where_files_are_waited_for_a_conversion_pays_after_some_epochs() -> None:
    knowledge = files_known()
    slow = {"files": knowledge.cold["files"].farther(0.5), "table": knowledge.cold["table"]}
    advice = advise(work(200_000, kind="VolumeFiles"), "files", replace(knowledge, cold=slow))
    assert advice.own is not None
    assert advice.own.bound == "input"
    assert advice.pays_after == 2
    assert any("has paid after 2 epochs" in line for line in changes(advice))


def test_a_small_batch_is_advised_to_grow_and_a_remote_table_to_be_cached() -> None:
    training = replace(work(batch_size=4, epochs=10), uri="az://c/table")
    slow = reading(0.0, 8e-6, "remote table")
    knowledge = known(cold={"remote table": slow}, cached={"remote table": slow.cached})
    advice = advise(training, "remote table", knowledge)
    found = {s.name: s for s in advice.settings}
    assert "VOXELFLOW_CACHE_GB" in found
    cached = advise(training, "remote table", replace(knowledge, cache_bytes=10**11))
    assert cached.own is not None
    assert advice.own is not None
    assert cached.own.seconds < advice.own.seconds
    (batch,) = (s for s in advise(work(batch_size=4), "table", known()).settings if s.name == "batch_size")
    assert int(batch.advised) > 4


def test_workers_that_cost_more_than_they_give_and_a_dear_loader_are_advised_against() -> None:
    found = {s.name: s for s in advise(work(workers=2, loader="petastorm"), "table", known()).settings}
    assert (found["workers"].now, found["workers"].advised) == ("2", "1")
    assert (found["loader"].now, found["loader"].advised) == ("petastorm", "arrow")
    assert "eighth of the processor time" in found["loader"].why
    best = advise(work(workers=1, loader="arrow"), "table", known())
    assert not {"workers", "loader"} & {s.name for s in best.settings}


def priced(name: str, seconds: float, cost: float | None, currency: str = "USD") -> Estimate:
    price = None if cost is None else cost * 3600 / seconds
    machine = replace(HERE, name=name, price_per_hour=price, currency=currency, origin="prices")
    return Estimate(machine, "table", 32, 1, "compute", seconds=seconds, low=seconds, high=seconds)


SLOW, FAST, DEAR = priced("slow", 7200, 1.0), priced("fast", 3600, 2.0), priced("dear", 600, 40.0)


@pytest.mark.parametrize(
    ("estimates", "within_s", "said"),
    [
        ((SLOW, FAST, DEAR), None, "slow: It is the cheapest: about 1.00 USD, in 2 h 00 min to 2 h 00 min."),
        ((SLOW, FAST, DEAR), 8000, "slow: It is the cheapest: about 1.00 USD, in 2 h 00 min to 2 h 00 min."),
        (
            (SLOW, FAST, DEAR),
            4000,
            "fast: It is the cheapest of those that are done in 1 h 06 min: about 2.00 USD, in 1 h 00 min to"
            " 1 h 00 min.",
        ),
        (
            (SLOW, FAST, priced("near", 1800, 2.1)),
            4000,
            "near: It is nearly as cheap as the cheapest of those that are done in 1 h 06 min, and faster: about"
            " 2.10 USD, in 30 min 00 s to 30 min 00 s.",
        ),
        (
            (SLOW, priced("near", 3600, 1.05)),
            None,
            "near: It is nearly as cheap as the cheapest, and faster: about 1.05 USD, in 1 h 00 min to 1 h 00 min.",
        ),
        (
            (SLOW, FAST, DEAR),
            60,
            "dear: No machine is done in 1 min 00 s; this is the fastest. It costs about 40.00 USD, in 10 min 00 s to"
            " 10 min 00 s.",
        ),
        (
            (SLOW,),
            60,
            "slow: No machine is done in 1 min 00 s; this is the fastest. It is the cheapest: about 1.00 USD,",
        ),
        (
            (priced("ours", 30, None), SLOW),
            60,
            "slow: No machine with a known price is done in 1 min 00 s; this is the fastest of them. It is the",
        ),
        # Nobody knows which of these is cheaper.
        (
            (priced("euro", 60, 0.5, "EUR"), SLOW, priced("other", 8000, 1.5)),
            None,
            "slow: It is the cheapest: about 1.00 USD, in",
        ),
    ],
    ids=["no limit", "wide", "dearer", "near in time", "near", "too late", "one", "no price", "currencies"],
)
def test_the_reasons_say_how_the_limit_of_time_has_decided(
    estimates: tuple[Estimate, ...], within_s: float | None, said: str
) -> None:
    best = recommend(estimates, within_s)
    assert best is not None
    why = reasons(Advice(work(), "table", estimates, recommended=best, within_s=within_s))
    assert f"{best.machine.name}: {' '.join(why)}".startswith(said)


def test_prices_in_another_currency_are_listed_and_compared_with_none() -> None:
    own = replace(priced("own", 9000, 2.0), machine=replace(HERE, name="own", currency="", origin="profile"))
    club, dear_club, free = priced("club", 5000, 0.5, "GBP"), priced("hall", 7000, 1.5, "GBP"), priced("free", 1, None)
    few = [priced(f"p{n}", 8000 + n, 1.0 + n / 100) for n in range(20)]
    estimates = (own, club, dear_club, free, SLOW, FAST, *few)
    best = recommend(estimates)
    advice = Advice(work(), "table", estimates, own=own, recommended=best)
    assert best is SLOW
    assert "The next faster one is fast: 2 times as fast for about 2.00 USD." in reasons(advice)
    listed = [e.machine.name for e in chosen_few(advice)]
    assert listed[0] == "slow"
    assert listed[-2:] == ["own", "club"], "after those that they cannot be compared with"
    assert len(listed) == 12
    every = [e.machine.name for e in chosen_few(advice, len(estimates))]
    assert len(every) == len(estimates)
    assert every[-4:] == ["own", "club", "hall", "free"]


def test_a_machine_that_costs_nothing_is_the_cheapest_in_any_currency() -> None:
    mine, yours = priced("mine", 9000, 0.0, ""), priced("yours", 10_000, 0.0, "GBP")
    assert recommend((mine, SLOW, FAST)) is mine
    assert recommend((SLOW, yours, mine)) is mine, "the faster of both"
    assert recommend((yours, mine)) is mine
    why = reasons(Advice(work(), "table", (mine, SLOW, FAST), own=mine, recommended=mine))
    assert why == [
        "It is the cheapest: about 0.00, in 2 h 30 min to 2 h 30 min.",
        "The next faster one is slow: 1.2 times as fast for about 1.00 USD.",
    ]
    # In time it is compared as others are.
    assert recommend((mine, SLOW, FAST), 4000) is FAST


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (priced("own", 9000, None), "It is the cheapest with a known price: about 1.00 USD,"),
        (priced("own", 9000, 0.5, "EUR"), "It is the cheapest with a price in USD: about 1.00 USD,"),
        (priced("own", 9000, 5.0), "It is the cheapest: about 1.00 USD,"),
    ],
)
def test_the_cheapest_is_said_to_be_it_of_those_that_can_be_compared(own: Estimate, said: str) -> None:
    best = recommend((own, SLOW, FAST))
    assert best is SLOW
    (first, *_) = reasons(Advice(work(), "table", (own, SLOW, FAST), own=own, recommended=best))
    assert first.startswith(said)


def test_that_no_step_waits_is_not_claimed_where_that_was_not_measured() -> None:
    assumed, seen = advise(work(), "table", known()), advise(work(), "table", known(cold={"table": reading()}))
    ratio, unknown = "volumes come", "Whether it waits for volumes was not measured"
    for advice, there, absent in ((assumed, unknown, ratio), (seen, ratio, unknown)):
        why = " ".join(reasons(advice))
        assert there in why
        assert absent not in why
    left = "waiting for volumes, which was not measured"
    assert (left in in_a_line(assumed), left in in_a_line(seen)) == (True, False)


def test_a_gpu_that_is_paid_in_another_currency_does_not_pay_off() -> None:
    knowledge = files_known()
    gpu = replace(knowledge.candidates[1], currency="GBP")
    advice = advise(work(200_000, kind="VolumeFiles"), "files", replace(knowledge, candidates=(HERE, gpu)))
    assert not any(line.startswith("A GPU pays off") for line in changes(advice))


def test_the_advice_keeps_the_limit_that_it_was_chosen_under() -> None:
    late = advise(work(), "table", known(), within_s=1.0)
    assert late.within_s == 1.0
    assert reasons(late)[0] == "No machine is done in 1.0 s; this is the fastest."
    assert advise(work(), "table", Knowledge((HERE,)), within_s=1.0).within_s == 1.0


def test_nothing_known_says_what_to_run_first() -> None:
    advice = advise(work(), "table", Knowledge((HERE,)))
    assert advice.recommended is None
    assert in_a_line(advice) == missing(advice, "/data")[0]
    assert "voxelflow bench" in in_a_line(advice)


def test_what_fits_into_memory_is_read_once() -> None:
    slow = reading(0.05)
    small = one(work(2_000), cold={"files": slow}, cached={"files": slow.cached})
    large = one(work(200_000), cold={"files": slow}, cached={"files": slow.cached})
    assert small.cached
    assert small.first_epoch_s > small.later_epoch_s
    assert not large.cached
    assert large.first_epoch_s == large.later_epoch_s


@pytest.mark.parametrize(
    ("gpu", "said"), [("T4", "2 x T4"), ("Data Center GPU Max", "2 x Data Center GPU Max"), ("", "2")]
)
def test_a_line_of_the_table_has_the_whole_name_of_a_gpu(gpu: str, said: str) -> None:
    machine = Candidate("lab", 8, gpu=gpu, gpus=2)
    assert row(Estimate(machine, "table", 8, 1, "compute"))[2] == said
