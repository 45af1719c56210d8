"""What two documents have otherwise, as a list and as one graph."""

from __future__ import annotations

from building import box, pipeline, some_run

from engine.document.pipeline import Node, Pipeline, Position
from engine.history.details import Details
from ui.runs.graph_changes import document_changes, graph_changes, joined


def _details(document: Pipeline) -> Details:
    return Details(some_run(), (), document, None)


FIRST = pipeline(
    Node(id="a", type="Make", title="Maker", params={"steps": 3, "text": "x"}),
    box("j", "Join"),
    wires="a.out>j.first",
)
SECOND = pipeline(
    Node(id="a", type="Make", title="Maker", params={"steps": 5}, retries=2),
    box("h", "Halve", part=1),
    wires="a.out>h.whole",
)


def test_graph_changes_are_relative_to_the_first() -> None:
    found = graph_changes(_details(FIRST), _details(SECOND))
    assert [(c.change, c.what, c.name, c.detail) for c in found] == [
        ("added", "node", "Halve", "Halve"),
        ("removed", "node", "Join", "Join"),
        ("changed", "node", "Maker", "retries 0 → 2, steps 3 → 5, text x → default"),
        ("added", "wire", "Maker.out → Halve.whole", ""),
        ("removed", "wire", "Maker.out → Join.first", ""),
    ]


def test_where_boxes_lie_is_no_difference() -> None:
    moved = FIRST.model_copy(
        update={"nodes": tuple(n.model_copy(update={"ui": {"folded": True}}) for n in FIRST.nodes), "ui": {"zoom": 2}}
    )
    assert graph_changes(_details(FIRST), _details(moved)) == []
    unreadable = Details(some_run(), (), None, None)
    assert graph_changes(unreadable, _details(FIRST)) == []


def test_both_documents_become_one_graph_in_which_no_card_covers_another() -> None:
    doc = joined(FIRST, SECOND)
    assert list(doc.nodes) == ["a", "h", "j"]
    assert set(doc.edges) == {"a.out->h.whole", "a.out->j.first"}
    places = [(node.position.x, node.position.y) for node in doc.nodes.values()]
    assert places[0] == places[1] == (0, 0), "as the second was drawn"
    assert places[2] == (0, 170)
    far = FIRST.model_copy(
        update={"nodes": (FIRST.nodes[0], box("j", "Join").model_copy(update={"position": Position(x=900, y=5)}))}
    )
    assert joined(far, SECOND).nodes["j"].position.x == 900
    keys = {change.key for change in document_changes(FIRST, SECOND)}
    assert keys == {"h", "j", "a", *doc.edges}
    assert document_changes(FIRST, FIRST) == []


def test_a_node_that_is_bypassed_or_disabled_is_a_difference() -> None:
    bypassed, disabled = (
        FIRST.model_copy(update={"nodes": (FIRST.nodes[0], FIRST.nodes[1].model_copy(update={"mode": mode}))})
        for mode in ("bypass", "disabled")
    )
    assert [change.detail for change in document_changes(FIRST, bypassed)] == ["mode run → bypass"]
    assert [change.detail for change in document_changes(bypassed, disabled)] == ["mode bypass → disabled"]


def test_a_parameter_that_is_set_to_nothing_is_not_at_its_default() -> None:
    plain, nothing, empty = (pipeline(box("a", "Make", **given)) for given in ({}, {"text": None}, {"text": ""}))
    assert [change.detail for change in document_changes(plain, nothing)] == ["text default → none"]
    assert [change.detail for change in document_changes(nothing, empty)] == ['text none → ""']
