"""Curves of a training at which several runs took turns: one was resumed after another had gone on."""

from __future__ import annotations

import pytest
from stored_results import stored_result

from engine.declare.datasets import Report
from engine.declare.events import Metrics, TaskStateChanged
from engine.document.identity import Identity
from engine.document.plan import PLAN, Plan, PlannedTask, plan_text
from engine.history.details import short_id
from engine.profiles import local_profile
from engine.store.runs import RunStore
from ui.runs.feed import Beginning, Feed
from ui.runs.metrics import beginnings

MODEL = {"out": Report(uri="/model")}


def _planned(store: RunStore, fingerprint: str = "f", *, extends: bool = False) -> str:
    """A run that is about to train."""
    task = PlannedTask(
        node="t", node_type="T", version=1, title="", backend="embedded", params={}, inputs={},
        identity=Identity(fingerprint=fingerprint, base="b", lineage="l", parts={}), action="run", reason="asked for",
        shared="T/b", out=f"T/b/{fingerprint}", extends=MODEL if extends else {},
    )  # fmt: skip
    plan = Plan(pipeline="p", profile=local_profile(), storage=None, tasks=(task,))
    run_id = store.create_run("p", "{}", {}, "local", {PLAN: plan_text(plan, store.paths)})
    store.set_tasks(run_id, [("t", "T", "")])
    store.update_task(run_id, "t", fingerprint=fingerprint, attempt=1)
    return run_id


def _at_work(store: RunStore, run_id: str, *epochs: int, value: float) -> None:
    """An attempt of the run, which does these epochs of two steps each."""
    store.add_events(run_id, [TaskStateChanged(node="t", state="running")])
    for epoch in epochs:
        for step in (2 * epoch - 1, 2 * epoch):
            store.add_events(run_id, [Metrics(node="t", step=step, values={"step_loss": value})])
        store.add_events(run_id, [Metrics(node="t", step=epoch, values={"loss": value})])


def _read(store: RunStore, run_id: str) -> Feed:
    feed = Feed(run_id)
    feed.read(store)
    return feed


@pytest.fixture
def turns(store: RunStore) -> tuple[str, str]:
    """Of six epochs, the first run did two, another one the next, and the first, resumed, the last."""
    first = _planned(store)
    _at_work(store, first, 1, 2, value=1.0)
    second = _planned(store)
    _at_work(store, second, 3, 4, value=2.0)
    _at_work(store, first, 5, 6, value=3.0)
    return first, second


def test_the_curves_of_the_one_that_went_on_have_the_turns_of_both(store: RunStore, turns: tuple[str, str]) -> None:
    first, second = turns
    third = _planned(store)
    _at_work(store, third, 7, value=4.0)
    feed = _read(store, third)
    loss, steps = feed.metrics["t", "loss"], feed.metrics["t", "step_loss"]
    assert (loss.steps, loss.values) == ([1, 2, 3, 4, 5, 6, 7], [1, 1, 2, 2, 3, 3, 4])
    assert (steps.steps, steps.values[4:8]) == ([*range(1, 15)], [2, 2, 2, 2])
    assert feed.beginnings == {
        "t": [
            Beginning(first, {"step_loss": 12, "loss": 6}),
            Beginning(second, {"step_loss": 8, "loss": 4}),
            Beginning(first, {"step_loss": 4, "loss": 2}),
        ]
    }
    one, other = short_id(first), short_id(second)
    assert beginnings(feed, {"t": "Train"}) == [
        (f"Train, up to epoch 6: of run {one}, which it went on from", first),
        (f"Train, up to epoch 4: of run {other}, which it went on from", second),
        (f"Train, up to epoch 2: of run {one}, which it went on from", first),
    ]


def test_a_turn_that_began_at_an_earlier_checkpoint_takes_the_place_of_what_was_lost(
    store: RunStore, turns: tuple[str, str]
) -> None:
    first, _ = turns
    _at_work(store, first, 5, 6, 7, value=5.0)  # the same run twice in a row is one turn
    third = _planned(store)
    _at_work(store, third, 6, 7, value=6.0)
    loss = _read(store, third).metrics["t", "loss"]
    assert (loss.steps, loss.values) == ([1, 2, 3, 4, 5, 6, 7], [1, 1, 2, 2, 5, 6, 6])


def test_a_result_was_made_in_the_last_of_a_run_s_turns(store: RunStore) -> None:
    """The second run made it, after the first had been resumed in between."""
    first, second = _planned(store), _planned(store)
    _at_work(store, first, 1, value=1.0)
    _at_work(store, second, 2, value=2.0)
    _at_work(store, first, 3, value=3.0)
    _at_work(store, second, 4, value=4.0)
    store.results.put(stored_result("f", base="b", node="t", run_id=second, outputs=MODEL))
    longer = _planned(store, "g", extends=True)
    _at_work(store, longer, 5, value=5.0)
    feed = _read(store, longer)
    assert feed.metrics["t", "loss"].values == [1, 2, 3, 4, 5]
    assert [each.run_id for each in feed.beginnings["t"]] == [second, first, second, first]


