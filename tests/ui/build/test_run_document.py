"""What is reported of a document that was changed since its run began."""

from __future__ import annotations

import pytest
from building import box, pipeline

from engine.document.pipeline import Pipeline, PipelineParameter, Position
from ui.build.run_document import RunDocument

THEN = pipeline(
    box("a", "Make", text="${words}"), box("b", "Join"), box("c", "Join"),
    wires="a.out>b.first b.out>c.first", words="some",
)  # fmt: skip


def changed(now: Pipeline, *given: str) -> str:
    return RunDocument("r", THEN, frozenset(given)).changes(now)


def with_nodes(*nodes: object) -> Pipeline:
    return THEN.model_copy(update={"nodes": nodes})


A, B, C = THEN.nodes


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (THEN, ""),
        (with_nodes(A.model_copy(update={"position": Position(x=9), "title": "T", "ui": {"f": 1}}), B, C), ""),
        (with_nodes(A.model_copy(update={"params": {"text": "x"}}), B, C), "Make changed"),
        (
            with_nodes(A.model_copy(update={"retries": 1}), B.model_copy(update={"type": "Fail"}), C),
            "Make and Fail changed",
        ),
        (with_nodes(A, B, C, box("d", "Make")), "Make (d) added"),
        (with_nodes(A, B), "Join (c) removed"),
        (with_nodes(*(box(f"n{i}", "Make") for i in range(4))), "4 nodes added, Make, Join (b) and Join (c) removed"),
        (THEN.model_copy(update={"edges": THEN.edges[:1]}), "wires changed"),
        (THEN.model_copy(update={"parameters": {"words": PipelineParameter(value="more")}}), "parameters changed"),
    ],
)
def test_what_a_run_would_do_otherwise_is_reported(now: Pipeline, words: str) -> None:
    assert changed(now) == words


def test_values_that_were_given_for_the_run_alone_are_no_change() -> None:
    now = THEN.model_copy(update={"parameters": {"words": PipelineParameter(value="more")}})
    assert changed(now, "words") == ""
    of_node = with_nodes(A.model_copy(update={"params": {"text": "x"}}), B, C)
    assert changed(of_node, "a.text") == ""
    assert changed(of_node, "a.steps") == "Make changed"


def test_values_that_were_given_for_the_run_alone_are_named() -> None:
    now = THEN.model_copy(update={"parameters": {"words": PipelineParameter(value="more")}})
    run = RunDocument("r", THEN, frozenset({"words", "a.text", "gone"}))
    assert run.own_values(THEN) == ""
    assert run.own_values(now) == "words = some"
    assert run.own_values(with_nodes(B, C)) == "a.text = ${words}"
    assert RunDocument("r", THEN).own_values(now) == ""


def test_of_a_document_that_cannot_be_read_nothing_is_reported() -> None:
    unread = RunDocument("r", None)
    assert unread.changes(THEN) == ""
    assert unread.sources("a") == []
    assert unread.own_values(THEN) == ""


def test_what_filled_an_input_is_known() -> None:
    assert RunDocument("r", THEN).sources("b") == [("first", "a", "out")]
