"""The time and the cost that are expected of a sweep, kept with it, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.store.estimates import Estimated
from engine.store.sweeps import Sweep
from engine.sweep.spent import Spent, spent_line
from engine.text import between, duration, money
from engine.wording import expected_rows, time_and_cost

_KEY = "expected"


@dataclass(frozen=True)
class SweepEstimate:
    """What is expected of a sweep. `time` is that of the clock, from its start to its end; `work` that of its runs
    together, which is paid for, with their requests to storage. Nodes whose time is not known are in neither.

    `price` is that of an hour; None, with the reason in `unpriced`, where it is not known.
    """

    time: Estimated
    work: Estimated
    price: float | None = None
    currency: str = ""
    unpriced: str = ""

    @property
    def has_work(self) -> bool:
        """Whether anything would run that is not there already."""
        return self.time.high is not None or bool(self.time.unknown)

    def rows(self) -> list[tuple[str, str]]:
        """Its time and its cost in words, each by its name; none where there is nothing to do."""
        if not self.has_work:
            return []
        return expected_rows(self.time, self.work, self.price, self.currency, self.unpriced)

    def line(self) -> str:
        """`expected time: 12 min 00 s to 25 min 00 s; cost: 0.08 to 0.16 USD`; "" where there is nothing to do."""
        if not self.has_work:
            return ""
        return time_and_cost(self.time, self.work, self.price, self.currency, self.unpriced)

    def as_options(self) -> dict[str, Any]:
        """What `of` reads, for the options of the sweep."""
        return {
            _KEY: {
                "time": self.time.as_options()["estimate"],
                "work": self.work.as_options()["estimate"],
                "price": self.price,
                "currency": self.currency,
                "unpriced": self.unpriced,
            }
        }

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SweepEstimate | None:
        """What the options of a sweep have of it; None of one from before there were such estimates."""
        kept = options.get(_KEY)
        if not isinstance(kept, Mapping):
            return None
        time, work = (Estimated.of({"estimate": kept[part]}) for part in ("time", "work"))
        assert time is not None
        assert work is not None
        return cls(time, work, kept["price"], kept["currency"], kept["unpriced"])

    def as_json(self) -> dict[str, Any]:
        """The figures as plain values; what is not known is null."""
        low, high = self.cost or (None, None)
        return {
            "low_s": self.time.low,
            "high_s": self.time.high,
            "cost_low": low,
            "cost_high": high,
            "currency": self.currency,
            "unknown": [*self.time.unknown],
            "unpriced": self.unpriced,
        }

    @property
    def cost(self) -> tuple[float, float] | None:
        """The range of what the runs cost, requests included where they are in the same currency; None: not known."""
        return self.work.cost(self.price, self.currency)


def against_estimate(sweep: Sweep, used: Spent) -> str:
    """What was expected of a sweep that is done beside what it was: `expected time: 12 min 00 s to 25 min 00 s; cost:
    0.08 to 0.16 USD; it took 14 min 03 s, 0.09 USD`; "" of others, and where nothing was expected."""
    kept = SweepEstimate.of(sweep.options)
    if sweep.state != "done" or kept is None or kept.time.low is None or kept.time.high is None:
        return ""
    # What requests have cost is not counted in a run.
    alone = replace(kept, work=replace(kept.work, requests=()))
    amounts = () if used.cost is None else ((used.cost, used.currency), *used.others)
    was = ", ".join([duration(used.worked_s), *(money(*each) for each in amounts)])
    expected = between(kept.time.low, kept.time.high) if kept.price is None else ""
    return f"expected time: {expected}; it took {was}" if expected else f"{alone.line()}; it took {was}"


def came_to(sweep: Sweep, used: Spent) -> list[str]:
    """What a sweep has spent and its limit, of one that is done beside what was expected: its time and cost once."""
    took = against_estimate(sweep, used)
    if not took:
        return [line] if (line := spent_line(sweep, used)) else []
    return [took, f"limit {sweep.limit.text(used.currency)} for all trials"] if sweep.limit else [took]
