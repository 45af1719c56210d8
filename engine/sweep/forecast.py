"""What a sweep would do: the nodes that each trial would run, and the time and cost that are expected of all.

What several trials need is counted once, in the first of them: the others find it done. All else is counted in each.
Which values a search will try is not known: its trials are taken to lie between those with the ends of its ranges.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from engine.advisor.run_estimate import HourPrice, RunEstimate, estimate_run, price_of
from engine.run.launch import Prepared
from engine.store.estimates import Estimated, RequestCost
from engine.sweep.expected import SweepEstimate
from engine.sweep.options import SweepOptions, share_of
from engine.sweep.search import NEVER_GIVEN_UP
from engine.sweep.space import Space
from engine.sweep.trials import SweepInputs, samples

MOST_SHOWN = 500
"""Trials that a dry run plans one by one; of a larger sweep the first."""
MOST_PLANNED = 60
"""Trials that are planned before a sweep starts; the others are expected to lie between these."""
_MOST_CORNERS = 32


@dataclass(frozen=True)
class TrialForecast:
    """`runs` are the nodes that run, without those that a trial before makes already; `estimate` is theirs. `makes` are
    the fingerprints of all that it needs and that is not there yet."""

    values: Mapping[str, JsonValue]
    runs: tuple[str, ...]
    estimate: RunEstimate
    makes: frozenset[str] = frozenset()

    @property
    def seconds(self) -> tuple[float, float]:
        """The range of what is known of its run; 0 where nothing is."""
        return self.estimate.seconds or (0.0, 0.0)


@dataclass(frozen=True)
class Forecast:
    """The trials that were planned, none of a search, and what is expected of all. `times` says of each node that runs
    in how many trials, None where not all were planned: what all share runs in one. `notes` say where the price comes
    from, what is in the cost, and what would make more known."""

    trials: Sequence[TrialForecast]
    expected: SweepEstimate
    times: Mapping[str, int | None]
    notes: tuple[str, ...] = ()


def forecast(inputs: SweepInputs, most: int = MOST_SHOWN) -> Forecast:
    """Plan at most so many combinations as their runs would be planned. Raises `CheckFailed` with the first one's
    problems."""
    options = inputs.options
    share = replace(inputs, profile=share_of(inputs.profile, options.jobs))
    planner = _Planner(share)
    if options.trials is None:
        trials = [planner.plan(values) for values in itertools.islice(options.space.combinations(), most)]
        others = _Others(trials[1:] or trials, options.count - len(trials), options.count - len(trials))
        known = trials
        if others.most:
            times = _times(_Planner(share).shared([*_ends(options)]), trials)
        else:
            times = {**Counter(node for trial in trials for node in trial.runs)}
    else:
        trials, ends = [], [*_ends(options)]
        known = [planner.shared(ends)]
        full = min(options.trials, NEVER_GIVEN_UP) if options.prune else options.trials
        full = full if options.space.ranges else min(full, options.space.count)
        others = _Others([planner.plan(values, keep=False) for values in ends], full, options.trials)
        times = _times(known[0], others.like)
    price, unpriced = price_of(inputs.profile, inputs.workspace)
    time, work = _together(known, others, options.jobs)
    amount, currency = (None, "") if price is None else (price.amount, price.currency)
    expected = SweepEstimate(time, work, amount, currency, unpriced)
    return Forecast(trials, expected, times, tuple(_notes(price, expected, [*known, *others.like], options.jobs)))


def _times(shared: TrialForecast, trials: Iterable[TrialForecast]) -> dict[str, int | None]:
    own = dict.fromkeys(node for trial in trials for node in trial.runs if node not in shared.runs)
    return {**dict.fromkeys(shared.runs, 1), **own}


def _notes(
    price: HourPrice | None, expected: SweepEstimate, trials: Sequence[TrialForecast], jobs: int
) -> Iterator[str]:
    if jobs > 1 and expected.time.high is not None:
        yield f"with {jobs} at a time a trial takes up to {jobs} times as long as alone: the most is that of all so"
    if price is not None and expected.cost is not None:
        yield f"price: {price.line()}"
        yield price.scope_beside([cost for trial in trials for cost in trial.estimate.storage])
    yield from dict.fromkeys(node.hint for trial in trials for node in trial.estimate.nodes if node.hint)


def expect(inputs: SweepInputs) -> SweepEstimate | None:
    """What is expected of a sweep that is about to start; None, with a warning, where that fails."""
    try:
        return forecast(inputs, MOST_PLANNED).expected
    except Exception as exc:  # a sweep does not fail for want of a figure
        warnings.warn(f"the sweep's time could not be estimated: {type(exc).__name__}: {exc}", stacklevel=2)
        return None


def _ends(options: SweepOptions) -> Iterator[dict[str, JsonValue]]:
    """Sets of values that a search may try: with all ends of its ranges, or, of many, each end in one of them."""
    space, ends = options.space, {}
    for name, within in options.space.ranges.items():
        both = (int(within.low), int(within.high)) if within.whole else (within.low, within.high)
        ends[name] = tuple(dict.fromkeys(both))
    every = Space(space.fixed, {**space.lists, **ends}, {})
    yield from (
        every.combinations() if every.count <= _MOST_CORNERS else itertools.islice(samples(options), _MOST_CORNERS)
    )


class _Planner:
    """Plans trials, and remembers what those before make."""

    def __init__(self, inputs: SweepInputs) -> None:
        self._inputs = inputs
        self._made: set[str] = set()

    def plan(self, values: Mapping[str, JsonValue], *, keep: bool = True) -> TrialForecast:
        """A trial without what is made already, and with `keep` what it makes then is, too."""
        ready = self._inputs.prepare(values)
        makes = _makes(ready)
        found = self._without(ready, values, self._made)
        if keep:
            self._made |= makes
        return found

    def shared(self, all_values: Sequence[Mapping[str, JsonValue]]) -> TrialForecast:
        """What each trial with one of these sets of values needs; it is made from now on."""
        prepared = [self._inputs.prepare(values) for values in all_values]
        common = frozenset.intersection(*(_makes(ready) for ready in prepared))
        first = prepared[0]
        self._made |= common
        return self._without(first, {}, _makes(first) - common)

    def _without(self, ready: Prepared, values: Mapping[str, JsonValue], made: Iterable[str]) -> TrialForecast:
        """The trial's estimate where what is `made` counts as done."""
        left_out = set(made)
        tasks = tuple(
            task.model_copy(update={"action": "cached"}) if task.identity.fingerprint in left_out else task
            for task in ready.plan.tasks
        )
        plan = ready.plan.model_copy(update={"tasks": tasks})
        estimate = estimate_run(plan, ready.resolved, ready.observation, self._inputs.workspace, self._inputs.store)
        return TrialForecast(values, tuple(task.node for task in plan.to_run), estimate, _makes(ready))


