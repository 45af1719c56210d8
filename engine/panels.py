"""Curves over time as one SVG picture of several small panels, as a page of Ganglia's.

Text and lines take the colour of the page's text, so they are read on light and dark alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from engine.text import duration, number

COLOURS = ("#4a8bd0", "#d9762b", "#3f9e6b", "#b066c2", "#b8930f", "#cf5c5c", "#5a93a0", "#8c7ad6")
WIDTH = 760
_TEXT = 13
_GAP, _TOP, _HEAD, _PLOT, _BELOW = 26, 40, 20, 104, 36
_LEFT = 34
"""Of the first column, for the figures beside it."""
_LETTER = 6.2
"""The width of a letter of the small text, about."""
_MARK, _BETWEEN = 24, 10
"""Of a curve's line before its name, with what is between two names; the latter alone."""
_LINE = 16
"""The height of a line of small text."""
_ENDS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15)


@dataclass(frozen=True)
class Curve:
    """A line: values at seconds, rising; None is a gap."""

    label: str
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True)
class Peak:
    """A point of the curve with this place among its panel's, worth a mark."""

    curve: int
    second: float
    value: float


@dataclass(frozen=True)
class Panel:
    """Some curves over one scale. `full` is its upper end; None: what the curves need.

    Below stands `note`: what of it is worth a name.
    """

    title: str
    curves: Sequence[Curve]
    full: float | None = None
    note: str = ""
    peaks: Sequence[Peak] = ()


