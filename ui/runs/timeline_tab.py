"""When each task of a run waited and ran."""

from __future__ import annotations

import time

import pandas as pd
import streamlit as st

from ui.runs.charts import timeline
from ui.runs.details import Details
from ui.runs.timeline import bars, records, row_title, time_unit
from ui.runs.watching import feed_of
from ui.shell.blocks import notice
from ui.shell.theme import current_mode

_COLUMNS = ["task", "node", "state", "start", "end", "took", "attempt"]


def show(details: Details) -> None:
    """Draw the tab."""
    tasks = list(details.tasks)
    found = bars(details.run, tasks, feed_of(details.run.run_id).moves, time.time())
    if not found:
        st.html(notice("info", "No task has begun."))
        return
    rows = [row_title(i, task) for i, task in enumerate(tasks)]
    unit, second = time_unit(max(bar.end for bar in found))
    states = list(dict.fromkeys(bar.state for bar in found))
    data = pd.DataFrame(records(found, second), columns=_COLUMNS)
    st.vega_lite_chart(data, timeline(rows, states, unit, current_mode()), key="timeline", alt="When each task ran")
