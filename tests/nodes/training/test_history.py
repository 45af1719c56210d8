"""What the history decides, and that more history never changes what was decided before."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.training.history import FLOOR, Schedule, best_epoch, plateaus, stops_early

LOSSES = st.lists(st.floats(0, 9, width=16), max_size=12)


def losses(*values: float) -> list[dict[str, float]]:
    return [{"val_loss": value} for value in values]


def test_the_best_epoch() -> None:
    assert best_epoch([]) == 0
    assert best_epoch(losses(3, 1, 2, 1)) == 2
    assert best_epoch([{"val_auc": 0.5}, {"val_auc": 0.75}, {"val_auc": 0.75}], "val_auc") == 2


def test_what_is_no_number_is_never_best() -> None:
    assert best_epoch(losses(math.nan, math.inf, 4, math.nan)) == 3
    assert best_epoch(losses(math.nan)) == 0
    assert best_epoch(losses(1), "val_auc") == 0


def test_an_early_end() -> None:
    assert not stops_early(losses(1, 2, 3, 4, 5), 0)
    assert [stops_early(losses(3, 1, 2, 1, 1)[:n], 2) for n in range(6)] == [False] * 4 + [True] * 2
    assert stops_early(losses(math.nan, math.nan), 2)


def test_plateaus() -> None:
    assert [plateaus(losses(3, 1, 2, 2, 2, 0.5, 1, 1)[:n], 2) for n in range(9)] == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    assert plateaus(losses(1, 1, 1, 1), 1) == 3


@given(LOSSES, st.integers(1, 5))
def test_each_epoch_decides_by_itself_and_those_before(values: list[float], patience: int) -> None:
    """A training that was resumed, or made longer, decides as one that was not."""
    history = losses(*values)
    counts = [plateaus(history[:n], patience) for n in range(len(history) + 1)]
    assert all(after - before in (0, 1) for before, after in pairwise(counts))
    bests = [best_epoch(history[:n]) for n in range(len(history) + 1)]
    assert bests == sorted(bests)
    for n, best in enumerate(bests):
        if best:
            assert values[best - 1] == min(values[:n])
        assert stops_early(history[:n], patience) == (n - best >= patience)


@pytest.mark.parametrize("patience", [1, 3])
def test_a_loss_that_falls_ends_nothing(patience: int) -> None:
    history = losses(*(1 / epoch for epoch in range(1, 20)))
    assert not stops_early(history, patience)
    assert plateaus(history, patience) == 0


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
