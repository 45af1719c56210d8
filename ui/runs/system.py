"""The machine while a run was at work: charts of CPU, memory, disk, network and GPUs from its samples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from engine.history.details import Details
from ui.runs.charts import MIN_CHART_WIDTH, Bounds, Line, draw_curves
from ui.runs.feed import Series, feed_of
from ui.runs.timeline import time_unit
from ui.shell.blocks import notice

_GPU = re.compile(r"gpu_(\d+)_(\w+)")
_GAP_S = 60.0
"""Samples come every few seconds: a longer silence means that nothing ran in between."""


@dataclass(frozen=True)
class Chart:
    """One chart; steps are time since the run's start, in the unit asked for."""

    title: str
    unit: str
    lines: tuple[Line, ...]

    @property
    def bounds(self) -> Bounds:
        """Of the axis of values: from zero, so that a small change looks small; a share ends at 100."""
        shares = self.unit.startswith("%") and not any(
            value > 100 for line in self.lines for value in line.series.values
        )
        return (0, 100 if shares else None)


_MB_OF_GB = 1000.0
_PLAIN = (
    ("CPU", "% of all cores", 1.0, (("machine", "cpu_utilization_percentage"),)),
    # How many cores the machine has is not sampled: one axis for both would have two meanings.
    ("CPU of this run", "cores", 100.0, (("this run", "run_processes_cpu_percentage"),)),
    (
        "Memory",
        "GB",
        _MB_OF_GB,
        (("machine", "system_memory_usage_megabytes"), ("this run", "run_processes_memory_usage_megabytes")),
    ),
)
"""Title, unit, how many of what is sampled make one of it, and the lines."""
_RATES = (
    ("Disk", "MB/s", (("read", "disk_read_megabytes"), ("written", "disk_write_megabytes"))),
    ("Network", "MB/s", (("received", "network_receive_megabytes"), ("sent", "network_transmit_megabytes"))),
)
_GPU_CHARTS = (
    ("GPU", "%", 1.0, "utilization_percentage"),
    ("GPU memory", "GB", _MB_OF_GB, "memory_usage_megabytes"),
    ("GPU power", "W", 1.0, "power_usage_watts"),
)


def system_charts(system: Mapping[str, Series], start: float, second: float = 1.0) -> list[Chart]:
    """The charts that the samples allow: without a GPU there is none of it.

    `start` is when the run began, `second` how many seconds the charts' unit of time has.
    """
    out = []
    for title, unit, per, named in _PLAIN:
        out.append(Chart(title, unit, tuple(_line(label, system.get(name), start, per) for label, name in named)))
    for title, unit, wanted in _RATES:
        lines = [Line(label, rates(system[name], start)) for label, name in wanted if name in system]
        out.append(Chart(title, unit, tuple(lines)))
    space = system.get("disk_available_megabytes")
    out.append(Chart("Free disk space", "GB", (_line("free", space, start, _MB_OF_GB),)))
    devices = sorted({int(m[1]) for name in system if (m := _GPU.fullmatch(name))})
    for title, unit, per, suffix in _GPU_CHARTS:
        found = [(f"GPU {i}", system.get(f"gpu_{i}_{suffix}")) for i in devices]
        out.append(Chart(title, unit, tuple(_line(label, series, start, per) for label, series in found)))
    kept = (Chart(c.title, c.unit, tuple(_scaled(line, second) for line in c.lines if len(line.series))) for c in out)
    return [chart for chart in kept if chart.lines]


def lasted(system: Mapping[str, Series], start: float) -> float:
    """Seconds from the run's start to its newest sample."""
    return max((series.steps[-1] for series in system.values() if len(series)), default=start) - start


def _scaled(line: Line, second: float) -> Line:
    return Line(line.label, Series([step / second for step in line.series.steps], line.series.values))


def rates(total: Series, start: float) -> Series:
    """Growth a second of a figure that counts up. It begins anew with each attempt: there the curve has a gap.

    So it has before the second sample: its chart begins where the others do.
    """
    out = Series()
    if len(total) > 1:
        out.add(total.steps[0] - start, float("nan"))
    for i in range(1, len(total)):
        seconds, grown = total.steps[i] - total.steps[i - 1], total.values[i] - total.values[i - 1]
        broken = seconds > _GAP_S or grown < 0 or seconds <= 0
        out.add(total.steps[i] - start, float("nan") if broken else grown / seconds)
    return out


def _line(label: str, series: Series | None, start: float, per: float) -> Line:
    if series is None:
        return Line(label, Series())
    return Line(label, _with_gaps(Series(series.steps, [value / per for value in series.values]), start))


def _with_gaps(series: Series, start: float) -> Series:
    out = Series()
    for i, (time, value) in enumerate(zip(series.steps, series.values, strict=True)):
        if i and time - series.steps[i - 1] > _GAP_S:
            out.add((time + series.steps[i - 1]) / 2 - start, float("nan"))
        out.add(time - start, value)
    return out


def show(details: Details) -> None:
    """Draw the tab."""
    run = details.run
    system, start = feed_of(run.run_id).system, run.started or run.created
    unit, second = time_unit(lasted(system, start))
    charts = system_charts(system, start, second)
    if not charts:
        coming = "The first one comes with the first node."
        st.html(notice("info", "There are no measurements of the machine.", coming if run.active else None))
        return
    with st.grid(min_column_width=MIN_CHART_WIDTH, border=True, key="system_charts") as grid:
        for chart in charts:
            with grid.cell():
                key = f"system-{chart.title}"
                axis = f"{unit} since the run began"
                draw_curves(chart.title, chart.lines, axis, key=key, unit=chart.unit, bounds=chart.bounds)
