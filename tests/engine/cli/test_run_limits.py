"""Limits of runs as the command takes them; that they stop a run is tested in `tests/engine/run/test_limit.py`."""

from __future__ import annotations

import os
import time

import pytest
from building import box, pipeline
from command_line import Command, Save

from engine.limit import Limit
from engine.store.runs import RunStore
from engine.wording import limit_line, resume_command


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--stop-after", "3"), "3h, 90min"),
        (("--stop-at-cost", "20"), "what an hour of it costs is not known"),
        (("--stop-after", "3h", "--no-limit"), "--no-limit"),
    ],
)
def test_a_limit_that_cannot_be_kept_starts_nothing(
    command: Command, save: Save, store: RunStore, options: tuple[str, ...], message: str
) -> None:
    command("run", save(pipeline(box("a", "Make"))), *options).fails(message)
    assert store.runs() == []


def _ended(store: RunStore, state: str, worked_s: float, **options: object) -> str:
    run_id = store.create_run("p", "{}", options, "gpu")
    store.begin_attempt(run_id)
    store.finish_run(run_id, state)  # type: ignore[arg-type]
    ended = time.time()
    with store.write() as db:
        db.execute("UPDATE runs SET started = ?, ended = ? WHERE run_id = ?", (ended - worked_s, ended, run_id))
    return run_id


def test_a_run_that_used_its_limit_says_how_it_goes_on(command: Command, store: RunStore) -> None:
    limit = Limit(seconds=10800, cost=20)
    run_id = _ended(store, "cancelled", 10801, price_per_hour=2.0, currency="USD", **limit.as_options())
    run = store.run(run_id)
    assert run.stopped_at_limit
    assert resume_command(run) == f"`voxelflow runs resume {run_id} --stop-after 361min --stop-at-cost 26.01`"
    assert limit_line(run).startswith("stopped at its limit of 3 h 00 min; what is done is kept")
    shown = command("runs", "show", run_id).done().out
    assert "limit 3 h 00 min or 20.00 USD; at work for 3 h 00 min" in shown
    assert f"{resume_command(run)} goes on from what is done" in shown
    output = command("runs", "show", run_id, "--json").json
    assert (output["stop_after_s"], output["stop_at_cost"]) == (10800, 20)
    # One that something else has stopped keeps what is left.
    other = store.run(_ended(store, "failed", 60, **Limit(seconds=10800).as_options()))
    assert not other.stopped_at_limit
    assert resume_command(other) == f"`voxelflow runs resume {other.run_id}`"


def test_the_cost_is_named_when_it_is_the_cost_that_was_reached(store: RunStore) -> None:
    run_id = _ended(store, "cancelled", 3600, price_per_hour=20.0, **Limit(seconds=10800, cost=20).as_options())
    assert limit_line(store.run(run_id)).startswith("stopped at its limit of 20.00;")


def test_time_between_attempts_is_kept_apart(store: RunStore) -> None:
    run_id = _ended(store, "failed", 100)
    with store.write() as db:
        db.execute("UPDATE runs SET started = started - 1000, ended = ended - 1000 WHERE run_id = ?", (run_id,))
    store.begin_attempt(run_id)
    run = store.run(run_id)
    assert run.paused_s == pytest.approx(1000, abs=60)
    assert os.getpid() == run.pid
