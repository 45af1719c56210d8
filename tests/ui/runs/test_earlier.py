"""What a feed has of earlier runs: of one that made a result, and of those that a training went on from."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from stored_results import stored_result

from engine.declare.datasets import Report
from engine.declare.events import Artifact, Metrics, TaskStateChanged
from engine.document.identity import Identity
from engine.document.plan import PLAN, Plan, PlannedTask, plan_text
from engine.history.details import short_id
from engine.profiles import local_profile
from engine.store import reported
from engine.store.runs import RunStore
from ui.runs import feed as feed_module
from ui.runs.earlier import Earlier, gone_on_from
from ui.runs.feed import Beginning, Feed
from ui.runs.metrics import beginnings

# --- results of earlier runs -----------------------------------------------------------------------


def _loss(node: str, *values: float) -> list[Metrics]:
    return [Metrics(node=node, step=i, values={"loss": value}) for i, value in enumerate(values, 1)]


@pytest.fixture
def made_by(store: RunStore) -> str:
    """A run whose node "there" made the result "f"."""
    made_by = store.create_run("p", "{}", {}, "local")
    file = Artifact(node="there", role="plot", name="curves", path="/curves.png")
    store.add_events(made_by, [*_loss("there", 1.0, 0.5), *_loss("other", 9.0), file])
    store.results.put(stored_result("f", node="there", run_id=made_by))
    return made_by


def _set(store: RunStore, run_id: str, node: str, state: str, event_only: bool = False) -> None:
    if not event_only:
        store.update_task(run_id, node, state=state, fingerprint="f", outputs=stored_result("f").outputs)
    store.add_events(run_id, [TaskStateChanged.model_validate({"node": node, "state": state})])


def test_a_cached_node_has_the_curves_and_files_of_the_run_that_made_its_result(
    store: RunStore, run_id: str, made_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_tasks(run_id, [("a", "T", ""), ("b", "T", ""), ("c", "T", "")])
    for node in ("a", "b"):
        _set(store, run_id, node, "cached")
    store.add_events(run_id, _loss("c", 3.0))
    feed = Feed(run_id)
    assert feed.read(store)
    curves = {node: series.values for (node, _), series in feed.metrics.items()}
    assert curves == {"a": [1.0, 0.5], "b": [1.0, 0.5], "c": [3.0]}
    assert {node: [a.name for a in found] for node, found in feed.artifacts.items()} == {
        "a": ["curves"],
        "b": ["curves"],
    }
    assert feed.makers == {"a": made_by, "b": made_by}
    # Once: whatever the runs report later, the events of the other one are not asked for again.
    monkeypatch.setattr(reported, "made_elsewhere", lambda *_: pytest.fail("asked again"))
    monkeypatch.setattr(feed_module, "made_elsewhere", lambda *_: pytest.fail("asked again"))
    assert not feed.read(store)
    store.add_events(run_id, _loss("c", 3.0, 2.0))
    store.add_events(made_by, _loss("there", 7.0))
    assert feed.read(store)
    assert feed.metrics["a", "loss"].values == [1.0, 0.5]
    assert feed.metrics["c", "loss"].values == [3.0, 2.0]


def test_a_cached_node_without_what_made_its_result_has_nothing(store: RunStore, run_id: str) -> None:
    store.set_tasks(run_id, [("a", "T", ""), ("b", "T", "")])
    store.results.put(stored_result("f", node="there", run_id="a-run-that-is-gone"))
    _set(store, run_id, "a", "cached")
    _set(store, run_id, "b", "cached")
    store.update_task(run_id, "b", fingerprint="a-result-that-is-gone")
    _set(store, run_id, "no-task", "cached", event_only=True)
    feed = Feed(run_id)
    assert feed.read(store)
    assert (feed.metrics, feed.artifacts, feed.makers) == ({}, {}, {})


def test_what_another_version_reported_breaks_nothing(store: RunStore, run_id: str, made_by: str) -> None:
    with store.write() as db:
        db.execute(
            "UPDATE events SET body = ? WHERE run_id = ? AND kind = 'artifact'", ('{"kind": "artifact"}', made_by)
        )
    store.set_tasks(run_id, [("a", "T", "")])
    _set(store, run_id, "a", "cached")
    feed = Feed(run_id)
    assert feed.read(store)
    assert feed.artifacts == {}
    assert not feed.read(store), "nothing is tried again"


def test_what_could_not_be_read_is_read_the_next_time(
    store: RunStore, run_id: str, made_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_tasks(run_id, [("a", "T", "")])
    _set(store, run_id, "a", "cached")
    feed, events = Feed(run_id), store.events

    def locked(of_run: str, *given: Any) -> Any:
        if of_run == made_by:
            raise sqlite3.OperationalError("database is locked")
        return events(of_run, *given)

    monkeypatch.setattr(store, "events", locked)
    with pytest.raises(sqlite3.OperationalError):
        feed.read(store)
    monkeypatch.setattr(store, "events", events)
    assert feed.read(store)
    assert feed.metrics["a", "loss"].values == [1.0, 0.5]


def test_two_scripts_of_a_page_read_at_once(
    store: RunStore, run_id: str, made_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a click the old one may go on for a while."""
    monkeypatch.setattr(feed_module, "_PAGE", 7)
    store.add_events(made_by, _loss("there", *[1.0] * 500))
    store.set_tasks(run_id, [("a", "T", "")])
    _set(store, run_id, "a", "cached")
    feed = Feed(run_id)
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda _: feed.read(store), range(4))) == 1
    assert len(feed.metrics["a", "loss"].steps) == 500


