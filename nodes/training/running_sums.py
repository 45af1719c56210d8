"""Losses and scores added up row by row, exactly enough to be stopped and taken up again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sums:
    """Losses, and right answers or what else scores a row (see `objective`), added up over rows."""

    loss: float = 0.0
    right: float = 0.0
    rows: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.loss + other.loss, self.right + other.right, self.rows + other.rows)


NOTHING = Sums()
