"""Trainings as a barrier stage of a Spark with two slots, driven from this process."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from pyspark.sql import SparkSession
from spark_sessions import spark_local
from training_scenarios import Place, run_training, tiny_program, tiny_workers
from volume_sets import labels_for, make_delta, some_volumes
from waiting import WAIT_S

from engine.declare.datasets import TrainedModel, VolumeDelta
from engine.declare.events import Event
from engine.errors import Cancelled, ExecutionError, UsageError
from nodes.profile_training import profile_training
from nodes.profiling import measurements
from nodes.train_resnet3d import train_resnet3d
from nodes.training.workers import worker
from nodes.training.workers.barrier import BarrierGroup
from nodes.training.workers.folder import GroupFolder

__all__ = ["spark_local", "tiny_workers"]
pytestmark = pytest.mark.slow

PARAMS: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 6,
    "warmup_steps": 3,
    "seed": 11,
    "optimizer": "sgd",
    "learning_rate": 0.05,
    "checkpoint_every_s": 0,
}
FRESH = """
import sys
from nodes.tensorflow_keras import models
from training_scenarios import tiny_network
models.build_resnet3d = tiny_network
from nodes.training.workers.worker import main
main(*sys.argv[1:])
"""
"""The program as it is, with the tiny network: TensorFlow is imported by a process below the Spark task."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> VolumeDelta:
    volumes = some_volumes(60, (6, 6, 5, 2))
    return make_delta(tmp_path_factory.mktemp("table"), volumes, labels_for(volumes), rows=25)


@pytest.fixture(scope="module")
def here(table: VolumeDelta, tiny_workers: str, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same training by two workers without Spark, one core each as in `local[2]`."""
    place = Place(tmp_path_factory.mktemp("here"))
    assert run_training(place, table, workers=2, **PARAMS) == 0
    return place


def run_on_spark(
    place: Place,
    data: VolumeDelta,
    spark: SparkSession,
    *,
    on_step: Callable[[int], None] = lambda number: None,
    is_cancelled: Callable[[], bool] = lambda: False,
    **params: Any,
) -> TrainedModel:
    steps = 0
    with (place.root / "events.jsonl").open("a") as sink:

        def emit(event: Event) -> None:
            nonlocal steps
            sink.write(event.model_dump_json() + "\n")
            sink.flush()
            if event.event == "metrics":
                steps += 1
                on_step(steps)

        ctx = place.context(emit=emit, is_cancelled=is_cancelled, open_spark=lambda: spark)
        trained = train_resnet3d.backends["spark"](data, None, ctx=ctx, **params)
    assert isinstance(trained, TrainedModel)
    return trained


def test_two_executors_learn_what_two_processes_learn(
    table: VolumeDelta, here: Place, spark_local: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PROGRAM", ("-P", "-c", FRESH))
    place = Place(tmp_path)
    trained = run_on_spark(place, table, spark_local, workers=2, **PARAMS)
    assert trained.uri == str(place.out)
    assert place.state() == here.state()
    assert place.metrics("step_loss") == here.metrics("step_loss")
    # Spark's Python workers never had TensorFlow; the next stage would hang.
    assert spark_local.sparkContext.parallelize(range(2), 2).map(lambda n: "tensorflow" in sys.modules).collect() == [
        False,
        False,
    ]


def test_a_worker_that_dies_fails_the_task_and_one_goes_on(
    table: VolumeDelta, here: Place, spark_local: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PROGRAM", tiny_program())
    place, killed = Place(tmp_path), list[int]()

    def kill(number: int) -> None:
        if number == 4:
            killed.extend(place.worker_pid(rank) for rank in (0, 1))
            os.kill(killed[1], signal.SIGKILL)

    with pytest.raises(
        ExecutionError, match=r"worker 2 of 2 on 127\.0\.0\.1 \(process \d+\) was ended by SIGKILL"
    ) as e:
        run_on_spark(place, table, spark_local, workers=2, on_step=kill, **PARAMS)
    assert "`voxelflow runs resume run` goes on after step" in e.value.hint
    # Spark's cancel does not wait for its tasks; the watcher of the other worker ends it soon.
    living = [psutil.Process(pid) for pid in killed if psutil.pid_exists(pid)]
    assert psutil.wait_procs(living, timeout=WAIT_S)[1] == []
    stop = False

    def cancel(number: int) -> None:
        nonlocal stop
        stop = number == 3

    with pytest.raises(Cancelled):
        run_on_spark(place, table, spark_local, workers=2, on_step=cancel, is_cancelled=lambda: stop, **PARAMS)
    run_on_spark(place, table, spark_local, workers=1, **PARAMS)
    found, expected = dict(place.metrics("step_loss")), dict(here.metrics("step_loss"))
    assert [step for step, _ in place.metrics("step_loss")] == list(expected)
    assert np.allclose(list(found.values()), list(expected.values()), atol=1e-4)


def test_too_few_slots_are_reported_before_the_start(
    table: VolumeDelta, spark_local: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"3 workers .* can run 2 tasks at a time") as e:
        run_on_spark(Place(tmp_path), table, spark_local, workers=3, **PARAMS)
    assert "local[3]" in e.value.hint
    assert e.value.parameter == "workers"


@pytest.mark.parametrize("value", ["true", " TRUE "])
def test_a_cluster_that_spark_resizes_is_refused_for_one_worker_too(tmp_path: Path, value: str) -> None:
    """What a plan cannot see: Spark's own files may set it."""
    settings = {"spark.dynamicAllocation.enabled": value}
    conf = SimpleNamespace(get=lambda name, default=None: settings.get(name, default))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://host:7077", getConf=lambda: conf))
    ctx = Place(tmp_path).context(open_spark=lambda: spark)
    with pytest.raises(UsageError, match="even for one worker") as e:
        BarrierGroup(GroupFolder(tmp_path), 1, program=worker.PROGRAM, ctx=ctx)
    assert "spark.dynamicAllocation.enabled to false" in e.value.hint


def test_a_profile_is_measured_on_executors(
    table: VolumeDelta, spark_local: SparkSession, tiny_workers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurements, "PROGRAM", (*tiny_program(), "profile"))
    place = Place(tmp_path)
    ctx = place.context("profile", open_spark=lambda: spark_local)
    report = profile_training.backends["spark"](table, batch_sizes=(6,), workers=(1, 2, 3), steps=2, warmup=1, ctx=ctx)
    rows = json.loads((place.out / "profile.json").read_text())["rows"]
    assert [row["outcome"] for row in rows] == ["measured", "measured", "not possible"]
    assert "can run 2 tasks at a time" in rows[2]["note"]
    assert report.figures["recommended_batch_size"] == 6