def test_a_resumed_run_that_works_again_has_its_own_curves(store: RunStore, run_id: str, made_by: str) -> None:
    store.set_tasks(run_id, [("a", "T", "")])
    store.add_events(run_id, _loss("a", 8.0, 8.0, 8.0))
    _set(store, run_id, "a", "cached")
    feed = Feed(run_id)
    feed.read(store)
    assert feed.metrics["a", "loss"].values == [1.0, 0.5], "what was begun is not of this result"
    for state in ("queued", "running"):
        _set(store, run_id, "a", state)
    store.add_events(run_id, _loss("a", 4.0))
    for read in (feed, Feed(run_id)):
        read.read(store)
        assert read.metrics["a", "loss"].values[:1] == [4.0]
        assert read.makers == {}


def test_a_long_training_of_an_earlier_run_is_read_in_parts_too(
    store: RunStore, run_id: str, made_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "_MOST_AT_ONCE", 30)
    store.add_events(made_by, _loss("there", *[1.0] * 95))
    store.set_tasks(run_id, [("a", "T", "")])
    _set(store, run_id, "a", "cached")
    feed = Feed(run_id)
    taken = []
    while feed.read(store):
        taken.append(len(feed.metrics["a", "loss"]))
    assert taken[-1] == 95
    assert len(taken) == 4


# --- a training that went on from an earlier one -----------------------------------------------------


def _epochs(first: int, last: int, value: float) -> list[Metrics]:
    """Of a training whose epochs have two steps."""
    out = []
    for epoch in range(first, last + 1):
        out += [Metrics(node="t", step=2 * epoch - 1 + i, values={"step_loss": value}) for i in range(2)]
        out.append(Metrics(node="t", step=epoch, values={"loss": value}))
    return out


def _begin(
    store: RunStore,
    fingerprint: str,
    extends: str = "",
    *,
    shared: str = "T/b",
    forced: bool = False,
    storage: Path | None = None,
) -> str:
    """A run whose node has begun work of this fingerprint, from the model at `extends`."""
    task = PlannedTask(
        node="t", node_type="T", version=1, title="", backend="embedded", params={}, inputs={},
        identity=Identity(fingerprint=fingerprint, base="b", lineage="l", parts={}), action="run", reason="asked for",
        forced=forced, shared=shared, out=f"{shared}/{fingerprint}",
        extends={"out": Report(uri=extends)} if extends else {},
    )  # fmt: skip
    plan = Plan(pipeline="p", profile=local_profile(), storage=storage, tasks=(task,))
    run_id = store.create_run("p", "{}", {}, "local", {PLAN: plan_text(plan, store.paths)})
    store.set_tasks(run_id, [("t", "T", "")])
    store.update_task(run_id, "t", fingerprint=fingerprint, attempt=1)
    store.add_events(run_id, [TaskStateChanged(node="t", state="running")])
    return run_id


