"""The limit of a run, or of a whole sweep: the time and the cost at which it is stopped."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import UsageError
from engine.text import duration, money

_SECONDS = {"d": 86400, "day": 86400, "h": 3600, "hour": 3600, "min": 60, "minute": 60, "m": 60, "s": 1, "second": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
TIME_EXAMPLE = "Write for example 3h, 90min, 1h30min or 2d."


def read_time(text: str) -> float:
    """Seconds of `3h`, `90 min`, `1h30min`, `1.5 hours`, `2d`.

    Raises `UsageError` for anything else, a number without a unit and nothing at all among it.
    """
    given, seconds, at = text.strip().lower(), 0.0, 0
    for part in _PART.finditer(given):
        unit = _unit(part[2])
        if given[at : part.start()].strip() or unit not in _SECONDS:
            break
        seconds, at = seconds + float(part[1]) * _SECONDS[unit], part.end()
    if at < len(given) or not 0 < seconds < math.inf:
        raise UsageError(f"{text!r} is no time to stop after", hint=TIME_EXAMPLE)
    return seconds


def _unit(written: str) -> str:
    """The unit without its plural's s, where it is one: `ms` are no minutes."""
    one = written.removesuffix("s")
    return one if written not in _SECONDS and len(one) > 1 else written


def written_time(seconds: float) -> str:
    """The time as `read_time` takes it: `3h`, `90min`, `45s`."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.12g}s"


@dataclass(frozen=True)
class Limit:
    """A run is stopped after so many `seconds` at work, or at a `cost` in the currency of its price; None: never.

    All attempts of a run count together. The time between two attempts does not: it is unknown whether the machine was
    on.
    """

    seconds: float | None = None
    cost: float | None = None

    def __bool__(self) -> bool:
        return self.seconds is not None or self.cost is not None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Limit:
        """The limit that a run's options have."""
        kept = options.get("limit")
        return cls(**kept) if isinstance(kept, Mapping) else cls()

    def as_options(self) -> dict[str, Any]:
        """What `of` reads; nothing without a limit."""
        return {"limit": {"seconds": self.seconds, "cost": self.cost}} if self else {}

    def seconds_left(self, worked_s: float, price: float | None) -> float:
        """How long a run may go on that was at work for `worked_s` seconds, at a price an hour; infinite without a
        limit, not above 0 when it is reached."""
        left = math.inf if self.seconds is None else self.seconds - worked_s
        if self.cost is not None and price:
            left = min(left, self.cost / price * 3600 - worked_s)
        return left

    def is_used(self, worked_s: float, cost: float | None) -> bool:
        """Whether nothing is left of it for what was at work for `worked_s` seconds and has cost so much; a cost that
        is not known reaches no limit."""
        at_time = self.seconds is not None and worked_s >= self.seconds
        return at_time or (self.cost is not None and cost is not None and cost >= self.cost)

    def reached(self, worked_s: float) -> Limit:
        """The one of both that stopped what was at work for `worked_s` seconds."""
        at_time = self.cost is None or (self.seconds is not None and worked_s >= self.seconds)
        return Limit(seconds=self.seconds) if at_time else Limit(cost=self.cost)

    def more(self, worked_s: float, spent: float | None) -> Limit:
        """A limit that lets what has used this one, with so much time and cost, go on for as much again, in whole
        minutes and cents."""
        seconds = None if self.seconds is None else self.seconds + worked_s
        cost = None if self.cost is None else self.cost + (spent or 0.0)
        unit = 60 if seconds is not None and seconds > 60 else 1
        return Limit(
            None if seconds is None else float(math.ceil(seconds / unit) * unit),
            None if cost is None else math.ceil(cost * 100) / 100,
        )

    def text(self, currency: str = "") -> str:
        """`3 h 00 min or 20.00 USD`; "" without a limit."""
        parts = ["" if self.seconds is None else duration(self.seconds)]
        parts.append("" if self.cost is None else money(self.cost, currency))
        return " or ".join(filter(None, parts))

    def options(self) -> str:
        """It as options of the command: `--stop-after 3h --stop-at-cost 20`."""
        parts = ["" if self.seconds is None else f"--stop-after {written_time(self.seconds)}"]
        parts.append("" if self.cost is None else f"--stop-at-cost {self.cost:.12g}")
        return " ".join(filter(None, parts))


def changed_limit(
    before: Limit, seconds: float | None = None, cost: float | None = None, *, without: bool = False
) -> Limit:
    """`before` with what a person has said otherwise; none at all where they want it to be without one.

    Raises `UsageError` when both are given, and for a cost that is not above 0.
    """
    if cost is not None and not 0 < cost < math.inf:
        raise UsageError(f"{cost:g} is no cost to stop at", hint="Give an amount above 0.")
    if without and (seconds is not None or cost is not None):
        raise UsageError("--no-limit means nothing beside a limit", hint="Give the one or the other.")
    if without:
        return Limit()
    out = before if seconds is None else replace(before, seconds=seconds)
    return out if cost is None else replace(out, cost=cost)


def require_price(
    limit: Limit,
    price: float | None,
    profile: str,
    what: str = "run",
    *,
    why: str = "",
    time_limit: str = "--stop-after 3h",
) -> None:
    """Raise `UsageError` when the cost of a run, or of `what` else, is limited and its price is unknown.

    A price of 0 would never reach the limit. `why` says why the price is unknown, `time_limit` how a person limits the
    time there.
    """
    if limit.cost is None or price:
        return
    known = "its price is 0 an hour" if price is not None else "what an hour of it costs is not known"
    known += f", as {why}" if price is None and why else ""
    raise UsageError(
        f"the {what} cannot be stopped at a cost on the profile {profile}: {known}",
        hint="Give the profile a machine of `voxelflow prices` (machine = ...) or a price of your own"
        f" (price_per_hour = ...), or limit the time: {time_limit}.",
    )
