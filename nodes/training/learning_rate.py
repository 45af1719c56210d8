"""The learning rate of each step. It never depends on how many epochs there will be, so that a
longer training continues a shorter one exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

ScheduleName = Literal["cosine", "constant"]
FLOOR = 0.01
"""The cosine ends at this part of the peak."""


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up over `warmup_steps` to `peak`, then constant, or half a cosine over `decay_steps` down to
    `FLOOR * peak`, which is kept from there on."""

    name: ScheduleName
    peak: float
    warmup_steps: int = 0
    decay_steps: int = 1

    def at(self, step: int) -> float:
        """The rate of global step `step`, counted from 0."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / (self.warmup_steps + 1)
        if self.name == "constant":
            return self.peak
        done = min(1.0, (step - self.warmup_steps) / self.decay_steps)
        return self.peak * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2)
