"""What the figures of finished epochs decide: the best epoch, early stopping, the learning rate.

All are functions of the history alone, which is in every checkpoint, and none of how many epochs there will be: a
training that was killed and resumed, or made longer, decides as one that was not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

History = Sequence[Mapping[str, float]]
"""The figures of each finished epoch, in order."""
Judge = Literal["val_loss", "val_accuracy", "val_auc", "val_f1"]
"""The figure by which epochs are compared; the loss is better when it is lower, the others when higher."""
ScheduleName = Literal["cosine", "constant", "plateau"]
FLOOR = 0.01
"""Cosine and plateau end at this part of the peak."""


def best_epoch(history: History, by: Judge = "val_loss") -> int:
    """The number, from 1, of the best epoch, the first of equals; 0 while none has that figure as a number."""
    sign = 1 if by == "val_loss" else -1
    best, found = math.inf, 0
    for epoch, figures in enumerate(history, 1):
        value = sign * figures.get(by, math.nan)
        if value < best:
            best, found = value, epoch
    return found


def stops_early(history: History, patience: int) -> bool:
    """Whether the validation loss has not reached a new low for `patience` epochs; never with a patience of 0."""
    return 0 < patience <= len(history) - best_epoch(history)


def plateaus(history: History, patience: int) -> int:
    """How many times the validation loss has gone `patience` epochs without a new low; each begins the count anew."""
    best, waited, found = math.inf, 0, 0
    for figures in history:
        loss = figures.get("val_loss", math.nan)
        if loss < best:
            best, waited = loss, 0
            continue
        waited += 1
        if waited == patience:
            found, waited = found + 1, 0
    return found


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
