"""A feed reads a run's events once and goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.declare.events import Artifact, Facts, Message, Metrics, RunStateChanged, SystemSample, TaskStateChanged
from engine.store.runs import RunStore
from engine.store.stretches import moves_of, worked
from ui.runs import feed as feed_module
from ui.runs.feed import Feed, Series


def test_a_feed_takes_in_what_is_new_and_nothing_twice(store: RunStore, run_id: str) -> None:
    feed = Feed(run_id)
    assert not feed.read(store)
    store.add_events(
        run_id, [Metrics(node="t", step=1, values={"loss": 0.5}), Message(node="t", text="not its business")]
    )
    assert feed.read(store)
    cursor = feed.cursor
    assert not feed.read(store)
    assert feed.cursor == cursor
    store.add_events(run_id, [Metrics(node="t", step=2, values={"loss": 0.4, "val_loss": 0.6})])
    assert feed.read(store)
    assert feed.metrics["t", "loss"].values == [0.5, 0.4]
    assert feed.metrics["t", "val_loss"].steps == [2]


def test_events_of_other_runs_stay_theirs(store: RunStore, run_id: str) -> None:
    other = store.create_run("p", "{}", {}, "local")
    store.add_events(other, [Metrics(node="t", step=1, values={"loss": 0.5})])
    feed = Feed(run_id)
    assert not feed.read(store)
    assert feed.metrics == {}


def test_it_keeps_samples_moves_facts_and_files(store: RunStore, run_id: str, tmp_path: Path) -> None:
    store.add_events(
        run_id,
        [
            TaskStateChanged(time=10.0, node="t", state="running", reason="never ran before"),
            SystemSample(time=12.0, values={"cpu_utilization_percentage": 50.0}),
            TaskStateChanged(time=15.0, node="t", state="done"),
            Facts(node="t", values={"parts": 3}),
            Facts(node="t", values={"parts": 4, "bytes": 5}),
            Artifact(node="t", role="plot", name="curves", path=str(tmp_path)),
        ],
    )
    feed = Feed(run_id)
    feed.read(store)
    assert [(m.node, m.state, m.time, m.before) for m in feed.moves] == [
        ("t", "running", 10.0, 0.0),
        ("t", "done", 15.0, 12.0),
    ]
    assert feed.system["cpu_utilization_percentage"].steps == [12.0]
    assert feed.facts == {"t": {"parts": 4, "bytes": 5}}
    assert [a.name for a in feed.artifacts["t"]] == ["curves"]


def test_of_several_tasks_that_were_killed_each_is_known_to_have_ended_then(store: RunStore, run_id: str) -> None:
    store.add_events(
        run_id,
        [
            RunStateChanged(time=10.0, state="running"),
            *(TaskStateChanged(time=11.0, node=node, state="running") for node in "ab"),
            SystemSample(time=12.0, values={"cpu_utilization_percentage": 50.0}),
            RunStateChanged(time=90.0, state="running"),
            *(TaskStateChanged(time=91.0, node=node, state="queued") for node in "ab"),
        ],
    )
    feed = Feed(run_id)
    feed.read(store)
    assert worked(feed.moves, 99.0, active=True) == {"a": 1.0, "b": 1.0}
    assert worked(moves_of(store, run_id).found, 99.0, active=True) == {"a": 1.0, "b": 1.0}


def test_what_is_known_of_a_run_s_tasks_is_not_read_again(store: RunStore, run_id: str) -> None:
    known = moves_of(store, run_id)
    for time in (10.0, 20.0, 30.0):
        store.add_events(run_id, [RunStateChanged(time=time, state="running")])
        store.add_events(run_id, [TaskStateChanged(time=time + 1, node="a", state="running")])
        store.add_events(run_id, [Metrics(time=time + 2, node="a", step=1, values={"loss": 1.0})])
        known = moves_of(store, run_id, known)
        assert known == moves_of(store, run_id)
    assert [(move.time, move.before) for move in known.found] == [(11.0, 0.0), (21.0, 12.0), (31.0, 22.0)]


def test_a_long_run_is_read_in_parts(store: RunStore, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "_PAGE", 10)
    monkeypatch.setattr(feed_module, "_MOST_AT_ONCE", 30)
    store.add_events(run_id, [Metrics(node="t", step=i, values={"loss": 1.0}) for i in range(95)])
    feed = Feed(run_id)
    taken = []
    while feed.read(store):
        taken.append(len(feed.metrics["t", "loss"]))
    assert taken == [30, 60, 90, 95]


def test_a_loss_that_is_not_a_number_is_news_too(store: RunStore, run_id: str) -> None:
    store.add_events(run_id, [Metrics(node="t", step=1, values={"loss": float("nan")})])
    feed = Feed(run_id)
    feed.read(store)
    assert feed.metrics["t", "loss"].values[0] != feed.metrics["t", "loss"].values[0]


def test_a_resumed_run_reports_steps_again_and_the_last_report_counts() -> None:
    series = Series()
    for step, value in [(1, 1.0), (2, 2.0), (3, 3.0), (2, 20.0), (3, 30.0), (4, 40.0)]:
        series.add(step, value)
    assert series.steps == [1, 2, 3, 4]
    assert series.values == [1.0, 20.0, 30.0, 40.0]
    assert series.last == 40.0


def test_a_step_that_was_left_out_finds_its_place() -> None:
    series = Series([1, 5], [1.0, 5.0])
    series.add(3, 3.0)
    assert (series.steps, series.values) == ([1, 3, 5], [1.0, 3.0, 5.0])


def test_an_empty_series_has_no_last_value() -> None:
    assert Series().last is None
