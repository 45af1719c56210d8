"""The rows of the table: what was measured at one batch size, or why nothing was; and what they recommend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

Outcome = Literal["measured", "out of memory", "not possible", "not tried"]
WITHIN = 0.05
"""A smaller batch, or fewer workers, that lose no more than this share of the best rate are preferred."""


class Spent(BaseModel):
    """Seconds of the measured steps in all: waiting for batches, computing (with the copy to the device), the rest."""

    model_config = ConfigDict(frozen=True)

    steps: int
    waiting_s: float
    computing_s: float
    rest_s: float
    memory_bytes: int
    """Most that the process had resident; 0 where the system does not tell."""
    device_bytes: int
    """Most that TensorFlow had on one device; 0 without one."""

    @property
    def total_s(self) -> float:
        return self.waiting_s + self.computing_s + self.rest_s


class Row(BaseModel):
    """One batch size (volumes, over all workers) with one number of workers."""

    model_config = ConfigDict(frozen=True)

    workers: int
    batch_size: int
    outcome: Outcome
    note: str = ""
    spent: Spent | None = None
    """Of the leading worker; the memory is that of the worker that took most."""

    @property
    def samples_per_s(self) -> float:
        """Volumes a second; 0 where nothing was measured."""
        return self.batch_size * self.spent.steps / self.spent.total_s if self.spent and self.spent.total_s else 0.0


def recommend(rows: Iterable[Row]) -> Row | None:
    """The row to train with; None when nothing was measured.

    The fewest workers whose best rate is within 5% of the best of all, and with them the smallest batch within 5%
    of their best: it takes the least memory and gives the most steps for the same work.
    """
    measured = [row for row in rows if row.spent is not None]
    if not measured:
        return None
    return _smallest(measured, min(row.workers for row in _near_best(measured)))


def _smallest(measured: Sequence[Row], workers: int) -> Row:
    return min(_near_best([r for r in measured if r.workers == workers]), key=lambda row: row.batch_size)


def _near_best(rows: Sequence[Row]) -> list[Row]:
    best = max(row.samples_per_s for row in rows)
    return [row for row in rows if row.samples_per_s >= (1 - WITHIN) * best]
