"""The exact document that a run ran."""

from __future__ import annotations

import streamlit as st

from ui.runs.details import Details


def show(details: Details) -> None:
    """Draw the tab."""
    run = details.run
    st.download_button(
        "Download JSON",
        data=run.document,
        file_name=f"{run.run_id}.json",
        mime="application/json",
        key="document_download",
        icon=":material/download:",
        on_click="ignore",
    )
    st.code(run.document, language="json", height=560)
