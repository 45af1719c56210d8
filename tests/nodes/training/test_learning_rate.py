from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.training.learning_rate import FLOOR, Schedule
from nodes.training.training_loop import is_told


def test_warm_up_peak_and_floor() -> None:
    schedule = Schedule("cosine", 0.1, warmup_steps=4, decay_steps=100)
    assert [schedule.at(step) for step in range(5)] == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1])
    assert schedule.at(54) == pytest.approx(0.1 * (1 + FLOOR) / 2)
    assert schedule.at(104) == schedule.at(10**9) == pytest.approx(0.1 * FLOOR)


def test_constant() -> None:
    schedule = Schedule("constant", 0.1, warmup_steps=1)
    assert [schedule.at(step) for step in (0, 1, 1000)] == pytest.approx([0.05, 0.1, 0.1])


def test_a_plateau_lowers_the_rate_down_to_the_floor() -> None:
    schedule = Schedule("plateau", 0.1, warmup_steps=2, factor=0.5, patience=2)
    history = [{"val_loss": loss} for loss in (1, 2, 2, 2, 2)]
    assert [schedule.at(9, history[:n]) for n in range(6)] == pytest.approx([0.1, 0.1, 0.1, 0.05, 0.05, 0.025])
    assert schedule.at(0, history) == pytest.approx(0.1 / 3)
    assert schedule.at(9, history * 50) == pytest.approx(0.1 * FLOOR)


@given(
    warmup=st.integers(0, 50),
    decay=st.integers(1, 1000),
    step=st.integers(0, 2000),
    name=st.sampled_from(["cosine", "constant"]),
)
def test_it_rises_then_never_rises_again(warmup: int, decay: int, step: int, name: str) -> None:
    schedule = Schedule(name, 1.0, warmup, decay)  # type: ignore[arg-type]
    before, after = schedule.at(step), schedule.at(step + 1)
    assert 0 < after <= 1
    assert after >= before if step < warmup else after <= before


def test_steps_are_told_ever_more_sparsely() -> None:
    told = [step for step in range(1, 200_001) if is_told(step)]
    assert told[:201] == [*range(1, 201), 210]
    assert 2100 in told
    assert 2110 not in told
    assert len(told) < 1000
