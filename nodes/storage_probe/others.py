"""Which part of the machine's cores other programs take while something is measured."""

from __future__ import annotations

import time
from typing import NamedTuple, Self

import psutil


class _Seconds(NamedTuple):
    """Of all cores since the machine started, and of this process."""

    all: float
    busy: float
    own: float

    @classmethod
    def now(cls) -> Self:
        times = psutil.cpu_times()
        # Those of guests are in `user` and `nice`, too.
        guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        total = sum(times) - guests
        return cls(total, total - times.idle - getattr(times, "iowait", 0.0), time.process_time())


class OtherPrograms:
    """Watches from when it is made; a store's server on the same machine is another program, too."""

    def __init__(self) -> None:
        self._began = _Seconds.now()

    def share(self) -> float | None:
        """The share of the cores that they used since then, from 0 to 1; None if no time has passed by the clock."""
        now = _Seconds.now()
        passed, busy, own = (after - before for after, before in zip(now, self._began, strict=True))
        return min(1.0, max(0.0, (busy - own) / passed)) if passed > 0 else None
