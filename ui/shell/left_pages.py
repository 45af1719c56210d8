"""Nothing more is done for a page that was left.

`st.switch_page` changes the page on the server. Until the browser hears of it, the timers of the page that was left go
on (`run_every`), and clicks on it are still sent. Streamlit 1.67 runs the fragment that is asked for as one of the old
page, after the new page is drawn. The browser takes that for a change of page and throws the new one away: it stays
white, and where a fragment of the new page has the same id, fails with "Bad delta path index". Streamlit drops such a
request itself only if no fragment of the new page has that id, and only once the new page is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner

if TYPE_CHECKING:
    from streamlit.proto.ClientState_pb2 import ClientState
    from streamlit.runtime.pages_manager import PagesManager
    from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

_request_rerun = AppSession.request_rerun
_run_script = ScriptRunner._run_script


def ignore() -> None:
    """From now on drop requests for fragments of pages that were left, in all sessions. A second call does nothing."""
    AppSession.request_rerun = _request_of_page  # type: ignore[assignment, method-assign]
    ScriptRunner._run_script = _run_of_page  # type: ignore[assignment, method-assign]


def _request_of_page(session: AppSession, client_state: ClientState | None) -> None:
    """When a request arrives."""
    if client_state and client_state.fragment_id and _was_left(client_state.page_script_hash, session._pages_manager):
        return
    _request_rerun(session, client_state)


def _run_of_page(runner: ScriptRunner, rerun_data: RerunData) -> None:
    """When a request that had to wait for a run has its turn: that run may have changed the page."""
    if rerun_data.fragment_id_queue and _was_left(rerun_data.page_script_hash, runner._pages_manager):
        return
    _run_script(runner, rerun_data)


def _was_left(page: str, pages: PagesManager) -> bool:
    """Whether another page was drawn last. A session that has drawn none has no fragments either."""
    return pages.current_page_script_hash not in ("", page)
