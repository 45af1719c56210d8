"""A benchmark from its volumes to its rows, with the tiny network, and where its volumes come from."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from training_scenarios import tiny_program, tiny_workers
from volume_sets import labels_for, make_delta, make_files, some_volumes
from waiting import wait_until

from engine.bench.options import BenchOptions
from engine.bench.result import BenchResult, BenchRow, read_result, write_result
from engine.declare.context import TaskContext
from engine.environment import Machine
from engine.errors import UsageError
from engine.processes.child import same_modules
from engine.storage.process_lock import ProcessLock
from nodes.bench.curves import Recorder
from nodes.bench.measure import bench
from nodes.bench.precision import trains_in_bfloat16
from nodes.bench.volumes import bench_volumes, latency_ms

__all__ = ["tiny_workers"]
SMALL = BenchOptions(shape=(6, 6, 5, 2), volumes=24, batch_sizes=(4,), steps=2, warmup=2, cores=1)


def ways(rows: tuple[BenchRow, ...]) -> list[tuple[str, str, int, str]]:
    return [
        (row.configuration.input, row.configuration.loader, row.configuration.batch_size, row.outcome) for row in rows
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_workers")
def test_every_input_is_measured_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.profiling.measurements.PROGRAM", (*tiny_program(), "profile"))
    monkeypatch.setattr("nodes.bench.curves.EVERY_S", 0.05)
    messages: list[str] = []
    options = replace(SMALL, batch_sizes=(4, 64), name="here", price_per_hour=2.0)
    so_far: list[BenchResult] = []
    found = bench(options, tmp_path / "work", report=messages.append, keep=so_far.append)
    assert [len(result.measured) for result in so_far] == [1, 2, 3, 4, 5]
    assert so_far[-1].rows == found.rows[:5]
    assert [result.missing for result in (*so_far, found)] == [9, 8, 7, 6, 5, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["work.lock"]
    kinds = [("synthetic", ""), ("cached", "arrow"), ("cold", "arrow"), ("cached", "npy"), ("cold", "npy")]
    assert ways(found.rows) == [
        (*kind, size, outcome) for size, outcome in ((4, "measured"), (64, "not possible")) for kind in kinds
    ]
    assert len(messages) == len(found.rows) + 1
    assert messages[1].startswith("1/10 synthetic, batch of 4, ResNet-18: ")
    for row in found.measured:
        assert len(row.step_s) == row.steps == 2
        assert sum(row.step_s) == pytest.approx(row.total_s, rel=0.2)
        assert row.processor_s > 0
        assert row.memory_bytes > 50e6
        assert (row.latency_ms is None) == (row.configuration.input == "synthetic")
        assert (row.cache == "none") == (row.configuration.input != "cold")
    cold = [row.note for row in found.measured if row.configuration.input == "cold"]
    assert all(note.startswith("the system") for note in cold)
    assert {row.note for row in found.without_figures} == {"there are 24 volumes to train on"}
    assert (found.name, found.price_per_hour, found.cores, found.data.volumes, found.data.made) == (
        "here", 2.0, 1, 24, True,
    )  # fmt: skip
    assert {"tensorflow", "numpy", "python"} <= found.versions.keys()
    curves = next(row.curves for row in found.measured if len(row.curves.seconds) > 2)
    assert {"cpu_utilization_percentage", "busiest_core_percentage", "swap_usage_megabytes"} <= curves.values.keys()
    write_result(tmp_path / "r.json", found)
    assert read_result(tmp_path / "r.json") == found
    # Nobody learns from it where it was measured.
    assert str(tmp_path) not in (tmp_path / "r.json").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_workers")
def test_volumes_in_an_object_store_are_made_measured_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, azure: str
) -> None:
    from engine.storage.objects import RemotePath

    monkeypatch.setattr("nodes.profiling.measurements.PROGRAM", (*tiny_program(), "profile"))
    options = replace(SMALL, storage=azure, inputs=("cached", "cold"))
    found = bench(options, tmp_path / "work")
    assert ways(found.rows) == [
        ("cached", "arrow", 4, "measured"),
        ("cold", "arrow", 4, "measured"),
        ("cached", "npy", 4, "not possible"),
        ("cold", "npy", 4, "measured"),
    ]
    assert [row.configuration.storage for row in found.rows] == ["az"] * 4
    assert {found.rows[1].note, found.rows[3].note} == {"each volume came from the store; the local cache was off"}
    assert "only arrow has a local cache" in found.rows[2].note
    assert all((found.rows[number].latency_ms or 0) > 0 for number in (1, 3))
    assert list(RemotePath.at(azure).walk()) == []


@pytest.fixture
def ctx(tmp_path: Path) -> TaskContext:
    for name in ("out", "shared", "scratch"):
        (tmp_path / name).mkdir()
    return TaskContext("b", "b", "0" * 32, tmp_path / "out", tmp_path / "shared", tmp_path / "scratch")


def test_a_persons_volumes_are_taken_as_they_are(tmp_path: Path, ctx: TaskContext) -> None:
    volumes = some_volumes(12, (4, 4, 3, 2))
    table = make_delta(tmp_path, volumes, labels_for(volumes))
    with bench_volumes(BenchOptions(data=table.uri), ctx) as found:
        assert found.for_loader("arrow") == found.for_loader("petastorm") == found.any
        assert (found.for_loader("npy"), found.without, found.made) == (None, "the data is a table", False)
        assert found.spec.shape == (4, 4, 3, 2)
        assert latency_ms(found.any) > 0
    files = make_files(tmp_path / "files", volumes, labels_for(volumes))
    with bench_volumes(BenchOptions(data=files.uri), ctx) as found:
        assert (found.any.count, found.for_loader("arrow")) == (12, None)
        assert "name a table to measure this loader" in found.without
        assert latency_ms(found.any) > 0
    assert os.listdir(tmp_path / "files")


def test_made_volumes_go_also_after_an_error(tmp_path: Path, ctx: TaskContext) -> None:
    place = tmp_path / "disk"
    left = place / ".voxelflow-bench" / "of-one-that-was-killed"
    left.mkdir(parents=True)
    os.utime(left, (1e9, 1e9))
    made = bench_volumes(replace(SMALL, storage=str(place)), ctx)
    found = made.__enter__()
    assert (found.any.count, found.made, found.spec.shape) == (24, True, (6, 6, 5, 2))
    assert [path.name for path in place.iterdir()] == [".voxelflow-bench"]
    assert not left.exists()
    assert not made.__exit__(RuntimeError, RuntimeError(), None)
    assert list(place.iterdir()) == []


def test_a_step_that_several_workers_share_is_not_compiled(tmp_path: Path) -> None:
    options = replace(SMALL, workers=(2,), jit=(True,), inputs=("synthetic",))
    (row,) = bench(options, tmp_path / "work").rows
    assert (row.outcome, row.note) == ("not possible", "XLA cannot compile a step that several workers share")


def test_what_cannot_be_measured_is_named(tmp_path: Path, ctx: TaskContext) -> None:
    for options, message in (
        (replace(SMALL, depths=(19,)), "there is no depth 19. Choose one of 18, 34, 50, 101, 152"),
        (replace(SMALL, loaders=("tape",)), "there is no loader tape"),
        (replace(SMALL, name="a\nb"), "the name of the machine holds the control character '\\n'. Choose another"),
        (replace(SMALL, data="/nowhere"), "there is no folder /nowhere"),
        (replace(SMALL, storage="/nowhere"), "there is no folder /nowhere"),
    ):
        with pytest.raises(UsageError) as caught:
            bench(options, tmp_path / "work")
        assert message in caught.value.line()
    lock = ProcessLock(tmp_path / "work.lock")
    assert lock.acquire()
    with pytest.raises(UsageError, match="another benchmark is running"):
        bench(SMALL, tmp_path / "work")


def test_a_recorder_samples_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.bench.curves.EVERY_S", 0.02)
    recorder = Recorder(tmp_path)
    with recorder.running():
        wait_until(lambda: len(recorder._seconds) >= 2, "the second sample")
    curves = recorder.curves(0.05)
    assert {len(values) for values in curves.values.values()} == {len(curves.seconds)}
    assert curves.peak("busiest_core_percentage") is not None
    assert curves.peak("disk_write_megabytes_per_second") is not None
    assert curves.of("system_memory_usage_percentage")


def test_by_default_it_measures_in_the_precision_that_a_training_has_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing is trained: XLA and several workers are not possible together.
    options = replace(SMALL, workers=(2,), jit=(True,), inputs=("synthetic",))
    for here, given, wanted in (
        (True, None, [True]),
        (False, None, [False]),
        (True, (False,), [False]),
        (False, (False, True), [False, True]),
    ):
        monkeypatch.setattr("nodes.bench.measure.trains_in_bfloat16", lambda machine, here=here: here)
        found = bench(replace(options, mixed_precision=given), tmp_path / "work")
        assert found.bfloat16 is here
        assert [row.configuration.mixed_precision for row in found.rows] == wanted


def test_only_where_there_is_a_gpu_the_framework_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    card, asked = Machine(gpus=("NVIDIA card",)), []

    def answer(status: int, *printed: str) -> None:
        def run(arguments: list[str], **more: object) -> subprocess.CompletedProcess[str]:
            asked.append(arguments[1:])
            return subprocess.CompletedProcess(arguments, status, "\n".join(printed), "")

        monkeypatch.setattr("nodes.bench.precision.subprocess.run", run)

    answer(0, "CUDA says hello", "bfloat16", "")
    assert not trains_in_bfloat16(Machine())
    assert asked == []
    assert trains_in_bfloat16(card)
    assert asked == [["-P", "-m", "nodes.bench.precision"]]
    for status, printed in ((0, "float32"), (0, ""), (1, "bfloat16")):
        answer(status, printed)
        assert not trains_in_bfloat16(card)


@pytest.mark.slow
def test_the_framework_answers_by_the_trainings_own_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process of its own, which nothing here could have looked at a GPU for."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "nodes.bench.precision"], env=same_modules({}), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.split()) == (0, ["float32"]), done.stderr
