"""The line on a training's card: few points, whatever was reported."""

from __future__ import annotations

from typing import Any

import pytest

from engine.declare.events import Metrics
from ui.build.loss_curves import POINTS, LossCurves


class _Store:
    def __init__(self, *events: Metrics) -> None:
        self._events = list(enumerate(events, 1))

    def events(self, run: str, after: int, kinds: tuple[str, ...], limit: int) -> list[tuple[int, Metrics]]:
        return [(number, event) for number, event in self._events if number > after][:limit]


def _curves(*events: Metrics) -> LossCurves:
    curves = LossCurves("run")
    store: Any = _Store(*events)
    curves.read(store)
    return curves


def _loss(step: int, value: float, name: str = "step_loss") -> Metrics:
    return Metrics(node="train", values={name: value}, step=step)


def test_steps_are_drawn_while_there_are_some_else_epochs() -> None:
    epochs = [_loss(1, 9, "loss"), _loss(2, 8, "loss")]
    assert _curves(*epochs).of("train") == [9, 8]
    assert _curves(*epochs, _loss(5, 2), _loss(1, 3)).of("train") == [3, 2]
    assert _curves(*epochs).of("other") == []


def test_a_step_that_is_reported_again_counts_once_and_what_is_no_number_is_left_out() -> None:
    assert _curves(_loss(1, 5), _loss(2, 4), _loss(2, 3), _loss(3, float("nan"))).of("train") == [5, 3]


def test_a_training_that_diverges_has_a_line_that_json_can_hold() -> None:
    found = _curves(*(_loss(step, 1.5e308) for step in range(200)), _loss(200, 3.0), _loss(201, -1.79769e308))
    assert found.of("train") == [3]


@pytest.mark.parametrize("count", [POINTS, 1000, 12_345])
def test_a_long_training_has_a_short_line(count: int) -> None:
    line = _curves(*(_loss(step, count - step) for step in range(count))).of("train")
    assert len(line) <= POINTS
    assert line == sorted(line, reverse=True)
