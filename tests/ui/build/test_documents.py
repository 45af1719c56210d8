from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from any_pipelines import pipelines, value
from hypothesis import given
from hypothesis import strategies as st

from engine.declare.parameters import parameter_from_annotation, read_value
from engine.document.pipeline import Edge, Node, Pipeline, PipelineParameter, Position, dump, read_pipeline
from engine.errors import PipelineError
from ui.build.documents import (
    MAX_NAME,
    MAX_STEM_BYTES,
    apply,
    doc_to_pipeline,
    document_id,
    free_name,
    is_document_id,
    pipeline_to_doc,
    slug,
)
from ui.protocol.document import Doc, Op, for_browser


@pytest.mark.slow
@given(pipelines)
def test_a_pipeline_comes_back_from_its_doc_as_it_was(pipeline: Pipeline) -> None:
    back = doc_to_pipeline(pipeline_to_doc(pipeline))
    assert back == pipeline
    assert dump(back) == dump(pipeline)


@pytest.mark.slow
@given(pipelines)
def test_it_survives_the_way_to_the_browser_and_back(pipeline: Pipeline) -> None:
    sent = pipeline_to_doc(pipeline).model_dump(mode="json")
    back = Doc.model_validate_json(json.dumps(sent))
    assert back.model_dump(mode="json") == sent
    assert dump(doc_to_pipeline(back)) == dump(_with_large_ones_as_text(pipeline))


def _as_a_browser_holds(sent: Any) -> Any:
    """JSON as `JSON.parse` makes it: every number is a double."""
    return json.loads(json.dumps(sent), parse_int=lambda text: int(float(text)))


def _with_large_ones_as_text(pipeline: Pipeline) -> Pipeline:
    def held(values: Any) -> Any:
        return {key: for_browser(item) for key, item in values.items()}

    nodes = tuple(n.model_copy(update={"params": held(n.params), "ui": held(n.ui)}) for n in pipeline.nodes)
    parameters = {
        name: PipelineParameter(value=for_browser(p.value), help=p.help) for name, p in pipeline.parameters.items()
    }
    return pipeline.model_copy(update={"nodes": nodes, "parameters": parameters, "ui": held(pipeline.ui)})


@pytest.mark.parametrize("seed", [2**53 + 1, -(2**53) - 1, 2**63, 10**22 + 1])
def test_whole_numbers_that_a_browser_would_round_come_back_with_their_node(seed: int) -> None:
    node = Node(id="a", type="SplitDataset", params={"seed": seed, "folds": [seed, 3], "on": True, "most": 2**53 - 1})
    doc = pipeline_to_doc(Pipeline(name="d", nodes=(node,)))
    shown = _as_a_browser_holds(doc.model_dump(mode="json"))["nodes"]["a"]
    # Undo of a removal sends the whole node.
    back = apply(apply(doc, [_remove("nodes", "a")]), [_set("nodes", "a", to=shown)])
    params = {"seed": str(seed), "folds": [str(seed), 3], "on": True, "most": 2**53 - 1}
    assert doc_to_pipeline(back).nodes[0].params == params
    assert read_value(parameter_from_annotation("seed", int, 0, ""), params["seed"]) == seed
    # The file keeps what it has.
    assert doc_to_pipeline(doc).nodes[0] == node


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[3] / "pipelines").glob("[!p]*.json")))
def test_the_shipped_pipelines_do_too(path: Path) -> None:
    assert dump(doc_to_pipeline(pipeline_to_doc(read_pipeline(path)))) == path.read_text()


# --- ops ---------------------------------------------------------------------------------------


def _set(*path: str, to: Any) -> Op:
    return Op(path=list(path), value=to, remove=False)


def _remove(*path: str) -> Op:
    return Op(path=list(path), value=None, remove=True)


def _node(**fields: Any) -> dict[str, Any]:
    return {
        "type": "Make", "version": None, "title": "", "params": {}, "position": {"x": 0, "y": 0},
        "retries": 0, "timeout_s": None, "ui": {}, "order": 5, **fields,
    }  # fmt: skip


@pytest.fixture
def doc() -> Doc:
    return pipeline_to_doc(
        Pipeline(
            name="d",
            parameters={"p": PipelineParameter(value=1)},
            nodes=(Node(id="a", type="Make", params={"text": "x", "steps": 2}), Node(id="b", type="Join")),
            edges=(Edge(**{"from": "a.out", "to": "b.first"}),),
        )
    )