def _makes(ready: Prepared) -> frozenset[str]:
    return frozenset(task.identity.fingerprint for task in ready.plan.to_run)


# --- all trials together -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Others:
    """Trials that were not planned, from `least` to `most` of them, each like one of those in `like`."""

    like: Sequence[TrialForecast]
    least: int
    most: int

    @property
    def seconds(self) -> tuple[float, float]:
        """The range of one of them."""
        if not self.most:
            return 0.0, 0.0
        return min(t.seconds[0] for t in self.like), max(t.seconds[1] for t in self.like)


def _together(known: Sequence[TrialForecast], others: _Others, jobs: int) -> tuple[Estimated, Estimated]:
    """The time of the clock and that of all runs.

    With several trials at a time each has its part of the machine, and may take as many times as long as alone; that
    much is then between the least and the most.
    """
    beside = others.like if others.most else ()
    unknown = tuple(dict.fromkeys(node for trial in [*known, *beside] for node in trial.estimate.unknown))
    if not any(trial.estimate.seconds for trial in [*known, *beside]):
        nothing = Estimated(unknown=unknown, requests=_requests(known, others))
        return nothing, nothing
    low, high = others.seconds
    high *= jobs
    lows = [trial.seconds[0] for trial in known]
    highs = [trial.seconds[1] * jobs for trial in known]
    least, most = sum(lows) + others.least * low, sum(highs) + others.most * high
    longest = max([*lows, low if others.least else 0.0])
    clock = max(longest, least / jobs), _side_by_side(known, highs, jobs) + math.ceil(others.most / jobs) * high
    time = Estimated(*clock, unknown=unknown)
    return time, Estimated(least, most, unknown, requests=_requests(known, others))


def _side_by_side(trials: Sequence[TrialForecast], seconds: Sequence[float], jobs: int) -> float:
    """When the last trial has ended, if so many are at work at a time and none begins that needs what another makes
    just now: as the sweep's process starts them."""
    now, made = 0.0, set[str]()
    waiting, active = [*range(len(trials))], list[tuple[float, int]]()
    while waiting or active:
        busy = frozenset[str]().union(*(trials[at].makes for _, at in active)) - made
        ready = next((at for at in waiting if not busy & trials[at].makes), None)
        if ready is not None and len(active) < jobs:
            waiting.remove(ready)
            active.append((now + seconds[ready], ready))
        else:
            now, ended = min(active)
            active.remove((now, ended))
            made |= trials[ended].makes
    return now


def _requests(known: Sequence[TrialForecast], others: _Others) -> tuple[RequestCost, ...]:
    """By place, what the requests of all trials cost."""
    sums: dict[tuple[str, str], RequestCost] = {}

    def add(cost: RequestCost, times: int, *, at_most: bool) -> None:
        key = cost.place, cost.currency
        before = sums.get(key, replace(cost, amount=0.0))
        both = None if before.amount is None or cost.amount is None else before.amount + times * cost.amount
        sums[key] = replace(before, amount=both, at_most=before.at_most or cost.at_most or at_most)

    for trial in known:
        for cost in trial.estimate.kept().requests:
            add(cost, 1, at_most=False)
    if others.most:
        found = [cost for trial in others.like for cost in trial.estimate.kept().requests]
        dearest = {(cost.place, cost.currency): cost for cost in sorted(found, key=_amount)}
        for cost in dearest.values():
            add(cost, others.most, at_most=True)
    return tuple(sums.values())


def _amount(cost: RequestCost) -> float:
    """An unknown amount is the largest."""
    return math.inf if cost.amount is None else cost.amount
