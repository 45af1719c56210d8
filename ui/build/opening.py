"""How other pages of the app have the Build page show a document."""

from __future__ import annotations

import streamlit as st

from ui.build.shared import rooms_of
from ui.studio_context import studio

WANTED = "build.open_document"
"""Key of the session state: the document that the Build page shows next."""


def open_document(document: str) -> None:
    """Have the Build page of this tab show a document, now or when the person goes there."""
    st.session_state[WANTED] = document


def import_document(text: str, name: str) -> str:
    """Make a new, unsaved document of a pipeline's JSON text and have the Build page show it. Gives its id.

    `name` says in errors where the text is from. Raises `PipelineError` when it is no pipeline.
    """
    document = rooms_of(studio()).import_text(text, name).room.document
    open_document(document)
    return document
