"""A profile's limit as platforms keep it: a whole number of seconds for all tries of a job together.

It is that of a run: the time, or the cost by the price of an hour, whichever ends first. What a platform counts beside
the work, such as a wait for machines, ends a job the earlier.
"""

from __future__ import annotations

import math
import textwrap

from engine.export.write import WIDTH
from engine.limit import require_price
from engine.profiles import Profile
from engine.text import duration, hourly

_MOST_S = 2**31 - 1
"""The most that Kubernetes takes for a pod."""


def deadline_s(profile: Profile, price: float | None) -> int | None:
    """Seconds after which the profile's limit ends a job of which an hour costs `price`, at least 1: platforms take 0
    for no limit. None without a limit.

    Raises `UsageError` when the cost is limited and the price is unknown or 0.
    """
    limit = profile.limit
    instead = 'stop_after = "3h" in place of stop_at_cost'
    require_price(limit, price, profile.name, why=profile.unpriced, time_limit=instead)
    seconds = limit.seconds_left(0.0, price)
    return None if math.isinf(seconds) else int(min(max(seconds, 1), _MOST_S))


def limit_lines(profile: Profile, price: float | None, seconds: int | None, counted: str = "") -> list[str]:
    """For the head of what is written: after how many `seconds` the job ends, by which limit and price; nothing where
    it has no limit. `counted` says what the price is made of."""
    if seconds is None:
        return []
    text = f"The job is stopped after {duration(seconds)}: the limit of profile {profile.name} is"
    text += f" {profile.limit.text(profile.currency)}"
    if profile.limit.cost is not None and price is not None:
        text += f", at {hourly(price, profile.currency)}{f' ({counted})' if counted else ''}"
    return textwrap.wrap(f"{text}.", WIDTH, break_on_hyphens=False)
