"""Charts of the machine from a run's samples."""

from __future__ import annotations

import math

from ui.runs.charts import Line
from ui.runs.feed import Series
from ui.runs.system import Chart, lasted, rates, system_charts


def _every(seconds: float, *values: float, start: float = 100.0) -> Series:
    return Series([start + seconds * i for i in range(len(values))], list(values))


def test_there_is_a_chart_for_what_was_sampled_and_none_for_what_was_not() -> None:
    system = {
        "cpu_utilization_percentage": _every(5, 10, 20),
        "run_processes_cpu_percentage": _every(5, 30, 150),
        "disk_read_megabytes": _every(5, 0, 50),
        "disk_available_megabytes": _every(5, 2000, 1000),
    }
    charts = {c.title: c for c in system_charts(system, start=100.0)}
    assert list(charts) == ["CPU", "CPU of this run", "Disk", "Free disk space"]
    assert [line.label for line in charts["CPU"].lines] == ["machine"]
    assert charts["CPU"].lines[0].series.steps == [0.0, 5.0]
    assert charts["Disk"].lines[0].series.values[1:] == [10.0]
    assert (charts["Free disk space"].unit, charts["Free disk space"].lines[0].series.values) == ("GB", [2.0, 1.0])


def test_an_axis_has_one_meaning_and_memory_one_unit() -> None:
    system = {
        "cpu_utilization_percentage": _every(5, 10, 20),
        "run_processes_cpu_percentage": _every(5, 30, 150),
        "system_memory_usage_megabytes": _every(5, 8000, 16_000),
        "run_processes_memory_usage_megabytes": _every(5, 250, 500),
        "disk_available_megabytes": _every(5, 2000, 1000),
        "gpu_0_memory_usage_megabytes": _every(5, 512, 1024),
    }
    charts = {c.title: c for c in system_charts(system, start=100.0)}
    share, cores = charts["CPU"], charts["CPU of this run"]
    assert (share.unit, share.bounds, share.lines[0].series.values) == ("% of all cores", (0, 100), [10, 20])
    assert (cores.unit, cores.bounds, cores.lines[0].series.values) == ("cores", (0, None), [0.3, 1.5])
    assert [line.series.values for line in charts["Memory"].lines] == [[8.0, 16.0], [0.25, 0.5]]
    assert charts["GPU memory"].lines[0].series.values == [0.512, 1.024]
    assert {charts[title].unit for title in ("Memory", "Free disk space", "GPU memory")} == {"GB"}


def test_each_gpu_is_a_line() -> None:
    system = {f"gpu_{i}_utilization_percentage": _every(5, 1, 2) for i in (10, 0, 2)}
    (chart,) = system_charts(system, 100.0)
    assert (chart.title, [line.label for line in chart.lines]) == ("GPU", ["GPU 0", "GPU 2", "GPU 10"])


def test_a_count_that_begins_anew_leaves_a_gap_not_a_fall() -> None:
    found = rates(_every(5, 0, 50, 100, 0, 10), start=100.0)
    assert [step for step, value in zip(found.steps, found.values, strict=True) if math.isnan(value)] == [0.0, 15.0]
    assert [value for value in found.values if not math.isnan(value)] == [10.0, 10.0, 2.0]


def test_the_charts_of_rates_begin_where_the_others_do() -> None:
    system = {"cpu_utilization_percentage": _every(5, 1, 2, 3), "disk_read_megabytes": _every(5, 0, 50, 100)}
    cpu, disk = system_charts(system, start=90.0)
    assert cpu.lines[0].series.steps == disk.lines[0].series.steps == [10.0, 15.0, 20.0]
    # Of a single sample there is no rate.
    assert system_charts({"disk_read_megabytes": _every(5, 0)}, start=90.0) == []


def test_a_long_silence_is_a_gap() -> None:
    cpu = Series([100.0, 105.0, 9_000.0], [1.0, 2.0, 3.0])
    (chart,) = system_charts({"cpu_utilization_percentage": cpu}, 100.0)
    assert sum(math.isnan(v) for v in chart.lines[0].series.values) == 1
    assert math.isnan(rates(cpu, 100.0).values[2])


def test_time_is_given_in_the_requested_unit() -> None:
    system = {"cpu_utilization_percentage": _every(60, 1, 2, 3)}
    assert lasted(system, 100.0) == 120.0
    assert lasted({}, 100.0) == 0.0
    (chart,) = system_charts(system, 100.0, second=60.0)
    assert chart.lines[0].series.steps[-1] == 2.0


def test_a_share_of_the_machine_is_drawn_from_0_to_100() -> None:
    def cpu(*values: float) -> Chart:
        return Chart("CPU", "% of all cores", (Line("machine", Series(list(range(len(values))), list(values))),))

    assert cpu(99.7, float("nan"), 100.0).bounds == (0, 100)
    assert cpu(99.7, 240.0).bounds == (0, None)
    assert Chart("Memory", "GB", ()).bounds == (0, None)
