"""Sweeps and searches, asked about, started and watched through a tab."""

from __future__ import annotations

import time

import pytest
from building import box, pipeline
from canvas_tab import OpenTab, Tab

from engine.limit import Limit
from engine.store.estimates import Estimated
from engine.store.runs import RunStore
from engine.store.sweeps import Sweep
from engine.sweep.expected import SweepEstimate
from engine.sweep.options import SweepOptions
from engine.sweep.score import Objective
from engine.sweep.space import Range
from engine.sweep.trials import SweepInputs
from ui.protocol.commands import ForecastSweep, RunLimit, Search, StartRun, StartSweep
from ui.protocol.notices import Message, RunShown, SweepForecast


def _is_done(tab: Tab) -> bool:
    shown = tab.all(RunShown)
    return bool(shown) and shown[-1].run is not None and shown[-1].run.state == "done"


def test_a_search_is_passed_on_as_typed(open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SweepOptions] = []

    def start(inputs: SweepInputs) -> Sweep:
        asked.append(inputs.options)
        expected = SweepEstimate(Estimated(60, 120), Estimated(60, 120), 3600.0, "USD")
        earlier = {"before": {"sweep": "r", "node": "a"}}
        options = expected.as_options() | earlier
        return Sweep("s", "searched", "{}", options, "local", "running", "", time.time(), None, 1, False)

    monkeypatch.setattr("ui.build.document_runs.start_sweep", start)
    tab = open_tab(pipeline(box("a", "Make", text="x"), box("b", "Make"), name="searched"))
    assert tab.document is not None
    search = Search(trials=7, figure="val_loss", maximise=False)
    values = {"b.steps": "1..9", "a.text": "y"}
    limit = RunLimit(stop_after="3h", stop_at_cost=20)
    tab.say(
        StartSweep(document=tab.document, profile="local", end=None, values=values, jobs=2, search=search, limit=limit)
    )
    (said,) = tab.wait(lambda: [m for m in tab.all(Message) if m.text == "A sweep of 7 trials is at work"])
    outlook = "Expected time: 1 min 00 s to 2 min 00 s; cost: 60.00 to 120.00 USD."
    why = "A new sweep: what a does or reads has changed since sweep r, of the same settings, began."
    assert said.hint == f"{why} {outlook} The page Runs ranks them; the canvas shows the newest."
    (options,) = asked
    assert options.limit == Limit(10_800, 20)
    assert options.objective == Objective("val_loss", maximise=False)
    assert options.space.ranges == {"b.steps": Range(1, 9, whole=True)}
    assert (options.trials, options.jobs) == (7, 2)


@pytest.mark.slow
def test_what_a_sweep_would_run_is_known_before_it_starts(open_tab: OpenTab, store: RunStore) -> None:
    tab = open_tab(
        pipeline(
            box("a", "Make", text="${text}"), box("b", "Make"), box("c", "Join"),
            wires="a.out>c.first b.out>c.second", name="swept", text="x",
        )
    )  # fmt: skip
    asked = 0

    def ask(**values: str) -> SweepForecast:
        nonlocal asked
        asked += 1
        assert tab.document is not None
        question = {"document": tab.document, "profile": "local", "end": None, "values": values, "jobs": 2}
        tab.say(ForecastSweep.model_validate({**question, "request": asked}))
        return tab.wait_for(SweepForecast, lambda found: found.request == asked)

    assert tab.document is not None
    tab.say(StartRun(document=tab.document, profile="local", start=None, end=None, fresh=False, values={}, limit=None))
    tab.wait(lambda: _is_done(tab), "a run that is done")
    found = ask(**{"text": "x,y,z", "b.steps": "1,2"})
    assert (found.trials, found.problem) == (6, "")
    # What has run with these values is there already.
    assert {each.node: each.times for each in found.nodes} == {"a": 2, "b": 1, "c": 5}
    time, cost = found.expected
    assert (time.name, cost.name) == ("time", "cost")
    assert " to " in time.text
    assert cost.text.startswith("unknown, as ")
    assert ask(text="x,x").problem.startswith("nothing varies in this sweep")
    assert "b.steps: must be at least 0 steps, not -2" in ask(**{"b.steps": "1,-2"}).problem
    assert store.sweeps.newest() == []


@pytest.mark.slow
def test_a_sweep_is_started_as_typed_and_its_runs_are_shown(open_tab: OpenTab, store: RunStore) -> None:
    tab = open_tab(pipeline(box("a", "Make", text="${text}"), box("b", "Make"), name="swept", text="x"))
    assert tab.document is not None

    def sweep(**values: str) -> None:
        assert tab.document is not None
        tab.say(StartSweep(document=tab.document, profile="local", end=None, values=values, jobs=2))

    sweep(text="one")
    tab.wait(lambda: [m for m in tab.all(Message) if "nothing varies" in m.text], "a refusal")
    sweep(**{"b.steps": "1,-2"})
    tab.wait(
        lambda: [m for m in tab.all(Message) if "b.steps: must be at least 0 steps, not -2" in m.text], "a refusal"
    )
    assert store.sweeps.newest() == []
    sweep(**{"text": 'one,"two, three"', "b.steps": "1,2"})
    tab.wait(lambda: [m for m in tab.all(Message) if m.text == "A sweep of 4 trials is at work"], "the sweep")
    tab.wait(lambda: store.sweeps.newest()[0].state == "done", "its end")
    (found,) = store.sweeps.newest()
    assert [t.values["text"] for t in store.sweeps.trials(found.sweep_id)] == ["one", "one", "two, three", "two, three"]
    assert found.options["source"] == "swept"
    tab.wait(lambda: _is_done(tab), "a run that is shown")
    last = tab.last(RunShown).run
    assert last is not None
    assert last.run_id in store.sweeps.runs_of_trials(found.sweep_id).values()
