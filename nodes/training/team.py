"""Who takes part in a training: one process, or several that share every batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Team:
    """This process is worker `rank` of `ranks`. The first one leads: it alone reports, saves and publishes."""

    rank: int = 0
    ranks: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def share(self, rows: int) -> int:
        """The most rows of a global batch of `rows` that one worker has."""
        return -(-rows // self.ranks)


ALONE = Team()
