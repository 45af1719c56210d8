"""When each task of a run waited and ran: the bars of the timeline, and its tab."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import streamlit as st

from engine.history.details import Details
from engine.store.runs import Run, Task
from engine.store.stretches import Move, stretches
from engine.text import duration
from ui.runs.charts import timeline
from ui.runs.feed import feed_of
from ui.shell.blocks import notice, shortened
from ui.shell.theme import current_mode


@dataclass(frozen=True)
class Bar:
    """One stretch of a task. Times are seconds since the run's start."""

    node: str
    title: str
    state: str
    """Of a stretch that was run: what came of it. Else "waiting", "running" or "cached"."""
    start: float
    end: float
    attempt: int

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start


def bars(run: Run, tasks: Sequence[Task], moves: Iterable[Move], now: float) -> list[Bar]:
    """The bars in the order of the plan; attempts of one task stand in one row."""
    begin = run.started or run.created
    # A run that is over has no open bars, however it ended.
    until = run.at_work_until(now)
    by_node: dict[str, list[Move]] = {}
    for move in moves:
        by_node.setdefault(move.node, []).append(move)
    out = []
    for row, task in enumerate(tasks):
        title = row_title(row, task)
        for each in stretches(by_node.get(task.node, []), until, active=run.active):
            start, end = (max(0.0, at - begin) for at in (each.start, each.end))
            out.append(Bar(task.node, title, each.state, start, end, each.attempt))
    return out


def row_title(row: int, task: Task) -> str:
    """The name of a row: short, and different from all others."""
    return f"{row + 1}. {shortened(task.title or task.node, 32)}"


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit for a stretch of time on an axis, and how many seconds it has."""
    for name, length in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 3 * length:
            return name, length
    return "seconds", 1.0


def records(found: Iterable[Bar], second: float = 1.0) -> list[dict[str, object]]:
    """The bars as a chart wants them; `second` is how many seconds its unit of time has."""
    return [
        {
            "task": bar.title,
            "node": bar.node,
            "state": bar.state,
            "start": bar.start / second,
            "end": bar.end / second,
            "took": duration(bar.seconds),
            "attempt": bar.attempt,
        }
        for bar in found
    ]


def show(details: Details) -> None:
    """Draw the tab."""
    import pandas as pd

    tasks = list(details.tasks)
    found = bars(details.run, tasks, feed_of(details.run.run_id).moves, time.time())
    if not found:
        st.html(notice("info", "No node has begun."))
        return
    rows = [row_title(i, task) for i, task in enumerate(tasks)]
    unit, second = time_unit(max(bar.end for bar in found))
    states = list(dict.fromkeys(bar.state for bar in found))
    data = pd.DataFrame(records(found, second))
    st.vega_lite_chart(data, timeline(rows, states, unit, current_mode()), key="timeline", alt="When each node ran")
