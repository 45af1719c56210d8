"""Laws of the lineage: each thing once, no cycles, nothing lost by a filter, stale exactly where the plan says so."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from building import box, pipeline
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import examples
from pretended_results import pretend
from stored_results import stored_result

from engine.catalog import Catalog, build_catalog
from engine.declare.datasets import Predictions, Report, VolumeDelta, VolumeFiles
from engine.document.pipeline import Node, Pipeline, dump
from engine.document.plan import downstream
from engine.document.resolve import resolve
from engine.lineage import FILE, FOLDER, REGISTERED, Lineage, Verdicts, build, judge, read_lineage
from engine.run.launch import prepare
from engine.storage.workspace_paths import WorkspacePaths
from engine.store.results import Result, Use
from engine.store.runs import RunStore
from engine.workspace import Workspace, open_workspace, trust


def made(name: str, inputs: Iterable[str] = (), **more: Any) -> Result:
    """A result of these inputs, each `FINGERPRINT.PORT`. `source` is a folder that it read."""
    identity: dict[str, Any] = {"inputs": {f"in{i}": text for i, text in enumerate(inputs)}}
    source, digest = more.pop("source", ""), more.pop("digest", "d1")
    if source:
        identity |= {"params": {"path": source}, "files": {"path": digest}}
    outputs = more.pop("outputs", {"out": Report(uri=f"/out/{name}")})
    return stored_result(name, identity=identity, outputs=outputs, **more)


def table(version: int, uri: str = "/tables/t") -> VolumeDelta:
    return VolumeDelta(uri=uri, version=version, data_version=version, count=1, bytes=1)


def lineage(*results: Result, uses: Iterable[Use] = ()) -> Lineage:
    return Lineage(*build(results, uses))


def pairs(found: Lineage) -> set[tuple[str, str]]:
    return {(found.items[link.source].title, found.items[link.target].title) for link in found.links}


@st.composite
def histories(draw: st.DrawFn) -> list[Result]:
    """Results in any order, of which some are gone, some came to the same data, and some read what others wrote."""
    out = []
    for i in range(draw(st.integers(1, 12))):
        before = draw(st.lists(st.integers(0, max(0, i - 1)), max_size=3, unique=True)) if i else []
        # Few places and versions: the same data comes about often, also from what was made of it.
        dataset = draw(st.sampled_from([Report(uri=f"/out/{i}"), table(draw(st.integers(0, 2)))]))
        source = draw(st.sampled_from(["", "/data/a", "/tables/t", "/out/0"]))
        out.append(
            made(
                f"f{i}", [f"f{b}.out" for b in before], outputs={"out": dataset}, source=source, node=f"n{i % 4}",
                created=draw(st.floats(0, 100)), digest=draw(st.sampled_from(["d1", "7-7"])),
            )
        )  # fmt: skip
    gone = draw(st.sets(st.integers(0, len(out) - 1), max_size=min(2, len(out) - 1)))
    return draw(st.permutations([result for i, result in enumerate(out) if i not in gone]))


@pytest.mark.slow
@given(histories())
def test_each_thing_stands_once_and_no_way_leads_back(results: list[Result]) -> None:
    found = lineage(*results)
    assert all(item.id == key for key, item in found.items.items())
    for link in found.links:
        assert found.levels[link.source] < found.levels[link.target]
    assert len({(link.source, link.target) for link in found.links}) == len(found.links)
    assert sorted(found.order) == sorted(found.items)
    origins = [(o.fingerprint, o.port) for item in found.items.values() for o in item.origins if not item.removed]
    assert sorted(origins) == sorted((result.fingerprint, port) for result in results for port in result.outputs)


@pytest.mark.slow
@given(histories())
def test_the_order_of_the_results_changes_nothing(results: list[Result]) -> None:
    first, second = lineage(*results), lineage(*reversed(results))
    assert first.items == second.items
    assert set(first.links) == set(second.links)


@pytest.mark.slow
@given(histories(), st.data())
def test_filters_keep_what_comes_from_what(results: list[Result], data: st.DataObject) -> None:
    found = lineage(*results)
    kinds = data.draw(st.sets(st.sampled_from(sorted({item.kind for item in found.items.values()}))))
    kept = found.of_kinds(kinds)
    assert set(kept.items) == {key for key, item in found.items.items() if not kinds or item.kind in kinds}
    for key in kept.items:
        assert set(kept.leading_to(key).items) == set(found.leading_to(key).items) & set(kept.items)
    item = data.draw(st.sampled_from(sorted(found.items)))
    assert {key for key in found.items if item in found.leading_to(key).items} == set(found.made_from(item).items)
    assert len(found.newest(3).items) == min(3, len(found.items))
    assert found.leading_to("gone").items == {}


def test_the_way_from_a_folder_to_a_registered_version_crosses_pipelines() -> None:
    figures: dict[str, float | int | str] = {"name": "volumes", "version": "3", "alias": "champion"}
    listed = VolumeFiles(uri="/data/v", count=2, bytes=2, manifest="/m")
    found = lineage(
        made("read", source="/data/v", outputs={"out": listed}),
        made("table", ["read.out"], outputs={"out": table(4)}),
        made("model", ["table.out"], node="train", pipeline="training"),
        made("register", ["model.out"], outputs={"out": Report(uri="/r", figures=figures)}, pipeline="use"),
        uses=[Use("table", "training", "r2", 5.0, "again", "Build table", "Make", {})],
    )
    assert [found.items[key].title for key in found.order] == ["v", "v", "t, version 4", "model", "volumes, version 3"]
    assert [found.items[key].kind for key in found.order] == [
        FOLDER,
        "VolumeFiles",
        "VolumeDelta",
        "Report",
        REGISTERED,
    ]
    by_title = {item.title: item for item in found.items.values()}
    assert by_title["t, version 4"].pipelines == ("p", "training")
    assert pairs(found.of_kinds([FOLDER, REGISTERED])) == {("v", "volumes, version 3")}


def test_a_table_that_an_optimization_left_as_it_was_is_one_item() -> None:
    found = lineage(
        made("ingest", outputs={"out": table(1)}, created=1.0),
        made("optimize", ["ingest.out"], outputs={"out": table(1)}, created=2.0),
        made("model", ["optimize.out"]),
    )
    assert pairs(found) == {("t, version 1", "model")}
    kept = next(item for item in found.items.values() if item.dataset == table(1))
    assert [origin.fingerprint for origin in kept.origins] == ["ingest", "optimize"]


def test_a_folder_that_a_node_wrote_comes_from_there_and_a_file_is_no_folder() -> None:
    found = lineage(
        made("make", outputs={"out": Report(uri="/data/made")}, created=1.0),
        made("read", source="/data/made", created=2.0),
        made("before", source="/data/made", digest="d0", created=0.5),
        made("labels", source="/data/labels.csv", digest="77-1234", created=3.0),
    )
    assert ("made", "made") in pairs(found)
    assert len(pairs(found)) == 4
    assert {item.kind for item in found.items.values() if item.place == "/data/labels.csv"} == {FILE}
    assert sum(item.kind == FOLDER for item in found.items.values()) == 2, "one for each time its files were others"


def test_what_is_gone_is_named_by_its_last_use() -> None:
    use = Use("old", "p", "r", 3.0, "n", "Build table", "Make", {"out": table(2)})
    found = lineage(made("model", ["old.out", "older.out"], created=4.0), uses=[use])
    removed = {item.title for item in found.items.values() if item.removed}
    assert removed == {"t, version 2", "removed"}
    assert {found.state(key, Verdicts())[0] for key, item in found.items.items() if item.removed} == {"removed"}
    there = made("same", outputs={"out": table(2)}, created=1.0)
    assert not any(item.removed for item in lineage(made("model", ["old.out"]), there, uses=[use]).items.values())


def test_the_results_of_one_node_follow_one_another() -> None:
    found = lineage(made("one", node="n", created=1.0), made("two", node="n", created=2.0), made("x", source="/s"))
    verdicts = Verdicts(frozenset({"two"}))
    states = {item.title: found.state(key, verdicts)[0] for key, item in found.items.items()}
    assert states == {"one": "older", "two": "current", "x": "unknown", "s": "source"}
    (one,) = (key for key, item in found.items.items() if item.title == "one")
    for part in (found.leading_to(one), found.of_kinds({found.items[one].kind}).leading_to(one)):
        assert [(item.title, part.state(key, verdicts)[0]) for key, item in part.items.items()] == [("one", "older")]


def test_results_in_folders_of_hashes_are_named_after_their_nodes() -> None:
    deep = Predictions(uri="/w/data/Predict/0123456789abcdef/table", count=1, bytes=1, version=5, model="m")
    use = Use("f", "p", "r", 1.0, "n", "Ask the model", "Predict", {})
    (item,) = lineage(made("f", outputs={"out": deep}), uses=[use]).items.values()
    assert item.title == "Ask the model, version 5"


def test_nodes_are_called_as_on_the_canvas(store: RunStore) -> None:
    document = pipeline(
        Node(id="a", type="Predict"), Node(id="b", type="Predict"), Node(id="c", type="Check"),
        Node(id="d", type="Check", title="d"), name="p",
    )  # fmt: skip
    run_id = store.create_run("p", dump(document), {}, "local")
    store.set_tasks(run_id, [(node.id, node.type, node.label) for node in document.nodes])
    for at, node in enumerate(document.nodes):
        made_of = {"out": Report(uri=f"/w/data/{node.type}/{at:016x}/out")}
        store.results.put(
            stored_result(node.id, node_type=node.type, run_id=run_id, created=float(at), outputs=made_of)
        )
        store.update_task(run_id, node.id, state="done", fingerprint=node.id, outputs=made_of)
    found = read_lineage(store)
    names = {"a": "Predict (a)", "b": "Predict (b)", "c": "Check", "d": "d"}
    assert {item.origins[0].node: item.title for item in found.items.values()} == names
    assert {item.origins[0].node: item.origins[0].name for item in found.items.values()} == names
    # Where no run's document says it: the title, or the type where that is the id.
    for title, called in (("Ask", "Ask"), ("n", "Predict"), ("", "Predict")):
        use = Use("f", "p", "r", 1.0, "n", title, "Predict", {})
        hashed = made("f", outputs={"out": Report(uri="/w/data/Predict/0123456789abcdef/out")}, node_type="Predict")
        (item,) = lineage(hashed, uses=[use]).items.values()
        assert (item.title, item.origins[0].name) == (called, called)


def test_a_result_is_made_by_the_node_of_the_pipeline_that_made_it(store: RunStore) -> None:
    """Whatever another one that takes it from the cache calls its own node."""
    made_of = {"out": Report(uri="/w/data/Predict/0123456789abcdef/out")}
    for name, title, state in (("first", "Baseline", "done"), ("second", "Ablation", "cached")):
        document = pipeline(Node(id="a", type="Predict", title=title), name=name)
        run_id = store.create_run(name, dump(document), {}, "local")
        store.set_tasks(run_id, [("a", "Predict", title)])
        if state == "done":
            made_by = stored_result("f", node="a", node_type="Predict", run_id=run_id, pipeline=name, outputs=made_of)
            store.results.put(made_by)
        store.update_task(run_id, "a", state=state, fingerprint="f", outputs=made_of)
    (item,) = read_lineage(store).items.values()
    assert (item.origins[0].name, item.origins[0].pipeline) == ("Baseline", "first")


def test_the_parts_of_a_split_differ_by_the_beginning_of_their_names() -> None:
    parts = {name: table(4).model_copy(update={"count": count}) for count, name in enumerate(("train", "test"))}
    found = lineage(made("split", outputs=parts), made("model", ["split.train"]))
    titles = {item.title for item in found.items.values() if item.kind == "VolumeDelta"}
    assert titles == {"train of t, version 4", "test of t, version 4"}


def test_a_plan_that_uses_a_result_outweighs_one_that_does_not() -> None:
    one, other = Verdicts(frozenset("a"), {"b": "changed"}), Verdicts(frozenset("b"), {"a": "changed", "c": "why"})
    assert one | other == Verdicts(frozenset("ab"), {"c": "why"}) == other | one


@st.composite
def chains(draw: st.DrawFn) -> tuple[Pipeline, str]:
    """A pipeline, and one of its nodes."""
    size = draw(st.integers(1, 6))
    wires = " ".join(f"n{draw(st.integers(0, i - 1))}.out>n{i}.first" for i in range(1, size) if draw(st.booleans()))
    entered = {text.partition(">")[2].partition(".")[0] for text in wires.split()}
    boxes = [box(f"n{i}", "Join") if f"n{i}" in entered else box(f"n{i}", "Make", text=f"t{i}") for i in range(size)]
    roots = [b.id for b in boxes if b.type == "Make"]
    return pipeline(*boxes, wires=wires, name="g"), draw(st.sampled_from(roots))


_numbers = itertools.count()
_PROBES = Path(__file__).parents[1] / "support" / "probes.py"


@given(chains())
@settings(max_examples=examples(20))
def test_stale_is_what_the_plan_makes_again_and_nothing_else(
    probes_everywhere: tuple[Catalog, Path], drawn: tuple[Pipeline, str]
) -> None:
    catalog, folder = probes_everywhere
    document, changed = drawn
    workspace = open_workspace(folder / f"w{next(_numbers)}")
    store = RunStore(workspace)
    before = prepare(document, catalog, workspace, store).plan
    pretend(before, workspace, store)
    nodes = tuple(n.model_copy(update={"params": {"text": "new"}}) if n.id == changed else n for n in document.nodes)
    edited = document.model_copy(update={"nodes": nodes})
    ready = prepare(edited, catalog, workspace, store)
    found, verdicts = read_lineage(store), judge(ready.plan, ready.observation)
    states = {item.origins[0].fingerprint: found.state(key, verdicts) for key, item in found.items.items()}
    # Nodes that do the same work have the same result.
    made_by = {task.node: task.identity.fingerprint for task in before.tasks}
    again = {made_by[node] for node in downstream(resolve(document, catalog), changed)}
    assert {f for f, (state, _) in states.items() if state == "stale"} == again
    assert {f for f, (state, _) in states.items() if state == "current"} == set(states) - again
    reasons = {(made_by[task.node], task.reason) for task in ready.plan.to_run}
    assert {(f, why) for f, (state, why) in states.items() if state == "stale"} == reasons
    store.close()


@pytest.fixture(scope="module")
def probes_everywhere(tmp_path_factory: pytest.TempPathFactory) -> tuple[Catalog, Path]:
    folder = tmp_path_factory.mktemp("lineage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        workspace = open_workspace(folder / "nodes")
        (workspace.my_nodes / "probes.py").write_text(_PROBES.read_text())
        trust(workspace)
        return build_catalog((), workspace), folder


def test_of_thousands_of_results_the_newest_are_read_and_all_that_they_come_from(store: RunStore) -> None:
    run_id = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run_id, [("n19", "Make", "Nineteen")])
    store.update_task(run_id, "n19", fingerprint="f19", state="done")
    for i in range(20):
        before = [f"f{i - 1}.out"] if i else ["gone.out"]
        store.results.put(made(f"f{i}", before, created=float(i), used=float(i), pipeline="q"))
    found = read_lineage(store, limit=2)
    assert (found.read, found.known, len(found.items)) == (2, 20, 21)
    of_p = read_lineage(store, "p", limit=5)
    assert (of_p.read, of_p.known, len(of_p.items)) == (1, 1, 21)
    assert read_lineage(store, "no such pipeline").items == {}
    assert store.latest_pipelines(5) == ["p"]


def test_sources_inside_the_workspace_are_shown_where_they_lie(workspace: Workspace, store: RunStore) -> None:
    inside = str(workspace.root / "raw")
    for paths in (store.paths, WorkspacePaths(workspace.root, identified_at="/earlier")):
        assert paths.located(paths.identified(inside)) == inside
        assert paths.located("/elsewhere/raw") == "/elsewhere/raw"
    store.results.put(made("f", source=store.paths.identified(inside)))
    assert inside in {item.place for item in read_lineage(store).items.values()}
