"""The graph of a run: colours by state, and nothing in it that the component would take for markup."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from building import box, pipeline

from engine.events import Progress, RunState, TaskState
from engine.pipeline import Node
from engine.runs import Task
from ui.runs.graph import boxes, edges, graph_height, selected_node, vis_edges, vis_nodes, vis_options
from ui.shell.theme import STATE_COLOURS, Mode

DOCUMENT = pipeline(
    box("a", "Make"), box("b", "Make"), box("j", "Join"), box("left", "Make"), wires="a.out>j.first b.out>j.second"
)


def _task(node: str, state: TaskState, progress: Progress | None = None, **times: float) -> Task:
    started, ended = times.get("started"), times.get("ended")
    return Task("r", node, 0, "T", node, state, "", "", 1, started, ended, None, progress, {}, None)


TASKS = [
    _task("a", "done", started=1.0, ended=3.5),
    _task("b", "running", Progress(done=45, total=100), started=1.0),
    _task("j", "queued"),
]


def test_each_node_tells_its_state() -> None:
    assert [(b.node, b.state, b.line) for b in boxes(DOCUMENT, TASKS)] == [
        ("a", "done", "done, 2.5 s"),
        ("b", "running", "running 45 %"),
        ("j", "queued", "queued"),
        ("left", "left out", "left out"),
    ]


@pytest.mark.parametrize("mode", get_args(Mode))
def test_every_state_has_a_colour_in_both_modes(mode: Mode) -> None:
    known = STATE_COLOURS[mode]
    assert set(get_args(TaskState)) | set(get_args(RunState)) | {"left out"} <= set(known)


def test_edges_join_nodes_that_are_there_and_each_pair_once() -> None:
    document = pipeline(
        box("a", "Halve"), box("b", "Join"), wires="a.left>b.first a.right>b.second a.left>gone.first gone.out>b.first"
    )
    assert edges(document) == [("a", "b")]
    assert [e["id"] for e in vis_edges(edges(document), "light")] == ["a>b"]


def test_nothing_a_person_wrote_reaches_the_component_as_markup() -> None:
    evil = "<img src=x onerror=alert(1)>"
    document = pipeline(Node(id="n", type=evil, title=evil), Node(id="long", type="T", title="z" * 300))
    drawn = vis_nodes(boxes(document, []), [], None, "light")
    for node in drawn:
        # The component sets `title` as HTML, and opens `div.innerHTML` as an address on a double click.
        assert "title" not in node
        assert node["div"] == {"innerHTML": ""}
        assert set(node["label"].splitlines()[1:]) == {"left out"}
        assert len(node["label"].splitlines()[0]) <= 26
    assert vis_options("light", 100)["nodes"]["font"]["multi"] is False
    json.dumps([drawn, vis_options("dark", 100)])


def test_the_chosen_node_stands_out() -> None:
    widths = {n["id"]: n["borderWidth"] for n in vis_nodes(boxes(DOCUMENT, TASKS), edges(DOCUMENT), "j", "dark")}
    assert widths == {"a": 1, "b": 1, "j": 3, "left": 1}


def test_levels_run_from_left_to_right() -> None:
    levels = {n["id"]: n["level"] for n in vis_nodes(boxes(DOCUMENT, []), edges(DOCUMENT), None, "light")}
    assert levels == {"a": 0, "b": 0, "left": 0, "j": 1}


def test_a_cycle_has_levels_too() -> None:
    document = pipeline(box("a", "Join"), box("b", "Join"), wires="a.out>b.first b.out>a.first")
    assert len(vis_nodes(boxes(document, []), edges(document), None, "light")) == 2
    assert graph_height(["a", "b"], edges(document)) > 0


def test_the_graph_is_as_high_as_its_fullest_level() -> None:
    few = graph_height(["a"], [])
    some = graph_height(list("abc"), [])
    assert few < some < graph_height([str(i) for i in range(500)], []) <= 460
    assert graph_height([], []) > 0


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
    tasks = [_task(node, state) for node, state in states.items()]
    assert selected_node(boxes(DOCUMENT, tasks), wanted) == shown


def test_a_document_without_nodes_has_none_to_show() -> None:
    assert selected_node([], None) is None
