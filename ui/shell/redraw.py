"""When a page may draw itself again."""

from __future__ import annotations

from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequestType


def is_request_waiting() -> bool:
    """Whether the browser has asked for something that is done after this run.

    `st.rerun` puts the page and the address of this run in the place of the waiting request's: a click in the menu, or
    the browser's Back, at the moment when a run ends would do nothing. So a page that changes by itself asks first, and
    again at the next tick of its timer.
    """
    context = get_script_run_ctx()
    # Streamlit tells nobody; a test looks whether it still keeps it there.
    return context is not None and getattr(context.script_requests, "_state", None) is ScriptRequestType.RERUN
