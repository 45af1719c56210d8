from __future__ import annotations

import json
from pathlib import Path

import pytest
from any_pipelines import pipelines
from building import box, pipeline
from hypothesis import given
from hypothesis import strategies as st

import voxelflow
from engine.catalog import Catalog
from engine.diagnostics import rules
from engine.document.checks import check
from engine.document.identity import identify
from engine.document.pipeline import Annotation, NodeMode, Pipeline, dump, json_schema, load
from engine.document.plan import Choice
from engine.document.resolve import Resolved, resolve
from engine.errors import UsageError
from engine.run.launch import prepare
from engine.store.runs import RunStore
from engine.workspace import Workspace


def with_modes(document: Pipeline, **modes: NodeMode) -> Pipeline:
    nodes = tuple(n.model_copy(update={"mode": modes.get(n.id, n.mode)}) for n in document.nodes)
    return document.model_copy(update={"nodes": nodes})


CHAIN = pipeline(
    box("a", "Make"), box("b", "Join"), box("c", "Join"), box("d", "Save"), box("other", "Make"),
    wires="a.out>b.first b.out>c.first c.out>d.first other.out>c.second",
)  # fmt: skip


def wires(resolved: Resolved) -> set[str]:
    return {f"{e.source}>{e.target}" for e in resolved.pipeline.edges}


def test_a_disabled_node_is_left_out_with_all_that_needs_it(probes: Catalog) -> None:
    resolved = resolve(with_modes(CHAIN, b="disabled"), probes)
    assert resolved.left_out == {
        "b": "is disabled",
        "c": "needs Join (b), which is disabled",
        "d": "needs Join (c), which is left out",
    }
    assert set(resolved.nodes) == set(resolved.order) == {"a", "other"}
    assert wires(resolved) == set()


def test_what_a_node_needs_has_the_name_that_the_canvas_shows(probes: Catalog) -> None:
    titled = CHAIN.model_copy(
        update={
            "nodes": tuple(n.model_copy(update={"title": "Both\nof it"} if n.id == "b" else {}) for n in CHAIN.nodes)
        }
    )
    left_out = resolve(with_modes(titled, b="disabled"), probes).left_out
    assert left_out["c"] == "needs Both of it, which is disabled"
    assert left_out["d"] == "needs Join, which is left out"


def test_an_optional_input_of_a_disabled_node_stays_open(probes: Catalog) -> None:
    resolved = resolve(with_modes(CHAIN, other="disabled"), probes)
    assert set(resolved.left_out) == {"other"}
    assert wires(resolved) == {"a.out>b.first", "b.out>c.first", "c.out>d.first"}


def test_a_bypassed_node_passes_its_input_through_over_any_number_of_them(probes: Catalog) -> None:
    resolved = resolve(with_modes(CHAIN, b="bypass", c="bypass"), probes)
    assert resolved.left_out == {"b": "is bypassed", "c": "is bypassed"}
    assert wires(resolved) == {"a.out>d.first"}
    # What is behind has the identity that it would have without them.
    short = pipeline(box("a", "Make"), box("d", "Save"), wires="a.out>d.first")
    assert identify(resolved, {})["d"].fingerprint == identify(resolve(short, probes), {})["d"].fingerprint


def test_a_bypass_without_an_input_to_pass_on_is_as_if_disabled(probes: Catalog) -> None:
    resolved = resolve(with_modes(CHAIN, a="bypass"), probes)
    assert resolved.left_out["b"] == "needs Make (a), which is bypassed and has no input that fits in its place"
    assert set(resolved.nodes) == {"other"}


def test_what_is_left_out_has_no_problems_but_is_reported(probes: Catalog) -> None:
    document = pipeline(box("a", "Make", steps=-1), box("b", "Nowhere"), wires="a.out>b.x")
    found = check(resolve(with_modes(document, a="disabled"), probes)).diagnostics
    assert {(d.code, d.node) for d in found} == {("VF108", None), ("VF114", "a"), ("VF114", "b")}
    assert rules.NodeLeftOut.severity == "info"


def test_the_plan_names_what_it_leaves_out(probes: Catalog, workspace: Workspace, store: RunStore) -> None:
    document = with_modes(CHAIN, b="bypass", other="disabled")
    made = prepare(document, probes, workspace, store).plan
    assert [t.node for t in made.tasks] == ["a", "c", "d"]
    assert set(made.left_out) == {"b", "other"}
    assert {d.node for d in made.diagnostics if d.code == "VF114"} == {"b", "other"}
    with pytest.raises(UsageError, match="b takes no part in a run: it is bypassed"):
        prepare(document, probes, workspace, store, choice=Choice(end="b"))


