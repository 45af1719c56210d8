"""The Build page: one component for everything, mounted once and fed twice a second.

Only the fragment runs again, so the canvas is never rebuilt: what crosses are the notices it has not
seen and the commands that were not handled.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.runtime import exists, get_instance
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui.build.editor import Editor
from ui.build.opening import WANTED
from ui.build.shared import rooms_of
from ui.studio_context import studio

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

POLL_S = 0.5
_KEY = "voxelflow-canvas"
_EDITOR = "build.editor"
_ADDRESS = "pipeline"
"""Name in the page's address of the document that is shown."""


def show() -> None:
    """Draw the page."""
    _canvas()


@st.fragment(run_every=POLL_S)
def _canvas() -> None:
    editor = _editor()
    if (wanted := st.session_state.pop(WANTED, None)) is not None:
        editor.open(wanted)
    value = _component()(key=_KEY, data=editor.inbox().model_dump(mode="json"), on_outbox_change=_heard)
    # A value that was there before this session knew the component came without a call.
    editor.handle(value.get("outbox"))
    if editor.document is not None and st.query_params.get(_ADDRESS) != editor.document:
        st.query_params[_ADDRESS] = editor.document


def _heard() -> None:
    value: Any = st.session_state.get(_KEY)
    _editor().handle(value.get("outbox") if value else None)


def _editor() -> Editor:
    """This tab's session; it stays when the person goes to another page and back."""
    found: Editor | None = st.session_state.get(_EDITOR)
    if found is None:
        found = Editor(
            rooms_of(studio()), address=st.query_params.get(_ADDRESS), connected=_connection_of(_session_id())
        )
        st.session_state[_EDITOR] = found
    return found


def _session_id() -> str:
    context = get_script_run_ctx()
    return context.session_id if context is not None else ""


def _connection_of(session_id: str) -> Any:
    """Whether the browser of this session is connected, as a question that can be asked from any thread."""
    return lambda: not exists() or get_instance().is_active_session(session_id)


@cache
def _component() -> ComponentRenderer:
    """The component's mounting function. Made on first use: without a running Streamlit its files cannot be found."""
    return st.components.v2.component(
        "voxelflow.canvas",
        html='<div class="vf-root"></div>',
        js="index-*.js",
        css="index-*.css",
        isolate_styles=True,
    )
