"""Runs whose tasks share a Spark session: kept, lost, cancelled and killed, with nothing left behind."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from building import box, pipeline
from running import Runner, end_active
from system_sessions import members, wait_gone
from waiting import wait_until

from engine.catalog import Catalog
from engine.declare.events import Message, SparkSession, TaskStarted
from engine.profiles import Profile
from engine.run import launch
from engine.store.runs import RunStore
from engine.workspace import Workspace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our interpreter with third-party packages only, as executors elsewhere have it: -S leaves out where we lie."""
    out = tmp_path_factory.mktemp("bare") / "python"
    packages = sysconfig.get_path("purelib")
    out.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    out.chmod(0o755)
    return out


@pytest.fixture
def runner(probes: Catalog, workspace: Workspace, store: RunStore, bare_python: Path) -> Iterator[Runner]:
    profile = Profile(
        name="test-spark", backend="spark", master="local[2]", cores=2, memory_bytes=4 << 30, parallel_tasks=4,
        spark={"spark.driver.memory": "512m", "spark.pyspark.python": str(bare_python)},
    )  # fmt: skip
    yield Runner(probes, workspace, store, profile)
    end_active(store)
    for folder in (workspace.root / "runs").iterdir():
        assert not list(folder.glob("spark-*")), "Spark's temporary files are left"


def _leaders(runner: Runner, run_id: str, worker: int) -> list[int]:
    """The leaders of the sessions that a run's work on Spark is in: its worker's, the daemon's, Java's."""
    daemons = [e.java for e in _events(runner, run_id, SparkSession) if e.java and psutil.pid_exists(e.java)]
    return [worker, *daemons, *(java.pid for daemon in daemons for java in psutil.Process(daemon).children())]


def _events(runner: Runner, run_id: str, kind: type) -> list:
    return [e for _, e in runner.store.events(run_id) if isinstance(e, kind)]


@pytest.mark.needs(part="java")
@pytest.mark.usefixtures("forked_runs")
def test_tasks_share_one_session_and_a_failing_one_leaves_it_to_the_others(runner: Runner) -> None:
    document = pipeline(
        box("a", "Make", text="left", steps=5, step_s=0.05),
        box("b", "Join"),  # runs on the driver's machine
        box("told", "Fail", how="told"),
        box("once", "Fail", how="once"),
        box("lost", "Fail", how="lost"),
        box("error", "Fail", how="error"),
        box("sql", "Fail", how="sql"),
        box("late", "Make", text="late", steps=600, step_s=0.05, timeout_s=2),
        box("end", "Make", text="end"),
        wires="a.out>b.first",
    )
    run, tasks = runner.run(document)
    assert run.state == "failed"
    assert {n: t.state for n, t in tasks.items()} == {
        "a": "done", "b": "done", "told": "failed", "once": "done", "lost": "done", "error": "failed", "sql": "failed",
        "late": "failed", "end": "done",
    }  # fmt: skip
    assert runner.text(tasks["b"]) == "left"
    # One session, one process; Join in a worker of its own.
    pids = {e.node: e.pid for e in _events(runner, run.run_id, TaskStarted)}
    assert len({pid for node, pid in pids.items() if node != "b"}) == 1
    assert pids["b"] != pids["a"]
    backends = {e.node: e.backend for e in _events(runner, run.run_id, TaskStarted)}
    assert (backends["a"], backends["b"]) == ("spark", "embedded")
    sessions = _events(runner, run.run_id, SparkSession)
    assert [e.state for e in sessions] == ["live", "ended"]
    assert sessions[0].url.startswith("http://127.0.0.1:")
    # A Voxelflow error comes as itself, at once; others as themselves after Spark's four attempts.
    assert tasks["told"].failure["message"] == "the probe was told to fail"
    assert tasks["told"].failure["hint"] == "Tell it otherwise."
    assert tasks["told"].failure["parameter"] == "how"
    assert tasks["error"].failure["message"] == "ValueError: an error of its own at attempt 4"
    assert "did not finish within 2 s" in tasks["late"].reason
    assert "the query was told to fail" in tasks["sql"].failure["message"]
    assert "\tat " not in tasks["sql"].failure["message"]
    # Each has its own log, with the executor's traceback; Java's words are elsewhere.
    log = runner.workspace.log_file(run.run_id, "told").read_text()
    assert "on an executor" in log
    assert "in __call__" in log
    assert "wrote left" in runner.workspace.log_file(run.run_id, "a").read_text()
    assert "wrote left" not in log
    assert (runner.workspace.run_folder(run.run_id) / "spark.log").exists()
    # Progress from the executors reached the node.
    last = tasks["a"].progress
    assert (last.done, last.total, last.label) == (5, 5, "on executors")
    started = [e for e in _events(runner, run.run_id, Message) if "started in" in e.text]
    assert [e.node for e in started] == ["a"]
    wait_gone(pids["a"], sessions[0].java)  # a task failed, so Java went with it