@pytest.mark.parametrize("mode", ["disabled", "bypass"])
def test_wires_to_nowhere_and_circles_are_no_trouble(probes: Catalog, mode: NodeMode) -> None:
    document = pipeline(
        box("a", "Join"), box("b", "Join"), box("c", "Lost"),
        wires="a.out>b.first b.out>a.first a.out>gone.x gone.out>a.second c.out>b.second",
    )  # fmt: skip
    for node in "abc":
        assert node in resolve(with_modes(document, **{node: mode}), probes).left_out


def test_what_stands_in_only_has_to_fit_where_it_goes() -> None:
    """A training reads Parquet files as well as a table."""
    document = pipeline(
        box("a", "VolumeFolder", folder="/x"), box("b", "NumpyToParquet"), box("c", "ParquetToDelta"),
        box("e", "TrainResNet3D"),
        wires="a.out>b.files b.out>c.parquet c.out>e.data",
    )  # fmt: skip
    catalog = voxelflow.catalog()
    assert wires(resolve(with_modes(document, c="bypass"), catalog)) == {"a.out>b.files", "b.out>e.data"}
    assert wires(resolve(with_modes(document, b="bypass", c="bypass"), catalog)) == {"a.out>e.data"}
    assert set(resolve(with_modes(document, b="bypass"), catalog).nodes) == {"a"}


@given(st.lists(st.sampled_from(["run", "disabled", "bypass"]), min_size=5, max_size=5))
def test_whatever_is_left_out_no_input_is_lost_or_wired_twice(modes: list[NodeMode]) -> None:
    catalog = voxelflow.catalog()
    document = pipeline(
        box("a", "VolumeFolder", folder="/x"), box("b", "NumpyToParquet"), box("c", "ParquetToDelta"),
        box("d", "OptimizeDelta"), box("e", "TrainResNet3D"),
        wires="a.out>b.files b.out>c.parquet c.out>d.table d.out>e.data",
    )  # fmt: skip
    resolved = resolve(with_modes(document, **dict(zip("abcde", modes, strict=True))), catalog)
    for name, mode in zip("abcde", modes, strict=True):
        assert (name in resolved.nodes) <= (mode == "run")
    for edge in resolved.pipeline.edges:
        assert edge.source_node in resolved.nodes
        assert edge.target_node in resolved.nodes
    targets = [e.target for e in resolved.pipeline.edges]
    assert len(targets) == len(set(targets))


# --- the document --------------------------------------------------------------------------------


def test_frames_notes_and_modes_change_no_document_without_them_and_no_fingerprint(probes: Catalog) -> None:
    before = dump(CHAIN)
    assert '"mode"' not in before
    assert '"annotations"' not in before
    frame = Annotation(id="frame", kind="frame", text="Input", colour="blue", width=500, height=300)
    drawn = CHAIN.model_copy(update={"annotations": (frame, Annotation(id="note", kind="note", text="so\nmany"))})
    assert load(dump(drawn)) == drawn
    assert identify(resolve(drawn, probes), {}) == identify(resolve(CHAIN, probes), {})
    assert check(resolve(drawn, probes)) == check(resolve(CHAIN, probes))


@pytest.mark.slow
@given(pipelines)
def test_a_mode_and_what_is_drawn_survive_the_file(document: Pipeline) -> None:
    changed = with_modes(document, **{n.id: "bypass" for n in document.nodes})
    assert load(dump(changed)) == changed


def test_the_schema_names_them(tmp_path: Path) -> None:
    schema = json.dumps(json_schema())
    for word in ('"annotations"', '"frame"', '"note"', '"bypass"', '"disabled"'):
        assert word in schema


@pytest.mark.parametrize(
    ("drawn", "said"),
    [
        ([{"id": "a", "kind": "cloud"}], "annotations.0.kind"),
        ([{"id": "a", "kind": "note", "width": 0}], "annotations.0.width"),
        ([{"id": "a", "kind": "note"}, {"id": "a", "kind": "note"}], "two annotations are called a"),
        ([{"id": "a b", "kind": "note"}], "annotations.0.id"),
    ],
)
def test_a_wrong_annotation_is_refused_with_its_place(drawn: list[dict[str, object]], said: str) -> None:
    with pytest.raises(Exception, match=said.replace(".", r"\.")):
        load(json.dumps({"name": "x", "annotations": drawn}))
