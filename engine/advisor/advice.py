"""From a training's work and what is known of machines and storage to times, costs and a recommendation. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.advisor.choice import near_best, smallest_batch
from engine.advisor.machines import DEVIATIONS, Basis, Candidate, Computing, Measured, computing_on
from engine.advisor.reading import InputModel, Way
from engine.advisor.saving import saving_s, write_mb_s
from engine.advisor.storage_cost import StorageCost, storage_cost
from engine.bench.compare import WAITING, Bound, efficient
from engine.declare.workload import Saving, TrainingWork
from engine.prices import StorageTable
from engine.storage import is_url
from engine.text import duration

_START_S, _START_S_PER_LAYER, _START_SPREAD = 6.0, 0.11, 0.4
"""Until the first step: importing the framework, building and compiling the network, on two cores."""
_SAVING_SPREAD = 0.3
"""A disk writes as much faster or slower at another time."""
_FORWARD = 1 / 3
"""Of a step's arithmetic: validation does no other."""
_PROCESS_BYTES = 0.92e9
_PARAMETER_BYTES = 20
"""A weight with its gradient, the optimizer's two values and a copy while it is saved."""
_VALUE_BYTES = 60
"""A layer's values as they are kept for the way back, with what the convolutions put beside them."""
NEARLY = 0.10
"""Of costs that are as near to each other, the faster machine is recommended."""
_LARGEST_BATCH = 512


@dataclass(frozen=True)
class Estimate:
    """A training on one machine, its volumes stored in one way. `low` and `high` hold the true time four times of five.

    `bound` is what its steps wait for; "memory" where it does not fit, and then there are no times. Costs are None
    where no price is known.
    """

    machine: Candidate
    way: Way
    batch_size: int
    workers: int
    bound: Bound
    seconds: float = 0.0
    low: float = 0.0
    high: float = 0.0
    step_s: float = 0.0
    """A step in an epoch after the first; where there is only one, in that."""
    compute_s: float = 0.0
    """What a step computes."""
    input_s: float = 0.0
    """Until the volumes of such a step have come."""
    first_epoch_s: float = 0.0
    later_epoch_s: float = 0.0
    saving_s: float | None = None
    """Of such an epoch: writing its checkpoints. None: speed unknown, the estimate leaves it out."""
    memory_bytes: int = 0
    cached: bool = False
    """Whether epochs after the first read from memory, or from the local cache."""
    source: str = ""
    """Where its speed is from; "" of a machine that was measured."""
    basis: Basis = "measured"
    """What kind of figure its speed is."""

    @property
    def cost(self) -> float | None:
        """Of the expected time."""
        return self._cost(self.seconds)

    @property
    def cost_range(self) -> tuple[float, float] | None:
        """Of the error bar's ends."""
        low, high = self._cost(self.low), self._cost(self.high)
        return None if low is None or high is None else (low, high)

    @property
    def fits(self) -> bool:
        """Whether it fits into the machine's memory."""
        return self.bound != "memory"

    @property
    def rate(self) -> float:
        """Volumes a second in steps of `step_s`; 0 where it does not fit."""
        return self.batch_size / self.step_s if self.step_s > 0 else 0.0

    def _cost(self, seconds: float) -> float | None:
        price = self.machine.price_per_hour
        return None if price is None or not self.fits else price * seconds / 3600


@dataclass(frozen=True)
class Knowledge:
    """What is known beside the training itself.

    `cold` and `cached` give by way of storing how volumes come, the first time and again; a way that was never measured
    is missing in `cold`, or is in `guessed`, too, where it is there for a latency that was asked for. `cache_bytes` is
    the limit of the local cache of remote tables, and `write_mb_s` how fast a conversion writes.
    """

    candidates: Sequence[Candidate]
    measured: Sequence[Measured] = ()
    cold: Mapping[Way, InputModel] = field(default_factory=dict)
    cached: Mapping[Way, InputModel] = field(default_factory=dict)
    guessed: Collection[Way] = ()
    cache_bytes: int = 0
    write_mb_s: float | None = None
    checkpoint_mb_s: float | None = None
    """How fast checkpoints are written in the folder `saved_in`; None where no probe says it."""
    saved_in: str = ""
    fresh: bool = False
    """The data is yet to be made, on the same machine: what fits into memory is there when the training begins."""
    storage_prices: StorageTable | None = None
    """Those of the workspace; None: the shipped ones."""
    elsewhere: Sequence[tuple[str, Way, InputModel]] = ()
    """Other places that were probed, and how volumes would come from there, stored in one way."""

    def measured_input(self, way: Way) -> InputModel | None:
        """How volumes that are stored in this way come the first time, where that was measured."""
        return None if way in self.guessed else self.cold.get(way)


