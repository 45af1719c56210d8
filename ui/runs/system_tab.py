"""The machine while a run was at work."""

from __future__ import annotations

import streamlit as st

from ui.runs.details import Details
from ui.runs.metrics_tab import MIN_CHART_WIDTH, draw_curves
from ui.runs.system import lasted, system_charts
from ui.runs.timeline import time_unit
from ui.runs.watching import feed_of
from ui.shell.blocks import notice


def show(details: Details) -> None:
    """Draw the tab."""
    run = details.run
    system, start = feed_of(run.run_id).system, run.started or run.created
    unit, second = time_unit(lasted(system, start))
    charts = system_charts(system, start, second)
    if not charts:
        coming = "The first one comes with the first task."
        st.html(notice("info", "There are no samples of the machine.", coming if run.active else None))
        return
    with st.grid(min_column_width=MIN_CHART_WIDTH, border=True, key="system_charts") as grid:
        for chart in charts:
            with grid.cell():
                key = f"system-{chart.title}"
                draw_curves(chart.title, chart.lines, f"{unit} since the run began", key=key, unit=chart.unit)
