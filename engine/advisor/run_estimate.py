"""The time and cost of a whole run before it is started, as a range, with what it is made of and what is not known.

A node takes as long as it took in earlier runs under this profile, scaled by the amount of its work; a training that
never ran here, or did another amount of work, takes what the advisor says of it. What neither knows is unknown, and the
run then takes at least the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.advisor.sources import Known, Training, advise_training, read_known, trainings, way_of
from engine.advisor.storage_cost import StorageCost, storage_cost
from engine.advisor.storage_cost import as_json as storage_as_json
from engine.declare.datasets import Preview
from engine.document.checks import Observation, preview_outputs
from engine.document.plan import Plan
from engine.document.resolve import Resolved
from engine.errors import UsageError
from engine.prices import machine_table, storage_table
from engine.profiles import Profile
from engine.storage import is_url
from engine.storage.cache import RangeCache
from engine.store.estimates import Estimated, Sample, samples
from engine.store.runs import RunStore
from engine.text import between, duration, hourly, money, number, plural, short_source
from engine.wording import cost_expected, expected_rows, time_expected
from engine.workspace import Workspace

SCATTER = 1.3
"""Equal work takes up to so many times as long, or as short, on a machine that others use too (`python -m benchmarks
train`: single rounds of 0.71 to 1.25)."""
_LIKE = 2.0
"""Work up to so many times as much, or as little, is near enough to trust an earlier run more than a prediction."""
_NEVER = "it has not run here before"
_LEAST_REQUESTS = 0.0001
"""Of requests that cost less nothing is said."""


@dataclass(frozen=True)
class NodeTime:
    """How long a node takes: from `low` to `high` seconds, both None where that is not known.

    `basis` says how it is known, or why not. `amount` is how much work it is, in a unit of its node type.
    """

    node: str
    low: float | None = None
    high: float | None = None
    basis: str = _NEVER
    amount: float | None = None
    hint: str = ""
    """What would make it known."""

    @property
    def is_known(self) -> bool:
        """Whether there is a range."""
        return self.high is not None

    def continued(self) -> NodeTime:
        """The same for a node that goes on from earlier work: at most all of it."""
        if not self.is_known:
            return self
        return replace(self, low=0.0, basis=f"{self.basis}; it goes on from earlier work")


@dataclass(frozen=True)
class HourPrice:
    """What an hour costs under a profile, and who says so: `of` names the machine and region, or the profile."""

    amount: float
    currency: str
    of: str
    date: str = ""
    source: str = ""
    units: float = 0.0
    unit_price: float | None = None
    """Of Databricks' units, which are in `amount` where this is not None."""
    machines: int | None = 1
    """How many the price is of; None where that is not known."""

    def line(self) -> str:
        """`0.384 USD an hour: m5.2xlarge@us-east-1, as of 2026-07-20, from https://...`; a price may be undated."""
        parts = [
            self.of,
            f"as of {self.date}" if self.date else "undated",
            f"from {self.source}" if self.source else "",
        ]
        machine, hour = ", ".join(filter(None, parts)), hourly(self.amount, self.currency)
        if self.unit_price is None:
            return f"{hour}: {machine}"
        alone = self.amount - self.units * self.unit_price
        return f"{hour}: {number(self.units)} DBU x {number(self.unit_price)} + {number(alone)} for {machine}"

    @property
    def scope(self) -> str:
        """What is in the cost of a run and what is not, whatever the run."""
        included = f"{self._paid_by_hour}, and known requests of trainings to object storage"
        return f"included: {included}; not included: {', '.join(self._left_out('other '))}"

    def scope_beside(self, storage: Sequence[StorageCost]) -> str:
        """The same of a run whose trainings pay so much for requests to their storage."""
        asked = dict.fromkeys(cost.place for cost in storage if self.has_in_sum(cost))
        included = [self._paid_by_hour, *(f"requests of trainings to {place}" for place in asked)]
        return f"included: {', '.join(included)}; not included: {', '.join(self.not_included(storage))}"

    def has_in_sum(self, cost: StorageCost) -> bool:
        """Whether what the requests cost is known, in the currency of the machine's price."""
        return cost.of_requests is not None and cost.currency == self.currency

    def not_included(self, storage: Sequence[StorageCost] = ()) -> tuple[str, ...]:
        """What is paid for besides."""
        missing = dict.fromkeys(f"requests to {cost.place}" for cost in storage if not self.has_in_sum(cost))
        # Keeping data costs by the month, and without a run, too. Nodes that do not train may ask the storage.
        kept = ("keeping data there",) if storage else ()
        return (*missing, *kept, *self._left_out("other " if storage else ""))

    @property
    def _paid_by_hour(self) -> str:
        several = "all machines" if self.machines is None else plural(self.machines, "machines")
        machines = "the machine" if self.machines == 1 else several
        return machines if self.unit_price is None else f"{machines} and {UNITS}"

    def _left_out(self, other: str) -> Iterator[str]:
        return iter(not_included(f"{other}requests to the storage and traffic", units=self.unit_price is not None))


