"""A tab that finds its way back after its server has been started again.

The new server knows nothing of the tab: it makes a session for it, and a session has neither the fragments of the page
nor the editor behind the canvas before the script has run in it. But of itself Streamlit's page asks for a run only if
the last one was a fragment's, or if some fragment runs again and again (`App.handleConnectionStateChanged`, 1.67).
"""

from __future__ import annotations

from datetime import timedelta

import streamlit as st


@st.fragment(run_every=timedelta(days=1))
def ask_for_a_run() -> None:
    """Have the browser ask for a run of the script whenever its connection comes back. Draws nothing."""
