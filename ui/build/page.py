"""The Build page: one component for everything, mounted once. It gets a ticket and connects with it.

What the canvas and its editor have to say goes through that connection (`ui.build.connection`), not through reruns.
"""

from __future__ import annotations

import atexit
import threading
from pathlib import Path

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui.build.connection import invite
from ui.build.editor import Editor
from ui.build.open_documents import OpenDocuments
from ui.shell.canvas import canvas_component
from ui.shell.navigation import PIPELINE
from ui.studio_context import Studio, studio

_KEY = "voxelflow-canvas"
_EDITOR = "build.editor"
_WANTED = "build.open_document"
"""Key of the session state: the document that the page shows next."""

_lock = threading.Lock()
_documents: dict[Path, OpenDocuments] = {}


def show() -> None:
    """Draw the page."""
    _canvas()


def documents_of(studio: Studio) -> OpenDocuments:
    """The open documents of the workspace that this process serves, shared by all its tabs; made on first use."""
    with _lock:
        found = _documents.get(studio.workspace.root)
        if found is None or found.studio is not studio:
            found = _documents[studio.workspace.root] = OpenDocuments(studio)
            # A thread that is amid a listing when the interpreter goes would take it down noisily.
            atexit.register(found.close)
        return found


def open_document(document: str) -> None:
    """Have the Build page of this tab show a document, now or when the person goes there."""
    st.session_state[_WANTED] = document


def import_document(text: str, name: str) -> str:
    """Make a new, unsaved document of a pipeline's JSON text and have the Build page show it. Gives its id.

    `name` says in errors where the text is from. Raises `PipelineError` when it is no pipeline.
    """
    document = documents_of(studio()).import_text(text, name).document.id
    open_document(document)
    return document


@st.fragment
def _canvas() -> None:
    editor, named, run = _editor(), st.query_params.get(PIPELINE), get_script_run_ctx()
    went_there = run is not None and run.is_history_navigation  # by the browser's Back or Forward
    if (wanted := st.session_state.pop(_WANTED, None)) is not None:
        editor.open(wanted)
    elif went_there and named is not None and editor.can_go_to(named):
        editor.open(named)
    # When the canvas shows another document it says so here, and the fragment runs again.
    canvas_component()(key=_KEY, data={"ticket": invite(editor)}, on_document_change=lambda: None)
    # One that names nothing, as the menu's, the canvas completes: from here it would be one more step to go back.
    if editor.document is not None and named is not None and named != editor.document:
        st.query_params[PIPELINE] = editor.document


def _editor() -> Editor:
    """This tab's session; it stays when the person goes to another page and back."""
    found: Editor | None = st.session_state.get(_EDITOR)
    if found is None:
        found = Editor(documents_of(studio()), address=st.query_params.get(PIPELINE))
        st.session_state[_EDITOR] = found
    return found
