"""Runs on a real standalone cluster: one master and two workers on the loopback, executors that die under the work."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from running import Runner
from spark_cluster import SparkCluster

import nodes
from engine import launch
from engine.catalog import build_catalog
from engine.events import Metrics
from engine.pipeline import Edge, Node, Pipeline
from engine.profiles import find_profile
from engine.runs import RunStore
from engine.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SHAPE = (32, 32, 4, 4)
"""64 kB a volume: 15 in a part of 1 MB."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as out:
        yield out


@pytest.fixture
def runner(cluster: SparkCluster, workspace: Workspace, store: RunStore) -> Runner:
    """Runs under the cluster's profile, with the built-in nodes; each run takes one core of each worker."""
    (workspace.root / "profiles.toml").write_text(cluster.profile_toml())
    return Runner(build_catalog(nodes.BUILT_IN), workspace, store, find_profile("cluster", workspace))


def folder_of(root: Path, count: int, first: int = 0) -> dict[str, bytes]:
    """A folder of volumes, all different, in two classes; their bytes by id."""
    root.mkdir()
    rng = np.random.default_rng(first)
    out: dict[str, bytes] = {}
    for number in range(first, first + count):
        volume = rng.random(SHAPE, np.float32)
        np.save(root / f"v{number:04d}.npy", volume)
        out[f"v{number:04d}.npy"] = volume.tobytes()
    lines = [f"{name},{number % 2}" for number, name in enumerate(out)]
    (root / "labels.csv").write_text("file,label\n" + "\n".join(lines) + "\n")
    return out


def etl(source: Path, *, table: str = "", optimize_mb: int = 3) -> Pipeline:
    return Pipeline(
        name=f"etl-{source.name}",
        nodes=[
            Node(id="volumes", type="VolumeFolder", params={"folder": str(source)}),
            Node(id="convert", type="NumpyToParquet", params={"target_file_mb": 1}),
            Node(id="table", type="ParquetToDelta", params={"table": table}),
            Node(id="optimize", type="OptimizeDelta", params={"target_file_mb": optimize_mb}),
        ],
        edges=[
            Edge.model_validate({"from": a, "to": b})
            for a, b in (
                ("volumes.out", "convert.files"),
                ("convert.out", "table.parquet"),
                ("table.out", "optimize.table"),
            )
        ],
    )


def rows(uri: str) -> dict[str, bytes]:
    """Bytes by id of the newest version. Fails on a doubled id."""
    from deltalake import DeltaTable

    found = DeltaTable(uri).to_pyarrow_table(columns=["id", "volume"])
    out = dict(zip(found["id"].to_pylist(), found["volume"].to_pylist(), strict=True))
    assert len(out) == found.num_rows
    return out


def soon(there: Callable[[], Any], what: str, alive: Callable[[], bool]) -> Any:
    """Wait for something to become true, looking often, as long as the run lives."""
    until = time.monotonic() + 500
    while time.monotonic() < until and alive():
        if out := there():
            return out
        time.sleep(0.005)
    raise AssertionError(f"never seen: {what}")


def size_of(path: Path) -> int:
    """In bytes; nothing once it is gone, as files are that were written aside."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_an_executor_killed_in_the_conversion_and_one_in_optimize(
    cluster: SparkCluster, runner: Runner, tmp_path: Path
) -> None:
    wanted = folder_of(tmp_path / "in", 600)
    run_id = runner.start(etl(tmp_path / "in"))

    def strike(node: str, made: Callable[[], int], whole: int) -> None:
        def alive() -> bool:
            return runner.store.run(run_id).active

        soon(made, f"the first file of {node}", alive)
        with cluster.frozen():
            assert 0 < made() < whole
            cluster.kill_an_executor()

    data = runner.workspace.data

    def parts() -> int:
        return len(list(data.glob("NumpyToParquet/*/parts/*.parquet")))

    def rewritten() -> int:
        # A bin's file holds several parts.
        return sum(size_of(p) > 1_500_000 for p in data.glob("ParquetToDelta/*/table/**/*.parquet"))

    strike("convert", parts, 40)
    strike("optimize", rewritten, 13)
    ended = runner.finish(run_id)
    assert ended.state == "done", cluster.log()
    tasks = runner.tasks(run_id)
    assert {name: task.attempt for name, task in tasks.items()} == dict.fromkeys(tasks, 1)
    table = tasks["optimize"].outputs["out"]
    assert rows(table.uri) == wanted
    assert table.files < tasks["table"].outputs["out"].files


def test_two_runs_write_one_table_at_once(cluster: SparkCluster, runner: Runner, tmp_path: Path) -> None:
    profile = cluster.profile_toml("half", spark_cores_max="1")
    (runner.workspace.root / "profiles.toml").write_text(profile)
    runner.profile = find_profile("half", runner.workspace)
    table = tmp_path / "together"
    wanted = folder_of(tmp_path / "one", 60) | folder_of(tmp_path / "two", 60, first=60)
    # The second is planned and started while the first has only begun. (Without OptimizeDelta, which rightly
    # refuses a table that another run has changed since.)
    runs = [runner.start(etl(tmp_path / name, table=str(table)), end="table") for name in ("one", "two")]
    assert [runner.finish(run_id).state for run_id in runs] == ["done", "done"], cluster.log()
    assert rows(str(table)) == wanted


def test_training_with_two_workers_and_a_lost_executor(cluster: SparkCluster, runner: Runner) -> None:
    """Clean failure within the run, then `runs resume` trains the rest: each step once."""
    training = {
        "workers": 2,
        "width": 16,
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
            Node(id="table", type="ParquetToDelta"),
            Node(id="train", type="TrainResNet3D", params=training),
        ],
        edges=[
            Edge.model_validate({"from": a, "to": b})
            for a, b in (("make.out", "convert.files"), ("convert.out", "table.parquet"), ("table.out", "train.data"))
        ],
    )
    run_id = runner.start(document)

    def steps() -> list[int]:
        events = [e for _, e in runner.store.events(run_id, kinds=("metrics",))]
        return [e.step for e in events if isinstance(e, Metrics) and e.node == "train" and "step_loss" in e.values]

    soon(lambda: len(steps()) >= 2, "two steps", lambda: runner.store.run(run_id).active)
    seats = list(runner.workspace.scratch.glob("*/workers/attempt-0001/*.seat.json"))
    pids = [json.loads(seat.read_text())["pid"] for seat in seats]
    assert len(pids) == 2
    cluster.kill_an_executor()
    assert runner.finish(run_id).state == "failed"
    failure = runner.tasks(run_id)["train"].failure
    assert failure is not None
    assert "lost" in failure["message"]
    assert "resume" in failure["hint"]
    _, left = psutil.wait_procs([psutil.Process(p) for p in pids if psutil.pid_exists(p)], timeout=30)
    assert left == []

    launch.resume(runner.workspace, runner.store, run_id)
    launch.wait_started(runner.workspace, runner.store, run_id, 2)
    assert runner.finish(run_id).state == "done", cluster.log()
    model = runner.tasks(run_id)["train"].outputs["out"]
    history = json.loads((Path(model.uri) / "history.json").read_text())
    assert len(history["epochs"] if isinstance(history, dict) else history) == 3
    told = Counter(steps())
    assert set(told) == set(range(1, 13))
    assert all(task.attempt == 1 for name, task in runner.tasks(run_id).items() if name != "train")
