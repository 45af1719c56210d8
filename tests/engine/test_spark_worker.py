"""When a run's Spark session is started and ended, with processes that only pretend."""

from __future__ import annotations

import pytest

from engine import spark_worker
from engine.plan import Plan
from engine.profiles import Profile
from engine.spark_worker import IDLE_S, SparkWorker
from engine.workspace import Workspace


class _Pretended:
    """Stands for a `WorkerProcess`."""

    holds_spark = True

    def __init__(self, *_: object) -> None:
        self.heard: list[str] = []

    def end(self) -> None:
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
    monkeypatch.setattr(spark_worker, "time", clock)
    monkeypatch.setattr(spark_worker, "WorkerProcess", _Pretended)
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
    assert worker.processes == []
