"""What a group that failed reports: the first cause, where it happened, and how to go on."""

from __future__ import annotations

from collections.abc import Mapping

from engine.declare.events import Failure
from engine.errors import Cancelled, DataError, VoxelflowError
from engine.processes.messages import Result
from nodes.training.learner import LostWorkers as LostWorkers
from nodes.training.workers.folder import End, Seat
from nodes.training.workers.group import Outcome

SEATS = {0: Seat(host="a", pid=10), 1: Seat(host="b", pid=20)}
LOST = Failure(code=LostWorkers.code, message="UnavailableError: Socket closed")
BUG = Failure(code="task-failed", message="KeyError: 3")
BAD = Failure(code="data", message="v.npy is damaged", hint="Mend it.", parameter="classes")


def error(
    reports: Mapping[int, Result | Failure], ends: Mapping[int, int] = {}, problem: str = "", cancelled: bool = False
) -> VoxelflowError:
    outcome = Outcome(
        reports, {rank: End(status=status) for rank, status in ends.items()}, SEATS, 2, problem, cancelled
    )
    assert outcome.model() is None
    return outcome.error("r1", "goes on after step 7")


def test_an_error_for_the_person_comes_first() -> None:
    found = error({0: LOST, 1: BAD}, {0: 1, 1: 1})
    assert (type(found), found.message, found.hint, found.parameter) == (
        DataError,
        "v.npy is damaged",
        "Mend it.",
        "classes",
    )


def test_a_killed_worker_is_blamed_and_not_the_one_that_missed_it() -> None:
    found = error({0: LOST}, {0: 1, 1: -9})
    assert found.message == "worker 2 of 2 on b (process 20) was ended by SIGKILL before it was done"
    assert found.hint.startswith("`voxelflow runs resume r1` goes on after step 7. ")
    assert "memory" in found.hint
    assert error({}, {0: 66}).message.endswith("on a (process 10) ended with exit status 66 before it was done")


def test_a_mistake_in_the_program_names_the_log() -> None:
    found = error({0: BUG, 1: LOST}, {0: 1, 1: 1})
    assert found.message == "worker 1 of 2 on a (process 10) failed: KeyError: 3"
    assert "log" in found.hint


def test_a_lost_executor_names_the_worker_that_was_on_it() -> None:
    found = error({0: LOST}, {0: 1}, problem="executor 3 was lost")
    assert found.message == "worker 2 of 2 on b (process 20) was lost (executor 3 was lost)"
    assert error({}, problem="no route").message == "a worker was lost (no route)"


def test_nobody_knows_more() -> None:
    assert error({1: LOST}, {1: 1}).message == "worker 2 of 2 on b (process 20) lost touch with the others"


def test_a_cancel_is_no_failure_of_those_who_were_ended() -> None:
    assert isinstance(error({}, {0: -9}, cancelled=True), Cancelled)