def svg(width: float, height: float, parts: Iterable[str], label: str) -> str:
    """The parts as a picture; `label` is read out in its place."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}"'
        f' height="{height:.0f}" style="max-width:100%;height:auto" font-family="system-ui, sans-serif"'
        f' font-size="{_TEXT}" role="img" aria-label="{escape(label)}" fill="currentColor">{"".join(parts)}</svg>'
    )


def text_at(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    """A text; `more` are attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def line_at(x1: float, y1: float, x2: float, y2: float, more: str = 'stroke-opacity=".15"') -> str:
    """A line; `more` are attributes."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" {more}/>'


def draw_panels(
    title: str,
    panels: Sequence[Panel],
    end: float,
    *,
    width: float = WIDTH,
    columns: int = 3,
    shaded_from: float | None = None,
    breaks: Sequence[float] = (),
    foot: str = "",
) -> str:
    """All panels from second 0 to `end`, which is above 0, with a `title` where there is one.

    From `shaded_from` on the ground is shaded; at the `breaks` something is left out. `foot` stands below.
    """
    top = _TOP if title else 16
    notes = _LINE if any(panel.note for panel in panels) else 0
    each = (width - columns * _LEFT - (columns - 1) * _GAP / 2) / columns
    row = _HEAD + _PLOT + _BELOW + notes + (_LINE if any(_is_crowded(panel, each) for panel in panels) else 0)
    parts = [text_at(0, 18, title, more='font-weight="600"')] if title else []
    for place, panel in enumerate(panels):
        x = _LEFT + (place % columns) * (each + _LEFT + _GAP / 2)
        y = top + (place // columns) * row + _HEAD
        parts += _panel(panel, x, y, each, end, shaded_from, breaks)
    height = top + -(-len(panels) // columns) * row - 8
    if foot:
        parts.append(text_at(_LEFT, height + 8, foot, more='font-size="11" fill-opacity=".75"'))
        height += 16
    return svg(width, height, parts, title or ", ".join(panel.title for panel in panels))


def _panel(
    panel: Panel, x: float, y: float, width: float, end: float, shaded_from: float | None, breaks: Sequence[float]
) -> list[str]:
    most = max((v for curve in panel.curves for _, v in curve.points if v is not None), default=0.0)
    most = max([most, *(peak.value for peak in panel.peaks)])
    full = panel.full if panel.full is not None else round_end(most) if most > 1 else 1.0
    parts = []

    def across(second: float) -> float:
        return x + width * min(1.0, max(0.0, second / end))

    def up(value: float) -> float:
        return y + _PLOT * (1 - min(1.0, max(0.0, value / full)))

    if shaded_from is not None:
        begin = across(shaded_from)
        parts.append(
            f'<rect x="{begin:.1f}" y="{y}" width="{max(0.0, x + width - begin):.1f}" height="{_PLOT}"'
            ' fill="currentColor" fill-opacity=".07"/>'
        )
    parts.append(text_at(x, y - 6, panel.title, more='font-size="12" font-weight="500"'))
    for value, share in ((0.0, 0.0), (full / 2, 0.5), (full, 1.0)):
        at = y + _PLOT * (1 - share)
        parts.append(line_at(x, at, x + width, at, f'stroke-opacity="{".12" if share == 0.5 else ".25"}"'))
        if share != 0.5:
            parts.append(text_at(x - 4, at + 4, _axis(value), "end", 'font-size="11" fill-opacity=".75"'))
    for second in breaks:
        dashed = 'stroke-opacity=".5" stroke-dasharray="3 3"'
        parts.append(line_at(across(second), y, across(second), y + _PLOT, dashed))
    for place, curve in enumerate(panel.curves):
        colour = COLOURS[place % len(COLOURS)]
        for stretch in _stretches([(across(s), None if v is None else up(v)) for s, v in curve.points]):
            if len(stretch) == 1:
                # A line through it alone would have no length.
                parts.append(f'<circle cx="{stretch[0][0]:.1f}" cy="{stretch[0][1]:.1f}" r="2.5" fill="{colour}"/>')
                continue
            path = " ".join(f"{at:.1f},{height:.1f}" for at, height in stretch)
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-linejoin="round"/>'
            )
    for peak in panel.peaks:
        colour = COLOURS[peak.curve % len(COLOURS)]
        parts.append(
            f'<circle cx="{across(peak.second):.1f}" cy="{up(peak.value):.1f}" r="3.5" fill="none" stroke="{colour}"'
            ' stroke-width="1.6"/>'
        )
    below = y + _PLOT + 29
    if _is_crowded(panel, width):
        parts += _legend(panel, x + _legend_width(panel) - _BETWEEN, below - 4)
        below += _LINE
    else:
        parts += _legend(panel, x + width, y - 10)
    parts.append(text_at(x + width, y + _PLOT + 14, duration(end), "end", 'font-size="11" fill-opacity=".75"'))
    if panel.note:
        parts.append(text_at(x, below, panel.note, more='font-size="11"'))
    return parts


def round_end(most: float) -> float:
    """The end of an axis on which values up to `most`, above 0, lie: 100 for 93, 4 for 3.1, 300 for 266."""
    unit = 10.0 ** math.floor(math.log10(most))
    return next(end * unit for end in _ENDS if end * unit >= most)


def _is_crowded(panel: Panel, width: float) -> bool:
    """Whether the curves' names have no room beside the title."""
    return _LETTER * len(panel.title) + _legend_width(panel) > width


def _legend_width(panel: Panel) -> float:
    return sum(_LETTER * len(curve.label) + _MARK for curve in panel.curves) if len(panel.curves) > 1 else 0.0


def _legend(panel: Panel, right: float, y: float) -> list[str]:
    """The curves' names on one line that ends at `right`."""
    if len(panel.curves) < 2:
        return []
    parts, at = [], right
    for place in reversed(range(len(panel.curves))):
        label = panel.curves[place].label
        at -= _LETTER * len(label)
        parts.append(text_at(at, y + 4, label, more='font-size="11"'))
        colour = COLOURS[place % len(COLOURS)]
        parts.append(line_at(at - 14, y, at - 3, y, f'style="stroke:{colour}" stroke-width="2"'))
        at -= _MARK
    return parts


def _stretches(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """The points between the gaps."""
    out: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None:
            out.append([])
        else:
            out[-1].append((x, y))
    return [stretch for stretch in out if stretch]


def _axis(value: float) -> str:
    if value >= 10_000:
        return f"{number(round(value / 1000))}k"
    return number(round(value) if value >= 10 else float(f"{value:.2g}"))
