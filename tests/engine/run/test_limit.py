"""Runs that are stopped at their limit, by their own process: nobody follows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import box, pipeline
from running import Runner

from engine.declare.events import Message
from engine.document.pipeline import Pipeline
from engine.errors import UsageError
from engine.limit import Limit
from engine.profiles import Profile
from engine.run import launch

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_runs")]


def _endless() -> Pipeline:
    """At work until the probes' gate is there."""
    return pipeline(
        box("slow", "Make", text="slow", steps=10, step_s=0.05), box("end", "Join"), wires="slow.out>end.first"
    )


def test_a_run_is_stopped_after_its_time_and_goes_on_with_a_higher_one(runner: Runner, probe_gate: Path) -> None:
    run_id = runner.start(_endless(), limit=Limit(seconds=0.5))
    run = runner.finish(run_id)
    assert run.state == "cancelled"
    assert run.stopped_at_limit
    assert run.worked_s >= 0.5
    assert run.error.startswith("stopped at its limit of 0.5 s; what is done is kept, and `voxelflow runs resume")
    assert "--stop-after" in run.error
    said = [e.text for _, e in runner.store.events(run_id) if isinstance(e, Message)]
    assert "stopped at its limit of 0.5 s" in said
    reasons = {node: task.reason for node, task in runner.tasks(run_id).items()}
    assert reasons == {"slow": "the run has reached its limit", "end": "the run was cancelled"}
    # Another attempt does not begin anew with the time.
    with pytest.raises(UsageError, match=r"has used its limit of 0\.5 s") as caught:
        launch.resume(runner.workspace, runner.store, run_id)
    assert "--no-limit" in caught.value.hint
    again, _ = runner.resume(run_id, limit=run.limit.more(run.worked_s, run.cost))
    assert (again.state, again.attempt) == ("cancelled", 2)
    assert again.worked_s >= run.limit.more(run.worked_s, run.cost).seconds_left(0, None)
    probe_gate.touch()
    done, tasks = runner.resume(run_id, limit=Limit())
    assert (done.state, done.limit) == ("done", Limit())
    assert runner.text(tasks["end"]) == "slow"


def test_a_run_is_stopped_at_its_cost_by_the_price_of_its_profile(runner: Runner, probe_gate: Path) -> None:
    runner.profile = Profile(
        name="dear", cores=2, memory_bytes=1 << 30, price_per_hour=7200.0, currency="USD", stop_at_cost=1.0
    )
    run = runner.finish(runner.start(_endless()))
    assert run.state == "cancelled"
    assert run.cost is not None
    assert run.cost >= 1
    assert run.error.startswith("stopped at its limit of 1.00 USD;")


def test_the_time_between_attempts_does_not_count(runner: Runner, probe_gate: Path) -> None:
    run_id = runner.start(_endless())
    runner.wait_for_progress(run_id, "slow")
    launch.cancel(runner.store, run_id)
    first = runner.finish(run_id)
    assert first.ended is not None
    probe_gate.touch()
    done, _ = runner.resume(run_id, limit=Limit(seconds=first.worked_s + 60))
    assert done.state == "done"
    assert done.seconds is not None
    assert done.started is not None
    assert done.ended is not None
    assert done.paused_s > 0
    assert done.seconds == pytest.approx(done.ended - done.started - done.paused_s)


def test_a_cost_that_cannot_be_counted_is_refused_before_the_run(runner: Runner) -> None:
    with pytest.raises(UsageError, match="cannot be stopped at a cost on the profile test"):
        runner.start(_endless(), limit=Limit(cost=20))
    assert runner.store.runs() == []
