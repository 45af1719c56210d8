"""YARN for real: a run with its driver here, the exported file with its driver in the cluster; what is asked for."""

from __future__ import annotations

import getpass
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest
from cluster_runs import etl, folder_of, rows, soon
from exported_runs import made, run
from running import Runner
from waiting import WAIT_S, wait_until
from yarn_cluster import YarnCluster

import nodes
from engine.catalog import build_catalog
from engine.document.pipeline import Edge, Node, Pipeline, write_pipeline
from engine.errors import UsageError
from engine.profiles import find_profile
from engine.run.launch import cancel
from engine.run.worker_process import PROGRAM
from engine.spark import yarn
from engine.spark.jars import delta_jars
from engine.store.runs import RunStore
from engine.workspace import Workspace, trust

ASKED_S = 0.2
"""Between two questions to the resource manager: each costs it more than all else that it does meanwhile."""

TINY = """
import keras
from keras import layers


def build(shape, outputs):
    x = inputs = keras.Input(shape)
    x = layers.BatchNormalization()(layers.Conv3D(2, 3)(x))
    return keras.Model(inputs, layers.Dense(outputs)(layers.GlobalAveragePooling3D()(x)))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    with YarnCluster(tmp_path_factory.mktemp("yarn")) as out:
        yield out


@pytest.mark.slow
@pytest.mark.needs(part="java")
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("forked_runs")
def test_in_client_mode_executors_come_with_the_tasks_and_a_killed_one_loses_nothing(
    cluster: YarnCluster, workspace: Workspace, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is the run's worker. Without a shuffle service. One executor at first, by the profile's own limits;
    more while there is work for them, and another in the place of one that is killed."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.configuration))
    (workspace.root / "profiles.toml").write_text(
        cluster.profile_toml(
            spark_dynamicAllocation_enabled="true",
            spark_dynamicAllocation_shuffleTracking_enabled="true",
            spark_dynamicAllocation_minExecutors="1",
            spark_dynamicAllocation_initialExecutors="1",
            spark_dynamicAllocation_maxExecutors="2",
            spark_dynamicAllocation_schedulerBacklogTimeout="1s",
            spark_executor_instances="1",
        )
    )
    runner = Runner(build_catalog(nodes.BUILT_IN), workspace, store, find_profile("yarn", workspace))
    wanted = folder_of(tmp_path / "in", 600)
    before = len(cluster.applications())
    run_id = runner.start(etl(tmp_path / "in"))
    most: list[int] = []

    def grown() -> bool:
        # The application master is one of the containers.
        most.extend(app["runningContainers"] - 1 for app in cluster.applications()[before:])
        return max(most, default=0) >= 2

    soon(grown, "a second executor", store, run_id, pause_s=ASKED_S)
    cluster.kill_an_executor()
    runner.finish_done(run_id)
    assert max(most) == 2
    tasks = runner.tasks(run_id)
    assert {name: task.attempt for name, task in tasks.items()} == dict.fromkeys(tasks, 1)
    assert rows(tasks["optimize"].outputs["out"].uri) == wanted
    (ended,) = cluster.applications()[before:]
    assert (ended["state"], ended["finalStatus"]) == ("FINISHED", "SUCCEEDED")


@pytest.mark.slow
@pytest.mark.needs(part="java")
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("forked_runs")
def test_in_cluster_mode_an_exported_pipeline_makes_the_table(
    cluster: YarnCluster, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is YARN's application master, started by the line in the file's head."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.configuration))
    (workspace.root / "profiles.toml").write_text(cluster.profile_toml())
    wanted = folder_of(tmp_path / "in", 100)
    before = len(cluster.applications())
    write_pipeline(etl(tmp_path / "in"), tmp_path / "etl.json")
    run(*PROGRAM, "export", "etl.json", "--workspace", workspace.root, "--profile", "yarn",
        folder=tmp_path)  # fmt: skip
    lines = (tmp_path / "etl-in.py").read_text().split('"""')[1].splitlines()
    (line,) = (line for line in lines if "--deploy-mode cluster" in line)
    program, *arguments = shlex.split(line.split("   #")[0].split(" --out ")[0])
    # Those that are here already, instead of the same from Maven.
    at = arguments.index("--packages")
    assert arguments[at + 1].startswith("io.delta:delta-spark_")
    arguments[at : at + 2] = ["--jars", ",".join(map(str, delta_jars({})))]
    submit = Path(pyspark.__file__).parent / "bin" / program
    # One executor will do: none is lost here.
    arguments[arguments.index("spark.executor.instances=2")] = "spark.executor.instances=1"
    run(submit, *arguments, "--out", tmp_path / "out", folder=tmp_path, PYSPARK_PYTHON=sys.executable)
    assert rows(made(tmp_path / "out", "optimize").uri) == wanted, cluster.log()
    (ended,) = cluster.applications()[before:]
    assert (ended["applicationType"], ended["state"], ended["finalStatus"]) == ("SPARK", "FINISHED", "SUCCEEDED")