@dataclass(frozen=True)
class RunEstimate:
    """The estimate of a run: its nodes that would run, `after` which others each begins, and the price of an hour.

    `unpriced` says why there is no price. `storage` is what its trainings pay for object storage.
    """

    nodes: tuple[NodeTime, ...]
    after: Mapping[str, Sequence[str]]
    price: HourPrice | None
    unpriced: str = ""
    storage: tuple[StorageCost, ...] = ()

    @property
    def unknown(self) -> tuple[str, ...]:
        """The nodes whose time is not known."""
        return tuple(n.node for n in self.nodes if not n.is_known)

    @property
    def seconds(self) -> tuple[float, float] | None:
        """The range of what is known: from all side by side, as the wires allow, to one after the other.

        None where nothing is known.
        """
        known = {n.node: n for n in self.nodes if n.is_known}
        if not known:
            return None
        ends: dict[str, float] = {}
        for each in self.nodes:
            begins = max((ends.get(node, 0.0) for node in self.after.get(each.node, ())), default=0.0)
            ends[each.node] = begins + (each.low or 0.0)
        return max(ends.values()), sum(n.high or 0.0 for n in known.values())

    @property
    def cost(self) -> tuple[float, float] | None:
        """The range of what is known of the cost: the machine's time, and the requests in its currency."""
        return None if self.price is None else self.kept().cost(self.price.amount, self.price.currency)

    def kept(self, again: Iterable[str] = ()) -> Estimated:
        """What the run store keeps of it; the time of the nodes in `again` will say nothing of later runs."""
        low, high = self.seconds or (None, None)
        left_out = set(again)
        amounts = {n.node: n.amount for n in self.nodes if n.node not in left_out}
        requests = tuple(cost.kept() for cost in self.storage)
        return Estimated(low, high, self.unknown, amounts, requests)


# --- how long each node takes ----------------------------------------------------------------------


def node_times(
    resolved: Resolved,
    previews: Mapping[tuple[str, str], Preview],
    observation: Observation,
    workspace: Workspace,
    store: RunStore,
    profile: Profile,
) -> dict[str, NodeTime]:
    """By node: how long all of its work takes under the profile."""
    earlier_runs = samples(store, profile.name, here=profile.is_here)
    found = {training.node: training for training in trainings(resolved, previews, observation)}
    known = _once(lambda: read_known(workspace))
    out: dict[str, NodeTime] = {}
    for item in resolved.typed():
        node, training = item.node.id, found.get(item.node.id)
        amount = _training_amount(training) if training is not None else _amount(resolved, previews, node)
        own = _own(earlier_runs, resolved.pipeline.name, node, item.type.name)
        earlier = _as_before(node, amount, own)
        if training is not None and not (earlier.is_known and _is_like(amount, own)):
            predicted = _predicted(training, amount, known(), workspace, profile)
            earlier = predicted if predicted.is_known or not earlier.is_known else earlier
        out[node] = earlier
    return out


def _own(samples: Sequence[Sample], pipeline: str, node: str, node_type: str) -> list[Sample]:
    """The samples of this very node, else those of its type."""
    same_type = [s for s in samples if s.node_type == node_type]
    return [s for s in same_type if (s.pipeline, s.node) == (pipeline, node)] or same_type


def _distance(amount: float | None, sample: Sample) -> float:
    if amount is None or sample.amount is None:
        return 0.0 if amount == sample.amount else math.inf
    return abs(math.log(amount / sample.amount)) if amount > 0 and sample.amount > 0 else abs(amount - sample.amount)


def _is_like(amount: float | None, samples: Sequence[Sample]) -> bool:
    return any(_distance(amount, s) <= math.log(_LIKE) for s in samples)


