"""The time and the cost that are expected of a sweep: what is shared once, what differs in each trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from building import box, pipeline
from earlier_runs import ran
from hypothesis import given
from hypothesis import strategies as st

from engine.advisor.run_estimate import SCATTER, NodeTime, RunEstimate
from engine.catalog import Catalog
from engine.document.pipeline import Pipeline
from engine.profiles import Profile
from engine.store.estimates import Estimated, RequestCost
from engine.store.runs import RunStore
from engine.store.sweeps import Sweep
from engine.sweep.expected import SweepEstimate, against_estimate
from engine.sweep.forecast import Forecast, TrialForecast, _Others, _side_by_side, _together, expect, forecast
from engine.sweep.options import SweepOptions
from engine.sweep.score import Objective
from engine.sweep.space import read_space
from engine.sweep.spent import Spent
from engine.sweep.trials import SweepInputs
from engine.workspace import Workspace

DESK = Profile(name="desk", cores=4, memory_bytes=16 * 10**9)
VM = DESK.model_copy(update={"price_per_hour": 3600.0, "currency": "USD"})


def _document() -> Pipeline:
    """Data that all trials share, and a model."""
    return pipeline(box("data", "Make"), box("model", "Fail"), wires="data.out>model.first")


class _Sweeps:
    def __init__(self, probes: Catalog, workspace: Workspace, store: RunStore) -> None:
        self._probes, self._workspace, self._store = probes, workspace, store

    def options(self, *settings: str, **more: Any) -> SweepOptions:
        space = read_space(settings, _document(), self._probes, searched=more.get("trials") is not None)
        return SweepOptions(space, base=self._workspace.root, **more)

    def __call__(self, *settings: str, profile: Profile = DESK, most: int = 500, **more: Any) -> Forecast:
        return forecast(self._inputs(profile, *settings, **more), most)

    def expect(self, *settings: str, **more: Any) -> SweepEstimate | None:
        return expect(self._inputs(DESK, *settings, **more))

    def _inputs(self, profile: Profile, *settings: str, **more: Any) -> SweepInputs:
        options = self.options(*settings, **more)
        return SweepInputs(_document(), self._probes, self._workspace, self._store, options, profile)


@pytest.fixture
def sweeps(probes: Catalog, workspace: Workspace, store: RunStore) -> _Sweeps:
    return _Sweeps(probes, workspace, store)


@pytest.fixture
def known(store: RunStore) -> None:
    ran(store, "data", "Make", 100, None)
    ran(store, "model", "Fail", 10, None)


def _range(low: float, high: float) -> tuple[object, object]:
    return pytest.approx(low / SCATTER, rel=1e-3), pytest.approx(high * SCATTER, rel=1e-3)


@pytest.mark.usefixtures("known")
def test_what_trials_share_is_counted_once(sweeps: _Sweeps) -> None:
    found = sweeps("model.times=1,2,3", profile=VM)
    assert [trial.runs for trial in found.trials] == [("data", "model"), ("model",), ("model",)]
    assert (found.expected.time.low, found.expected.time.high) == _range(130, 130)
    assert found.expected.cost == (found.expected.time.low, found.expected.time.high), "1 USD a second"
    assert found.expected.line() == "expected time: 1 min 40 s to 2 min 49 s; cost: 100.00 to 169.00 USD"
    assert found.notes[0].startswith("price: 3,600 USD an hour: price_per_hour of the profile desk")
    assert found.times == {"data": 1, "model": 3}
    # What differs is counted in each.
    each = sweeps("data.text=a,b,c")
    assert (each.expected.time.low, each.expected.time.high) == _range(330, 330)


def test_what_is_unknown_is_called_unknown(sweeps: _Sweeps, store: RunStore) -> None:
    nothing = sweeps("model.times=1,2")
    assert nothing.expected.line() == (
        "expected time and cost: unknown, without an earlier run of data, model,"
        " and the profile desk names neither a machine nor a price"
    )
    ran(store, "data", "Make", 100, None)
    part = sweeps("model.times=1,2", profile=VM).expected
    assert (part.time.low, part.time.high) == _range(100, 100)
    assert [name for name, _ in part.rows()] == ["time", "cost", "not counted"]
    assert part.rows()[1][1].endswith(" USD")
    assert part.line().endswith(" USD; not counted: model, which has no earlier run")
    assert part.as_json()["unknown"] == ["model"]


@pytest.mark.usefixtures("known")
def test_trials_side_by_side_may_gain_all_or_nothing(sweeps: _Sweeps) -> None:
    """Each has a part of the machine: from as long as alone to so many times as long."""
    side_by_side = sweeps("data.text=a,b,c,d", jobs=2, profile=VM)
    assert side_by_side.notes[0].startswith("with 2 at a time a trial takes up to 2 times as long as alone")
    found = side_by_side.expected
    assert (found.work.low, found.work.high) == _range(440, 880)
    assert (found.time.low, found.time.high) == _range(220, 440)
    shared = sweeps("model.times=1,2,3", jobs=3, profile=VM).expected
    # The data once, by the first trial while the others wait; then two models at once.
    assert (shared.time.low, shared.time.high) == _range(110, (110 + 10) * 3)


@pytest.mark.usefixtures("known")
def test_of_a_large_sweep_a_part_is_planned_and_the_rest_lies_between(sweeps: _Sweeps) -> None:
    found = sweeps("model.times=1,2,3,4,5,6", most=3)
    assert len(found.trials) == 3
    assert found.times == {"data": 1, "model": None}
    assert (found.expected.time.low, found.expected.time.high) == _range(160, 160)


@pytest.mark.usefixtures("known")
def test_a_search_lies_between_the_ends_of_its_ranges(sweeps: _Sweeps) -> None:
    searched = sweeps("model.times=1..9", trials=10, objective=Objective("auc", True), prune=False)
    assert not searched.trials
    assert searched.times == {"data": 1, "model": None}
    assert (searched.expected.time.low, searched.expected.time.high) == _range(200, 200)
    # Only the first trials are never given up.
    pruned = sweeps("model.times=1..9", trials=10, objective=Objective("auc", True)).expected
    assert (pruned.time.low, pruned.time.high) == _range(140, 200)
    # Where there are but two combinations they may come again, and are then up to date.
    few = sweeps("model.times=1,2", trials=10, objective=Objective("auc", True), prune=False).expected
    assert (few.time.low, few.time.high) == _range(120, 200)


def test_nothing_to_do_says_nothing(sweeps: _Sweeps) -> None:
    done = SweepEstimate(Estimated(), Estimated())
    assert (done.has_work, done.line()) == (False, "")


@pytest.mark.usefixtures("known")
def test_an_estimate_is_kept_with_the_sweep_and_put_beside_what_it_was(sweeps: _Sweeps) -> None:
    expected = sweeps("model.times=1,2,3", profile=VM).expected
    requests = (RequestCost("az://data", 1.0, "USD"),)
    asked = replace(expected, work=replace(expected.work, requests=requests))
    assert SweepEstimate.of(asked.as_options()) == asked
    assert SweepEstimate.of({}) is None
    assert dict(asked.rows())["cost"] == "101.00 to 170.00 USD, of which 1.00 USD for requests to az://data"
    done = Sweep("s", "p", "{}", asked.as_options(), "desk", "done", "", 0.0, 1.0, 1, False, worked_s=131.0)
    assert against_estimate(done, Spent(131.0, 131.0, "USD")) == (
        "expected time: 1 min 40 s to 2 min 49 s; cost: 100.00 to 169.00 USD; it took 2 min 11 s, 131.00 USD"
    )
    free = replace(asked, price=None)
    unpriced = replace(done, options=free.as_options())
    assert against_estimate(unpriced, Spent(131.0)) == "expected time: 1 min 40 s to 2 min 49 s; it took 2 min 11 s"
    assert against_estimate(replace(done, state="failed"), Spent(131.0)) == ""
    assert against_estimate(replace(done, options={}), Spent(131.0)) == ""


def test_a_sweep_starts_although_it_cannot_be_estimated(sweeps: _Sweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no figure")

    monkeypatch.setattr("engine.sweep.forecast.estimate_run", fails)
    with pytest.warns(UserWarning, match="could not be estimated: ValueError: no figure"):
        assert sweeps.expect("model.times=1,2") is None


def _trial(low: float, high: float, makes: Sequence[str] = ()) -> TrialForecast:
    estimate = RunEstimate((NodeTime("n", low, high),), {}, None)
    return TrialForecast({}, ("n",), estimate, frozenset(makes))


def test_a_trial_waits_for_what_another_makes() -> None:
    trials = [_trial(0, 10, ["data", "a"]), _trial(0, 5, ["data", "b"]), _trial(0, 7, ["c"])]
    assert _side_by_side(trials, [10, 5, 7], jobs=2) == 15
    assert _side_by_side(trials, [10, 5, 7], jobs=1) == 22
    assert _side_by_side([], [], jobs=2) == 0


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(0, 1e4), st.floats(1, 3), st.sets(st.sampled_from("abcd"))), min_size=1, max_size=8),
    st.integers(1, 5),
    st.integers(0, 6),
)
def test_the_least_is_never_more_than_the_most(
    given_trials: list[tuple[float, float, set[str]]], jobs: int, others: int
) -> None:
    trials = [_trial(low, low * times, sorted(makes)) for low, times, makes in given_trials]
    time, work = _together(trials, _Others(trials, others, others), jobs)
    for each in (time, work):
        assert each.low is not None
        assert each.high is not None
        assert each.low <= each.high * (1 + 1e-9)
    assert (time.high or 0) <= (work.high or 0) * (1 + 1e-9), "the clock goes at most as long as all runs together"