@pytest.mark.slow
@pytest.mark.needs(part="java")
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("forked_runs")
def test_a_model_is_trained_and_asked_in_the_cluster_and_a_cancel_leaves_no_application(
    cluster: YarnCluster, workspace: Workspace, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of the training in each of two containers, then the predictions' process below a task of Spark's. The
    run is cancelled amid the work that comes after it."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.configuration))
    (workspace.root / "profiles.toml").write_text(cluster.profile_toml())
    workspace.my_models.mkdir(exist_ok=True)
    model_file = workspace.my_models / "tiny.py"
    model_file.write_text(TINY)
    trust(workspace)
    runner = Runner(build_catalog(nodes.BUILT_IN), workspace, store, find_profile("yarn", workspace))
    training = {"workers": 2, "model_file": str(model_file), "epochs": 2, "batch_size": 4}
    document = Pipeline(
        name="train-on-yarn",
        nodes=[
            Node(id="make", type="SyntheticVolumes", params={"count": 40, "shape": [8, 8, 8, 1]}),
            Node(id="convert", type="NumpyToParquet"),
            Node(id="train", type="TrainResNet3D", params=training),
            Node(id="predict", type="BatchPredict", params={"rows_per_part": 40}),
            Node(id="volumes", type="VolumeFolder", params={"folder": str(tmp_path / "in")}),
            Node(id="then", type="RunAfter"),
            Node(id="more", type="NumpyToParquet", params={"target_file_mb": 1}),
        ],
        edges=[
            Edge.model_validate({"from": a, "to": b})
            for a, b in (
                ("make.out", "convert.files"),
                ("convert.out", "train.data"),
                ("convert.out", "predict.data"),
                ("train.out", "predict.model"),
                ("predict.out", "then.after"),
                ("volumes.out", "then.files"),
                ("then.out", "more.files"),
            )
        ],
    )
    folder_of(tmp_path / "in", 600)
    before = len(cluster.applications())
    run_id = runner.start(document)
    most: list[int] = []

    def trained() -> bool:
        most.extend(app["runningContainers"] for app in cluster.applications()[before:])
        task = runner.tasks(run_id).get("train")
        return task is not None and task.state == "done"

    soon(trained, "the trained model", store, run_id, pause_s=ASKED_S)
    runner.wait_for(run_id, "predict", "done")
    runner.wait_for_progress(run_id, "more")
    cancel(store, run_id)
    assert runner.finish(run_id).state == "cancelled"
    assert max(most) == 3  # the application master and an executor for each worker
    tasks = runner.tasks(run_id)
    assert tasks["more"].state == "cancelled"
    assert tasks["predict"].outputs["out"].count == 40
    log = (workspace.run_folder(run_id) / "logs" / "train.log").read_text()
    assert [line for line in log.splitlines() if line.startswith("--- ")] == ["--- worker 1", "--- worker 2"]
    wait_until(lambda: _state(cluster, before) in ("FINISHED", "KILLED"), "the application's end", pause_s=ASKED_S)


@pytest.mark.slow
@pytest.mark.needs(part="java")
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("forked_runs")
def test_a_cancelled_run_that_waits_for_a_place_leaves_no_application(
    cluster: YarnCluster, workspace: Workspace, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a full cluster has not started: it would never be ended."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.configuration))
    profile = cluster.profile_toml(spark_yarn_tags="theirs", spark_executor_instances="1")
    (workspace.root / "profiles.toml").write_text(profile)
    runner = Runner(build_catalog(nodes.BUILT_IN), workspace, store, find_profile("yarn", workspace))
    folder_of(tmp_path / "in", 20)
    before = len(cluster.applications())
    with cluster.full():
        run_id = runner.start(etl(tmp_path / "in"))
        soon(
            lambda: _state(cluster, before) == "ACCEPTED",
            "the application that waits for a place", store, run_id, pause_s=ASKED_S,
        )  # fmt: skip
        assert "theirs" in cluster.applications()[-1]["applicationTags"].split(",")
        cancel(store, run_id)
        assert runner.finish(run_id).state == "cancelled"
        wait_until(lambda: _state(cluster, before) == "KILLED", "the end of the application", pause_s=ASKED_S)
    wait_until(
        lambda: "killed on YARN: application_" in (workspace.run_folder(run_id) / "spark.log").read_text(),
        "what Spark's log says of it",
    )


@pytest.mark.slow
@pytest.mark.needs(part="java")
@pytest.mark.timeout(900)
def test_a_supervisor_that_is_killed_leaves_no_application(
    cluster: YarnCluster, workspace: Workspace, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that is killed with all its workers, while the application waits for a place in a full cluster."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.configuration))
    (workspace.root / "profiles.toml").write_text(cluster.profile_toml())
    runner = Runner(build_catalog(nodes.BUILT_IN), workspace, store, find_profile("yarn", workspace))
    folder_of(tmp_path / "in", 20)
    with cluster.full():
        for together in (False, True):
            before = len(cluster.applications())
            run_id = runner.start(etl(tmp_path / "in"))
            soon(
                lambda before=before: _state(cluster, before) == "ACCEPTED",
                "the application that waits for a place", store, run_id, pause_s=ASKED_S,
            )  # fmt: skip
            supervisor = psutil.Process(store.run(run_id).pid)
            workers = [child for child in supervisor.children() if "_worker" in child.cmdline()] if together else []
            for process in (supervisor, *workers):
                process.suspend()  # so that none sees another one's end
            for process in (supervisor, *workers):
                process.kill()
            wait_until(
                lambda before=before: _state(cluster, before) == "KILLED", "the application's end", pause_s=ASKED_S
            )


def _state(cluster: YarnCluster, before: int) -> str:
    """Of the one application that came after so many; "" as long as there is none."""
    (app,) = cluster.applications()[before:] or [{"state": ""}]
    return str(app["state"])


@pytest.fixture
def pretended_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java whose YARN lists one application, and kills it."""
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        """#!/bin/sh
case "$*" in
    *-version) echo 'openjdk version "17.0.15" 2025-04-15' >&2;;
    *"-list -appTags a-tag"*) echo "application_1795478400000_0007 Voxelflow etl";;
esac
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))


