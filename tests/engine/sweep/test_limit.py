"""Sweeps that are stopped at their limit, by their own process, and what they have spent."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from building import box, pipeline, some_run
from swept import Swept
from swept import document as swept_document
from waiting import wait_until

from engine.document.pipeline import Pipeline
from engine.errors import UsageError
from engine.limit import Limit
from engine.profiles import find_profile
from engine.store.runs import RunStore
from engine.store.sweeps import Sweep
from engine.sweep.drive import _Spent
from engine.sweep.spent import Spent, limit_line, resume_command, spent, stopped_at_limit, worked_alone
from engine.sweep.start import resume_sweep
from engine.workspace import Workspace


@pytest.fixture
def swept(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Swept:
    monkeypatch.chdir(workspace.root.parent)
    return Swept(workspace)


@pytest.fixture
def gate() -> Path:
    return Path("gate").absolute()


VALUES = "model.auc=0.6,0.9"
STOPPED = Sweep(
    "s", "p", "{}", Limit(3600, 20).as_options(), "gpu", "cancelled", "", 0.0, 7300.0, 1, False, worked_s=3601.0
)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_sweep_is_stopped_after_its_time_and_goes_on_with_a_higher_one(swept: Swept, gate: Path) -> None:
    sweep = swept.start(swept_document(gate=str(gate)), VALUES, limit=Limit(seconds=1.0))
    ended, trials = swept.finished(sweep)
    assert ended.state == "cancelled"
    assert ended.worked_s >= 1
    assert ended.error.startswith("stopped at its limit of 1.0 s; what is done is kept, and `voxelflow sweep resume")
    assert "--stop-after" in ended.error
    used = spent(swept.store, ended)
    assert stopped_at_limit(ended, used)
    assert not [t for t in trials if t.state in ("done", "failed")]
    runs = [swept.store.run(run) for run in swept.runs(sweep)]
    assert {(run.state, run.error) for run in runs} <= {("cancelled", "the sweep has reached its limit")}
    # Another attempt, or the same command again, does not begin anew with the time.
    with pytest.raises(UsageError, match=r"has used its limit of 1\.0 s: it has spent") as caught:
        resume_sweep(swept.workspace, swept.store, sweep.sweep_id)
    assert "--no-limit" in caught.value.hint
    with pytest.raises(UsageError, match="has used its limit"):
        swept.start(swept_document(gate=str(gate)), VALUES, limit=Limit(seconds=1.0))
    again, _ = swept.resume(sweep, ended.limit.more(used.worked_s, used.cost))
    assert again.state == "cancelled"
    assert again.worked_s >= ended.worked_s + 1
    gate.touch()
    done, trials = swept.resume(sweep, Limit())
    assert (done.state, done.error, done.limit, [t.score for t in trials]) == ("done", "", Limit(), [0.6, 0.9])
    assert len(swept.runs(sweep)) == 2, "what was begun goes on"
    assert not stopped_at_limit(done, spent(swept.store, done))


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_sweep_is_stopped_at_the_cost_of_all_its_runs(swept: Swept, gate: Path) -> None:
    (swept.workspace.root / "profiles.toml").write_text("[dear]\nprice_per_hour = 3600\n")
    dear = find_profile("dear", swept.workspace)
    sweep = swept.start(swept_document(gate=str(gate)), VALUES, profile=dear, jobs=2, limit=Limit(cost=3.0))
    ended, _ = swept.finished(sweep)
    assert ended.state == "cancelled"
    assert ended.error.startswith("stopped at its limit of 3.00;")
    used = spent(swept.store, ended)
    assert used.cost is not None
    assert used.cost >= 3
    costs = [run.cost for run in swept.store.runs_of_sweep(sweep.sweep_id)]
    assert len(costs) == 2, "two at a time"
    assert sum(cost or 0.0 for cost in costs) == pytest.approx(used.cost)
    gate.touch()
    done, trials = swept.resume(sweep, Limit(cost=1e6))
    assert (done.state, [t.score for t in trials]) == ("done", [0.6, 0.9])


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_time_that_runs_went_on_without_the_sweeps_process_counts(
    swept: Swept, gate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOXELFLOW_KILL_AT", "sweep:run-started")
    monkeypatch.setenv("VOXELFLOW_KILL_ONCE", str(tmp_path / "killed"))
    sweep = swept.start(swept_document(gate=str(gate)), VALUES)
    lost, _ = swept.finished(sweep)
    assert (lost.state, lost.heartbeat is None) == ("lost", False)
    (run_id,) = swept.runs(sweep)
    wait_until(lambda: swept.store.run(run_id).worked_s > lost.worked_s + 0.5, "a run that goes on by itself")
    gate.touch()
    wait_until(lambda: swept.store.run(run_id).state == "done", "its end")
    alone = swept.store.run(run_id).worked_s
    done, _ = swept.resume(sweep)
    assert (done.state, done.heartbeat) == ("done", None)
    assert done.worked_s >= alone - 0.1


def test_a_limit_that_cannot_be_kept_starts_nothing(swept: Swept) -> None:
    with pytest.raises(UsageError, match="the sweep cannot be stopped at a cost on the profile local"):
        swept.start(swept_document(), VALUES, limit=Limit(cost=20))
    assert swept.store.sweeps.newest() == []


def test_a_sweep_that_used_its_limit_says_how_it_goes_on() -> None:
    used = Spent(3601.0, 9.5, "USD")
    assert stopped_at_limit(STOPPED, used)
    assert resume_command(STOPPED, used) == "`voxelflow sweep resume s --stop-after 121min --stop-at-cost 29.5`"
    assert limit_line(STOPPED, used).startswith("stopped at its limit of 1 h 00 min; what is done is kept, and")
    dear = replace(STOPPED, worked_s=100.0)
    assert limit_line(dear, Spent(100.0, 20.0, "USD")).startswith("stopped at its limit of 20.00 USD;")
    # One that something else has stopped keeps what is left, and one that is done needs none.
    early = Spent(100.0, 1.0, "USD")
    assert not stopped_at_limit(dear, early)
    assert resume_command(dear, early) == "`voxelflow sweep resume s`"
    assert not stopped_at_limit(replace(STOPPED, state="done"), used)
    assert not stopped_at_limit(replace(STOPPED, options={}), used)


def test_a_cost_that_is_not_known_reaches_no_limit() -> None:
    assert not Limit(cost=20).is_used(1e9, None)
    assert Limit(cost=20).is_used(0, 20)
    assert Limit(seconds=5).is_used(5, None)
    assert not Limit().is_used(1e9, 1e9)


def test_what_runs_worked_alone_is_no_longer_than_they_worked() -> None:
    lost = replace(STOPPED, state="lost", heartbeat=1000.0)
    went_on = some_run(started=900, ended=1060)
    assert worked_alone(lost, [went_on, some_run(started=900, ended=950)]) == 60
    # Resumed by hand a day later, for a minute.
    later = some_run(started=900, ended=90_000, paused_s=90_000 - 900 - 160)
    assert worked_alone(lost, [later]) == 160
    assert worked_alone(lost, []) == 0
    assert worked_alone(STOPPED, [went_on]) == 0, "it has ended by itself"


def half_an_hour(store: RunStore, sweep_id: str, **options: object) -> None:
    """A run of the sweep that was half an hour at work."""
    run_id = store.create_run("p", "{}", {"sweep": sweep_id, "trial": 0, **options}, "local")
    store.begin_attempt(run_id)
    store.finish_run(run_id, "done")
    now = time.time()
    with store.write() as db:
        db.execute("UPDATE runs SET started = ?, ended = ? WHERE run_id = ?", (now - 1800, now, run_id))


def test_a_sweep_of_runs_without_a_price_has_no_cost(store: RunStore) -> None:
    sweep_id = store.sweeps.create("p", '{"name": "p"}', {}, "local")
    assert spent(store, store.sweeps.find(sweep_id)) == Spent(0.0)
    for price in (2.0, None):
        half_an_hour(store, sweep_id, price_per_hour=price)
    store.sweeps.beat(sweep_id, 1800.0)
    found = spent(store, store.sweeps.find(sweep_id))
    assert (found.worked_s, found.cost) == (1800.0, pytest.approx(1.0))
    assert found.text() == "30 min 00 s and 1.00"


def test_what_a_sweep_has_spent_is_summed_in_each_currency(store: RunStore) -> None:
    """The one of its newest run is that of its limit."""
    limit = Limit(cost=2.5)
    sweep_id = store.sweeps.create("p", '{"name": "p"}', limit.as_options(), "local")
    for price, currency in ((2.0, "USD"), (3.0, "EUR"), (1.0, "EUR")):
        half_an_hour(store, sweep_id, price_per_hour=price, currency=currency)
    store.sweeps.beat(sweep_id, 1800.0)
    found = spent(store, store.sweeps.find(sweep_id))
    assert (found.cost, found.currency) == (pytest.approx(2.0), "EUR")
    assert found.text() == "30 min 00 s and 2.00 EUR and 1.00 USD"
    assert not _Spent(store, store.sweeps.find(sweep_id)).is_all, "2.00 of 2.50 EUR"


def test_the_limit_is_kept_with_the_sweep_and_is_no_part_of_what_it_is(workspace: Workspace, swept: Swept) -> None:
    learnt: Pipeline = pipeline(box("data", "Make"), name="learnt")
    plain = swept.options(learnt, "data.steps=1,2").as_json(learnt, "local")
    limited = swept.options(learnt, "data.steps=1,2", limit=Limit(seconds=60)).as_json(learnt, "local")
    assert limited["key"] == plain["key"]
    assert Limit.of(limited) == Limit(seconds=60)
