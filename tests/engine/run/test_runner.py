"""What tests run pipelines with: it has an end, says what it saw, and leaves no run behind."""

from __future__ import annotations

import pytest
from running import Runner, end_active
from waiting import has_ended, wait_until


def test_for_what_a_run_did_not_do_nobody_waits_once_it_has_ended(runner: Runner) -> None:
    runner.store.put_run("r", "p", "{}", {}, "local", "failed", "it broke", created=1.0, ended=2.0)
    with pytest.raises(AssertionError, match=r"will not happen: run r is failed \(it broke\), its tasks are none$"):
        runner.wait_for("r", "a", "done")


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs", "probe_gate")
@pytest.mark.parametrize("when", ["after its time", "at the end of a test"])
def test_a_run_that_does_not_end_is_killed(runner: Runner, when: str) -> None:
    run_id, worker = runner.start_slow()
    if when == "after its time":
        runner.longest_s = 0.0
        with pytest.raises(
            AssertionError, match=r"within 0 s: .* is running, .* first done, slow running, end queued$"
        ):
            runner.finish(run_id)
    else:
        end_active(runner.store)
    wait_until(lambda: has_ended(worker), "the end of its worker")
    assert runner.store.run(run_id).state == "lost"