def test_a_turn_before_one_that_is_lost_is_not_joined_although_its_run_made_the_result(store: RunStore) -> None:
    first, second = _planned(store), _planned(store)
    _at_work(store, second, 1, 2, value=1.0)
    _at_work(store, first, 4, value=2.0)  # of the third epoch nothing is known
    _at_work(store, second, 5, value=3.0)
    store.results.put(stored_result("f", base="b", node="t", run_id=second, outputs=MODEL))
    longer = _planned(store, "g", extends=True)
    _at_work(store, longer, 6, value=4.0)
    feed = _read(store, longer)
    assert feed.metrics["t", "loss"].steps == [4, 5, 6]
    assert [each.run_id for each in feed.beginnings["t"]] == [second, first]


# --- of the page of a run that was resumed after another had gone on ----------------------------------


def test_a_resumed_run_has_what_another_did_between_its_attempts(store: RunStore, turns: tuple[str, str]) -> None:
    first, second = turns
    feed = _read(store, first)
    loss, steps = feed.metrics["t", "loss"], feed.metrics["t", "step_loss"]
    assert (loss.steps, loss.values) == ([1, 2, 3, 4, 5, 6], [1, 1, 2, 2, 3, 3])
    assert (steps.steps, steps.values[3:9]) == ([*range(1, 13)], [1, 2, 2, 2, 2, 3])
    between = Beginning(second, {"step_loss": 8, "loss": 4}, {"step_loss": 5, "loss": 3})
    assert feed.beginnings == {"t": [between]}
    said = f"Train, epochs 3 to 4: of run {short_id(second)}, which it went on from"
    assert beginnings(feed, {"t": "Train"}) == [(said, second)]
    # The other one has gone on from the first alone.
    assert _read(store, second).metrics["t", "loss"].values == [1, 1, 2, 2]


def test_each_gap_between_attempts_has_what_was_done_then(store: RunStore) -> None:
    """Of three runs, and of what comes after its last attempt the first one shows nothing."""
    first, second, third = (_planned(store) for _ in range(3))
    _at_work(store, second, 1, value=1.0)
    _at_work(store, first, 2, value=2.0)
    _at_work(store, second, 3, value=3.0)
    _at_work(store, third, 4, value=4.0)
    _at_work(store, first, value=0.0)  # killed before it reported anything
    _at_work(store, third, 5, value=5.0)
    _at_work(store, first, 6, value=6.0)
    _at_work(store, third, 7, value=7.0)
    feed = _read(store, first)
    assert feed.metrics["t", "loss"].values == [1, 2, 3, 4, 5, 6]
    assert [each.run_id for each in feed.beginnings["t"]] == [third, third, second, second]
    # A result that was made so has the same curves where it is taken from the cache.
    store.results.put(stored_result("f", base="b", node="t", run_id=first, outputs=MODEL))
    cached = store.create_run("p", "{}", {}, "local")
    store.set_tasks(cached, [("here", "T", "")])
    store.update_task(cached, "here", state="cached", fingerprint="f", outputs=MODEL)
    store.add_events(cached, [TaskStateChanged(node="here", state="cached")])
    assert _read(store, cached).metrics["here", "loss"].values == [1, 2, 3, 4, 5, 6]


def test_a_page_that_is_open_meanwhile_gets_what_another_run_did(store: RunStore) -> None:
    first = _planned(store)
    _at_work(store, first, 1, value=1.0)
    feed = _read(store, first)
    second = _planned(store)
    _at_work(store, second, 2, 3, value=2.0)
    assert not feed.read(store)
    _at_work(store, first, 4, value=3.0)
    feed.read(store)
    third = _planned(store)
    _at_work(store, third, 5, value=4.0)
    _at_work(store, first, 6, value=5.0)
    feed.read(store)
    assert feed.metrics["t", "loss"].values == [1, 2, 2, 3, 4, 5]
    assert feed.beginnings == {
        "t": [
            Beginning(third, {"step_loss": 10, "loss": 5}, {"step_loss": 9, "loss": 5}),
            Beginning(second, {"step_loss": 6, "loss": 3}, {"step_loss": 3, "loss": 2}),
        ]
    }


def test_what_another_run_did_anew_between_two_attempts_is_not_of_this_run(store: RunStore) -> None:
    """What the first had left was removed, and so was what the second left: each began again."""
    first = _planned(store)
    _at_work(store, first, 1, 2, value=1.0)
    second = _planned(store)
    _at_work(store, second, 1, 2, 3, value=2.0)
    _at_work(store, first, 1, 2, 3, 4, value=3.0)
    feed = _read(store, first)
    assert feed.metrics["t", "loss"].values == [3, 3, 3, 3]
    assert feed.beginnings == {}