def _as_before(node: str, amount: float | None, samples: Sequence[Sample]) -> NodeTime:
    """As the samples of the nearest amount: scaled from what does not grow with the work to what grows as it does."""
    nearest = min(samples, key=lambda s: _distance(amount, s), default=None)
    if nearest is None or _distance(amount, nearest) == math.inf:
        return NodeTime(node, amount=amount)
    # Half and twice the work are as near and scaled otherwise: the newer amount counts.
    measured = nearest.amount
    used = [s for s in samples if s.amount == measured]
    times = amount / measured if amount and measured else 1.0
    basis = f"as in {plural(len(used), 'earlier runs')}"
    if times != 1:
        basis += f" with {_beside(times)}"
    low = min(s.seconds for s in used) * min(1.0, times) / SCATTER
    high = max(s.seconds for s in used) * max(1.0, times) * SCATTER
    return NodeTime(node, low, high, basis, amount)


def _beside(times: float) -> str:
    """How much work earlier runs had beside one that has so many `times` as much."""
    text = number(float(f"{max(times, 1 / times):.2g}"))
    if text == "1":
        return "nearly as much work"
    return f"{text} times less work" if times > 1 else f"{text} times the work"


def _predicted(
    training: Training, amount: float | None, known: Known, workspace: Workspace, profile: Profile
) -> NodeTime:
    advice = advise_training(training, known, workspace, profile)
    if advice is None:
        return NodeTime(training.node, basis=training.unknown)
    own = advice.own
    if own is None:
        hint = f"`voxelflow bench` here (some minutes) makes the time of {training.node} known before it has run."
        return NodeTime(training.node, amount=amount, hint=hint)
    if not own.fits:
        return NodeTime(training.node, basis="it does not fit into memory", amount=amount)
    basis = f"predicted from `voxelflow bench`, {own.source}" if own.source else "predicted from `voxelflow bench`"
    if advice.assumed_input:
        # Then its true time may be any longer.
        basis += "; if it need not wait for volumes (`voxelflow probe` says)"
    return NodeTime(training.node, own.low, own.high, basis, amount)


def _training_amount(training: Training) -> float | None:
    """Multiply-adds: validation does a third of what training does."""
    work = training.work
    if work is None:
        return None
    return float(work.epochs * (work.volumes + work.validation / 3) * work.network.multiply_adds)


def _amount(resolved: Resolved, previews: Mapping[tuple[str, str], Preview], node: str) -> float | None:
    """Bytes of the volumes that it reads or makes, whichever are more; their number where no shape is known."""
    ports = [(e.source_node, e.source_port) for e in resolved.wires_into(node)]
    ports += [port for port in previews if port[0] == node]
    seen = [previews[port] for port in ports if port in previews and previews[port].held is not None]
    if not seen:
        return None
    sizes = [float(p.held or 0) * p.spec.volume_bytes for p in seen if p.spec is not None]
    return max(sizes) if len(sizes) == len(seen) else float(max(p.held or 0 for p in seen))


def _once(read: Callable[[], Known]) -> Callable[[], Known]:
    kept: list[Known] = []

    def get() -> Known:
        if not kept:
            kept.append(read())
        return kept[0]

    return get


# --- the whole run ---------------------------------------------------------------------------------


def price_in_table(key: str, amount: float, currency: str, workspace: Workspace) -> HourPrice:
    """The price of a machine of the table with its date and source."""
    try:
        found = machine_table(workspace).find(key)
    except UsageError:  # the price was read before, and the table has changed since
        return HourPrice(amount, currency, key)
    return HourPrice(amount, currency, key, found.date, short_source(found.source))


def price_of(profile: Profile, workspace: Workspace) -> tuple[HourPrice | None, str]:
    """The price of an hour under the profile with its source; else None and why it is not known.

    On a cluster that is the price of all its machines, as many as it has at most.
    """
    if (hour := profile.hourly_price) is None:
        return None, profile.unpriced
    executors = profile.executors.count
    machines = None if executors is None else 1 + executors
    if profile.price_per_hour is not None:
        found = HourPrice(hour, profile.currency, f"price_per_hour of the profile {profile.name}")
    else:
        found = price_in_table(profile.machine, hour, profile.currency, workspace)
        if executors and profile.executor_machine not in ("", profile.machine):
            also = price_in_table(profile.executor_machine, hour, profile.currency, workspace)
            # Of two prices, the older date says how old the sum may be.
            date = min(found.date, also.date)
            sources = dict.fromkeys(filter(None, (found.source, also.source)))
            found = replace(found, date=date, source=" and ".join(sources))
        found = replace(found, of=profile.counted_text)
    units = profile.units_of(executors or 0) or 0.0
    return replace(found, units=units, unit_price=profile.price_per_dbu, machines=machines), ""


