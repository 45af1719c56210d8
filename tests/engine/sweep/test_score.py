"""By what trials are judged, and in what order they stand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_results import stored_result

from engine.declare.datasets import Report
from engine.declare.events import Metrics
from engine.store.runs import RunStore
from engine.store.sweeps import Trial
from engine.sweep.score import (
    Objective,
    best_first,
    best_of,
    figures_of_run,
    objective_of,
    source_of,
    steps_of_run,
    usual_objective,
)

TRIAL = Trial("s", 0, {}, "done", None, "")


@pytest.mark.parametrize(
    ("figures", "found"),
    [
        ({"loss": 1, "val_loss": 1, "val_auc": 1}, Objective("val_auc", True)),
        ({"train.val_loss": 1, "loss": 1}, Objective("train.val_loss", False)),
        ({"epoch_seconds": 1}, None),
        ({"val_mae": 1}, Objective("val_mae", False)),
        # What was never trained on is judged by, but chosen by only where nothing else is known.
        ({"train.val_loss": 1, "val_loss": 1, "judge.auc": 1, "auc": 1}, Objective("val_loss", False)),
        ({"loss": 1, "judge.auc": 1, "auc": 1}, Objective("auc", True)),
    ],
)
def test_the_usual_objective(figures: dict[str, float], found: Objective | None) -> None:
    assert usual_objective(figures) == found


def test_a_loss_is_to_be_small() -> None:
    assert not objective_of("train.val_loss").maximise
    assert objective_of("dice").maximise
    assert objective_of("dice").words == "highest dice"


@given(st.lists(st.one_of(st.none(), st.floats()), max_size=8), st.booleans())
def test_the_best_comes_first_and_nothing_is_lost(scores: list[float | None], maximise: bool) -> None:
    objective = Objective("f", maximise)
    trials = [replace(TRIAL, number=i, score=score) for i, score in enumerate(scores)]
    ranked = best_first(trials, objective)
    assert sorted(t.number for t in ranked) == list(range(len(trials)))
    known = [t.score for t in ranked if t.score is not None and math.isfinite(t.score)]
    assert [t.score for t in ranked[: len(known)]] == known == sorted(known, reverse=maximise)
    assert best_of(trials, objective) == (ranked[0] if known else None)
    assert best_of(trials, None) is None


def test_those_that_did_not_end_well_come_last() -> None:
    states = ["failed", "pruned", "waiting", "done"]
    trials = [replace(TRIAL, number=i, state=state, score=9.0 - i) for i, state in enumerate(states)]  # type: ignore[arg-type]
    assert [t.state for t in best_first(trials, Objective("f", True))] == ["done", "pruned", "failed", "waiting"]
    assert best_of(trials[:3], Objective("f", True)) is None


def test_figures_of_a_run_are_those_of_what_it_made_else_the_last_of_its_curves(store: RunStore) -> None:
    run = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run, [("a", "T", "a"), ("b", "T", "b")])
    for step in (1, 2):
        store.add_events(run, [Metrics(node="a", step=step, values={"loss": 1 / step, "rate": step})])
        store.add_events(run, [Metrics(node="b", step=step, values={"loss": 5.0 * step})])
    store.update_task(run, "a", state="done", outputs={"out": Report(uri="r")})
    found = figures_of_run(store, run)
    assert found == {"a.loss": 0.5, "b.loss": 10.0, "loss": 10.0, "a.rate": 2.0, "rate": 2.0}
    seen, steps = steps_of_run(store, run, "a.loss")
    assert steps == [(1, 1.0), (2, 0.5)]
    assert steps_of_run(store, run, "a.loss", seen) == (seen, [])
    assert source_of(store, run, "loss") == source_of(store, run, "b.loss") == "b.loss"
    assert source_of(store, run, "auc") is None


def test_an_evaluation_takes_no_plain_name_from_the_training(store: RunStore) -> None:
    """A sweep that was begun by `accuracy` goes on by the same figure."""
    run = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run, [("train", "T", "train"), ("judge", "T", "judge")])
    store.add_events(run, [Metrics(node="train", step=1, values={"accuracy": 0.8})])
    store.update_task(run, "judge", state="done", outputs={"out": Report(uri="r", figures={"accuracy": 0.6})})
    assert figures_of_run(store, run) == {"train.accuracy": 0.8, "accuracy": 0.8, "judge.accuracy": 0.6}
    assert source_of(store, run, "accuracy") == "train.accuracy"


def test_trials_can_be_judged_by_an_evaluation(store: RunStore) -> None:
    run = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run, [("train", "T", "train"), ("judge", "T", "judge")])
    store.add_events(run, [Metrics(node="train", step=1, values={"val_auc": 0.8})])
    report = Report(uri="r", figures={"auc": 0.9, "rmse": 2, "volumes": 40, "auc_std": 0.1, "data": "ff"})
    store.update_task(run, "judge", state="done", outputs={"out": report})
    found = figures_of_run(store, run)
    assert found == {
        "train.val_auc": 0.8, "val_auc": 0.8, "judge.auc": 0.9, "auc": 0.9, "judge.rmse": 2.0, "rmse": 2.0
    }  # fmt: skip
    assert usual_objective(found) == Objective("val_auc", True)
    assert not objective_of("judge.rmse").maximise


def test_a_cached_trial_has_the_figures_that_were_reported_when_it_was_made(store: RunStore) -> None:
    maker, run = (store.create_run("p", "{}", {}, "local") for _ in range(2))
    for step in (1, 2):
        store.add_events(maker, [Metrics(node="a", step=step, values={"val_accuracy": 0.4 * step})])
    store.results.put(stored_result("f", node="a", run_id=maker))
    store.set_tasks(run, [("a", "T", "a")])
    store.update_task(run, "a", state="cached", fingerprint="f", outputs=stored_result("f").outputs)
    assert figures_of_run(store, run) == {"a.val_accuracy": 0.8, "val_accuracy": 0.8}
    assert steps_of_run(store, run, "a.val_accuracy") == (0, []), "nothing to give it up by"
