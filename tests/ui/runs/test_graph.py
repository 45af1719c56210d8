"""The graph of a run: as it was drawn, with the state of each node, and no more of the document than is seen."""

from __future__ import annotations

from typing import get_args

import pytest
from building import box, pipeline, some_run, some_task

from engine.catalog import Catalog
from engine.declare.events import RunState, TaskState
from engine.document.pipeline import Node, Position
from ui.build.documents import pipeline_to_doc
from ui.build.status import node_status
from ui.runs.graph import picture_height, run_picture, selected_node
from ui.shell.theme import STATE_COLOURS, Mode

DOCUMENT = pipeline(
    box("a", "Make"), box("b", "Make"), box("j", "Join"), box("left", "Make"), wires="a.out>j.first b.out>j.second"
)


@pytest.mark.parametrize("mode", get_args(Mode))
def test_every_state_has_a_colour_in_both_modes(mode: Mode) -> None:
    known = STATE_COLOURS[mode]
    assert set(get_args(TaskState)) | set(get_args(RunState)) | {"left out"} <= set(known)


def test_the_graph_has_cards_where_they_were_drawn_and_states_but_no_values(probes: Catalog) -> None:
    secret = Node(id="a", type="Make", title="Maker", params={"text": "value"}, position=Position(x=7, y=9))
    document = pipeline(secret, box("x", "Unknown"), wires="a.out>x.in", password="hidden")
    states = {"a": node_status(some_task("a"))}
    picture = run_picture(document, probes, some_run(), states, "a")
    assert (picture.doc.nodes["a"].position.x, picture.doc.nodes["a"].title) == (7, "Maker")
    assert (picture.status["a"].state, picture.chosen, picture.changes) == ("done", "a", None)
    assert [known.type for known in picture.types] == ["Make"]
    text = picture.model_dump_json()
    assert "value" not in text.replace('"values"', "")
    assert "hidden" not in text


def test_the_graph_is_as_high_as_its_cards_within_bounds() -> None:
    def height(*places: tuple[float, float]) -> int:
        nodes = [Node(id=f"n{i}", type="T", position=Position(x=x, y=y)) for i, (x, y) in enumerate(places)]
        return picture_height(pipeline_to_doc(pipeline(*nodes)))

    row, column = height((0, 0), (300, 0)), height((0, 0), (0, 200))
    assert height() == height((0, 0)) == row < column < height((0, 0), (0, 5000))
    assert height((0, 0), (9000, 200)) < column, "a wide one is drawn smaller"


@pytest.mark.parametrize(
    ("states", "wanted", "shown"),
    [
        ({"a": "done", "b": "failed", "j": "skipped"}, None, "b"),
        ({"a": "done", "b": "running", "j": "queued"}, None, "b"),
        ({"a": "done", "b": "done", "j": "done"}, None, "j"),
        ({"a": "done", "b": "failed", "j": "done"}, "a", "a"),
        ({"a": "done", "b": "failed", "j": "done"}, "gone", "b"),
        ({}, None, "left"),
    ],
)
def test_the_node_of_most_interest_is_shown_first(states: dict[str, TaskState], wanted: str | None, shown: str) -> None:
    tasks = [some_task(node, state=state) for node, state in states.items()]
    assert selected_node(DOCUMENT, tasks, wanted) == shown


def test_a_document_without_nodes_has_none_to_show() -> None:
    assert selected_node(pipeline(), [], None) is None
