"""The logs of a run: of all nodes or one, searched and sifted by level."""

from __future__ import annotations

import streamlit as st

from ui.runs.details import Details
from ui.runs.log_view import draw_lines
from ui.runs.logs import Level, as_text, matching, newest
from ui.runs.watching import logs_of
from ui.shell.bars import count_line, search_box
from ui.shell.blocks import notice

_SHOWN = 500
_HEIGHT = 520
_ALL = ""
_LEVELS: dict[str, Level] = {"All": "output", "Messages": "info", "Warnings": "warning", "Errors": "error"}


def show(details: Details) -> None:
    """Draw the tab."""
    book = logs_of(details.run, list(details.tasks))
    names = details.names
    with st.container(key="logs_bar", horizontal=True, vertical_alignment="center"):
        nodes = [_ALL, *(t.node for t in details.tasks)]
        node = st.selectbox(
            "Node",
            nodes,
            key="log_node",
            format_func=lambda n: names.get(n, str(n)) if n else "All nodes",
            label_visibility="collapsed",
            width=240,
            persist_state="page",
        )
        search = search_box("Search the log", key="log_search", placeholder="Search", width=260, persist_state="page")
        level = st.segmented_control(
            "Level",
            list(_LEVELS),
            default="All",
            key="log_level",
            required=True,
            label_visibility="collapsed",
            persist_state="page",
        )
        least = _LEVELS[level or "All"]
        lines, total = newest(matching(book.kept, node=node or None, search=search, least=least), _SHOWN)
        told = f"newest {len(lines):,} of {total:,} lines" if total > len(lines) else f"{total:,} lines"
        told += ", the beginning is left out" if book.cut else ""
        count_line(told)
        st.download_button(
            "Download",
            data=lambda: as_text(list(matching(book.kept, node=node or None, search=search, least=least))),
            file_name=f"{details.run.run_id}{'-' + node if node else ''}.log",
            mime="text/plain",
            key="log_download",
            icon=":material/download:",
            on_click="ignore",
        )
    if not lines:
        st.html(notice("info", "No line matches." if book.kept else "Nothing was written yet."))
        return
    draw_lines(lines, key="log_lines", height=_HEIGHT, names=None if node else names)