@pytest.fixture
def longer(store: RunStore) -> list[str]:
    """Three runs of a training: the second went on from the first after two epochs, the third from the second."""
    ids = []
    for at in range(3):
        run_id = _begin(store, f"f{at}", f"/model/{at - 1}" if at else "")
        outputs = {"out": Report(uri=f"/model/{at}")}
        store.results.put(stored_result(f"f{at}", base="b", node="t", run_id=run_id, outputs=outputs))
        store.add_events(run_id, _epochs(2 * at + 1, 2 * at + 2, at))
        ids.append(run_id)
    return ids


def test_the_curves_of_a_training_that_went_on_begin_with_those_before(store: RunStore, longer: list[str]) -> None:
    feed = Feed(longer[2])
    feed.read(store)
    loss, steps = feed.metrics["t", "loss"], feed.metrics["t", "step_loss"]
    assert (loss.steps, loss.values) == ([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 2, 2])
    assert steps.steps == [*range(1, 13)]
    assert feed.beginnings == {
        "t": [
            Beginning(longer[1], {"loss": 4, "step_loss": 8}),
            Beginning(longer[0], {"loss": 2, "step_loss": 4}),
        ]
    }
    assert feed.makers == {}
    assert not feed.read(store)
    store.add_events(longer[2], _epochs(7, 7, 3.0))
    feed.read(store)
    assert loss.steps == [*range(1, 8)]


def test_curves_that_have_not_begun_yet_wait_for_their_own(store: RunStore, longer: list[str]) -> None:
    with store.write() as db:
        db.execute("DELETE FROM events WHERE run_id = ? AND kind = 'metrics'", (longer[1],))
    feed = Feed(longer[1])
    feed.read(store)
    assert feed.metrics == {}
    store.add_events(longer[1], [Metrics(node="t", step=5, values={"step_loss": 1.0})])
    feed.read(store)
    assert {name for _, name in feed.metrics} == {"step_loss"}
    store.add_events(longer[1], [Metrics(node="t", step=3, values={"loss": 1.0})])
    feed.read(store)
    assert feed.metrics["t", "loss"].steps == [1, 2, 3]
    assert feed.beginnings["t"] == [Beginning(longer[0], {"step_loss": 4, "loss": 2})]


def test_a_training_from_the_cache_begins_with_what_its_maker_went_on_from(store: RunStore, longer: list[str]) -> None:
    run_id = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run_id, [("here", "T", "")])
    outputs = {"out": Report(uri="/model/1")}
    store.update_task(run_id, "here", state="cached", fingerprint="f1", outputs=outputs)
    store.add_events(run_id, [TaskStateChanged(node="here", state="cached")])
    feed = Feed(run_id)
    feed.read(store)
    assert feed.metrics["here", "loss"].steps == [1, 2, 3, 4]
    assert feed.makers == {"here": longer[1]}
    assert [found.run_id for found in feed.beginnings["here"]] == [longer[0]]


def test_a_training_that_began_anew_all_the_same_has_its_own_curves(store: RunStore, longer: list[str]) -> None:
    store.add_events(longer[1], _epochs(1, 2, 9.0))
    feed = Feed(longer[1])
    feed.read(store)
    assert feed.metrics["t", "loss"].values == [9.0, 9.0, 1, 1]
    assert feed.beginnings == {}


def test_what_is_forgotten_of_the_run_before_is_left_out(store: RunStore, longer: list[str]) -> None:
    store.results.forget(["f0"])
    feed = Feed(longer[1])
    feed.read(store)
    assert feed.metrics["t", "loss"].steps == [3, 4]
    assert feed.beginnings == {}


def test_epochs_that_are_still_to_be_read_are_not_said_to_be_missing(
    store: RunStore, longer: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "_MOST_AT_ONCE", 8)
    feed = Feed(longer[2])
    feed.read(store)
    assert feed.is_behind
    assert beginnings(feed, {}) == []
    while feed.read(store):
        pass
    assert not feed.is_behind
    assert [run_id for _, run_id in beginnings(feed, {})] == [longer[1], longer[0]]


# --- a training that went on from what a stopped run has left ------------------------------------------


def _loss_of(store: RunStore, run_id: str) -> tuple[list[float], list[float], dict[str, list[Beginning]]]:
    feed = Feed(run_id)
    feed.read(store)
    loss = feed.metrics["t", "loss"]
    return loss.steps, loss.values, feed.beginnings


