from __future__ import annotations

import json
from pathlib import Path

import pytest
from any_pipelines import pipelines
from hypothesis import given

from engine.document.pipeline import (
    Pipeline,
    dump,
    json_schema,
    load,
    read_pipeline,
    references,
    substitute,
    write_pipeline,
)
from engine.errors import PipelineError


@pytest.mark.slow
@given(pipelines)
def test_load_of_dump_is_the_same_document(pipeline: Pipeline) -> None:
    written = dump(pipeline)
    assert load(written) == pipeline
    assert dump(load(written)) == written
    assert written.endswith("}\n")


def test_unknown_node_types_keep_parameters_and_edges() -> None:
    document = load(
        json.dumps(
            {
                "name": "later",
                "nodes": [{"id": "a", "type": "FromTheFuture", "params": {"deep": {"x": [1, 2]}}}],
                "edges": [{"from": "a.out", "to": "gone.in"}],
            }
        )
    )
    again = load(dump(document))
    assert again.nodes[0].params == {"deep": {"x": [1, 2]}}
    assert again.edges[0].target == "gone.in"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{", "line 1"),
        ("[]", "top level must be an object"),
        ('{"name": "x", "nodez": []}', "nodez"),
        ('{"name": "x", "name": "y"}', "appears twice"),
        ('{"name": "x", "schema_version": 99}', "reads up to 1"),
        ('{"name": "x", "schema_version": 0}', "no release"),
        ('{"name": "x", "nodes": [{"id": "A", "type": "T"}, {"id": "a", "type": "T"}]}', "differ in more than case"),
        ('{"name": "x", "nodes": [{"id": "../up", "type": "T"}]}', "nodes.0.id"),
        ('{"name": "x", "nodes": [{"id": "a", "type": "T", "params": {"p": NaN}}]}', "NaN"),
        ('{"name": "x", "nodes": [{"id": "a", "type": "T", "position": {"x": Infinity}}]}', "nodes.0.position.x"),
        ('{"name": "x", "nodes": [{"id": "a", "type": "T", "timeout_s": NaN}]}', "nodes.0.timeout_s"),
        (r'{"name": "half a smile: \ud83d"}', "surrogates not allowed"),
        ('{"name": "x", "edges": [{"from": "a", "to": "b.c"}]}', "edges.0.from"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_the_error_for_a_bad_document_names_the_place(written: str | bytes, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        load(written, "my.json")
    assert "my.json" in caught.value.line()
    assert message in caught.value.line()


@pytest.mark.parametrize("brackets", ["[]", '{"a":}'], ids=["lists", "objects"])
@pytest.mark.parametrize("count", [249, 300, 985, 100_000])
def test_a_document_that_nests_too_deep_is_refused_in_few_words(brackets: str, count: int) -> None:
    """Pydantic says "cyclic reference", with a path of 255 steps, or Python that it is no JSON."""
    nested = brackets[:-1] * count + "1" + brackets[-1] * count
    with pytest.raises(PipelineError) as caught:
        load(f'{{"name": "x", "ui": {{"a": {nested}}}}}', "my.json")
    assert caught.value.message == "my.json is not a pipeline: more than 250 lists and objects lie within one another"


def test_equal_documents_give_equal_bytes() -> None:
    values = {"b": 1, "a": [{"d": 1, "c": 2}]}, {"a": [{"c": 2, "d": 1}], "b": 1}
    one, other = (load(json.dumps({"name": "x", "parameters": {"p": {"value": value}}})) for value in values)
    assert one == other
    assert dump(one) == dump(other)


def test_an_older_version_migrates_without_losing_an_edge() -> None:
    def renamed(raw: dict) -> dict:
        raw["edges"] = [{"from": e["source"], "to": e["target"]} for e in raw.pop("wires")]
        return raw

    old = {"schema_version": 0, "name": "old", "nodes": [], "wires": [{"source": "a.out", "target": "b.in"}]}
    document = load(json.dumps(old), migrations={0: renamed})
    assert [(e.source, e.target) for e in document.edges] == [("a.out", "b.in")]


def test_files_are_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    write_pipeline(Pipeline(name="ü"), path)
    assert read_pipeline(path).name == "ü"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(PipelineError, match="cannot be read"):
        read_pipeline(tmp_path / "none.json")


def test_references_take_the_value_with_its_type() -> None:
    values = {"n": 5, "folder": "/data"}
    assert substitute("${n}", values) == 5
    assert substitute("${folder}/a-${n}", values) == "/data/a-5"
    assert substitute("$${n}", values) == "${n}"
    assert substitute(["${n}", 1], values) == [5, 1]
    assert references(["${n}", "x${folder}", "$${other}"]) == {"n", "folder"}


def test_the_published_schema_is_the_models() -> None:
    published = Path(__file__).parents[3] / "pipelines" / "pipeline.schema.json"
    assert json.loads(published.read_text()) == json_schema(), (
        "run `voxelflow new --schema > pipelines/pipeline.schema.json`"
    )
