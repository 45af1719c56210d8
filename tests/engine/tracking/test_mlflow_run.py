"""Each point once, also with an MLflow that keeps whatever it is sent (SQL stores drop equal points by themselves)."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from engine.tracking.mlflow_api import RunDeleted
from engine.tracking.mlflow_run import MlflowRun

pytestmark = pytest.mark.slow  # MLflow's entities take seconds to import


class Refused(Exception):
    error_code = "INVALID_PARAMETER_VALUE"


@dataclass
class Server:
    """Keeps all it is sent. `loses` answers to come are lost; `refused` names are never taken."""

    metrics: list[Any] = field(default_factory=list)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    loses: int = 0
    deleted: bool = False
    asked: list[str] = field(default_factory=list)

    def log_batch(self, run: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
        if self.deleted or {i.key for i in (*metrics, *params, *tags)} & self.refused:
            raise Refused("no")
        self.metrics += metrics
        self.params |= {p.key: p.value for p in params}
        self.tags |= {t.key: t.value for t in tags}
        if self.loses:
            self.loses -= 1
            raise ConnectionError("gone before it answered")

    def get_metric_history(self, run: str, key: str) -> list[Any]:
        self.asked.append(key)
        return [m for m in self.metrics if m.key == key]

    def get_run(self, run: str) -> Any:
        stage = "deleted" if self.deleted else "active"
        return SimpleNamespace(
            data=SimpleNamespace(params=dict(self.params)), info=SimpleNamespace(lifecycle_stage=stage)
        )

    def steps(self, key: str = "loss") -> list[int]:
        return [m.step for m in self.metrics if m.key == key]


def _run(server: Server, notes: list[str] | None = None, **options: bool) -> MlflowRun:
    client: Any = server
    return MlflowRun(client, "r", (notes if notes is not None else []).append, **options)


def _add(run: MlflowRun, *steps: int, key: str = "loss", late: float = 0) -> None:
    for step in steps:
        run.point(key, step / 10, 1000 + step + late, step, series=True)


def test_a_lost_answer_doubles_nothing() -> None:
    server = Server(loses=1)
    first = _run(server, created=True)
    _add(first, 0, 1, 2)
    with pytest.raises(ConnectionError):
        first.flush()
    assert server.steps() == [0, 1, 2]
    again = _run(server)
    _add(again, 0, 1, 2, 3)
    again.flush()
    assert server.steps() == [0, 1, 2, 3]


def test_only_part_of_a_batch_arrived() -> None:
    server = Server()
    first = _run(server, created=True)
    _add(first, 0, 1)
    first.flush()
    again = _run(server)
    _add(again, 1, 2, 3)
    _add(again, 1, key="accuracy")
    again.flush()
    assert server.steps() == [0, 1, 2, 3]
    assert server.steps("accuracy") == [1]


def test_a_replay_leaves_out_steps_that_are_there_but_no_new_ones() -> None:
    server = Server()
    run = _run(server, created=True)
    _add(run, 0, 1, 2, 3)
    run.replay()
    assert server.steps() == [0, 1, 2, 3]
    _add(run, 2, 3, 4, late=60)
    run.flush()
    _add(run, 5, late=60)
    run.flush()
    assert server.steps() == [0, 1, 2, 3, 4, 5]
    assert [m.timestamp for m in server.metrics][:4] == [1000_000, 1001_000, 1002_000, 1003_000]


def test_a_kill_amid_a_replay_changes_nothing() -> None:
    server = Server()
    run = _run(server, created=True)
    _add(run, 0, 1, 2, 3)
    run.replay()
    _add(run, 1, 2, late=60)
    run.flush()
    again = _run(server, replayed=True)
    _add(again, 1, 2, 3, 4, late=60)
    again.flush()
    assert server.steps() == [0, 1, 2, 3, 4]


def test_single_figures_are_known_by_their_time() -> None:
    """Not by their step, which is always 0: a second value is news."""
    server = Server()
    run = _run(server, created=True, replayed=True)
    run.point("seconds", 5, 10)
    run.flush()
    again = _run(server, replayed=True)
    again.point("seconds", 5, 10)
    again.point("seconds", 7, 20)
    again.flush()
    assert [m.value for m in server.metrics] == [5, 7]


def test_the_history_is_read_once_and_only_in_doubt() -> None:
    server = Server()
    run = _run(server, created=True)
    _add(run, 0, 1)
    run.flush()
    assert server.asked == []
    again = _run(server)
    for step in (2, 3, 4):
        _add(again, step)
        again.flush()
    assert server.asked == ["loss"]


def test_what_is_refused_is_found_and_the_rest_arrives() -> None:
    server, notes = Server(refused=frozenset(["bad"])), list[str]()
    run = _run(server, notes, created=True)
    _add(run, *range(20))
    _add(run, 7, key="bad")
    run.flush()
    assert sorted(server.steps()) == list(range(20))
    assert notes == ["MLflow does not take metric bad: no"]


def test_parameters_never_change_and_tags_are_sent_when_they_do() -> None:
    server = Server(params={"depth": "18"})
    run = _run(server)
    run.param("depth", 34)
    run.param("epochs", 2)
    run.tag("state", "running")
    run.flush()
    assert server.params == {"depth": "18", "epochs": "2"}
    assert server.tags == {"voxelflow.changed.depth": "34", "state": "running"}
    server.tags.clear()
    run.tag("state", "running")
    run.flush()
    assert server.tags == {}


def test_a_deleted_run_is_reported() -> None:
    run = _run(Server(deleted=True), created=True)
    _add(run, 0)
    with pytest.raises(RunDeleted):
        run.flush()