def test_the_curves_of_a_training_that_was_stopped_begin_those_of_the_one_that_went_on(store: RunStore) -> None:
    first = _begin(store, "f")
    # It was stopped amid its third epoch, a step behind its last checkpoint.
    store.add_events(
        first, [*_epochs(1, 2, 1.0), *(Metrics(node="t", step=5 + i, values={"step_loss": 1.0}) for i in (0, 1))]
    )
    second = _begin(store, "f")
    store.add_events(second, [Metrics(node="t", step=6, values={"step_loss": 2.0})])
    feed = Feed(second)
    feed.read(store)
    assert feed.metrics["t", "step_loss"].steps == [1, 2, 3, 4, 5, 6]
    assert feed.metrics["t", "step_loss"].values == [1, 1, 1, 1, 1, 2], "what both have is that of the later one"
    store.add_events(second, [Metrics(node="t", step=3, values={"loss": 2.0}), *_epochs(4, 4, 2.0)])
    feed.read(store)
    assert (feed.metrics["t", "loss"].steps, feed.metrics["t", "loss"].values) == ([1, 2, 3, 4], [1, 1, 2, 2])
    assert feed.beginnings == {"t": [Beginning(first, {"loss": 2, "step_loss": 5})]}
    assert beginnings(feed, {"t": "Train"}) == [
        (f"Train, up to epoch 2: of run {short_id(first)}, which it went on from", first)
    ]
    # A third one, that begins where the second was stopped, has the curves of both.
    third = _begin(store, "f")
    store.add_events(third, _epochs(5, 6, 3.0))
    assert _loss_of(store, third) == (
        [1, 2, 3, 4, 5, 6],
        [1, 1, 2, 2, 3, 3],
        {"t": [Beginning(second, {"loss": 4, "step_loss": 8}), Beginning(first, {"loss": 2, "step_loss": 5})]},
    )


def test_curves_that_do_not_meet_are_not_joined(store: RunStore) -> None:
    first = _begin(store, "f")
    store.add_events(first, _epochs(1, 2, 1.0))
    second = _begin(store, "f")
    store.add_events(second, _epochs(4, 5, 2.0))  # its checkpoint was of an epoch that was not reported any more
    steps, _, found = _loss_of(store, second)
    assert (steps, found) == ([4, 5], {})
    feed = Feed(second)
    feed.read(store)
    assert beginnings(feed, {}) == [("t: its curves lack epochs 1 to 3, which a run before it may have done.", None)]


def test_curves_with_every_tenth_step_meet_ten_steps_apart(store: RunStore) -> None:
    first = _begin(store, "f")
    store.add_events(first, [Metrics(node="t", step=10 * i, values={"step_loss": 1.0}) for i in (1, 2, 3)])
    second = _begin(store, "f")
    store.add_events(second, [Metrics(node="t", step=40, values={"step_loss": 2.0})])
    feed = Feed(second)
    feed.read(store)
    assert feed.metrics["t", "step_loss"].steps == [10, 20, 30, 40]
    # Where they get fewer at the joint, it is its next step that says so.
    store.add_events(second, [Metrics(node="t", step=50, values={"step_loss": 2.0})])
    third = _begin(store, "f")
    store.add_events(third, [Metrics(node="t", step=100, values={"step_loss": 3.0})])
    feed = Feed(third)
    feed.read(store)
    assert feed.metrics["t", "step_loss"].steps == [100]
    store.add_events(third, [Metrics(node="t", step=200, values={"step_loss": 3.0})])
    feed.read(store)
    assert feed.metrics["t", "step_loss"].steps == [10, 20, 30, 40, 50, 100, 200]


@pytest.mark.parametrize(
    "other",
    [
        {"fingerprint": "g"},
        {"forced": True, "shared": "T/b-fresh"},
        {"storage": Path("/mnt/shared/voxelflow")},
    ],
)
def test_only_the_same_work_in_the_same_place_is_gone_on_from(store: RunStore, other: dict[str, Any]) -> None:
    store.add_events(_begin(store, **{"fingerprint": "f", **other}), _epochs(1, 2, 1.0))
    second = _begin(store, "f")
    store.add_events(second, _epochs(3, 4, 2.0))
    assert _loss_of(store, second)[::2] == ([3, 4], {})


