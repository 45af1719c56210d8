"""What people call nodes and wires."""

from __future__ import annotations

from collections import Counter

from any_pipelines import pipelines
from building import box, pipeline
from hypothesis import given

from engine.document.node_names import names_in_both, names_in_runs, wire_name
from engine.document.pipeline import Node, Pipeline, display_names, dump
from engine.store.runs import RunStore


@given(pipelines, pipelines)
def test_nodes_of_two_documents_that_share_a_name_have_their_ids(before: Pipeline, now: Pipeline) -> None:
    names = names_in_both(before, now)
    drawn = {node.id: node.title or node.type for each in (before, now) for node in each.nodes}
    shared = {name for name, count in Counter(drawn.values()).items() if count > 1}
    assert names == {node: f"{name} ({node})" if name in shared else name for node, name in drawn.items()}
    assert names_in_both(now, now) == display_names(now.nodes)


def test_a_run_s_nodes_are_called_as_its_document_draws_them(store: RunStore) -> None:
    titles = [
        "",
        "",
        "Make",
        "Maker",
        "Maker",
        "a",
        " ",
        "\n\t",
        "\x00x",
        "\x1b[0m",
        "1",
        "שלום",
        "\U0001f600",
        '"\\',
        "x" * 200,
    ]
    nodes = [Node(id=f"n{i}", type="Make" if i % 2 else "", title=title) for i, title in enumerate(titles)]
    drawn = pipeline(*nodes, Node(id="last", type="Join"), name="p")
    run_id = store.create_run("p", dump(drawn), {}, "local")
    assert names_in_runs(store, [run_id, run_id, "no-such-run"]) == {
        (run_id, node): name for node, name in display_names(drawn.nodes).items()
    }


def test_documents_that_are_not_readable_name_nothing(store: RunStore) -> None:
    odd = ["", "{", "[]", "{}", '{"nodes": 1}', '{"nodes": [1, null, [], {}, {"id": "x"}]}', '{"nodes": {"a": 1}}']
    runs = [store.create_run("p", document, {}, "local") for document in odd]
    good = store.create_run("p", dump(pipeline(Node(id="a", type="Make", title="Maker"), name="p")), {}, "local")
    assert names_in_runs(store, [*runs, good]) == {(good, "a"): "Maker"}
    assert names_in_runs(store, []) == {}


def test_a_wire_is_called_by_the_names_of_its_nodes() -> None:
    before = pipeline(box("a", "Make"), box("j", "Join"))
    now = pipeline(Node(id="a", type="Make", title="Maker\n\x1b"), box("k", "Join"))
    names = names_in_both(before, now)
    assert wire_name("a.out", "j.first", names) == "Maker \\x1b.out → Join (j).first"
    assert wire_name("a.out", "k.first", names) == "Maker \\x1b.out → Join (k).first"
    assert wire_name("gone.out", "a.in", names) == "gone.out → Maker \\x1b.in"
