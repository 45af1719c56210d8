"""What several results say together: time and cost beside the best, the efficient frontier, and what each waits for.

Pure arithmetic over `BenchResult`. Results are compared where they did the same work: the same network on volumes of
the same shape and type. A point is a configuration of one machine, by the time and cost of so many volumes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

from engine.bench.result import BenchResult, BenchRow, Configuration, Input, Outcome, newest_by_machine

T = TypeVar("T")
EPOCH = 650_000
"""Volumes in the epoch for which times and costs are given: that of the largest data sets Voxelflow is made for."""
Bound = Literal["input", "compute", "cores", "memory"]
WAITING = 0.1
"""From this share of a step on, it is the input that a training waits for."""
_SWAPPING_MB_S = 1.0
_FULL = 95.0
_BUSY = 90.0
"""From this percentage on all cores are at work: a step has parts that one core does alone."""


class Work(NamedTuple):
    """What is trained on what: only rows that agree in it are compared."""

    depth: int
    shape: tuple[int, ...]
    dtype: str
    optimizer: str
    stem: str
    width: int

    @classmethod
    def of(cls, case: Configuration) -> Work:
        return cls(case.depth, case.shape, case.dtype, case.optimizer, case.stem, case.width)

    def describe(self) -> str:
        """`ResNet-18 on 30 x 30 x 10 x 10 float32`."""
        return f"ResNet-{self.depth} on {' x '.join(map(str, self.shape))} {self.dtype}"


@dataclass(frozen=True)
class Point:
    """A measured configuration. `seconds` and `cost` are those of `Comparison.volumes`; ratios are to the best, 1.

    `cost` is None where no price is known, or none in the currency of the comparison.
    """

    result: BenchResult
    row: BenchRow
    bound: Bound
    seconds: float
    cost: float | None
    time_ratio: float = 1.0
    cost_ratio: float | None = None
    efficient: bool = False
    """Whether no other point is at least as fast and as cheap, and better in one of them."""


@dataclass(frozen=True)
class Comparison:
    """All points of one kind of work and input, the fastest first.

    `left_out` names the machines that did this work with other inputs alone.
    """

    work: Work
    input: Input
    volumes: int
    currency: str
    points: tuple[Point, ...]
    left_out: tuple[str, ...] = ()

    @property
    def machines(self) -> tuple[Point, ...]:
        """The fastest point of each machine, which is its cheapest too, the fastest first."""
        out: dict[str, Point] = {}
        for point in self.points:
            out.setdefault(point.result.name, point)
        return tuple(out.values())

    @property
    def frontier(self) -> tuple[Point, ...]:
        """The efficient points, the fastest first, so the dearest first too."""
        return tuple(point for point in self.points if point.efficient)


def works(results: Iterable[BenchResult]) -> list[Work]:
    """The kinds of work that were measured: those of most machines first, then of most rows."""
    rows, machines = Counter[Work](), dict[Work, set[str]]()
    for result in results:
        for row in result.measured:
            work = Work.of(row.configuration)
            rows[work] += 1
            machines.setdefault(work, set()).add(result.name)
    return sorted(rows, key=lambda work: (-len(machines[work]), -rows[work], work))


def common_input(results: Iterable[BenchResult], work: Work) -> Input:
    """The input that most machines with this work were measured with; of those that as many were, the coldest."""
    kinds = [_inputs(result, work) for result in results]
    coldest_first: tuple[Input, ...] = ("cold", "cached", "synthetic")
    return max(coldest_first, key=lambda kind: sum(kind in found for found in kinds))


def _inputs(result: BenchResult, work: Work) -> set[Input]:
    """Those that the work was measured with."""
    return {row.configuration.input for row in result.measured if Work.of(row.configuration) == work}


def compare(results: Sequence[BenchResult], work: Work, kind: Input, volumes: int = EPOCH) -> Comparison:
    """The points of all rows with this work and input. No result has to have any.

    Costs are in the currency of most of those that have.
    """
    measured = [result for result in results if kind in _inputs(result, work)]
    currencies = Counter(result.currency for result in measured if result.price_per_hour is not None)
    currency = min(currencies, key=lambda name: (-currencies[name], name), default="")
    points = [
        _point(result, row, volumes, currency)
        for result in results
        for row in result.typical
        if row.configuration.input == kind and Work.of(row.configuration) == work
    ]
    lacking = [result.name for result in results if (found := _inputs(result, work)) and kind not in found]
    return Comparison(work, kind, volumes, currency, tuple(normalised(points)), tuple(dict.fromkeys(lacking)))


def _point(result: BenchResult, row: BenchRow, volumes: int, currency: str) -> Point:
    seconds = volumes / row.samples_per_s
    cost = result.cost(seconds) if result.currency == currency else None
    return Point(result, row, bound_of(row, result), seconds, cost)


def normalised(points: Iterable[Point]) -> list[Point]:
    """The points with their ratios to the best of all and their place on the frontier, the fastest first."""
    ordered = sorted(points, key=lambda point: (point.seconds, float("inf") if point.cost is None else point.cost))
    if not ordered:
        return []
    fastest = ordered[0].seconds
    cheapest = min((point.cost for point in ordered if point.cost is not None), default=None)
    out, best = [], {id(point) for point in efficient(ordered, lambda point: (point.seconds, point.cost))}
    for point in ordered:
        ratio = None
        if point.cost is not None and cheapest is not None:
            ratio = point.cost / cheapest if cheapest > 0 else 1.0 if point.cost == 0 else float("inf")
        out.append(replace(point, time_ratio=point.seconds / fastest, cost_ratio=ratio, efficient=id(point) in best))
    return out


def efficient(points: Iterable[T], figures: Callable[[T], tuple[float, float | None]]) -> list[T]:
    """The efficient frontier, the fastest first: no other point is at least as fast and as cheap, and better in one.

    `figures` gives seconds and cost; a point without a cost is not on it.
    """
    out, least = [], float("inf")
    known = [(*figures(point), place, point) for place, point in enumerate(points)]
    for _, cost, _, point in sorted((s, c, n, p) for s, c, n, p in known if c is not None):
        # A slower one must be cheaper than all before it.
        if cost < least:
            out.append(point)
            least = cost
    return out


def bound_of(row: BenchRow, result: BenchResult | None = None) -> Bound:
    """What a training in this configuration is held up by.

    memory: it did not fit, the machine moved pages to and from its swap, or its memory was full. input: a tenth of the
    time or more was waiting for batches. cores: no GPU computed, and the cores of the `result`, those that the training
    was given, were busy for at least 90% of the time, by its own processes or by all. compute: all else.
    """
    curves = row.curves
    swapped = (curves.mean(f"swap_{way}_megabytes_per_second") or 0.0 for way in ("in", "out"))
    if row.outcome == "out of memory" or sum(swapped) >= _SWAPPING_MB_S:
        return "memory"
    if (curves.peak("system_memory_usage_percentage") or 0.0) >= _FULL:
        return "memory"
    if row.total_s and row.waiting_s / row.total_s >= WAITING:
        return "input"
    return "cores" if result is not None and not result.machine.gpus and busy_cores(row, result) >= _BUSY else "compute"


def busy_cores(row: BenchRow, result: BenchResult) -> float:
    """The percentage of the time, from 0 to 100, in which the cores that the training was given had something to do; 0
    where that is not known."""
    own = (row.curves.mean("run_processes_cpu_percentage") or 0.0) / max(1, result.cores)
    return min(100.0, max(own, row.curves.mean("cpu_utilization_percentage") or 0.0))


def others_share(row: BenchRow, cores: int) -> float:
    """The share of the cores, from 0 to 1, that other programs took during the measured steps; 0 where not known.

    `cores` are those that the training was given: on a machine with more it is a lower bound.
    """
    busy = row.curves.mean("cpu_utilization_percentage")
    own = row.curves.mean("run_processes_cpu_percentage")
    return 0.0 if busy is None or own is None or not cores else max(0.0, (busy - own / cores) / 100)


def best_by_machine(results: Sequence[BenchResult]) -> dict[str, Point]:
    """The fastest point of each machine in the work that most did, by its name, and by its type in the table of prices.

    Keys are in lower case. Of several results of a machine the newest counts; quick ones do not.
    """
    newest = newest_by_machine([result for result in results if not result.quick])
    known = works(newest)
    if not known:
        return {}
    comparison = compare(newest, known[0], common_input(newest, known[0]))
    points = {point.result.name.casefold(): point for point in comparison.machines}
    typed = {p.result.machine_type.casefold(): p for p in reversed(comparison.machines) if p.result.machine_type}
    return points | typed


# --- one machine: what the input costs -------------------------------------------------------------


@dataclass(frozen=True)
class Stalls:
    """The three runs of one configuration and loader. Rates are volumes a second, None where not measured.

    `preparing` is the share of the machine's rate that is lost to reading from full caches (DS-Analyzer's prep stall),
    `fetching` the share of what is left that is lost to the storage (its fetch stall); 0 where nothing is lost.
    """

    result: BenchResult
    configuration: Configuration
    synthetic: float | None
    cached: float | None
    cold: float | None
    bound: Bound
    outcome: Outcome
    note: str = ""

    @property
    def preparing(self) -> float | None:
        return _lost(self.synthetic, self.cached)

    @property
    def fetching(self) -> float | None:
        return _lost(self.cached, self.cold)


def _lost(ideal: float | None, real: float | None) -> float | None:
    return None if not ideal or real is None else max(0.0, 1 - real / ideal)


def stalls(result: BenchResult) -> list[Stalls]:
    """A line for each configuration and loader of a result, in the order of its rows."""

    def alone(case: Configuration) -> Configuration:
        return case.model_copy(update={"loader": "", "input": "synthetic", "storage": ""})

    each = {row.configuration: row for row in (*result.typical, *result.without_figures)}
    computed = {case: row for case, row in each.items() if case.input == "synthetic"}
    loaded: dict[Configuration, dict[Input, BenchRow]] = {}
    for row in each.values():
        if row.configuration.input != "synthetic":
            key = row.configuration.model_copy(update={"input": "cold"})
            loaded.setdefault(key, {})[row.configuration.input] = row
    with_loader = {alone(case) for case in loaded}
    for case, row in computed.items():
        if case not in with_loader:
            loaded[case] = {"synthetic": row}
    out = []
    for case, rows in loaded.items():
        if (synthetic := computed.get(alone(case))) is not None:
            rows["synthetic"] = synthetic
        last = rows.get("cold") or rows.get("cached") or rows["synthetic"]
        rate = {kind: row.samples_per_s for kind, row in rows.items() if row.outcome == "measured"}
        note = "" if last.outcome == "measured" else last.note
        out.append(
            Stalls(
                result, case, rate.get("synthetic"), rate.get("cached"), rate.get("cold"),
                bound_of(last, result), last.outcome, note,
            )
        )  # fmt: skip
    return out