@dataclass(frozen=True)
class Setting:
    """A parameter that another value would do better for."""

    name: str
    now: str
    advised: str
    why: str


@dataclass(frozen=True)
class Elsewhere:
    """The estimates as if the volumes lay in another place, by machine."""

    place: str
    way: Way
    estimates: tuple[Estimate, ...]


@dataclass(frozen=True)
class Advice:
    """The estimates for a training as it is, by machine; where it reads files, the same from a table in their place, if
    it is known how fast that would come.

    `own` is that of the profile. `recommended` is None when nothing is known of any machine; `within_s` is the limit
    of time that it was chosen under.
    """

    work: TrainingWork
    way: Way
    estimates: tuple[Estimate, ...] = ()
    from_table: tuple[Estimate, ...] = ()
    own: Estimate | None = None
    recommended: Estimate | None = None
    conversion_s: float | None = None
    pays_after: int | None = None
    """Epochs on the profile's machine after which a conversion to a table has paid."""
    settings: tuple[Setting, ...] = ()
    assumed_input: bool = False
    """How fast volumes come was not measured: the times assume that steps never wait for data."""
    with_latency: bool = False
    """But for the latency that was asked for."""
    storage: StorageCost | None = None
    """What its storage costs beside the machine; None where the data lies on it."""
    elsewhere: tuple[Elsewhere, ...] = ()
    within_s: float | None = None
    saved_in: str = ""
    """The folder of the checkpoints."""


# --- one machine ---------------------------------------------------------------------------------


