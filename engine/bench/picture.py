"""The pictures of a comparison as SVG. Text and lines take the colour of the page's text, so they are read on light
and dark alike; no colour stands alone: what a point is bound by is its shape, and machines are named beside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from engine.bench.compare import Bound, Comparison, Stalls
from engine.bench.result import BenchResult, BenchRow, Curves
from engine.bench.tables import way
from engine.panels import COLOURS, Curve, Panel, draw_panels, line_at, svg, text_at
from engine.text import duration, money, number

_SHARES = {"computing": "#4a8bd0", "reading": "#b8930f", "storage": "#d9762b"}
_W = 760
_MOST_TICKS = 8
_DAY = 86_400
_TIMES = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18_000, 36_000, _DAY, 2 * _DAY,
    5 * _DAY, 10 * _DAY, 20 * _DAY, 50 * _DAY, 100 * _DAY, 200 * _DAY, 500 * _DAY, 1000 * _DAY,
)  # fmt: skip
_AMOUNTS = tuple(step * 10.0**power for power in range(-6, 8) for step in (1, 2, 5))
_SHAPES: dict[Bound, str] = {"compute": "circle", "cores": "diamond", "input": "square", "memory": "triangle"}


def _mark(x: float, y: float, shape: str, colour: str, *, filled: bool, r: float = 5.5) -> str:
    paint = f'fill="{colour}"' if filled else 'fill="none"'
    paint += f' stroke="{colour}" stroke-width="2"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" {paint}/>'
    if shape == "square":
        return f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}" {paint}/>'
    if shape == "diamond":
        corners = f"{x:.1f},{y - r:.1f} {x + r:.1f},{y:.1f} {x:.1f},{y + r:.1f} {x - r:.1f},{y:.1f}"
        return f'<polygon points="{corners}" {paint}/>'
    corners = f"{x:.1f},{y - r:.1f} {x - r:.1f},{y + r:.1f} {x + r:.1f},{y + r:.1f}"
    return f'<polygon points="{corners}" {paint}/>'


# --- time against cost -----------------------------------------------------------------------------


def draw_frontier(comparison: Comparison) -> str:
    """Time against cost of every point with a price, on logarithmic scales, and the efficient ones joined.

    "" where no price is known.
    """
    points = [point for point in comparison.points if point.cost]
    if not points:
        return ""
    left, right, top, bottom = 78, 24, 34, 46
    height = 400
    across = _Scale([p.seconds for p in points], left, _W - right, _TIMES)
    up = _Scale([p.cost or 0 for p in points], height - bottom, top, _AMOUNTS)
    names = list(dict.fromkeys(point.result.name for point in points))
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    title = f"Time against cost of {comparison.volumes:,} volumes, {comparison.input} input"
    parts = [text_at(0, 18, title, more='font-weight="600"')]
    for value in across.ticks:
        parts.append(line_at(across(value), top, across(value), height - bottom))
        parts.append(text_at(across(value), height - bottom + 18, _span(value), "middle", 'font-size="12"'))
    for value in up.ticks:
        parts.append(line_at(left, up(value), _W - right, up(value)))
        parts.append(text_at(left - 8, up(value) + 4, money(value, comparison.currency), "end", 'font-size="12"'))
    frontier = [(across(p.seconds), up(p.cost or 0)) for p in comparison.frontier if p.cost]
    if len(frontier) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in frontier)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="5 4"'
            ' stroke-opacity=".6"/>'
        )
    machines = comparison.machines
    boxes = []
    for point in reversed(points):  # the best on top
        x, y = across(point.seconds), up(point.cost or 0)
        r = 6.0 if point.efficient or point in machines else 3.5
        parts.append(_mark(x, y, _SHAPES[point.bound], colours[point.result.name], filled=point.efficient, r=r))
        boxes.append(_Box(x - r, y - r, x + r, y + r))
    plot = _Box(left, top, _W - right, height - bottom)
    for point in machines:
        if point.cost:
            name = _short(point.result.name)
            box = _free_place(across(point.seconds), up(point.cost), 6.7 * len(name), boxes, plot)
            boxes.append(box)
            parts.append(
                text_at(box.left, box.top + 11, name, more=f'font-size="12" style="fill:{colours[point.result.name]}"')
            )
    legend = [(_SHAPES[bound], f"bound by {bound}") for bound in _SHAPES if any(p.bound == bound for p in points)]
    x = left
    for shape, text in legend:
        parts.append(_mark(x + 6, height - 10, shape, "currentColor", filled=False, r=4.5))
        parts.append(text_at(x + 17, height - 6, text, more='font-size="12"'))
        x += 30 + 6.6 * len(text)
    parts.append(text_at(x + 4, height - 6, "filled: efficient, joined by the frontier", more='font-size="12"'))
    return svg(_W, height, parts, title)


def _span(seconds: float) -> str:
    """A round time: `20 min`, `2 h`, `5 days`."""
    for unit, name in ((_DAY, "days"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:g} {'day' if unit == _DAY and seconds == unit else name}"
    return f"{seconds:g} s"


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def within(self, other: _Box) -> bool:
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.top <= self.top
            and self.bottom <= other.bottom
        )


def _free_place(x: float, y: float, width: float, taken: Sequence[_Box], plot: _Box) -> _Box:
    """Where a label beside the point meets nothing, as near as that is found; else to its right."""
    for away in range(5):
        for dx, dy in ((10, -7), (-10 - width, -7), (-width / 2, -24), (-width / 2, 9), (8, -22), (8, 8)):
            shift = 13 * away * (-1 if dy < -7 else 1)
            box = _Box(x + dx, y + dy + shift, x + dx + width, y + dy + shift + 14)
            if box.within(plot) and not any(box.meets(other) for other in taken):
                return box
    return _Box(x + 10, y - 7, x + 10 + width, y + 7)


class _Scale:
    """A logarithmic scale from values to pixels, with round ticks."""

    def __init__(self, values: Sequence[float], start: float, end: float, ticks: Sequence[float]) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        spare = max(0.12, 0.08 * (high - low))
        self._low, self._high, self._start, self._end = low - spare, high + spare, start, end
        inside = [value for value in ticks if self._low <= math.log10(value) <= self._high]
        self.ticks = inside[:: 1 + len(inside) // (_MOST_TICKS + 1)]

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)


# --- beside the best -------------------------------------------------------------------------------


def draw_ratios(comparison: Comparison) -> str:
    """Time and cost of each machine's fastest way as multiples of the best; "" without machines."""
    machines = comparison.machines
    if not machines:
        return ""
    title = "Beside the best"
    left, row = 220, 22
    most = max(max(p.time_ratio, p.cost_ratio or 0) for p in machines)
    most = most if math.isfinite(most) else max(p.time_ratio for p in machines)
    scale = (_W - left - 150) / most
    parts, y = [text_at(0, 18, title, more='font-weight="600"')], 30.0
    for point in machines:
        parts.append(
            text_at(
                left - 8, y + (row if point.cost_ratio is not None else 0) / 2 + 14, _short(point.result.name), "end"
            )
        )
        bars = [(point.time_ratio, COLOURS[0], f"time {point.time_ratio:.2f}, {duration(point.seconds)}")]
        if point.cost_ratio is not None and point.cost is not None and math.isfinite(point.cost_ratio):
            text = f"cost {point.cost_ratio:.2f}, {money(point.cost, comparison.currency)}"
            bars.append((point.cost_ratio, COLOURS[1], text))
        for ratio, colour, text in bars:
            parts.append(
                f'<rect x="{left}" y="{y:.1f}" width="{max(2.0, ratio * scale):.1f}" height="16" fill="{colour}"/>'
            )
            parts.append(text_at(left + max(2.0, ratio * scale) + 6, y + 13, text, more='font-size="12"'))
            y += row
        y += 8
    best = left + scale
    parts.append(line_at(best, 26, best, y - 6, 'stroke-opacity=".5" stroke-dasharray="3 3"'))
    return svg(_W, y + 2, parts, title)


