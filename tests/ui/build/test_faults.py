"""What no browser of ours sends, and faults of ours: each is answered, and the tab goes on."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
from building import box, pipeline
from canvas_tab import OpenTab, Tab

from engine.document.pipeline import Pipeline
from ui.build.background import LOG
from ui.build.open_documents import OpenDocuments
from ui.protocol.commands import Browse, Duplicate, ForecastSweep, Seen
from ui.protocol.notices import Listing, SweepForecast


def _two() -> Pipeline:
    return pipeline(box("a", "Make", text="x"), box("b", "Join"), wires="a.out>b.first", name="My Pipeline")


def test_a_listing_answers_whatever_goes_wrong(open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch) -> None:
    tab = open_tab(_two())
    monkeypatch.setattr("ui.build.editor.browse", lambda *_, **__: 1 / 0)
    tab.say(Browse(request=3, path=None))
    found = tab.wait_for(Listing, lambda n: n.request == 3)
    assert (found.problem, found.entries) == ("the folders: ZeroDivisionError: division by zero", [])
    tab.wait(lambda: tab.messages == ["error: Something went wrong: ZeroDivisionError The app's log has the details."])


def test_the_outlook_of_a_sweep_answers_whatever_goes_wrong(open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch) -> None:
    tab = open_tab(_two())
    monkeypatch.setattr("ui.build.editor.forecast_of", lambda *_: 1 / 0)
    tab.say(ForecastSweep(request=3, document="my-pipeline", profile="local", end=None, values={"a.text": "x"}, jobs=1))
    found = tab.wait_for(SweepForecast, lambda n: n.request == 3)
    assert found.problem == "it cannot be said what it would run: ZeroDivisionError: division by zero"


def _raw(tab: Tab, *commands: Any) -> None:
    sent = [{"n": tab.next + i, "command": c} for i, c in enumerate(commands)]
    tab.next += len(commands)
    tab.editor.handle({"client": tab.client, "session": tab.session, "seen": tab.seen, "sent": sent})
    tab.receive(tab.editor.inbox())


@pytest.mark.slow
@pytest.mark.parametrize(
    "value", [None, "", 7, [], {}, {"client": 1}, {"client": "x", "session": "y", "seen": "z", "sent": []}]
)
def test_what_is_no_outbox_does_no_harm(open_tab: OpenTab, value: Any) -> None:
    tab = open_tab(_two())
    tab.editor.handle(value)
    tab.set("description", to="alive")
    assert tab.pipeline.description == "alive"


def test_a_command_that_makes_no_sense_holds_up_no_other(open_tab: OpenTab) -> None:
    tab = open_tab(_two())
    edit = {
        "type": "edit",
        "document": "my-pipeline",
        "edit": "e",
        "ops": [{"path": ["description"], "value": "heard", "remove": False}],
    }
    _raw(tab, {"type": "from the future"}, {"type": "save"}, edit, Seen().model_dump())
    assert tab.pipeline.description == "heard"
    assert tab.messages == ["error: The app did not understand that. Reload the page."] * 2
    assert tab.editor.inbox().handled == tab.next - 1


def test_a_fault_of_ours_is_reported_logged_and_survived(
    open_tab: OpenTab, documents: OpenDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = open_tab(_two())
    log = io.StringIO()
    monkeypatch.setattr(LOG, "handlers", [logging.StreamHandler(log)])
    monkeypatch.setattr(documents, "duplicate", lambda _: 1 / 0)
    tab.say(Duplicate(document="my-pipeline"))
    assert tab.messages == ["error: Something went wrong: ZeroDivisionError The app's log has the details."]
    assert "division by zero" in log.getvalue()
    tab.set("description", to="alive")
    assert tab.pipeline.description == "alive"