def test_ops_set_and_remove_everything_a_person_can_touch(doc: Doc) -> None:
    after = apply(
        doc,
        [
            _set("description", to="what it does"),
            _set("ui", "zoom", to=2),
            _set("parameters", "q", to={"value": [1, "x"], "help": "h"}),
            _remove("parameters", "p"),
            _set("nodes", "c", to=_node(title="New", order=0.5)),
            _set("nodes", "a", "title", to="First"),
            _set("nodes", "a", "position", to={"x": 7.5, "y": -3}),
            _set("nodes", "a", "retries", to=3),
            _set("nodes", "a", "timeout_s", to=1.5),
            _set("nodes", "a", "params", "text", to="${q}"),
            _remove("nodes", "a", "params", "steps"),
            _set("nodes", "a", "ui", "colour", to="red"),
            _remove("edges", "a.out->b.first"),
            _set("edges", "c.out->b.first", to={"source": "c.out", "target": "b.first", "order": 0}),
        ],
    )
    pipeline = doc_to_pipeline(after)
    assert [n.id for n in pipeline.nodes] == ["a", "c", "b"]
    assert pipeline.nodes[0] == Node(
        id="a", type="Make", title="First", params={"text": "${q}"}, position=Position(x=7.5, y=-3), retries=3,
        timeout_s=1.5, ui={"colour": "red"},
    )  # fmt: skip
    assert [(e.source, e.target) for e in pipeline.edges] == [("c.out", "b.first")]
    assert pipeline.parameters == {"q": PipelineParameter(value=[1, "x"], help="h")}
    assert (pipeline.description, pipeline.ui) == ("what it does", {"zoom": 2})
    assert apply(after, [_remove("nodes", "c"), _remove("ui", "zoom")]).nodes.keys() == {"a", "b"}


def test_an_op_in_a_node_that_is_gone_does_nothing(doc: Doc) -> None:
    gone = apply(doc, [_remove("nodes", "a")])
    for op in (
        _set("nodes", "a", "title", to="x"),
        _set("nodes", "a", "params", "text", to="x"),
        _remove("nodes", "a", "params", "text"),
        _remove("nodes", "a"),
        _remove("edges", "none->none"),
        _remove("parameters", "none"),
    ):
        assert apply(gone, [op]) == gone


def test_a_doc_is_never_changed_in_place_and_untouched_parts_are_shared(doc: Doc) -> None:
    before = doc.model_dump_json()
    after = apply(doc, [_set("nodes", "a", "params", "text", to="y")])
    assert doc.model_dump_json() == before
    assert after.nodes["b"] is doc.nodes["b"]
    assert after.edges is doc.edges


DEEP: Any = "x"
for _ in range(200):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (_set(to=1), "nothing at the top"),
        (_set("name", to="x"), "nothing at name"),
        (_set("nodes", to={}), "nothing at nodes"),
        (_set("nodes", "a", "params", "x", "y", to=1), "nothing at nodes/a/params/x/y"),
        (_set("nodes", "a", "colour", to=1), "nothing at colour"),
        (_remove("nodes", "a", "title"), "nothing at title"),
        (_remove("description"), "nothing at description"),
        (_set("nodes", "../up", to=_node()), "'../up' cannot be a node's id"),
        (_set("nodes", "a\n", to=_node()), "cannot be a node's id"),
        (_set("nodes", "", to=_node()), "cannot be a node's id"),
        (_set("nodes", "A", to=_node()), "only by case"),
        (_set("nodes", "c", to={"type": "Make"}), "c: version: Field required"),
        (_set("nodes", "c", to=_node(order=float("nan"))), "NaN"),
        (_set("nodes", "a", "retries", to=101), "retries"),
        (_set("nodes", "a", "retries", to="many"), "retries"),
        (_set("nodes", "a", "timeout_s", to=0), "timeout_s"),
        (_set("nodes", "a", "position", to={"x": float("inf"), "y": 0}), "NaN and infinity"),
        (_set("nodes", "a", "params", "text", to=float("nan")), "NaN and infinity"),
        (_set("nodes", "a", "params", "text", to=["half a smile: \ud83d"]), "broken character"),
        (_set("nodes", "a", "params", "\ud83d", to=1), "broken character"),
        (_set("nodes", "a", "title", to="\ud83d"), "broken character"),
        (_set("description", to=7), "is text"),
        (_set("parameters", "1st", to={"value": 1, "help": ""}), "cannot be the name of a parameter"),
        (_set("parameters", "x\n", to={"value": 1, "help": ""}), "cannot be the name of a parameter"),
        (_set("edges", "a->b", to={"source": "a", "target": "b", "order": 0}), "the wire"),
        (_set("edges", "x", to={"source": "a.out", "target": "b.first", "order": 0}), "another name"),
        (_set("edges", "a.o->b.i#1", to={"source": "a.o", "target": "b.i", "order": 0}), "another name"),
    ],
)
def test_an_op_that_would_leave_no_valid_pipeline_is_refused(doc: Doc, op: Op, expected: str) -> None:
    with pytest.raises(PipelineError) as caught:
        apply(doc, [op])
    assert expected in caught.value.line()