# --- the three runs --------------------------------------------------------------------------------


def draw_stalls(lines: Sequence[Stalls]) -> str:
    """The time of a volume in each way, split into computing, reading from caches, and what the storage adds."""
    shown = [line for line in lines if line.synthetic and (line.cached or line.cold)]
    if not shown:
        return ""
    title = "Where the time of a volume goes"
    left, row = 290, 24
    times = [1000 / (line.cold or line.cached or 1) for line in shown]
    scale = (_W - left - 110) / max(*times, *(1000 / (line.synthetic or 1) for line in shown))
    parts = [text_at(0, 18, title, more='font-weight="600"')]
    x = left
    for name, text in (
        ("computing", "computing"),
        ("reading", "reading from caches"),
        ("storage", "waiting for storage"),
    ):
        parts.append(f'<rect x="{x}" y="28" width="11" height="11" fill="{_SHARES[name]}"/>')
        parts.append(text_at(x + 16, 38, text, more='font-size="12"'))
        x += 40 + int(6.4 * len(text))
    y = 52.0
    for line in shown:
        whole = line.cold or line.cached
        assert whole is not None
        assert line.synthetic is not None
        # Noise makes a slower kind of input faster at times: then nothing is lost there.
        ends = [1000 / line.synthetic]
        ends.append(max(ends[0], 1000 / (line.cached or line.synthetic)))
        ends.append(max(ends[1], 1000 / whole))
        parts.append(
            text_at(
                left - 8, y + 13, f"{_short(line.result.name, 18)}: {way(line.configuration)}", "end", 'font-size="12"'
            )
        )
        start = 0.0
        for end, colour in zip(ends, _SHARES.values(), strict=True):
            width = (end - start) * scale
            if width > 0:
                at = left + start * scale
                parts.append(f'<rect x="{at:.1f}" y="{y:.1f}" width="{width:.1f}" height="17" fill="{colour}"/>')
            start = end
        parts.append(
            text_at(left + start * scale + 6, y + 13, f"{number(float(f'{start:.3g}'))} ms", more='font-size="12"')
        )
        y += row
    return svg(_W, y + 4, parts, title)


