"""Training curves of a run."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from ui.runs.charts import curves
from ui.runs.details import Details
from ui.runs.metrics import Line, families, points
from ui.runs.watching import feed_of
from ui.shell.blocks import Html, heading, notice, tag, text
from ui.shell.theme import current_mode

MIN_CHART_WIDTH = 420


def show(details: Details) -> None:
    """Draw the tab."""
    found = families(feed_of(details.run.run_id).metrics, details.titles)
    if not found:
        coming = "They appear here as soon as a node reports some."
        st.html(notice("info", "This run has no metrics.", coming if details.run.active else None))
        return
    logarithmic = False
    if any(family.may_be_logarithmic for family in found):
        logarithmic = st.toggle("Logarithmic loss", key="log_loss", bind="query-params")
    with st.grid(min_column_width=MIN_CHART_WIDTH, border=True, key="metric_charts") as grid:
        for family in found:
            with grid.cell():
                log = logarithmic and family.may_be_logarithmic
                draw_curves(family.name, family.lines, family.axis, key=f"metric-{family.name}", logarithmic=log)


def draw_curves(
    title: str, lines: Sequence[Line], axis: str, *, key: str, unit: str = "", logarithmic: bool = False
) -> None:
    """One chart with its title."""
    st.html(heading(Html(text(title) + tag("span", f" {unit}", class_="vf-muted")) if unit else text(title)))
    data = pd.DataFrame(points(lines, positive=logarithmic), columns=["step", "value", "line"])
    specification = curves(lines, axis, "", current_mode(), logarithmic=logarithmic)
    st.vega_lite_chart(data, specification, key=key, alt=f"{title} by {axis}")
