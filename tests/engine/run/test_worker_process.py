"""A worker never keeps its supervisor waiting; the one with a Spark session starts and ends when it should."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from building import box, pipeline
from running import Runner
from waiting import WAIT_S, wait_until

import voxelflow
from engine.catalog import build_catalog
from engine.declare.events import Event, Failure
from engine.document.plan import Plan, PlannedTask
from engine.profiles import Profile
from engine.run import worker_process
from engine.run.job import slow_import
from engine.run.task import TaskMessage
from engine.run.worker import SparkOrder
from engine.run.worker_process import IDLE_S, SparkWorker, WorkerProcess
from engine.store.runs import RunStore
from engine.workspace import Workspace, trust

LEAVER = '''
import os
import time

from voxelflow import Report, TaskContext, node


@node("Leave", version=1, category="Probes")
def leave(*, pid: str = "", ctx: TaskContext) -> Report:
    """Leave a process behind that has all our files open and is in no group of ours."""
    child = os.fork()
    if child == 0:
        os.setsid()
        time.sleep(120)
        os._exit(0)
    with open(pid, "w") as file:
        file.write(str(child))
    while os.getsid(child) != child:
        time.sleep(0.01)
    path = ctx.out / "report.txt"
    path.write_text("left")
    return Report(uri=str(path))
'''


ENDS = '''
import os

from voxelflow import Report, TaskContext, node


@node("End", version=1, category="Probes")
def end(*, how: str, ctx: TaskContext) -> Report:
    """End without a result."""
    if how == "exit":
        os._exit(0)
    file = os.fsdecode(b"v\\xff.npy")
    ctx.info(f"reading {file}")
    raise ValueError(f"{file} is cut short")
'''


MESSAGE = TaskMessage(
    run_id="r", node="n", node_type="T", version=1, backend="embedded", params={}, inputs={}, fingerprint="f",
    out="o", shared="s", scratch="s", cores=1, memory_bytes=1,
)  # fmt: skip


def started(workspace: Workspace, folder: Path) -> tuple[WorkerProcess, queue.Queue[Event | None]]:
    heard: queue.Queue[Event | None] = queue.Queue()
    return WorkerProcess(workspace.root, folder / "log", (), lambda _, event: heard.put(event)), heard


@pytest.mark.slow
@pytest.mark.parametrize("torn", [MESSAGE.model_dump_json()[:40], MESSAGE.model_dump_json()[40:]])
def test_a_task_that_was_cut_in_two_is_a_failure(workspace: Workspace, tmp_path: Path, torn: str) -> None:
    worker, heard = started(workspace, tmp_path)
    try:
        worker.send(torn)
        failure = heard.get(timeout=WAIT_S)
        assert isinstance(failure, Failure)
        assert failure.message.startswith("its worker was sent a task that cannot be read (")
        assert "runs resume" in failure.hint
        assert heard.get(timeout=WAIT_S) is None
        assert worker.exit_status == 1
    finally:
        worker.kill()


@pytest.mark.parametrize(
    ("node_type", "params", "slow"),
    [
        ("TrainResNet3D", {}, "TensorFlow"),
        ("RegisterModel", {}, "MLflow"),
        ("NumpyToParquet", {}, ""),
        ("VolumeFolder", {}, ""),
    ],
)
def test_what_imports_for_seconds_is_known_by_what_the_node_needs(node_type: str, params: dict, slow: str) -> None:
    found = voxelflow.catalog().find(node_type)
    assert found is not None
    task = PlannedTask.model_construct(node="n", imports=found.imports, params=params)
    assert slow_import(task, found) == slow


def test_a_task_too_long_for_the_pipe_waits_for_no_worker(workspace: Workspace, tmp_path: Path) -> None:
    worker, heard = started(workspace, tmp_path)
    psutil.Process(worker.pid).suspend()  # as one whose imports hang
    try:
        message = MESSAGE.model_copy(update={"params": {"text": "x" * 1_000_000}})
        start = threading.Thread(target=worker.start, args=(message,), daemon=True)
        start.start()
        start.join(WAIT_S)
        assert not start.is_alive()
        worker.cancel()
    finally:
        worker.kill()
    assert heard.get(timeout=WAIT_S) is None


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_process_that_a_node_left_behind_does_not_keep_the_run(
    workspace: Workspace, store: RunStore, tmp_path: Path
) -> None:
    (workspace.my_nodes / "leaver.py").write_text(LEAVER)
    trust(workspace)
    runner = Runner(build_catalog((), workspace), workspace, store)
    run_id = runner.start(pipeline(box("a", "Leave", pid=str(tmp_path / "pid"))))
    task = runner.wait_for(run_id, "a", "running", "done")
    wait_until(lambda: not runner.store.run(run_id).active)
    left = psutil.Process(int((tmp_path / "pid").read_text()))
    try:
        assert left.status() != psutil.STATUS_ZOMBIE  # it does live, and has the worker's pipe open
        assert runner.store.run(run_id).state == "done", task
    finally:
        left.kill()
    assert runner.text(runner.tasks(run_id)["a"]) == "left"


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("exit", "its process ended with exit status 0 before it was done"),  # as a library in C may
        ("name", r"ValueError: v\udcff.npy is cut short"),
    ],
)
def test_a_task_that_sent_no_result_failed_and_says_why(
    workspace: Workspace, store: RunStore, how: str, why: str
) -> None:
    (workspace.my_nodes / "ends.py").write_text(ENDS)
    trust(workspace)
    run, tasks = Runner(build_catalog((), workspace), workspace, store).run(pipeline(box("a", "End", how=how)))
    assert (run.state, tasks["a"].state, tasks["a"].reason) == ("failed", "failed", why)
    assert store.results.all() == []


class _Pretended:
    """Stands for a `WorkerProcess`."""

    holds_spark = True

    def __init__(self, *given: Any) -> None:
        self.order: SparkOrder = given[4]
        self.heard: list[str] = []

    def finish(self) -> None:
        self.heard.append("end")

    def kill(self) -> None:
        self.heard.append("kill")


class _Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(worker_process, "time", clock)
    monkeypatch.setattr(worker_process, "WorkerProcess", _Pretended)
    return clock


@pytest.fixture
def worker(workspace: Workspace, clock: _Clock) -> SparkWorker:
    profile = Profile(name="p", backend="spark", cores=1, memory_bytes=1 << 30)
    return SparkWorker(workspace, "run", Plan(pipeline="p", profile=profile, tasks=()), lambda *_: None)


def test_tasks_get_the_same_process_and_it_ends_when_none_is_left(worker: SparkWorker) -> None:
    worker.warm_up()
    first = worker.take()
    assert worker.take() is first
    worker.look(busy=False, more=True)
    assert first.heard == []
    worker.look(busy=False, more=False)
    assert first.heard == ["end"]
    worker.look(busy=False, more=False)
    assert first.heard == ["end"]


def test_one_that_idles_is_ended_and_waits_for_its_task_to_come_again(worker: SparkWorker, clock: _Clock) -> None:
    first = worker.take()
    worker.look(busy=True, more=True)
    clock.now += IDLE_S - 1
    worker.look(busy=False, more=True)
    assert first.heard == []
    clock.now += 2
    worker.look(busy=False, more=True)
    assert first.heard == ["end"]
    worker.warm_up()  # a long task of another backend still runs
    assert worker.processes == [first]
    assert worker.take() is not first


def test_a_busy_one_is_never_idle(worker: SparkWorker, clock: _Clock) -> None:
    first = worker.take()
    for _ in range(5):
        clock.now += IDLE_S
        worker.look(busy=True, more=True)
    worker.look(busy=False, more=True)
    assert first.heard == []


def test_one_that_does_not_end_is_killed(worker: SparkWorker, clock: _Clock) -> None:
    first = worker.take()
    assert worker.leave()
    clock.now += 60
    assert worker.leave()
    assert first.heard == ["end", "kill"]
    assert not worker.has_ended(first)
    assert not worker.leave()


def test_a_dead_one_is_replaced(worker: SparkWorker) -> None:
    first = worker.take()
    assert worker.has_ended(first)  # it could not say so itself
    second = worker.take()
    assert second is not first
    worker.dismiss(second)  # it said so
    assert not worker.has_ended(second)
    assert second.heard == []
    assert worker.processes == []


def test_each_application_on_yarn_bears_a_tag_by_which_it_is_found(workspace: Workspace, clock: _Clock) -> None:
    def orders(master: str, **spark: str) -> list[SparkOrder]:
        settings = {name.replace("_", "."): value for name, value in spark.items()}
        profile = Profile(name="p", backend="spark", cores=1, memory_bytes=1 << 30, master=master, spark=settings)
        worker = SparkWorker(workspace, "run", Plan(pipeline="p", profile=profile, tasks=()), lambda *_: None)
        made = []
        for _ in range(2):
            process = worker.take()
            worker.dismiss(process)
            made.append(process.order)
        return made

    first, second = orders("yarn", spark_yarn_tags="theirs")
    assert first.tag
    assert first.tag != second.tag
    assert first.profile.spark["spark.yarn.tags"] == f"theirs,{first.tag}"
    assert [order.profile.spark["spark.yarn.tags"] == order.tag for order in orders("yarn")] == [True, True]
    assert [(order.tag, order.profile.spark) for order in orders("local[2]")] == [("", {})] * 2


class _Guard:
    """Stands for a `yarn.Guard`."""

    def __init__(self, tag: str, log: Path) -> None:
        self.tag, self.log = tag, log
        self.heard: list[str] = []

    def dismiss(self) -> None:
        self.heard.append("dismiss")

    def end_applications(self) -> None:
        self.heard.append("end")


@pytest.mark.slow
def test_a_worker_that_does_not_end_in_good_order_has_its_application_ended(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guards: list[_Guard] = []
    monkeypatch.setattr(worker_process.yarn, "Guard", lambda *given: guards.append(_Guard(*given)) or guards[-1])
    # A session that cannot be opened does not keep a worker from ending in good order.
    profile = Profile(name="p", backend="spark", cores=1, memory_bytes=1 << 30, master="sc://nowhere")
    log = tmp_path / "spark.log"

    def ended(tag: str, *, killed: bool) -> None:
        order = SparkOrder(
            profile=profile, name="n", workspace=str(workspace.root), log=str(log), folder=str(tmp_path), tag=tag
        )
        heard: queue.Queue[Event | None] = queue.Queue()
        worker = WorkerProcess(workspace.root, log, (), lambda _, event: heard.put(event), order)
        worker.finish()
        if killed:
            worker.kill()
        while heard.get(timeout=WAIT_S) is not None:
            pass

    ended("", killed=True)
    assert guards == []
    ended("a-tag", killed=True)
    ended("b-tag", killed=False)
    assert [(guard.tag, guard.log, guard.heard) for guard in guards] == [
        ("a-tag", log, ["end"]),
        ("b-tag", log, ["dismiss"]),
    ]