@pytest.mark.slow
@pytest.mark.usefixtures("pretended_cluster")
@pytest.mark.parametrize("ending", ["dismissed", "asked", "alone"])
def test_a_guard_has_the_application_killed_when_asked_to_and_when_its_parent_is_gone(
    tmp_path: Path, ending: str
) -> None:
    log = tmp_path / "spark.log"
    code = (
        "import os, pathlib; from engine.spark.yarn import Guard; "
        f"guard = Guard('a-tag', pathlib.Path({str(log)!r})); print(guard._process.pid, flush=True); "
        + {"dismissed": "guard.dismiss()", "asked": "guard.end_applications()", "alone": "os.abort()"}[ending]
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.PIPE, text=True, timeout=WAIT_S)
    assert (done.returncode == 0) == (ending != "alone")
    wait_until(lambda: not psutil.pid_exists(int(done.stdout)), "the end of the guard")
    assert log.read_text() == ("" if ending == "dismissed" else "killed on YARN: application_1795478400000_0007\n")


@pytest.mark.parametrize(
    ("listed", "killed"),
    [
        (
            "Total number of applications (...):2\n  Application-Id\tApplication-Name\n"
            "application_1795478400000_0007\tVoxelflow etl run\tSPARK\nat http://application_1_2\n"
            "application_1795478400000_0011\tVoxelflow etl run\tSPARK\n",
            ["application_1795478400000_0007", "application_1795478400000_0011"],
        ),
        ("Total number of applications (...):0\n  Application-Id\tApplication-Name\n", []),
    ],
)
def test_the_applications_of_a_tag_are_killed(listed: str, killed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def ask(*words: str) -> str:
        asked.append(words)
        return listed

    monkeypatch.setattr(yarn, "_ask", ask)
    assert yarn.end_applications("a-tag") == killed
    assert asked[0][:3] == ("-list", "-appTags", "a-tag")
    assert asked[1:] == ([("-kill", *killed)] if killed else [])


def test_without_the_cluster_s_configuration_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing says where the YARN cluster of profile far is") as caught:
        yarn.check("far", {})
    assert "`export HADOOP_CONF_DIR=" in caught.value.hint
    with pytest.raises(UsageError, match=f"there is no yarn-site.xml in {tmp_path}"):
        yarn.check("far", {"HADOOP_CONF_DIR": str(tmp_path)})
    (tmp_path / "yarn-site.xml").touch()
    yarn.check("far", {"YARN_CONF_DIR": str(tmp_path)})


@pytest.mark.parametrize(
    ("written", "staging"),
    [
        ("<property><name>fs.defaultFS</name><value>hdfs://h:8020/</value></property>", "hdfs://h:8020/user/{user}"),
        ("<property><name>fs.defaultFS</name><value>file:///</value></property>", ""),
        ("<property><name>other</name></property>", ""),
        ("<broken", ""),
        ("", ""),
    ],
)
def test_what_the_cluster_takes_goes_to_its_own_file_system(tmp_path: Path, written: str, staging: str) -> None:
    if written:
        (tmp_path / "core-site.xml").write_text(f"<configuration>{written}</configuration>")
    found = yarn.settings({"HADOOP_CONF_DIR": str(tmp_path)})
    assert found.pop("spark.hadoop.fs.defaultFS") == "file:///"
    assert json.dumps(found) == json.dumps(
        {"spark.yarn.stagingDir": staging.format(user=getpass.getuser())} if staging else {}
    )
