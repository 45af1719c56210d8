"""What the browser has asked for is not lost when a page draws itself again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests

from ui.shell import redraw


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> ScriptRequests:
    """What Streamlit keeps of the requests of the page that is drawn."""
    requests = ScriptRequests()
    monkeypatch.setattr(redraw, "get_script_run_ctx", lambda: SimpleNamespace(script_requests=requests))
    return requests


def test_a_request_waits_until_the_page_is_drawn_for_it(requests: ScriptRequests) -> None:
    assert not redraw.is_request_waiting()
    requests.request_rerun(RerunData(query_string="item=b", is_history_navigation=True))
    assert redraw.is_request_waiting()
    requests.on_scriptrunner_ready()
    assert not redraw.is_request_waiting()


def test_streamlit_would_put_this_run_in_its_place(requests: ScriptRequests) -> None:
    """Why it is asked: once this fails, `is_request_waiting` is not needed any more."""
    requests.request_rerun(RerunData(query_string="item=b", page_script_hash="b", is_history_navigation=True))
    requests.request_rerun(RerunData(query_string="item=a", page_script_hash="a"))
    found = requests.on_scriptrunner_ready().rerun_data
    assert (found.query_string, found.page_script_hash, found.is_history_navigation) == ("item=a", "a", False)


def test_nothing_waits_outside_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redraw, "get_script_run_ctx", lambda: None)
    assert not redraw.is_request_waiting()
