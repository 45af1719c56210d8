"""The learning rate of each step. It never depends on how many epochs there will be, so that a
longer training continues a shorter one exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from nodes.training.history import History, plateaus

ScheduleName = Literal["cosine", "constant", "plateau"]
FLOOR = 0.01
"""Cosine and plateau end at this part of the peak."""


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up over `warmup_steps` to `peak`, from where it depends on the name.

    constant stays; cosine is half a cosine over `decay_steps` down to `FLOOR * peak`, which is kept from there on;
    plateau multiplies the rate by `factor` whenever the validation loss has had no new low for `patience` epochs,
    down to the same floor.
    """

    name: ScheduleName
    peak: float
    warmup_steps: int = 0
    decay_steps: int = 1
    factor: float = 0.5
    patience: int = 5

    def at(self, step: int, history: History = ()) -> float:
        """The rate of global step `step`, counted from 0, after the finished epochs of `history`."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / (self.warmup_steps + 1)
        if self.name == "constant":
            return self.peak
        if self.name == "plateau":
            return self.peak * max(FLOOR, self.factor ** plateaus(history, self.patience))
        done = min(1.0, (step - self.warmup_steps) / self.decay_steps)
        return self.peak * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2)