@pytest.mark.needs(part="java")
@pytest.mark.usefixtures("forked_runs")
def test_a_session_that_dies_fails_its_task_and_a_new_one_does_the_rest(runner: Runner, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    document = pipeline(
        box("java", "Fail", how="java"),
        box("memory", "Fail", how="memory"),
        box("again", "Fail", how="exit", marker=str(marker), times=1, retries=1),
        box("end", "Make", text="end"),
    )
    run, tasks = runner.run(document)
    assert {n: t.state for n, t in tasks.items()} == {
        "java": "failed", "memory": "failed", "again": "done", "end": "done",
    }  # fmt: skip
    assert "Java ran out of memory" in tasks["memory"].reason
    assert "spark.driver.memory" in tasks["memory"].reason
    assert "the Spark session has ended" in tasks["java"].reason
    assert "runs resume" in tasks["java"].failure["hint"]
    assert "spark.log" in tasks["java"].failure["hint"]
    assert tasks["again"].attempt == 2
    states = [e.state for e in _events(runner, run.run_id, SparkSession)]
    assert states == ["live", "ended"] * 4
    wait_gone(*{e.pid for e in _events(runner, run.run_id, TaskStarted)})
    daemons = [e.java for e in _events(runner, run.run_id, SparkSession) if e.java]
    wait_gone(*daemons[:-1])
    assert members(*daemons[-1:])  # the last one waits for the next run


@pytest.mark.needs(part="java")
def test_cancel_ends_the_jobs_and_every_process(runner: Runner) -> None:
    run_id = runner.start(pipeline(box("slow", "Fail", how="long-sql")))
    pid = runner.wait_for_progress(run_id, "slow").pid
    _cancel(runner, run_id, pid)
    # It stopped by itself: the session was ended in good order, not killed.
    assert runner.tasks(run_id)["slow"].state == "cancelled"
    log = runner.workspace.log_file(run_id, "slow").read_text()
    assert "info: cancelled on request\n" in log


def _cancel(runner: Runner, run_id: str, pid: int | None) -> None:
    """Cancel the run whose task is at work in that process, and wait until all of its processes are gone."""
    assert pid is not None
    leaders = _leaders(runner, run_id, pid)
    assert len(members(*leaders)) > 2
    launch.cancel(runner.store, run_id)
    assert runner.finish(run_id).state == "cancelled"
    wait_gone(*leaders)


def test_without_java_the_node_says_so_and_others_go_on(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    run, tasks = runner.run(pipeline(box("a", "Make", retries=1), box("b", "Make", text="b")))
    assert {n: (t.state, t.attempt) for n, t in tasks.items()} == {"a": ("failed", 2), "b": ("failed", 1)}
    assert tasks["a"].reason == "JAVA_HOME is /no/such/java, and there is no /no/such/java/bin/java"
    assert run.error.endswith("Set JAVA_HOME to a Java, or unset it.")


@pytest.mark.needs(part="java")
def test_a_killed_run_leaves_no_process_and_resume_finishes(runner: Runner, probe_gate: Path) -> None:
    run_id, worker = runner.start_slow()
    leaders = _leaders(runner, run_id, worker)
    at_work = members(*leaders)
    assert len(at_work) > 4  # our worker and daemon, Java, and Python's daemon and workers
    open_to = {c.laddr.ip for c in psutil.net_connections("tcp") if c.pid in at_work and c.status == "LISTEN"}
    assert open_to
    assert open_to <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert launch.kill_run(runner.workspace, runner.store.run(run_id))
    wait_gone(*leaders)
    probe_gate.touch()
    run, tasks = runner.resume(run_id)
    assert run.state == "done"
    assert (tasks["first"].attempt, tasks["slow"].attempt) == (1, 2)
    assert runner.text(tasks["end"]) == "made+slow"


@pytest.mark.needs(part="java")
def test_cancel_ends_every_process_of_a_task_that_does_not_hear_it(runner: Runner) -> None:
    """Here, so that it may take the Java that the test before has left."""
    run_id = runner.start(pipeline(box("slow", "Fail", how="hang")))
    wait_until(lambda: _events(runner, run_id, SparkSession), "a Spark session")
    _cancel(runner, run_id, runner.wait_for(run_id, "slow", "running").pid)


@pytest.mark.needs(part="java")
@pytest.mark.usefixtures("forked_runs")
def test_the_next_run_takes_the_java_of_the_one_before_and_finds_no_trace_of_it(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"{os.environ['JDK_JAVA_OPTIONS']} -Djava.io.tmpdir={unpacked}")
    found, java, applications, logs = [], [], set(), []
    monkeypatch.setenv("SECRET_OF_THIS_TEST", "hunter2")
    settings = runner.profile.spark | {"spark.hadoop.fs.s3a.secret.key": "${SECRET_OF_THIS_TEST}"}
    runner.profile = runner.profile.model_copy(update={"spark": settings})
    for number in (1, 2):
        monkeypatch.setenv("VOXELFLOW_TEST_TRACE", f"run {number}")
        run, tasks = runner.run(pipeline(box("trace", "Traces", number=number)))
        assert run.state == "done", run.error
        found.append(json.loads(runner.text(tasks["trace"])))
        live, ended = _events(runner, run.run_id, SparkSession)
        java.append(live.java)
        applications.add(live.application)
        logs.append((runner.workspace.run_folder(run.run_id) / "spark.log").read_text())
        [said] = [e.text for e in _events(runner, run.run_id, Message) if "started in" in e.text]
        assert ("in the Java of an earlier run" in said) == (number == 2)
        assert ended.state == "ended"
        [program] = psutil.Process(live.java).children()
        assert program.name() == "java"
        assert "hunter2" not in " ".join(program.cmdline() + psutil.Process(live.java).cmdline())
        assert members(program.pid) == [program.pid]  # and none of Spark's Python processes
    assert java[0] == java[1] > 0
    assert len(applications) == 2
    assert [seen.pop("python") for seen in found] == [["run 1", None], ["run 2", None]]
    assert found[0] == found[1]
    assert found[1]["views"] == []
    assert found[1]["property"] is None
    assert found[1]["secret"] == "hunter2"
    assert found[1]["shown"] == []  # our variables may be secrets, and everyone on the machine can open Spark's UI
    assert all("Setting Spark log level" in log for log in logs)
    run, _ = runner.run(pipeline(box("fails", "Fail", how="told")))
    assert run.state == "failed"
    assert _events(runner, run.run_id, SparkSession)[0].java == java[0]
    wait_gone(java[0], program.pid)  # what went wrong may be in Java, and stay there
    assert not list(unpacked.iterdir())
