"""What ProfileTraining finds: the rows of its table, and what they recommend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from engine.advisor.choice import smallest_batch
from engine.environment import Machine

Outcome = Literal["measured", "out of memory", "not possible", "not tried"]


class Spent(BaseModel):
    """Seconds of the measured steps in all: waiting for batches, computing (with the copy to the device), the rest."""

    model_config = ConfigDict(frozen=True)

    steps: int
    waiting_s: float
    computing_s: float
    rest_s: float
    memory_bytes: int
    """Most that the process had resident; 0 where the system does not say."""
    device_bytes: int
    """Most that TensorFlow had on one device; 0 without one."""
    processor_s: float = 0.0
    """Processor seconds, user and system, of the process in these steps; of a row: of all workers."""
    step_s: tuple[float, ...] = ()
    """Of each step, in their order."""

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


class Epoch(BaseModel):
    """The recommended training with its volumes in one form, read from empty caches; "memory" is without reading."""

    model_config = ConfigDict(frozen=True)

    form: str
    """"memory", "table", "files", or "parquet"."""
    loader: str
    """"" from memory."""
    row: Row

    def seconds(self, volumes: int) -> float | None:
        """How long an epoch of so many volumes takes; None where nothing was measured."""
        rate = self.row.samples_per_s
        return volumes / rate if rate else None


class Table(BaseModel):
    """The rows so far. `machine` is the one that the leading worker was on, `driver` the one that started it."""

    machine: Machine
    driver: Machine
    rows: tuple[Row, ...] = ()
    training_volumes: int = 0
    epochs: tuple[Epoch, ...] = ()
    """The same volumes in several forms; empty where only one was given."""

    def row(self, workers: int, batch_size: int) -> Row | None:
        return next((r for r in self.rows if (r.workers, r.batch_size) == (workers, batch_size)), None)


class Scaling(NamedTuple):
    """So many workers at their best batch size. `efficiency` is their rate over that many times the rate of one."""

    best: Row
    speed_up: float | None
    efficiency: float | None


def scaling(rows: Iterable[Row]) -> list[Scaling]:
    """A line for each number of workers that was measured; speed-up and efficiency are None without one worker."""
    best: dict[int, Row] = {}
    for row in rows:
        if row.samples_per_s and row.samples_per_s > (best[row.workers].samples_per_s if row.workers in best else 0.0):
            best[row.workers] = row
    alone = best[1].samples_per_s if 1 in best else None
    out = []
    for workers, row in sorted(best.items()):
        speed_up = None if alone is None else row.samples_per_s / alone
        out.append(Scaling(row, speed_up, None if speed_up is None else speed_up / workers))
    return out


def recommend(rows: Iterable[Row]) -> Row | None:
    """The row to train with; None when nothing was measured.

    The fewest workers whose best rate is within 5% of the best of all, and with them the smallest batch within 5%
    of their best: it takes the least memory and gives the most steps for the same work.
    """
    return smallest_batch(
        [row for row in rows if row.spent is not None],
        workers=lambda row: row.workers,
        batch_size=lambda row: row.batch_size,
        rate=lambda row: row.samples_per_s,
    )