def test_what_came_before_is_looked_for_once_an_attempt_and_only_for_what_has_figures(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversion that failed each time has many runs before, and no curve."""
    first = _begin(store, "f")
    store.add_events(first, _epochs(1, 2, 1.0))
    second = _begin(store, "f")
    asked: list[str] = []

    def look(store: RunStore, run_id: str, node: str, plans: dict[str, Plan | None]) -> list[Earlier]:
        asked.append(node)
        return gone_on_from(store, run_id, node, plans)

    monkeypatch.setattr(feed_module, "gone_on_from", look)
    store.add_events(second, [TaskStateChanged(node="conversion", state="running")])
    feed = Feed(second)
    feed.read(store)
    assert asked == []
    for epoch in (3, 4):
        store.add_events(second, _epochs(epoch, epoch, 2.0))
        feed.read(store)
        assert asked == ["t"]
    assert feed.metrics["t", "loss"].steps == [1, 2, 3, 4]
    # At work once more it may have gone on from what another run did meanwhile.
    store.add_events(second, [TaskStateChanged(node="t", state="running"), *_epochs(5, 5, 2.0)])
    feed.read(store)
    assert asked == ["t", "t"]
    store.add_events(second, _epochs(6, 6, 2.0))
    feed.read(store)
    assert asked == ["t", "t"]


def test_a_later_run_begins_no_earlier_one(store: RunStore) -> None:
    """It began anew, since what the earlier one had left was removed."""
    first = _begin(store, "f")
    store.add_events(first, _epochs(3, 4, 1.0))
    second = _begin(store, "f")
    store.add_events(second, _epochs(1, 2, 2.0))
    assert _loss_of(store, first)[::2] == ([3, 4], {})


def test_one_that_began_anew_although_another_was_stopped_has_its_own_curves(store: RunStore) -> None:
    store.add_events(_begin(store, "f"), _epochs(1, 2, 1.0))
    second = _begin(store, "f")
    store.add_events(second, _epochs(1, 3, 2.0))
    assert _loss_of(store, second) == ([1, 2, 3], [2, 2, 2], {})


def test_a_training_that_was_stopped_had_itself_gone_on(store: RunStore, longer: list[str]) -> None:
    """After six epochs of three runs, and one of a run that was stopped."""
    stopped = _begin(store, "f3", "/model/2")
    store.add_events(stopped, _epochs(7, 7, 3.0))
    last = _begin(store, "f3", "/model/2")
    store.add_events(last, _epochs(8, 8, 4.0))
    steps, values, found = _loss_of(store, last)
    assert (steps, values) == ([1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 1, 1, 2, 2, 3, 4])
    assert [each.run_id for each in found["t"]] == [stopped, *reversed(longer)]


def test_the_run_whose_result_was_gone_on_from_had_been_stopped(store: RunStore) -> None:
    stopped = _begin(store, "f0")
    store.add_events(stopped, _epochs(1, 1, 0.0))
    whole = _begin(store, "f0")
    store.add_events(whole, _epochs(2, 2, 1.0))
    outputs = {"out": Report(uri="/model/0")}
    store.results.put(stored_result("f0", base="b", node="t", run_id=whole, outputs=outputs))
    last = _begin(store, "f1", "/model/0")
    store.add_events(last, _epochs(3, 3, 2.0))
    steps, values, found = _loss_of(store, last)
    assert (steps, values) == ([1, 2, 3], [0, 1, 2])
    assert [each.run_id for each in found["t"]] == [whole, stopped]
    # From the cache, too.
    cached = store.create_run("p", "{}", {}, "local")
    store.set_tasks(cached, [("here", "T", "")])
    store.update_task(cached, "here", state="cached", fingerprint="f0", outputs=outputs)
    store.add_events(cached, [TaskStateChanged(node="here", state="cached")])
    feed = Feed(cached)
    feed.read(store)
    assert feed.metrics["here", "loss"].values == [0, 1]
    assert [each.run_id for each in feed.beginnings["here"]] == [stopped]


def test_what_is_not_known_to_be_of_an_earlier_run_is_not_said_to_be_lost(store: RunStore, longer: list[str]) -> None:
    """Its plan is gone."""
    run_id = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run_id, [("t", "T", "")])
    store.add_events(run_id, [TaskStateChanged(node="t", state="running"), *_epochs(3, 4, 1.0)])
    feed = Feed(run_id)
    feed.read(store)
    assert beginnings(feed, {}) == [("t: its curves lack epochs 1 to 2, which a run before it may have done.", None)]
