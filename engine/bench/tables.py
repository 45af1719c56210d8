"""What results say as lines of text, for the command, the page of a comparison and the app alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.bench.compare import Comparison, Point, Stalls, busy_cores, others_share
from engine.bench.result import BenchResult, BenchRow, Configuration
from engine.environment import DISTURBED
from engine.text import duration, hourly, money, number, plural, size

COMPARED = ("machine", "an hour", "way", "volumes/s", "time", "x best", "cost", "x best", "bound by", "")
COMPARED_RIGHT = ("an hour", "volumes/s", "time", "x best", "cost")
STALLS = ("machine", "way", "synthetic", "cached", "cold", "lost to reading", "lost to storage", "bound by")
STALLS_RIGHT = STALLS[2:7]
HARDWARE = (
    "machine", "way", "cores busy", "busiest core", "its memory", "memory used", "swap MB/s", "disk MB/s",
    "network MB/s", "GPU",
)  # fmt: skip
HARDWARE_RIGHT = HARDWARE[2:]


def way(case: Configuration) -> str:
    """How it is trained, in a few words: `arrow, batch 32`, `synthetic, batch 8, 2 workers, bfloat16`."""
    parts = [case.loader or "synthetic", f"batch {case.batch_size}"]
    if case.workers > 1:
        parts.append(plural(case.workers, "workers"))
    if case.storage not in ("", "local"):
        parts.append(case.storage)
    return ", ".join(parts + [name for name, on in (("bfloat16", case.mixed_precision), ("XLA", case.jit)) if on])


def compared_rows(comparison: Comparison, points: Sequence[Point] | None = None) -> list[tuple[str, ...]]:
    """A line for each point, by default the fastest of each machine; columns are `COMPARED`."""
    return [
        (
            point.result.name,
            "" if point.result.price_per_hour is None else _price(point.result),
            way(point.row.configuration),
            _rate(point.row.samples_per_s),
            duration(point.seconds),
            f"{point.time_ratio:.2f}",
            "" if point.cost is None else money(point.cost, comparison.currency),
            # Beside one that costs nothing there is no ratio.
            "" if point.cost_ratio is None or math.isinf(point.cost_ratio) else f"{point.cost_ratio:.2f}",
            point.bound,
            "efficient" if point.efficient else "",
        )
        for point in (comparison.machines if points is None else points)
    ]


def _price(result: BenchResult) -> str:
    assert result.price_per_hour is not None
    return hourly(result.price_per_hour, result.currency, an_hour="")


def meaning(comparison: Comparison) -> list[str]:
    """What a comparison says, in sentences."""
    machines = comparison.machines
    if not machines:
        return ["Nothing was measured that could be compared."]
    fastest, what = machines[0], f"an epoch of {plural(comparison.volumes, 'volumes')}"
    which = " is the fastest" if len(machines) > 1 else ""
    out = [f"{fastest.result.name}{which}: {what} takes {duration(fastest.seconds)}{_cost(fastest, comparison)}."]
    priced = [point for point in machines if point.cost is not None]
    cheapest = min(priced, key=lambda point: point.cost or 0.0, default=fastest)
    if cheapest is not fastest:
        # Of one price alone nothing can be said.
        best = " is the cheapest" + " of those with a price to compare" * (len(priced) < len(machines))
        takes = f"{best}: it takes" if len(priced) > 1 else " takes"
        out.append(f"{cheapest.result.name}{takes} {duration(cheapest.seconds)}{_cost(cheapest, comparison)}.")
    unknown = [point.result for point in machines if point.cost is None]
    if unpriced := [found.name for found in unknown if found.price_per_hour is None]:
        out.append(f"No price is known of {', '.join(unpriced)}.")
    if others := [f"{r.name} ({r.currency or 'none given'})" for r in unknown if r.price_per_hour is not None]:
        ours = f"in {comparison.currency}" if comparison.currency else "where no currency is given"
        out.append(f"Costs are compared {ours} alone: not of {', '.join(others)}.")
    if comparison.left_out:
        kind = comparison.input
        out.append(f"Not compared, as not measured with {kind} input: {', '.join(comparison.left_out)}.")
    waiting = [
        f"{p.result.name} by {p.bound} ({way(p.row.configuration)})" for p in machines if p.bound in ("input", "memory")
    ]
    if waiting:
        out.append(f"Not bound by computing, also in the fastest way: {', '.join(waiting)}.")
    full = [f"{p.result.name} {busy_cores(p.row, p.result):.0f}%" for p in machines if p.bound == "cores"]
    if full:
        out.append(f"Bound by their cores, which were busy nearly all the time, with no GPU: {', '.join(full)}.")
    results = [point.result for point in machines]
    return [*out, *filter(None, (unfinished(results), disturbance(results)))]


def _cost(point: Point, comparison: Comparison) -> str:
    return "" if point.cost is None else f" and costs {money(point.cost, comparison.currency)}"


def unfinished(results: Sequence[BenchResult]) -> str:
    """Which of the results lack rows, because their benchmark was ended early; "" where none does."""
    found = [f"{r.name} {len(r.rows)} of {plural(r.planned, 'rows')}" for r in results if r.missing]
    return f"Ended early, so that faster ways may be missing: {', '.join(found)}." if found else ""


def disturbance(results: Sequence[BenchResult]) -> str:
    """Which of the results cannot be trusted, because other programs were at work meanwhile; "" where all can."""
    found = []
    for result in results:
        shares = [others_share(row, result.cores) for row in result.typical]
        share = sum(shares) / len(shares) if shares else 0.0
        if share >= DISTURBED:
            found.append(f"{result.name} {share:.0%}")
    if not found:
        return ""
    who = ", ".join(found)
    return f"Other programs had a part of the cores meanwhile ({who}): measure again when the machine is idle."


def stalls_rows(lines: Sequence[Stalls]) -> list[tuple[str, ...]]:
    """A line for each configuration and loader; columns are `STALLS`, rates volumes a second."""
    return [
        (
            line.result.name,
            way(line.configuration),
            _rate(line.synthetic),
            _rate(line.cached),
            _rate(line.cold),
            _share(line.preparing),
            _share(line.fetching),
            line.bound if line.outcome == "measured" else f"{line.outcome}: {line.note}".rstrip(": "),
        )
        for line in lines
    ]


def hardware_rows(result: BenchResult) -> list[tuple[str, ...]]:
    """What the machine did in the measured steps of each row; columns are `HARDWARE`.

    Of cores, disk and network the mean, of memory and swap the most.
    """
    out = []
    for row in result.typical:
        case = row.configuration
        kind = way(case) if not case.loader else f"{case.input}, {way(case)}"
        out.append((result.name, kind, *_hardware(row)))
    return out


def _hardware(row: BenchRow) -> tuple[str, ...]:
    curves = row.curves
    swap = [curves.peak(f"swap_{name}_megabytes_per_second") for name in ("in", "out")]
    disk = curves.mean("disk_read_megabytes_per_second")
    network = curves.mean("network_receive_megabytes_per_second")
    gpus = [
        value
        for name in curves.values
        if name.startswith("gpu_") and name.endswith("_utilization_percentage")
        if (value := curves.mean(name)) is not None
    ]
    return (
        _percent(curves.mean("cpu_utilization_percentage")),
        _percent(curves.mean("busiest_core_percentage")),
        size(row.memory_bytes) if row.memory_bytes else "",
        _percent(curves.peak("system_memory_usage_percentage")),
        _figure(None if None in swap else sum(value or 0.0 for value in swap)),
        _figure(disk),
        _figure(network),
        _percent(sum(gpus) / len(gpus)) if gpus else "",
    )


def _rate(value: float | None) -> str:
    return "" if value is None else number(float(f"{value:.3g}"))


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}%"


def _figure(value: float | None) -> str:
    return "" if value is None else number(round(value, 1))