def test_what_is_nested_too_deeply_is_refused(doc: Doc) -> None:
    op = Op.model_construct(path=["ui", "deep"], value=DEEP, remove=False)
    with pytest.raises(PipelineError, match="nested too deeply"):
        apply(doc, [op])


paths = st.sampled_from(
    [
        ["description"], ["ui", "k"], ["parameters", "p"], ["parameters", "P P"], ["edges", "a.out->b.first"],
        ["edges", "a.out->b.first#2"], ["nodes", "a"], ["nodes", "b"], ["nodes", "A"], ["nodes", "c"],
        ["nodes", "a", "title"], ["nodes", "a", "position"], ["nodes", "a", "retries"], ["nodes", "a", "timeout_s"],
        ["nodes", "a", "order"], ["nodes", "a", "version"], ["nodes", "b", "params", "x"], ["nodes", "b", "params"],
        ["nodes", "zz", "title"], ["name"], [],
    ]
)  # fmt: skip
values = (
    value
    | st.just(_node())
    | st.just({"source": "a.out", "target": "b.first", "order": 1.5})
    | st.just({"value": 1, "help": ""})
    | st.just({"x": 1e308, "y": 0})
    | st.floats()
)


@pytest.mark.slow
@given(st.lists(st.builds(Op, path=paths, value=values, remove=st.booleans()), max_size=12))
def test_whatever_is_applied_the_doc_can_be_written_and_read(ops: list[Op]) -> None:
    doc = pipeline_to_doc(Pipeline(name="d", nodes=(Node(id="a", type="T"), Node(id="b", type="T"))))
    for op in ops:
        try:
            doc = apply(doc, [op])
        except PipelineError:
            continue
        json.loads(dump(doc_to_pipeline(doc)).encode())
        sent = doc.model_dump(mode="json")
        assert Doc.model_validate_json(json.dumps(sent)).model_dump(mode="json") == sent


# --- names and ids -----------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "..",
    ".",
    ".hidden",
    "a/b\\c:d",
    "say \"hi\" & 'bye'",
    "x" * 300,
    "ü" * 300,
    "مرحبا بالعالم",
    "שלום \u202e gnp.exe",
    "नमस्ते",
    "🙂🙃",
    "CON",
    "a.schema",
    "-rf",
    "$(rm -rf ~)",
    "new\nline\ttab\0null",
    "   ",
    "İstanbul",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_gives_a_file_of_the_folder(name: str, tmp_path: Path) -> None:
    stem = document_id(name, set())
    assert is_document_id(stem)
    assert not set(stem) & set("/\\. <>:\"'$&\0\n\t")
    assert not stem.startswith("-")
    assert len(stem.encode()) <= MAX_STEM_BYTES
    (tmp_path / f"{stem}.json").write_text("")
    assert [p.name for p in tmp_path.iterdir()] == [f"{stem}.json"]


@given(st.text(max_size=400), st.sets(st.text(max_size=5), max_size=4))
def test_whatever_the_name_its_id_is_safe_new_and_short(name: str, taken: set[str]) -> None:
    stem = document_id(name, taken)
    assert is_document_id(stem)
    assert len(stem.encode()) <= MAX_STEM_BYTES
    assert stem.casefold() not in {t.casefold() for t in taken}
    assert slug(stem) == slug(slug(stem))


def test_ids_read_like_names_and_differ_in_more_than_case() -> None:
    assert document_id("Volumes to ResNet (2024)", set()) == "volumes-to-resnet-2024"
    assert document_id("Größe", set()) == "größe"
    assert document_id("Test", {"TEST", "test-2"}) == "test-3"
    long = "x" * 300
    second = document_id(long, {"x" * MAX_STEM_BYTES})
    assert second == "x" * (MAX_STEM_BYTES - 2) + "-2"


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a/b", "../a", ".a", "a\\b", "a\0", "pipeline.schema", "\udc80", "x" * 251]
)
def test_what_is_no_document_is_refused(text: str) -> None:
    assert not is_document_id(text)


def test_a_name_that_is_taken_gets_a_number() -> None:
    assert free_name("a", set()) == "a"
    assert free_name("a", {"a", "a 2"}) == "a 3"
    assert len(free_name("y" * MAX_NAME, {"y" * MAX_NAME})) <= MAX_NAME
