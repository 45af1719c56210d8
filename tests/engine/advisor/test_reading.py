"""How long a step takes beside its reading, and how a storage reads by a probe or a benchmark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretended_advice import reading, work
from pretended_benches import SHAPE, bench_result, bench_row, probe

from engine.advisor.advice import step_seconds
from engine.advisor.reading import InputModel, from_bench, from_probe
from engine.advisor.sources import probe_of
from engine.bench.result import Configuration
from engine.declare.workload import Access


@given(st.integers(1, 64), st.floats(0, 0.2), st.floats(0, 1e-7))
def test_a_step_is_what_is_longer_of_computing_and_reading(batch: int, latency_s: float, byte_s: float) -> None:
    found = reading(latency_s, byte_s)
    step, supply = step_seconds(0.1, batch, 1, found, cores=2, accelerated=True)
    assert step == max(0.1, supply)
    assert step_seconds(0.1, batch, 1, None, cores=2, accelerated=False) == (0.1, 0.0)
    # On processors the reading takes part of the cores, on an accelerator it does not.
    assert step_seconds(0.1, batch, 1, found, cores=2, accelerated=False)[0] >= step


WHITEPAPER_STEPS, WHITEPAPER_BATCH = 5 * 600, 32


@pytest.mark.parametrize(
    ("compute_ms", "accelerated", "hours", "reported"),
    [(2.42 * 3.6e6 / 96_000, False, 3.75, 3.59), (19 * 6e4 / 96_000, True, 1.65, 1.8)],
    ids=["16 cores", "one T4"],
)
def test_files_one_by_one_take_what_the_whitepaper_reports(
    compute_ms: float, accelerated: bool, hours: float, reported: float
) -> None:
    """Its loader waits 50 ms for each file and reads nothing ahead; from the optimised table it computes alone."""
    access = Access(requests=1, streams=1, overlap=0.0)
    files = InputModel(0.05, 0.0, access, 0.0, work().volume_bytes, 0.05, "a test")
    found: dict[float, float] = {}
    for overlap in (0.0, 1.0):
        step, _ = step_seconds(
            WHITEPAPER_BATCH * compute_ms / 1000, WHITEPAPER_BATCH, 1,
            replace(files, access=replace(access, overlap=overlap)), cores=16, accelerated=accelerated,
        )  # fmt: skip
        found[overlap] = WHITEPAPER_STEPS * step / 3600
    assert found[0.0] == pytest.approx(hours, abs=0.005)
    assert found[0.0] == pytest.approx(reported, rel=0.1)
    # Read ahead, files would have cost the processors nothing: that is not what was seen.
    assert found[1.0] == pytest.approx(max(compute_ms, 50) * 96_000 / 3.6e6)
    assert found[1.0] < 0.8 * reported


@given(st.floats(1e-3, 10), st.floats(0, 0.5), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_less_overlap_is_never_faster_and_lies_between_the_longer_and_the_sum(
    compute_s: float, latency_s: float, one: float, other: float, accelerated: bool
) -> None:
    def seconds(overlap: float) -> tuple[float, float]:
        found = reading(latency_s)
        found = replace(found, access=replace(found.access, overlap=overlap))
        return step_seconds(compute_s, 8, 1, found, cores=2, accelerated=accelerated)

    low, high = sorted((one, other))
    step, supply = seconds(high)
    assert seconds(low)[0] >= step * (1 - 1e-9)
    assert max(compute_s, supply) * (1 - 1e-9) <= step
    assert seconds(0.0)[0] == pytest.approx(compute_s + supply)


def test_a_probe_gives_back_its_own_rate_beside_the_processor_time() -> None:
    training = work()
    for way, rate in (("files", 400), ("table", 4000)):
        model = from_probe(probe("/data"), way, "arrow", training.access[way], 360_128)  # type: ignore[arg-type]
        assert model.wait_s(2) == pytest.approx(1 / rate + model.processor_s / 2, rel=0.02)
    far = from_probe(probe("az://c/f", ms=20), "remote table", "arrow", training.access["remote table"], 360_128)
    near = 1 / 4000 + far.processor_s / 8
    assert far.wait_s(8) == pytest.approx(near, rel=0.02)
    assert far.farther(1.0).wait_s(8) == pytest.approx(near + 1 / 64 / 8, rel=0.02)
    # A disk of 36 MB/s carries a hundred of these volumes.
    assert far.limited(36.0128).wait_s(8) == pytest.approx(0.01)


def test_rows_that_waited_give_the_storage_and_others_say_nothing_of_it() -> None:
    access, size = work().access["files"], 360_000
    cold = Configuration(
        depth=18, shape=SHAPE, dtype="float32", batch_size=8, loader="npy", input="cold", storage="local"
    )
    slow = bench_result(rows=(bench_row(cold, waiting_s=1.0),))
    found = from_bench(slow, "files", "npy", access, size, cold=True)
    assert found is not None
    assert found.wait_s(2) == pytest.approx(slow.rows[0].total_s / 64, rel=0.01)
    assert from_bench(bench_result(rows=(bench_row(cold),)), "files", "npy", access, size, cold=True) is None
    assert from_bench(slow, "table", "arrow", access, size, cold=True) is None


def test_a_larger_file_takes_more_of_the_processor_though_not_by_its_bytes() -> None:
    """Of 0.15 ms for a file of 36 kB most is opening it: measured, 360 kB take 0.26 ms."""
    plain = Configuration(depth=18, shape=(30, 30, 10, 1), dtype="float32", batch_size=8)
    files = plain.model_copy(update={"loader": "npy", "input": "cached", "storage": "local"})
    alone, beside = bench_row(plain), bench_row(files)
    beside = beside.model_copy(update={"processor_s": beside.processor_s + 64 * 1.5e-4})
    result, access = bench_result(rows=(alone, beside)), work().access["files"]
    found = [from_bench(result, "files", "npy", access, size, cold=False) for size in (36_000, 360_000)]
    spent = [model.processor_s for model in found if model is not None]
    assert spent[0] == pytest.approx(1.5e-4)
    assert 1.5 * spent[0] < spent[1] < 2.5 * spent[0]


def test_the_probe_of_the_same_place_is_taken(tmp_path: Path) -> None:
    here, far, other = probe(str(tmp_path)), probe("az://c/probed"), probe("s3://bucket/x")
    assert probe_of("az://c/table", [other, here, far]) is far
    assert probe_of(str(tmp_path / "not" / "yet"), [other, far, here]) is here
    assert probe_of("gs://elsewhere", [other, here, far]) is None
