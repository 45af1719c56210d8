"""A probe as files: its figures as JSON, a picture, and a page with both.

probe.html    the page, whole in itself; it comes last
probe.json    the figures, as `engine.probes.StorageProbe`
probe.svg     the picture
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from engine.probes import COLUMNS, RANDOM_BYTES, StorageProbe, keep_probe
from engine.storage.files import write_whole
from engine.text import duration, moment, number, size
from engine.workspace import Workspace
from nodes.reporting.page import Html, html_page, html_table

PAGE, JSON, PICTURE = "probe.html", "probe.json", "probe.svg"
_WIDTH, _LEFT, _RIGHT, _ROW = 720, 200, 180, 24
_BLUE, _GREY = "#3b6ea5", "#9ab3cf"
_STYLE = "svg { max-width: 100%; height: auto; }"


def write_report(probe: StorageProbe, folder: Path) -> Path:
    """Write all files into the folder; gives the page's path."""
    write_whole(folder / JSON, probe.model_dump_json(indent=2) + "\n", durable=True)
    picture = draw(probe)
    write_whole(folder / PICTURE, picture, durable=True)
    write_whole(folder / PAGE, _page(probe, picture), durable=True)
    return folder / PAGE


def keep_with_page(workspace: Workspace, probe: StorageProbe) -> Path:
    """Keep the probe in the workspace with its page beside it; gives the page's path."""
    path = keep_probe(workspace, probe).with_suffix(".html")
    write_whole(path, _page(probe, draw(probe)), durable=True)
    return path


def draw(probe: StorageProbe) -> str:
    """An SVG: the time of an epoch and of single reads, and how much is read, as bars on logarithmic scales."""
    epochs = [
        ("one by one", probe.epoch_one_by_one_s),
        (f"{probe.small_reads_at_once.streams} at a time", probe.epoch_at_once_s),
        ("from a table", probe.epoch_table_s),
    ]
    reads = [
        (f"{what}, {name}", getattr(timed, field))
        for what, timed in (
            (f"file of {size(probe.file_bytes)}", probe.small_reads),
            (f"{RANDOM_BYTES / 1000:.0f} kB at random", probe.random_reads),
        )
        for name, field in (("median", "p50_ms"), ("95%", "p95_ms"), ("99%", "p99_ms"))
    ]
    title = f"An epoch of {probe.epoch_files:,} files of {size(probe.epoch_file_bytes)}"
    first, height = _bars(title, epochs, [duration(seconds) for _, seconds in epochs], [epochs[-1][0]], 0)
    medians = [label for label, _ in reads if label.endswith("median")]
    texts = [f"{_figure(ms)} ms" for _, ms in reads]
    second, height = _bars("A single read", reads, texts, medians, height + 12)
    rates = [
        (f"{RANDOM_BYTES / 1000:.0f} kB at random", probe.random_reads),
        (f"the same, {probe.random_reads_at_once.streams} at a time", probe.random_reads_at_once),
        ("files one by one", probe.small_reads),
        (f"files, {probe.small_reads_at_once.streams} at a time", probe.small_reads_at_once),
        ("8 MB in order", probe.sequential_reads),
        ("volumes of a table", probe.table_reads),
    ]
    read = [(label, timed.mb_s) for label, timed in rates]
    texts = [f"{_figure(timed.mb_s)} MB in {_figure(timed.per_s)} reads" for _, timed in rates]
    third, height = _bars("Read in a second", read, texts, [label for label, _ in read[-2:]], height + 12)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        f' font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="{escape(title)}">'
        f"{first}{second}{third}</svg>"
    )


def _figure(value: float) -> str:
    return number(float(f"{value:.3g}"))


def _bars(
    title: str, bars: Sequence[tuple[str, float]], texts: Sequence[str], marked: Sequence[str], top: int
) -> tuple[str, int]:
    """The bars below each other from `top` on, those `marked` in the darker colour; gives where they end."""
    values = [max(value, 1e-6) for _, value in bars]
    # From the power of ten below the least, so that every bar can be seen.
    low = math.floor(math.log10(min(values)))
    high = max(low + 1, math.log10(max(values)))
    out = [f'<text x="0" y="{top + 18}" font-weight="600" fill="currentColor">{escape(title)}</text>']
    for row, ((label, _), value, text) in enumerate(zip(bars, values, texts, strict=True)):
        y = top + 30 + row * _ROW
        width = max(2.0, (_WIDTH - _LEFT - _RIGHT) * (math.log10(value) - low) / (high - low))
        colour = _BLUE if label in marked else _GREY
        out.append(f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end" fill="currentColor">{escape(label)}</text>')
        out.append(f'<rect x="{_LEFT}" y="{y + 2}" width="{width:.1f}" height="16" fill="{colour}"/>')
        out.append(f'<text x="{_LEFT + width + 6:.1f}" y="{y + 14}" fill="currentColor">{escape(text)}</text>')
    return "".join(out), top + 34 + len(bars) * _ROW


def _page(probe: StorageProbe, picture: str) -> str:
    parts = [
        *(f"<p>{escape(line)}</p>" for line in probe.meaning()),
        Html(picture),
        "<h2>Measured</h2>",
        html_table(COLUMNS, probe.rows()),
        f"<p>{escape(moment(probe.measured_at))}, in {duration(probe.seconds)}, with {size(probe.bytes_written)} of"
        f" files of its own, from a machine with {escape(probe.machine.describe())}. Bars are on a logarithmic"
        " scale.</p>",
    ]
    return html_page(f"Storage at {probe.place}", parts, _STYLE)
