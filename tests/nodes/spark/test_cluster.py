"""Runs on a real standalone cluster: one master and two workers on the loopback, executors that die under the work."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import tiny_worker
from cluster_runs import etl, folder_of, rows, sizes_below, soon
from running import Runner
from spark_cluster import SparkCluster
from waiting import WAIT_S

import nodes
from engine.catalog import build_catalog
from engine.declare.events import Metrics
from engine.document.pipeline import Edge, Node, Pipeline
from engine.profiles import find_profile
from engine.run import launch
from engine.store.runs import RunStore
from engine.workspace import Workspace, trust

TINY = f"""
import sys
import keras
from keras import layers

sys.path.append({str(Path(tiny_worker.__file__).parent)!r})
from tiny_worker import keep_in_step

keep_in_step()


def build(shape, outputs):
    x = inputs = keras.Input(shape)
    x = layers.BatchNormalization()(layers.Conv3D(2, 3)(x))
    return keras.Model(inputs, layers.Dense(outputs)(layers.GlobalAveragePooling3D()(x)))
"""
"""Its steps take a millisecond: the leading worker waits for each report, or the test could not strike amid them."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs(part="java"),
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("forked_runs"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as out:
        yield out


@pytest.fixture
def runner(cluster: SparkCluster, workspace: Workspace, store: RunStore) -> Runner:
    """Runs under the cluster's profile, with the built-in nodes; each run takes one core of each worker."""
    (workspace.root / "profiles.toml").write_text(cluster.profile_toml())
    return Runner(build_catalog(nodes.BUILT_IN), workspace, store, find_profile("cluster", workspace))


def test_executors_that_come_and_go_lose_nothing(cluster: SparkCluster, runner: Runner, tmp_path: Path) -> None:
    """Dynamic allocation: idle ones are given back, a worker leaves with its executor, another joins; one is killed."""
    (runner.workspace.root / "profiles.toml").write_text(
        cluster.profile_toml(
            "elastic",
            spark_dynamicAllocation_enabled="true",
            spark_dynamicAllocation_minExecutors="0",
            spark_dynamicAllocation_executorIdleTimeout="1s",
            spark_dynamicAllocation_schedulerBacklogTimeout="1s",
        )
    )
    runner.profile = find_profile("elastic", runner.workspace)
    wanted = folder_of(tmp_path / "in", 600)
    before = cluster.launched()
    run_id = runner.start(etl(tmp_path / "in"))
    data = runner.workspace.data

    def parts() -> int:
        return len(list(data.glob("NumpyToParquet/*/parts/*.parquet")))

    def rewritten() -> int:
        # A bin's file holds several parts.
        return sum(size > 1_500_000 for size in sizes_below(data / "ParquetToDelta", ".parquet"))

    soon(parts, "the first part", runner.store, run_id)
    with cluster.frozen():
        assert parts() < 40
        cluster.lose_a_worker()
    cluster.add_a_worker()
    soon(rewritten, "the first file of optimize", runner.store, run_id)
    with cluster.frozen():
        assert 0 < rewritten() < 13
        # More executors than fit at once have worked for it, before one more is killed.
        assert len(cluster.launched() - before) >= 3
        cluster.kill_an_executor()
    runner.finish_done(run_id)
    tasks = runner.tasks(run_id)
    assert {name: task.attempt for name, task in tasks.items()} == dict.fromkeys(tasks, 1)
    table = tasks["optimize"].outputs["out"]
    assert rows(table.uri) == wanted
    assert table.files < tasks["table"].outputs["out"].files
    assert cluster.workers_alive() == 2


def test_two_runs_write_one_table_at_once_and_an_executor_is_killed(
    cluster: SparkCluster, runner: Runner, tmp_path: Path
) -> None:
    profile = cluster.profile_toml("half", spark_cores_max="1")
    (runner.workspace.root / "profiles.toml").write_text(profile)
    runner.profile = find_profile("half", runner.workspace)
    table = tmp_path / "together"
    wanted = folder_of(tmp_path / "one", 120) | folder_of(tmp_path / "two", 120, first=120)
    # The second is planned and started while the first has only begun. (Without OptimizeDelta, which rightly
    # refuses a table that another run has changed since.)
    runs = [runner.start(etl(tmp_path / name, table=str(table)), end="table") for name in ("one", "two")]
    data = runner.workspace.data

    def parts() -> int:
        return len(list(data.glob("NumpyToParquet/*/parts/*.parquet")))

    # With one core for each run, its whole conversion waits until the master has given it another executor.
    soon(parts, "the first part", runner.store, runs[0])
    with cluster.frozen():
        assert 0 < parts() < 16
        cluster.kill_an_executor()
    for run_id in runs:
        runner.finish_done(run_id)
        tasks = runner.tasks(run_id)
        assert {name: task.attempt for name, task in tasks.items()} == dict.fromkeys(tasks, 1)
    assert rows(str(table)) == wanted


def test_training_with_two_workers_and_a_lost_executor(cluster: SparkCluster, runner: Runner) -> None:
    """Clean failure within the run, then `runs resume` trains the rest: each step once."""
    runner.workspace.my_models.mkdir(exist_ok=True)
    model = runner.workspace.my_models / "tiny.py"
    model.write_text(TINY)
    trust(runner.workspace)
    training = {
        "workers": 2,
        "model_file": str(model),
        "epochs": 3,
        "batch_size": 4,
        "steps_per_epoch": 4,
        "optimizer": "sgd",
        "checkpoint_every_s": 0,
    }
    document = Pipeline(
        name="train",
        nodes=[
            Node(id="make", type="SyntheticVolumes", params={"count": 40, "shape": [8, 8, 8, 1]}),
            Node(id="convert", type="NumpyToParquet"),
            Node(id="train", type="TrainResNet3D", params=training),
        ],
        edges=[
            Edge.model_validate({"from": a, "to": b})
            for a, b in (("make.out", "convert.files"), ("convert.out", "train.data"))
        ],
    )
    run_id = runner.start(document)

    def steps() -> list[int]:
        events = [e for _, e in runner.store.events(run_id, kinds=("metrics",))]
        return [e.step for e in events if isinstance(e, Metrics) and e.node == "train" and "step_loss" in e.values]

    soon(lambda: len(steps()) >= 2, "two steps", runner.store, run_id)
    seats = list(runner.workspace.scratch.glob("*/workers/attempt-0001/*.seat.json"))
    pids = [json.loads(seat.read_text())["pid"] for seat in seats]
    assert len(pids) == 2
    with cluster.frozen():
        assert len(steps()) < 12
        cluster.kill_an_executor()
    assert runner.finish(run_id).state == "failed"
    failure = runner.tasks(run_id)["train"].failure
    assert failure is not None
    assert "lost" in failure["message"]
    assert "resume" in failure["hint"]
    _, left = psutil.wait_procs([psutil.Process(p) for p in pids if psutil.pid_exists(p)], timeout=WAIT_S)
    assert left == []

    launch.resume(runner.workspace, runner.store, run_id)
    launch.wait_started(runner.workspace, runner.store, run_id, 2)
    runner.finish_done(run_id)
    model = runner.tasks(run_id)["train"].outputs["out"]
    history = json.loads((Path(model.uri) / "history.json").read_text())
    assert len(history["epochs"] if isinstance(history, dict) else history) == 3
    reported = Counter(steps())
    assert set(reported) == set(range(1, 13))
    assert all(task.attempt == 1 for name, task in runner.tasks(run_id).items() if name != "train")