def estimate(
    work: TrainingWork,
    way: Way,
    candidate: Candidate,
    computing: Computing,
    known: Knowledge,
    *,
    batch_size: int | None = None,
    workers: int | None = None,
) -> Estimate:
    """The time of the training on one machine, its volumes stored in this way."""
    batch, ranks = batch_size or work.batch_size, workers or work.workers
    needed = memory_needed(work, batch, ranks, candidate)
    out = Estimate(
        candidate, way, batch, ranks, "memory", memory_bytes=needed, source=computing.source, basis=computing.basis
    )
    if not _fits(needed, ranks, candidate):
        return out
    model, network = computing.model, work.network
    compute_s = model.step(network, batch, ranks)
    again = known.cached.get(way)
    measured = known.measured_input(way)
    # Where nothing was measured, steps are said never to wait: then no disk or network holds them up either.
    first = known.cold.get(way, again) if measured is None else _behind(candidate, work, way, measured)
    cached = again is not None and _stays(work, way, candidate, needed * _on_each(ranks, candidate), known)
    later = again if cached else first
    if known.fresh and cached and way != "remote table":
        first = again
    step_first, input_first = _step(compute_s, batch, ranks, first, candidate)
    step_later, input_later = _step(compute_s, batch, ranks, later, candidate)
    steps = max(1, work.volumes // batch)
    validation = [
        _step(_FORWARD * batch * model.volume(network), batch, ranks, each, candidate)[0] * work.validation / batch
        for each in (first, later)
    ]
    begins = [first_batch_s(work, batch, ranks, each, candidate.cores) for each in (first, later)]
    trained = (steps * step_first + begins[0], steps * step_later + begins[1])
    nothing = Saving(0)
    rate = write_mb_s(candidate, known.checkpoint_mb_s)
    saved = [saving_s(work.saving or nothing, rate, steps, each) if rate else 0.0 for each in trained]
    epoch_first, epoch_later = (sum(parts) for parts in zip(trained, validation, saved, strict=True))
    start = _START_S + _START_S_PER_LAYER * network.layers
    training = epoch_first + (work.epochs - 1) * epoch_later
    saving = saved[0] + (work.epochs - 1) * saved[1]
    # A training of one epoch has none after the first.
    limit, step_s, input_s = (later, step_later, input_later) if work.epochs > 1 else (first, step_first, input_first)
    bound: Bound = "input" if input_s - compute_s > WAITING * input_s else "compute"
    spread = (
        limit.spread if bound == "input" and limit else math.hypot(model.error(network, ranks), computing.scale_spread)
    )
    seconds = start + training
    # That of saving comes to that of all: else the bar's upper end would fall as something is added.
    relative = math.hypot(spread * training, _SAVING_SPREAD * saving, _START_SPREAD * start) / seconds
    return replace(
        out,
        bound=bound,
        seconds=seconds,
        low=seconds * math.exp(-DEVIATIONS * relative),
        high=seconds * math.exp(DEVIATIONS * relative),
        step_s=step_s,
        compute_s=compute_s,
        input_s=input_s,
        first_epoch_s=epoch_first,
        later_epoch_s=epoch_later,
        saving_s=saved[1] if rate or work.saving is None else None,
        cached=cached,
    )


def step_seconds(
    compute_s: float, batch_size: int, workers: int, reading: InputModel | None, *, cores: int, accelerated: bool
) -> tuple[float, float]:
    """Seconds of a step, and those until its volumes have come.

    With computing c, input and the loader's overlap w it is `max(c, input) + (1 - w) * min(c, input)`: what is longer
    where volumes are read ahead, the sum where reading begins when a batch is asked for. c and input are the rates that
    DS-Analyzer measures to tell what a training waits for (Mohan et al., VLDB 2021). On a machine without an
    accelerator the processor time of reading is taken from the computing that goes on beside it.
    """
    if reading is None:
        return compute_s, 0.0
    streams = reading.access.on(cores, workers)
    supply = batch_size * max(reading.wait_s(streams), reading.processor_s / max(1, min(streams, cores)))
    beside = compute_s if accelerated else compute_s + batch_size * reading.processor_s / max(1, cores)
    hidden = reading.access.overlap
    return hidden * max(beside, supply) + (1 - hidden) * (compute_s + supply), supply


def first_batch_s(work: TrainingWork, batch: int, ranks: int, reading: InputModel | None, cores: int) -> float:
    """Seconds until an epoch's first batch has come, of which nothing is read ahead."""
    if reading is None:
        return 0.0
    if not reading.access.window_bytes:
        return batch / ranks * reading.wait_s(1)
    window = max(batch, reading.access.window_bytes // (4 * math.prod(work.shape)))
    return min(window, work.volumes) * max(reading.wait_s(reading.access.on(cores, ranks)), reading.processor_s)


def _step(
    compute_s: float, batch: int, ranks: int, reading: InputModel | None, candidate: Candidate
) -> tuple[float, float]:
    return step_seconds(compute_s, batch, ranks, reading, cores=candidate.cores, accelerated=bool(candidate.gpus))


def _behind(candidate: Candidate, work: TrainingWork, way: Way, reading: InputModel) -> InputModel:
    """The storage as this machine reaches it: not faster than its disk or network carries."""
    if candidate.origin == "profile" and not candidate.remote:
        return reading
    return reading.limited(candidate.network_mb_s if _is_remote(work, way) else candidate.disk_mb_s)


def table_in_place(work: TrainingWork) -> Way:
    """How the volumes of files would be stored in a table that lies where the files do."""
    return "remote table" if is_url(work.uri) else "table"


def _is_remote(work: TrainingWork, way: Way) -> bool:
    return way == "remote table" or (way == "files" and is_url(work.uri))


def _stays(work: TrainingWork, way: Way, candidate: Candidate, used: int, known: Knowledge) -> bool:
    """Whether all volumes stay where the second epoch finds them: in memory, or in the local cache."""
    size = (work.volumes + work.validation) * work.volume_bytes
    if way == "remote table":
        return size <= known.cache_bytes
    if _is_remote(work, way):
        return False  # each epoch asks for the files again
    return candidate.memory_bytes is not None and size <= candidate.memory_bytes - used


def memory_needed(work: TrainingWork, batch_size: int, workers: int, candidate: Candidate) -> int:
    """Bytes that one process of the training takes on the device that computes."""
    share = -(-batch_size // max(workers, candidate.gpus or 1))
    own = _PARAMETER_BYTES * work.network.parameters + _VALUE_BYTES * work.network.values * share
    return int(own if candidate.gpus else own + _PROCESS_BYTES + 8 * share * work.volume_bytes)


def _fits(needed: int, workers: int, candidate: Candidate) -> bool:
    sheet = candidate.accelerator
    if candidate.gpus:
        return sheet is None or needed <= sheet.memory_gb * 1e9
    return candidate.memory_bytes is None or needed * _on_each(workers, candidate) <= candidate.memory_bytes


def _on_each(workers: int, candidate: Candidate) -> int:
    """Workers that share a machine; on a cluster these are spread over it."""
    return -(-workers // candidate.machines)


# --- all machines --------------------------------------------------------------------------------


def advise(work: TrainingWork, way: Way, known: Knowledge, *, within_s: float | None = None) -> Advice:
    """Where to run the training. With `within_s` the cheapest machine that is done by then, else the cheapest.

    Of machines that cost nearly the same, the faster one. The first candidate is the profile's own.
    """
    assumed = known.measured_input(way) is None
    with_latency = assumed and way in known.cold
    found = {c.name: computing for c in known.candidates if (computing := _computing(c, work, known)) is not None}
    storage = storage_cost(work, way, known.cache_bytes, known.storage_prices)
    if not found:
        return Advice(
            work,
            way,
            assumed_input=assumed,
            with_latency=with_latency,
            storage=storage,
            within_s=within_s,
            saved_in=known.saved_in,
        )

    def on_all(stored: Way, known: Knowledge, uri: str = work.uri) -> tuple[Estimate, ...]:
        there = replace(work, uri=uri)
        return tuple(estimate(there, stored, c, found[c.name], known) for c in known.candidates if c.name in found)

    estimates = on_all(way, known)
    table = table_in_place(work)
    # Of a table in a place of which nothing is known, times without any waiting would be set against measured ones.
    from_table = on_all(table, known) if way == "files" and known.measured_input(table) is not None else ()
    elsewhere = [
        Elsewhere(place, there, on_all(there, replace(known, cold={there: model}, guessed=(), fresh=False), place))
        for place, there, model in known.elsewhere
    ]
    own = estimates[0] if estimates and estimates[0].machine == known.candidates[0] else None
    conversion, epochs = _conversion(work, known, own, next(iter(from_table), None))
    chosen = recommend(estimates, within_s)
    return Advice(
        work,
        way,
        estimates,
        from_table,
        own=own,
        recommended=chosen,
        conversion_s=conversion,
        pays_after=epochs,
        settings=tuple(_settings(work, way, own or chosen, found, known)),
        assumed_input=assumed,
        with_latency=with_latency,
        storage=storage,
        elsewhere=tuple(elsewhere),
        within_s=within_s,
        saved_in=known.saved_in,
    )


def _computing(candidate: Candidate, work: TrainingWork, known: Knowledge) -> Computing | None:
    return computing_on(candidate, known.measured, mixed_precision=work.mixed_precision, jit=work.jit)


def recommend(estimates: Sequence[Estimate], within_s: float | None = None) -> Estimate | None:
    """The cheapest, or the fastest of those that cost nearly as little; in time, where there is a limit.

    Where none is done in time the fastest is recommended. None where no estimate has a cost, or none fits.
    """
    priced = [e for e in estimates if e.cost is not None]
    in_time = [e for e in priced if within_s is None or e.seconds <= within_s]
    if not in_time:
        return min(priced, key=lambda e: e.seconds, default=None)
    # Prices in several currencies are not compared.
    comparable = in_currency(in_time, usual_currency(in_time))
    cheapest = min(e.cost or 0.0 for e in comparable)
    near = [e for e in comparable if (e.cost or 0.0) <= cheapest * (1 + NEARLY)]
    # Of those that are as fast, the cheapest again.
    return min(near_best(near, lambda e: 1 / e.seconds), key=lambda e: e.cost or 0.0)


def usual_currency(estimates: Iterable[Estimate]) -> str:
    """That of most costs; "" where there are none, or most prices name none."""
    # What costs nothing does so in any.
    currencies = [e.machine.currency for e in estimates if e.cost]
    return max(dict.fromkeys(currencies), key=currencies.count, default="")


def in_currency(estimates: Iterable[Estimate], currency: str) -> list[Estimate]:
    """Those whose cost is in that currency, or is 0: costs in different ones are not compared."""
    return [e for e in estimates if e.cost is not None and (e.machine.currency == currency or not e.cost)]


def frontier(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Those than which no other is both faster and cheaper, the fastest first."""
    return efficient(estimates, lambda e: (e.seconds, e.cost))


def _conversion(
    work: TrainingWork, known: Knowledge, own: Estimate | None, table: Estimate | None
) -> tuple[float | None, int | None]:
    """Seconds to make a table of the files, and the epochs after which that has paid (None: never)."""
    files = known.measured_input("files")
    if own is None or table is None or files is None or not known.write_mb_s or not own.fits or not table.fits:
        return None, None
    count = work.volumes + work.validation
    cost = count * max(files.wait_s(files.access.on(own.machine.cores)), files.processor_s)
    cost += count * work.volume_bytes / (known.write_mb_s * 1e6)
    saved = own.later_epoch_s - table.later_epoch_s
    return cost, (math.ceil(cost / saved) if saved > 0.01 * own.later_epoch_s else None)


def _settings(
    work: TrainingWork, way: Way, on: Estimate | None, found: Mapping[str, Computing], known: Knowledge
) -> Iterable[Setting]:
    """Batch size, workers, loader and cache, on one machine: what would be at least 5% faster."""
    if on is None:
        return
    machine, computing = on.machine, found[on.machine.name]

    def best_of(sizes: Iterable[int], ranks: Iterable[int]) -> Estimate | None:
        tried = [
            estimate(work, way, machine, computing, known, batch_size=size, workers=n)
            for n in sorted(set(ranks))
            for size in sorted(set(sizes))
            if size % n == 0
        ]
        return smallest_batch(
            [each for each in tried if each.fits],
            workers=lambda e: e.workers,
            batch_size=lambda e: e.batch_size,
            rate=lambda e: e.rate,
        )

    ranks = [1] if machine.gpus else [n for n in (1, 2, 4, 8) if n <= machine.cores]
    if machine.remote:
        ranks = []  # on a cluster each worker has an executor of its own
    shared = best_of([work.batch_size], [work.workers, *ranks])
    if shared is not None and shared.workers != work.workers and (not on.fits or shared.rate > 1.02 * on.rate):
        yield Setting("workers", str(work.workers), str(shared.workers), _gain(on, shared))
    sizes = [2**n for n in range(2, 10) if 2**n <= min(_LARGEST_BATCH, work.volumes)]
    best = best_of([work.batch_size, *sizes], [work.workers])
    if best is not None and best.batch_size != work.batch_size and (not on.fits or best.rate > 1.05 * on.rate):
        more = "; a larger batch also learns differently" if best.batch_size > work.batch_size else ""
        yield Setting("batch_size", str(work.batch_size), str(best.batch_size), _gain(on, best) + more)
    if work.loader == "petastorm":
        yield Setting("loader", "petastorm", "arrow", "it reads the same table with an eighth of the processor time")
    size = (work.volumes + work.validation) * work.volume_bytes
    if way == "remote table" and not on.cached and work.epochs > 1 and on.fits and "remote table" in known.cached:
        cached = estimate(work, way, machine, computing, replace(known, cache_bytes=size))
        if cached.later_epoch_s < 0.95 * on.later_epoch_s:
            now = f"{known.cache_bytes / 1e9:g}"
            yield Setting(
                "VOXELFLOW_CACHE_GB",
                now,
                str(math.ceil(1.1 * size / 1e9)),
                f"an epoch after the first takes {duration(cached.later_epoch_s)} instead of"
                f" {duration(on.later_epoch_s)}",
            )


def _gain(now: Estimate, then: Estimate) -> str:
    if not now.fits:
        return "then it fits into memory"
    return f"{100 * (then.rate / now.rate - 1):.0f}% more volumes a second"