# --- hardware curves -------------------------------------------------------------------------------

_PANELS = (
    ("cores busy, %", (("cpu_utilization_percentage", "all"), ("busiest_core_percentage", "busiest"))),
    ("memory, %", (("system_memory_usage_percentage", "used"),)),
    (
        "swap, MB/s",
        (("swap_in_megabytes_per_second", "in"), ("swap_out_megabytes_per_second", "out")),
    ),
    (
        "disk, MB/s",
        (("disk_read_megabytes_per_second", "read"), ("disk_write_megabytes_per_second", "written")),
    ),
    (
        "network, MB/s",
        (("network_receive_megabytes_per_second", "in"), ("network_transmit_megabytes_per_second", "out")),
    ),
)
_GPU = re.compile(r"gpu_([0-9]{1,6})_utilization_percentage")


def draw_curves(result: BenchResult, row: BenchRow) -> str:
    """The machine while one row was measured: cores, memory, swap, disk, network and GPU over time.

    The measured steps are shaded. "" where nothing was sampled.
    """
    curves = row.curves
    panels = [
        Panel(
            title,
            tuple(
                Curve(text, tuple(zip(curves.seconds, curves.values[name], strict=True)))
                for name, text in lines
                if name in curves.values
            ),
            full=100.0 if title.endswith("%") else None,
        )
        for title, lines in (*_PANELS, ("GPU, %", _gpus(curves)))
    ]
    panels = [panel for panel in panels if panel.curves]
    if len(curves.seconds) < 2 or not panels:
        return ""
    return draw_panels(
        f"{_short(result.name, 40)}: {row.configuration.input} input, {way(row.configuration)}",
        panels,
        curves.seconds[-1],
        shaded_from=curves.measured_from_s,
        foot="Shaded: the measured steps; before them the start and the warm-up.",
    )


def _gpus(curves: Curves) -> tuple[tuple[str, str], ...]:
    """The curve of each GPU, and its name."""
    found = sorted(int(match[1]) for name in curves.values if (match := _GPU.fullmatch(name)))
    return tuple((f"gpu_{number}_utilization_percentage", f"GPU {number}") for number in found)


def _short(text: str, length: int = 26) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
