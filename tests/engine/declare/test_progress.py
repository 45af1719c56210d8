"""Phases, the share of a whole task that is done, and the time that it has left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.declare.events import Progress
from engine.declare.progress import Meter, Phases, PlannedWork, current_phases, current_reporter, enter_phase


class Recorder:
    """A reporter that keeps what it gets, and the time that passes as the test says."""

    def __init__(self) -> None:
        self.events: list[Progress] = []
        self.now = 0.0

    def emit(self, event: Progress, /) -> None:
        self.events.append(event)

    def cancelled(self) -> bool:
        return False

    def clock(self) -> float:
        return self.now


SECONDS = st.floats(0, 1e6, allow_nan=False)
COUNTS = st.integers(0, 50)


@st.composite
def trainings(draw: st.DrawFn) -> tuple[dict[str, PlannedWork], list[tuple[str, float, float]]]:
    """Work of two kinds, and what is done of it: kind, how far, after how many seconds."""
    work = {
        name: PlannedWork(total, draw(st.integers(0, total + 5)), draw(st.sampled_from([0, 0.5, 1, 3])))
        for name in ("train", "judge")
        for total in [draw(st.integers(0, 60))]
    }
    steps = draw(
        st.lists(st.tuples(st.sampled_from(["train", "judge", "other"]), st.floats(0, 80), SECONDS), max_size=30)
    )
    return work, steps


@pytest.mark.slow
@given(trainings())
def test_the_time_left_is_never_negative_and_the_share_never_falls(
    training: tuple[dict[str, PlannedWork], list[tuple[str, float, float]]],
) -> None:
    work, steps = training
    recorder = Recorder()
    phases = Phases(recorder, clock=recorder.clock)
    phases.enter("Starting")
    phases.plan(work)
    for kind, done, seconds in steps:
        phases.enter(kind.title(), kind)
        recorder.now += seconds
        phases.emit(Progress(done=done))
    phases.drop_rest("train")
    phases.drop_rest("judge")
    phases.enter("Saving")
    shares = [event.share for event in recorder.events if event.share is not None]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    assert all(event.left_s is None or event.left_s >= 0 for event in recorder.events)
    assert recorder.events[-1].left_s in (None, 0)
    assert {event.phase for event in recorder.events} <= {"Starting", "Train", "Judge", "Other", "Saving"}


@given(COUNTS, COUNTS, st.integers(3, 50), st.floats(0.01, 1000))
def test_what_was_done_before_is_not_counted_as_done_in_these_seconds(
    before: int, rest: int, now: int, pace: float
) -> None:
    """Equal steps: the time left is that of the rest at the pace of this process, whatever came before."""
    recorder = Recorder()
    phases = Phases(recorder, clock=recorder.clock)
    phases.plan({"train": PlannedWork(before + now + rest, before)})
    phases.enter("Epoch", "train")
    for step in range(now):
        recorder.now += pace
        phases.emit(Progress(done=before + step + 1))
    assert phases.seconds_left == pytest.approx(rest * pace)
    assert phases.share == pytest.approx((before + now) / (before + now + rest))


def test_the_first_step_which_compiles_is_no_pace() -> None:
    recorder = Recorder()
    phases = Phases(recorder, clock=recorder.clock)
    phases.plan({"train": PlannedWork(100), "judge": PlannedWork(30, weight=0.5), "save": PlannedWork(2, weight=0)})
    phases.enter("Epoch 1 of 1", "train")
    recorder.now = 20
    phases.emit(Progress(done=1))
    assert phases.seconds_left is None
    recorder.now = 20.5
    phases.emit(Progress(done=2))
    # 98 steps of half a second, 30 that are taken for half as long each, and saving, of which nothing is known.
    assert phases.seconds_left == pytest.approx(98 * 0.5 + 30 * 0.25)


def test_a_change_of_speed_is_followed() -> None:
    recorder = Recorder()
    phases = Phases(recorder, clock=recorder.clock)
    phases.plan({"train": PlannedWork(1000)})
    phases.enter("Epoch", "train")
    for step in range(200):
        recorder.now += 1.0 if step < 100 else 4.0
        phases.emit(Progress(done=step + 1))
    assert phases.seconds_left == pytest.approx(800 * 4, rel=0.05)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    out = Recorder()
    token = current_reporter.set(out)
    yield out
    current_reporter.reset(token)


def test_every_report_of_a_meter_names_the_phase(recorder: Recorder) -> None:
    with Phases(recorder).reporting() as phases:
        assert current_phases() is phases
        enter_phase("Measuring the input")
        Meter(10, "volumes", "").add(3)
        phases.waited = lambda: 2.5
        phases.enter("Epoch 1 of 2")
    assert [(event.phase, event.done, event.waited_s) for event in recorder.events] == [
        ("Measuring the input", 0, None),
        ("Measuring the input", 3, None),
        ("Epoch 1 of 2", 0, 2.5),
    ]
    assert [event.counts for event in recorder.events] == [False, True, False]
    # How long the whole takes is not known: the phase's own end is not the task's.
    assert all(event.whole is None and event.seconds_left is None for event in recorder.events)


def test_a_phase_has_a_name_without_anybody_who_counts_them(recorder: Recorder) -> None:
    enter_phase("Looking")
    assert [event.phase for event in recorder.events] == ["Looking"]


def test_outside_a_run_phases_say_nothing() -> None:
    enter_phase("Looking")
    phases = current_phases()
    phases.enter("Looking")
    assert not phases.cancelled()


def test_without_phases_the_share_is_that_of_the_count() -> None:
    assert Progress(done=1, total=4).whole == 0.25
    assert Progress(done=9, total=4).whole == 1
    assert Progress(done=1).whole is None
    assert Progress(done=0, total=0).whole is None
    assert Progress(done=1, total=4, rate=1, phase="Measuring").seconds_left is None


def test_samples_are_those_of_the_work_that_the_task_is_about(recorder: Recorder) -> None:
    with Phases(recorder).reporting() as phases:
        phases.plan({"train": PlannedWork(100, 20), "judge": PlannedWork(30, weight=0.5)})
        phases.enter("Epoch 1 of 1", "train", 20)
        phases.emit(Progress(done=16))
        phases.enter("Epoch 1 of 1, validation", "judge")
        phases.emit(Progress(done=30))
        phases.enter("Saving")
    assert [event.samples for event in recorder.events if event.done or event.phase == "Saving"] == [16.0, None, None]
