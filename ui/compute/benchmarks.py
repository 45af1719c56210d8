"""The machines that were measured, on the page Compute: what `voxelflow bench` of this one and of others found."""

from __future__ import annotations

import html
from pathlib import Path

import streamlit as st

from engine.bench.compare import Comparison, Point, Stalls, Work, best_by_machine, common_input, compare, stalls, works
from engine.bench.picture import draw_curves, draw_frontier, draw_ratios, draw_stalls
from engine.bench.result import BenchResult, bench_folder, bench_results, newest_by_machine
from engine.bench.tables import COMPARED, COMPARED_RIGHT, compared_rows, meaning
from ui.shell.blocks import heading, svg_image, table, tag, text
from ui.shell.theme import SURFACE, current_mode, follow_mode
from ui.studio_context import studio

_KEPT = 8


def show_benchmarks() -> None:
    """Draw the section; before anything was measured it says how."""
    st.html(heading("Measured machines"))
    folder = bench_folder(studio().workspace)
    found = _results(str(folder), _state(folder))
    known = works(found)
    if not known:
        st.html(
            tag(
                "p",
                "Nothing is measured yet. ",
                tag("code", "voxelflow bench"),
                " measures this machine in some minutes, ",
                tag("code", "voxelflow bench add FILE.json"),
                " takes in another's result.",
                class_="vf-muted",
            )
        )
        return
    work = known[0]
    comparison = compare(found, work, common_input(found, work))
    what = f"{work.describe()}, {comparison.input} input; times and costs of {comparison.volumes:,} volumes."
    st.html(tag("p", what, class_="vf-muted"))
    numeric = [place for place, name in enumerate(COMPARED) if name in COMPARED_RIGHT]
    st.html(table(COMPARED, compared_rows(comparison), "Measured machines", numeric=numeric))
    st.html("".join(tag("p", text(line), class_="vf-muted") for line in meaning(comparison)))
    with st.expander("Pictures", key="compute_bench_pictures"):
        lines = [line for r in found for line in stalls(r) if Work.of(line.configuration) == work]
        _pictures(comparison, lines)


def best_measured() -> dict[str, Point]:
    """The fastest training of each machine that was measured, as `best_by_machine` gives it."""
    folder = bench_folder(studio().workspace)
    return _best(str(folder), _state(folder))


def _pictures(comparison: Comparison, lines: list[Stalls]) -> None:
    curves = [draw_curves(point.result, point.row) for point in comparison.machines]
    ink = SURFACE[current_mode()]["text"]
    for picture in (draw_frontier(comparison), draw_ratios(comparison), draw_stalls(lines), *curves):
        if picture:
            label = html.unescape(picture.partition('aria-label="')[2].partition('"')[0])
            st.html(svg_image(picture, ink, label, "max-width: 100%; margin: .6rem 0"))
    follow_mode()


def _state(folder: Path) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((path.name, path.stat().st_mtime_ns) for path in folder.glob("*.json")))


@st.cache_data(max_entries=_KEPT, show_spinner=False)
def _results(folder: str, state: tuple[tuple[str, int], ...]) -> list[BenchResult]:
    """The newest result of each machine; read again when a file has changed."""
    return newest_by_machine(bench_results(studio().workspace))


@st.cache_data(max_entries=_KEPT, show_spinner=False)
def _best(folder: str, state: tuple[tuple[str, int], ...]) -> dict[str, Point]:
    return best_by_machine(bench_results(studio().workspace))
