"""Lines of a log on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from ui.runs.logs import Line
from ui.shell.blocks import Html, tag

_OWN = "run"
"""What the run's own process wrote."""


def draw_lines(lines: Sequence[Line], *, key: str, height: int, names: Mapping[str, str] | None = None) -> None:
    """The lines in a frame of `height` pixels that stays at its end while lines come in.

    With `names` of nodes, each line begins with its node's.
    """
    with st.container(key=key, height=height, autoscroll=True):
        st.html(log_block(lines, names))


def log_block(lines: Sequence[Line], names: Mapping[str, str] | None = None) -> Html:
    """The lines as text, each in the colour of its level."""
    return tag("div", *[_line(line, names) for line in lines], class_="vf-log", role="log", aria_label="Log")


def _line(line: Line, names: Mapping[str, str] | None) -> Html:
    name = names.get(line.node, line.node) or _OWN if names is not None else None
    node = tag("span", name, class_="vf-log-node", title=name) if name is not None else None
    return tag("div", node, tag("span", line.text, class_="vf-log-text"), class_=f"vf-log-{line.level}")
