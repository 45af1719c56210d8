"""What a sweep has spent: its time at work and the cost of its runs; what is said of one that a limit has stopped.

Its time is that of the clock: two trials side by side for an hour are one hour. Its cost is the sum of its runs' costs:
each is paid for by its own time, also where several share a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.limit import Limit
from engine.store.runs import Run, RunStore
from engine.store.sweeps import Sweep
from engine.text import duration, money
from engine.wording import limit_text


@dataclass(frozen=True)
class Spent:
    """Seconds at work, and the cost of all runs in the currency of the newest one's price; None where no run has a
    price. `others` are the amounts in other currencies, which runs may have that a changed profile began."""

    worked_s: float
    cost: float | None = None
    currency: str = ""
    others: tuple[tuple[float, str], ...] = ()

    def text(self) -> str:
        """`3 h 05 min and 20.00 USD`."""
        amounts = [] if self.cost is None else [(self.cost, self.currency), *self.others]
        return " and ".join([duration(self.worked_s), *(money(*each) for each in amounts)])


def spent(store: RunStore, sweep: Sweep) -> Spent:
    """What the sweep has spent by now, in all its attempts."""
    runs = store.runs_of_sweep(sweep.sweep_id)
    sums = sums_by_currency([(run.cost, run.currency) for run in runs if run.cost is not None])
    if not sums:
        return Spent(sweep.worked_s, currency=next((run.currency for run in reversed(runs) if run.currency), ""))
    (currency, cost), *others = sums.items()
    return Spent(sweep.worked_s, cost, currency, tuple((amount, name) for name, amount in others))


def sums_by_currency(costs: Sequence[tuple[float, str]]) -> dict[str, float]:
    """Amounts of runs, oldest first, summed in each currency; first that of the newest run, in which a limit counts."""
    out: dict[str, float] = {}
    for amount, currency in reversed(costs):
        out[currency] = out.get(currency, 0.0) + amount
    return out


def spent_line(sweep: Sweep, used: Spent) -> str:
    """`at work for 3 h 05 min and 20.00 USD; limit 3 h 00 min for all trials`; "" of a sweep before its first start."""
    limit = f"; limit {sweep.limit.text(used.currency)} for all trials" if sweep.limit else ""
    return f"at work for {used.text()}{limit}" if used.worked_s else ""


def stopped_at_limit(sweep: Sweep, used: Spent) -> bool:
    """Whether it has ended before it was done and has nothing left of its limit: to go on it needs another."""
    return not sweep.active and sweep.state != "done" and sweep.limit.is_used(used.worked_s, used.cost)


def resume_command(sweep: Sweep, used: Spent, limit: Limit | None = None) -> str:
    """The command that goes on with a sweep that has ended: one that has used its limit needs another."""
    limited = sweep.limit if limit is None else limit
    more = ""
    if limited.is_used(used.worked_s, used.cost):
        more = f" {limited.more(used.worked_s, used.cost).options()}"
    return f"`voxelflow sweep resume {sweep.sweep_id}{more}`"


def limit_line(sweep: Sweep, used: Spent) -> str:
    """Which limit stopped the sweep, and how it goes on: with a higher one."""
    return limit_text(sweep.limit.reached(used.worked_s).text(used.currency), resume_command(sweep, used))


def worked_alone(sweep: Sweep, runs: list[Run]) -> float:
    """How long runs of the sweep went on after its process had died, from its last heartbeat; 0 where none did.

    At most what the longest of them has worked in all: one that a person has resumed since was not at work in between.
    """
    if sweep.heartbeat is None:
        return 0.0
    after = [
        min((run.started or run.created) + run.worked_s + run.paused_s - sweep.heartbeat, run.worked_s) for run in runs
    ]
    return max([0.0, *after])
