"""Errors and outcomes as a person reads them."""

from __future__ import annotations

import streamlit as st

from engine.errors import CheckFailed, VoxelflowError
from ui.shell.blocks import Html, notice, tag, text


def show_error(error: VoxelflowError) -> None:
    """The error with what to do about it; of failed checks, each problem."""
    st.html(error_block(error))


def error_block(error: VoxelflowError) -> Html:
    if not isinstance(error, CheckFailed):
        where = f"{error.node}: " if error.node else ""
        return notice("error", text(f"{where}{error.message}"), text(error.hint) if error.hint else None)
    lines = []
    for problem in error.diagnostics:
        field = problem.parameter or problem.port
        where = f"{problem.node}{'.' + field if field else ''}: " if problem.node else ""
        message = f"{where}{problem.message}"
        if problem.hint and not message.endswith((".", "!", "?")):
            message += "."
        code = tag("span", f"{problem.severity} {problem.code} ", class_="vf-muted")
        lines.append(Html(f"{code}{text(message)} {tag('span', problem.hint, class_='vf-muted')}"))
    return notice("error", text(error.message), *lines)
