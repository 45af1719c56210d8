"""Figures of a run's tasks, also of those that it took from the cache."""

from __future__ import annotations

from stored_results import stored_result

from engine.declare.datasets import Report
from engine.declare.events import Metrics
from engine.store.reported import metric_events, metrics_of
from engine.store.runs import RunStore


def _metrics(node: str, step: int, loss: float) -> Metrics:
    return Metrics(node=node, step=step, values={"loss": loss})


def _found(store: RunStore, run: str) -> list[tuple[str | None, int, float]]:
    return [(event.node, event.step, event.values["loss"]) for event in metrics_of(store, run)]


def test_a_cached_task_has_what_the_task_reported_that_made_its_result(store: RunStore) -> None:
    maker, run = (store.create_run("p", "{}", {}, "local") for _ in range(2))
    store.add_events(maker, [_metrics("there", 1, 0.5), _metrics("other", 1, 9), _metrics("there", 2, 0.25)])
    store.results.put(stored_result("f", node="there", run_id=maker))
    store.set_tasks(run, [("a", "T", "a"), ("b", "T", "b"), ("c", "T", "c")])
    store.add_events(run, [_metrics("a", 1, 7)])
    store.update_task(run, "a", state="done", fingerprint="g")
    outputs = stored_result("f").outputs
    for node in ("b", "c"):
        store.update_task(run, node, state="cached", fingerprint="f", outputs=outputs)
    made = [("b", 1, 0.5), ("c", 1, 0.5), ("b", 2, 0.25), ("c", 2, 0.25)]
    assert _found(store, run) == [("a", 1, 7), *made]
    assert [number for number, _ in metric_events(store, run)] == [store.last_event(run)]
    again = store.create_run("p", "{}", {}, "local")
    store.add_events(again, [_metrics("there", 1, 0.75)])
    other = {"out": Report(uri="/elsewhere")}
    store.results.put(stored_result("f", node="there", run_id=again, outputs=other))
    assert _found(store, run) == [("a", 1, 7)], "made again since: figures of another result"
    store.results.forget(["f"])
    assert _found(store, run) == [("a", 1, 7)]


def test_a_resumed_run_that_finds_its_own_result_has_its_events_once(store: RunStore) -> None:
    run = store.create_run("p", "{}", {}, "local")
    store.results.put(stored_result("f", node="a", run_id=run))
    store.set_tasks(run, [("a", "T", "a")])
    store.add_events(run, [_metrics("a", 1, 7)])
    store.update_task(run, "a", state="cached", fingerprint="f")
    assert _found(store, run) == [("a", 1, 7)]
