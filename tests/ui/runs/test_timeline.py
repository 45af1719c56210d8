"""The bars of the timeline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import box, pipeline, some_run, some_task

from engine.store.runs import Task
from engine.store.stretches import Move
from ui.runs.charts import timeline
from ui.runs.feed import Feed
from ui.runs.timeline import Bar, bars, records, row_title, time_unit

RUN = some_run("r", state="running", created=100.0, started=100.0, ended=None, heartbeat=130.0)


def _task(node: str, title: str = "", position: int = 0) -> Task:
    return some_task(node, position=position, title=title or node, state="queued", started=None, ended=None)


def _drawn(found: list[Bar]) -> list[tuple[str, str, float, float]]:
    return [(b.node, b.state, b.start, b.end) for b in found]


def test_a_stretch_is_named_after_what_came_of_it() -> None:
    moves = [
        Move(101, "a", "waiting", 1),
        Move(102, "a", "running", 1),
        Move(105, "a", "done", 1),
        Move(105, "b", "running", 1),
        Move(107, "b", "failed", 1),
        Move(100, "c", "cached", 1),
    ]
    done = replace(RUN, state="failed", ended=107.0)
    assert _drawn(bars(done, [_task("a"), _task("b"), _task("c")], moves, now=999)) == [
        ("a", "waiting", 1, 2),
        ("a", "done", 2, 5),
        ("b", "failed", 5, 7),
        ("c", "cached", 0, 0),
    ]


def test_what_runs_now_goes_on_until_now() -> None:
    assert _drawn(bars(RUN, [_task("a")], [Move(102, "a", "running", 1)], now=120)) == [("a", "running", 2, 20)]


def test_a_run_that_was_lost_ends_at_its_last_sign_of_life() -> None:
    lost = replace(RUN, state="lost")
    assert _drawn(bars(lost, [_task("a")], [Move(102, "a", "running", 1)], now=999)) == [("a", "lost", 2, 30)]


def test_each_attempt_is_a_bar() -> None:
    moves = [
        Move(101, "a", "running", 1),
        Move(103, "a", "queued", 1, reason="attempt 1 failed: out of memory"),
        Move(104, "a", "running", 2),
        # The process was killed at about 110; another one goes on an hour later.
        Move(3700, "a", "queued", 2, reason="never ran before", before=110.0),
        Move(3701, "a", "running", 3),
        Move(3705, "a", "done", 3),
    ]
    found = bars(replace(RUN, state="done", ended=3705.0), [_task("a")], moves, now=9999)
    assert [(b.state, b.start, b.end, b.attempt) for b in found] == [
        ("failed", 1, 3, 1),
        ("lost", 4, 10, 2),
        ("done", 3601, 3605, 3),
    ]


def test_rows_differ_though_titles_do_not() -> None:
    same = [_task("a", "Same", 0), _task("b", "Same", 1), _task("c", "x" * 300, 2)]
    titles = [row_title(i, t) for i, t in enumerate(same)]
    assert len(set(titles)) == 3
    assert max(map(len, titles)) < 40


@pytest.mark.parametrize(
    ("seconds", "unit"), [(0, "seconds"), (179, "seconds"), (180, "minutes"), (10_799, "minutes"), (10_800, "hours")]
)
def test_long_runs_are_shown_in_larger_units(seconds: float, unit: str) -> None:
    assert time_unit(seconds)[0] == unit


def test_records_are_in_the_unit_of_the_axis() -> None:
    (record,) = records([Bar("a", "1. A", "done", 60.0, 180.0, 1)], second=60.0)
    assert record == {
        "task": "1. A",
        "node": "a",
        "state": "done",
        "start": 1.0,
        "end": 3.0,
        "took": "2 min 00 s",
        "attempt": 1,
    }


def test_who_hears_a_bar_hears_of_a_node() -> None:
    spec = timeline(["1. A"], ["done"], "seconds", "light")
    for layer in spec["layer"]:
        said = [layer["encoding"]["y"], *layer["encoding"]["tooltip"]]
        assert all(each["title"] == "node" for each in said if each["field"] == "task")


@pytest.mark.slow
def test_a_real_run_gives_a_bar_for_each_task(runs, store) -> None:
    document = pipeline(box("a", "Make"), box("b", "Join"), wires="a.out>b.first")
    runs.run(document)
    run, tasks = runs.run(document.model_copy(update={"nodes": (*document.nodes, box("f", "Fail", how="told"))}))
    feed = Feed(run.run_id)
    feed.read(store)
    found = bars(run, list(tasks.values()), feed.moves, now=0.0)
    assert {(b.node, b.state) for b in found} == {("a", "cached"), ("b", "cached"), ("f", "failed")}
    failed = next(b for b in found if b.node == "f")
    assert 0 <= failed.start <= failed.end <= (run.ended or 0) - (run.started or 0)
