"""The page of a comparison: pictures and tables in one HTML file, which needs nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from engine.bench.compare import Comparison, Work, stalls
from engine.bench.picture import draw_curves, draw_frontier, draw_ratios, draw_stalls
from engine.bench.result import BenchResult
from engine.bench.tables import COMPARED, HARDWARE, STALLS, compared_rows, hardware_rows, meaning, stalls_rows
from engine.errors import UsageError
from engine.storage.files import write_whole
from engine.storage.io_errors import remedy
from engine.text import moment, plural
from nodes.reporting.page import Html, html_page, html_table

_STYLE = """
body { max-width: 68rem; }
svg { display: block; margin: 1.2rem 0; }
table { font-size: 13px; } td { white-space: nowrap; } th { vertical-align: bottom; } .wide { overflow-x: auto; }
summary { cursor: pointer; font-weight: 600; margin: 1rem 0; }
"""


def write_page(comparison: Comparison, results: Sequence[BenchResult], path: Path) -> None:
    """Write the page whole. Raises `UsageError` when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, _page(comparison, results), durable=True)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror or exc}", hint=remedy(exc)) from exc


def _page(comparison: Comparison, results: Sequence[BenchResult]) -> str:
    lines = [line for result in results for line in stalls(result) if Work.of(line.configuration) == comparison.work]
    parts = [
        f"<p>{escape(comparison.work.describe())}, {comparison.input} input; times and costs of"
        f" {comparison.volumes:,} volumes.</p>",
        *(f"<p>{escape(line)}</p>" for line in meaning(comparison)),
        Html(draw_frontier(comparison)),
        Html(draw_ratios(comparison)),
        _table(COMPARED, compared_rows(comparison)),
        "<details><summary>All ways that were measured</summary>",
        _table(COMPARED, compared_rows(comparison, comparison.points)),
        "</details>",
        "<h2>What the input costs</h2>",
        Html(draw_stalls(lines)),
        _table(STALLS, stalls_rows(lines)),
        "<p>Rates are volumes a second: from batches that stay in memory (synthetic), by the loader from full caches"
        " (cached) and from empty ones (cold). Lost to reading is the share that the loader costs beside memory, lost"
        " to storage what empty caches cost beside full ones.</p>",
        "<h2>The machines</h2>",
        *(_curves(comparison, result) for result in results),
        _table(HARDWARE, [row for result in results for row in hardware_rows(result)]),
        "<p>During the measured steps: of cores, disk and network the mean, of memory and swap the most.</p>",
        *(_machine(result) for result in results),
    ]
    return html_page("Training benchmarks compared", parts, _STYLE)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f'<div class="wide">{html_table(columns, rows)}</div>'


def _curves(comparison: Comparison, result: BenchResult) -> str:
    """The curves of a machine's fastest way."""
    best = next((point for point in comparison.machines if point.result is result), None)
    return "" if best is None else draw_curves(result, best.row)


def _machine(result: BenchResult) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    what = "made for it" if result.data.made else "given"
    return (
        f"<p><b>{escape(result.name)}</b>: {escape(result.machine.describe())}; measured"
        f" {escape(moment(result.measured_at))} with {plural(result.cores, 'cores')} on"
        f" {plural(result.data.volumes, 'volumes')}, {what}. {escape(versions)}.</p>"
    )
