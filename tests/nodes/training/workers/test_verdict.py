"""What a group that failed tells: the first cause, where it happened, and how to go on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from engine.errors import Cancelled, DataError, ExecutionError, StaleInput, TooManyBadFiles, UsageError, VoxelflowError
from nodes.training.workers.group import Seen
from nodes.training.workers.job import Done, End, Failed, Seat

SEATS = {0: Seat(host="a", pid=10), 1: Seat(host="b", pid=20)}
ALONE = Failed(known=False, code="task-failed", message="UnavailableError: Socket closed", alone=True)
BUG = Failed(known=False, code="task-failed", message="KeyError: 3")
BAD = Failed(known=True, code="data", message="v.npy is damaged", hint="Mend it.", parameter="classes")


def error(
    words: Mapping[int, Done | Failed], ends: Mapping[int, int] = {}, problem: str = "", cancelled: bool = False
) -> VoxelflowError:
    seen = Seen(words, {rank: End(status=status) for rank, status in ends.items()}, SEATS, 2, problem, cancelled)
    assert seen.model() is None
    return seen.error("r1", "goes on after step 7")


def test_an_error_for_the_person_comes_first() -> None:
    found = error({0: ALONE, 1: BAD}, {0: 1, 1: 1})
    assert (type(found), found.message, found.hint, found.parameter) == (
        DataError,
        "v.npy is damaged",
        "Mend it.",
        "classes",
    )


@pytest.mark.parametrize("kind", [UsageError, DataError, StaleInput, TooManyBadFiles, Cancelled, ExecutionError])
def test_errors_keep_their_class(kind: type[VoxelflowError]) -> None:
    assert type(Failed(known=True, code=kind.code, message="m").error()) is kind


def test_a_killed_worker_is_blamed_and_not_the_one_that_missed_it() -> None:
    found = error({0: ALONE}, {0: 1, 1: -9})
    assert found.message == "worker 2 of 2 on b (process 20) was ended by SIGKILL"
    assert found.hint.startswith("`voxelflow runs resume r1` goes on after step 7. ")
    assert "memory" in found.hint
    assert error({}, {0: 66}).message.endswith("on a (process 10) ended with status 66 before it was done")


def test_a_mistake_in_the_program_names_the_log() -> None:
    found = error({0: BUG, 1: ALONE}, {0: 1, 1: 1})
    assert found.message == "worker 1 of 2 on a (process 10) failed: KeyError: 3"
    assert "log" in found.hint


def test_a_lost_executor_names_the_worker_that_was_on_it() -> None:
    found = error({0: ALONE}, {0: 1}, problem="executor 3 was lost")
    assert found.message == "worker 2 of 2 on b (process 20) was lost (executor 3 was lost)"
    assert error({}, problem="no route").message == "a worker was lost (no route)"


def test_nobody_knows_more() -> None:
    assert error({1: ALONE}, {1: 1}).message == "worker 2 of 2 on b (process 20) lost touch with the others"


def test_a_cancel_is_no_failure_of_those_who_were_ended() -> None:
    assert isinstance(error({}, {0: -9}, cancelled=True), Cancelled)