def estimate_run(
    made: Plan, resolved: Resolved, observation: Observation, workspace: Workspace, store: RunStore
) -> RunEstimate:
    """The time and cost of a run that was planned."""
    previews, _ = preview_outputs(resolved, observation)
    to_run = {task.node: task for task in made.to_run}
    times = node_times(resolved, previews, observation, workspace, store, made.profile) if to_run else {}
    price, unpriced = price_of(made.profile, workspace)
    nodes = [times.get(node, NodeTime(node)) for node in to_run]
    costs = storage_costs(trainings(resolved, previews, observation), workspace) if to_run else {}
    return RunEstimate(
        tuple(n.continued() if to_run[n.node].goes_on else n for n in nodes),
        {node: [source.node for source in task.inputs.values()] for node, task in to_run.items()},
        price,
        unpriced,
        tuple(c.continued() if to_run[node].goes_on else c for node, c in costs.items() if node in to_run),
    )


def storage_costs(found: Iterable[Training], workspace: Workspace) -> dict[str, StorageCost]:
    """By node: what each training whose volumes lie in an object store pays for that."""
    out = {}
    for training in found:
        work = training.work
        if work is None or not is_url(work.uri):
            continue
        cache = RangeCache.from_environment()
        cost = storage_cost(work, way_of(work), cache.limit if cache is not None else 0, storage_table(workspace))
        if cost is not None:
            out[training.node] = cost
    return out


def totals(estimate: RunEstimate) -> tuple[str, str]:
    """The time and the cost of the whole run in words, each by itself, as for the cells of a table."""
    kept = estimate.kept()
    return time_expected(kept), cost_expected(kept, *_hour(estimate), estimate.unpriced)


def expected_parts(estimate: RunEstimate) -> list[tuple[str, str]]:
    """What is expected of the whole run, each part by its name."""
    kept = estimate.kept()
    return expected_rows(kept, kept, *_hour(estimate), estimate.unpriced)


def _hour(estimate: RunEstimate) -> tuple[float | None, str]:
    price = estimate.price
    return (None, "") if price is None else (price.amount, price.currency)


def node_rows(estimate: RunEstimate) -> list[tuple[str, str, str]]:
    """A line for each node that would run: its name, its time, how that is known."""
    return [
        (n.node, between(n.low, n.high) if n.low is not None and n.high is not None else "unknown", n.basis)
        for n in estimate.nodes
    ]


def arithmetic(estimate: RunEstimate) -> Iterator[str]:
    """How the cost comes about: the price with its source, the sum, what the storage costs, and what is not in it; what
    would make more of it known."""
    price, seconds = estimate.price, estimate.seconds
    if price is not None:
        yield f"price: {price.line()}"
        for word, end, cost in zip(("least", "most"), seconds or (), estimate.cost or (), strict=False):
            if cost > 0:
                rate, asked = hourly(price.amount, price.currency), cost - price.amount * end / 3600
                requests = f" + {money(asked, price.currency)} for requests" if asked >= _LEAST_REQUESTS else ""
                yield f"{word}: {rate} x {duration(end)}{requests} = {money(cost, price.currency)}"
    yield from (f"storage: {cost.line()}" for cost in estimate.storage)
    if price is not None and seconds is not None:
        yield price.scope_beside(estimate.storage)
    yield from dict.fromkeys(n.hint for n in estimate.nodes if n.hint)


UNITS = "Databricks units (DBU)"


def not_included(of_storage: str = "", *, units: bool = False) -> tuple[str, ...]:
    """What the cost of a machine leaves out; `of_storage` is what is left of that where requests are said, `units` says
    whether Databricks' are in it."""
    storage = of_storage or "requests to the storage and traffic"
    return ("disks", storage, *(() if units else (UNITS,)), "taxes and discounts")


def as_json(estimate: RunEstimate) -> dict[str, Any]:
    """The estimate as plain values; what is not known is null."""
    low, high = estimate.seconds or (None, None)
    price, (least, most) = estimate.price, estimate.cost or (None, None)
    return {
        "low_s": low,
        "high_s": high,
        "cost_low": least,
        "cost_high": most,
        "price": None if price is None else vars(price),
        "unpriced": estimate.unpriced,
        "not_included": [] if price is None else [*price.not_included(estimate.storage)],
        "storage": [storage_as_json(cost) for cost in estimate.storage],
        "nodes": [{"node": n.node, "low_s": n.low, "high_s": n.high, "basis": n.basis} for n in estimate.nodes],
    }
