"""Python's half of the tables in ui/protocol/cases; the browser's is ui/canvas/src/shared_cases.test.ts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from declared_fields import DECLARED, declared, sent_to_the_browser
from shared_cases import FOLDER, cases, name_of, table

from engine.declare.parameters import read_value
from engine.document.pipeline import references, substitute
from engine.errors import PipelineError, UsageError
from engine.limit import read_time
from engine.text import duration, headline, money_between
from ui.build.documents import apply, doc_to_pipeline
from ui.build.editor import Editor
from ui.build.open_documents import OpenDocuments
from ui.protocol.commands import Command
from ui.protocol.document import Doc, Op

RUN_HERE = {"commands", "costs", "declared", "durations", "fields", "headlines", "limits", "ops"}


def test_every_table_is_run_here() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == RUN_HERE


# --- edits ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("ops", "before", "ops", "after", "inverse", "refused"), ids=name_of)
def test_an_edit_does_to_the_document_what_the_browser_shows(case: dict[str, Any]) -> None:
    before = Doc.model_validate(table("ops")["documents"][case["before"]])
    ops = [Op.model_validate(op) for op in case["ops"]]
    if "refused" in case:
        with pytest.raises(PipelineError) as caught:
            apply(before, ops)
        assert case["refused"] in caught.value.line()
        return
    after = apply(before, ops)
    assert after.model_dump(mode="json") == {**before.model_dump(mode="json"), **case["after"]}
    doc_to_pipeline(after)
    assert apply(after, [Op.model_validate(op) for op in case["inverse"]]) == before


# --- commands ------------------------------------------------------------------------------------

COMMANDS = cases("commands", "command", "once", "resent")


class Recording(Editor):
    """Notes what it is to do, and does nothing."""

    def __init__(self, documents: OpenDocuments) -> None:
        super().__init__(documents)
        self.done: list[str] = []

    def _do(self, command: Command) -> None:
        self.done.append(command.type)


def test_a_server_started_again_repeats_only_what_may_be_done_twice(serve: Callable[[], OpenDocuments]) -> None:
    """Each command is sent by a page of its own, then again to a server that knows only what is on disk."""

    def send_all(editor: Recording) -> list[str]:
        for case in COMMANDS:
            sent = [{"n": 1, "command": case["command"]}]
            session = editor.inbox().session
            editor.handle({"client": case["name"], "session": session, "seen": 0, "sent": sent})
        return editor.done

    assert send_all(Recording(serve())) == [case["command"]["type"] for case in COMMANDS]
    assert send_all(Recording(serve())) == [case["command"]["type"] for case in COMMANDS if not case["once"]]


def test_every_command_says_what_a_lost_connection_does_to_it() -> None:
    models = {model.model_fields["type"].default: model for model in get_args(get_args(Command)[0])}
    assert {case["command"]["type"] for case in COMMANDS} == models.keys()
    for case in COMMANDS:
        assert models[case["command"]["type"]].resent == case["resent"]


# --- durations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("durations", "seconds", "text"), ids=name_of)
def test_a_duration_is_written_as_in_the_browser(case: dict[str, Any]) -> None:
    assert duration(case["seconds"]) == case["text"]


# --- messages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("headlines", "message", "headline"), ids=name_of)
def test_a_message_by_itself_begins_as_in_the_browser(case: dict[str, Any]) -> None:
    assert headline(case["message"]) == case["headline"]


# --- time and cost of a run ----------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("costs", "low", "high", "currency", "text"), ids=name_of)
def test_a_cost_is_written_as_in_the_browser(case: dict[str, Any]) -> None:
    assert money_between(case["low"], case["high"], case["currency"]) == case["text"]


@pytest.mark.parametrize("case", cases("limits", "text", "seconds"), ids=name_of)
def test_a_time_to_stop_after_is_read_as_in_the_browser(case: dict[str, Any]) -> None:
    if case["seconds"] is not None:
        assert read_time(case["text"]) == case["seconds"]
    else:
        with pytest.raises(UsageError, match="no time to stop after"):
            read_time(case["text"])


# --- fields --------------------------------------------------------------------------------------

FIELDS = cases("fields", "field", "typed", "holds", "reads", "message", "open")


def test_the_fields_of_the_table_are_what_python_sends() -> None:
    """Else: `python -m tests.support.declared_fields`."""
    assert sent_to_the_browser() == table("declared")
    assert {case["field"] for case in FIELDS} == DECLARED.keys()


def _read(field: str, value: Any) -> tuple[str, Any]:
    """What becomes of a document's value: ("reads", ...), ("message", ...) or ("open", True)."""
    if references(value):
        return "open", True
    try:
        out = read_value(declared(field), substitute(value, {}))
    except ValueError as exc:
        return "message", str(exc)
    return "reads", list(out) if isinstance(out, tuple) else out


@pytest.mark.parametrize("case", FIELDS, ids=name_of)
def test_a_run_reads_a_field_as_the_form_does(case: dict[str, Any]) -> None:
    parameter = declared(case["field"])
    wanted = next((key, case[key]) for key in ("reads", "message", "open") if key in case)
    if "holds" in case:
        found = _read(case["field"], case["holds"])
    elif parameter.required:
        found = _read(case["field"], None)
    else:
        found = "reads", list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
    assert repr(found) == repr(wanted)
    # `--set` takes the text as it is. A form takes an emptied field for nothing, or for none.
    if case.get("typed", "").strip():
        typed = _read(case["field"], case["typed"])
        assert repr(typed) == repr(wanted) or (parameter.base != "str" and case["typed"] != case["typed"].strip())
