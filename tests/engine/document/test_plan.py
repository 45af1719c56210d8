from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from building import box, pipeline
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import examples
from pretended_results import pretend

from engine.catalog import Catalog
from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview
from engine.declare.parameters import Needs
from engine.diagnostics.rule import CheckFailed
from engine.diagnostics.rules import PackageMissing
from engine.document.identity import identify, identity_of
from engine.document.pipeline import Edge, Pipeline
from engine.document.plan import Choice, Plan, PlannedTask
from engine.document.resolve import resolve, topological_order
from engine.errors import UsageError
from engine.observe.results import write_sizes
from engine.profiles import Profile
from engine.run.launch import prepare
from engine.store.runs import RunStore
from engine.workspace import Workspace
from nodes.split_dataset import split_dataset
from voxelflow import Dataset, Report, VolumeFiles


class Planner:
    """Plans against a store that the test fills as if runs had been."""

    def __init__(self, catalog: Catalog, workspace: Workspace, store: RunStore) -> None:
        self.catalog, self.workspace, self.store = catalog, workspace, store

    def plan(self, document: Pipeline, **choice) -> Plan:
        return prepare(document, self.catalog, self.workspace, self.store, choice=Choice(**choice)).plan

    def pretend(self, document: Pipeline) -> Plan:
        """Record a run of the whole document, without running anything."""
        plan = self.plan(document)

        def made(task: PlannedTask, out: Path) -> Dataset:
            listing = next(iter(task.listings.values()), None)
            return VolumeFiles(uri=str(out), count=1, bytes=1, manifest=listing) if listing else Report(uri=str(out))

        pretend(plan, self.workspace, self.store, made)
        return plan


@pytest.fixture
def planner(probes: Catalog, workspace: Workspace, store: RunStore) -> Planner:
    return Planner(probes, workspace, store)


def _why(plan: Plan) -> dict[str, str]:
    return {t.node: t.reason for t in plan.tasks if t.action == "run"}


def two(**params) -> Pipeline:
    return pipeline(box("a", "Make", **params), box("b", "Join"), wires="a.out>b.first")


def test_a_first_run_runs_everything_and_a_second_nothing(planner: Planner) -> None:
    assert _why(planner.pretend(two())) == {"a": "never ran before", "b": "never ran before"}
    again = planner.plan(two())
    assert _why(again) == {}
    assert {t.reason for t in again.tasks} == {"up to date"}


def test_never_ran_before_is_given_only_for_what_never_ran(planner: Planner) -> None:
    """Results removed, a failure, a cancel, a lost run, another pipeline: each is given instead."""
    store = planner.store

    def ended(state: str, name: str = "p") -> None:
        run_id = store.create_run(name, "{}", {}, "local")
        store.set_tasks(run_id, [("a", "Make", "A"), ("b", "Join", "B")])
        store.update_task(run_id, "a", state=state, attempt=1)
        store.update_task(run_id, "b", state="skipped")
        store.finish_run(run_id, "failed")

    document = two().model_copy(update={"name": "p"})
    other = document.model_copy(update={"name": "other"})
    reasons = {"failed": "failed", "cancelled": "was cancelled", "running": "was interrupted"}
    for state, what in reasons.items():
        ended(state)
        assert _why(planner.plan(document)) == {"a": f"{what} when it last ran", "b": "never ran before"}
    # Known by its id alone: what the other pipeline does with it may be something else.
    assert _why(planner.plan(other))["a"] == "has not run in this pipeline yet, only in p"
    planner.pretend(document)
    assert _why(planner.plan(other)) == {}
    store.results.forget([result.fingerprint for result in store.results.all()])
    removed = "its result was removed"
    assert _why(planner.plan(document)) == {"a": removed, "b": removed}
    assert _why(planner.plan(other)) == {"a": removed, "b": removed}
    fresh = other.model_copy(update={"nodes": (box("a", "Make", text="more"), *other.nodes[1:])})
    assert _why(planner.plan(fresh))["a"] == "has not run in this pipeline yet, only in p"


def test_a_changed_parameter_is_named_and_only_what_depends_on_it_runs(planner: Planner) -> None:
    document = pipeline(
        box("a", "Make"), box("b", "Join"), box("c", "Make", text="c"), box("d", "Join"),
        wires="a.out>b.first c.out>d.first",
    )  # fmt: skip
    planner.pretend(document)
    changed = document.model_copy(update={"nodes": (box("a", "Make", text="new"), *document.nodes[1:])})
    assert _why(planner.plan(changed)) == {"a": "parameter text changed made -> new", "b": "input first changed"}


def test_the_default_of_a_parameter_that_was_added_later_is_named(planner: Planner) -> None:
    """No identity contains it, so that older results stay valid."""
    make = planner.catalog.find("Make")
    make.parameters = tuple(replace(p, added=p.name == "text") for p in make.parameters)
    planner.pretend(two())
    assert _why(planner.plan(two(text="new")))["a"] == "parameter text changed made -> new"
    planner.pretend(two(text="new"))
    older = [r.fingerprint for r in planner.store.results.all() if "text" not in r.identity["params"]]
    planner.store.results.forget(older)
    assert _why(planner.plan(two()))["a"] == "parameter text changed new -> made"
    assert _why(planner.plan(two(steps=5)))["a"] == "parameter steps changed 1 -> 5; parameter text changed new -> made"


def test_policy_and_titles_change_nothing(planner: Planner) -> None:
    planner.pretend(two())
    other = two(step_s=3.5)
    renamed = other.model_copy(
        update={"nodes": (other.nodes[0].model_copy(update={"title": "New name", "retries": 3}), other.nodes[1])}
    )
    assert _why(planner.plan(renamed)) == {}


def test_a_folder_that_gained_files_says_so(planner: Planner, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    for i in range(5):
        (folder / "sub" / f"{i}.txt").write_text("x")
    document = pipeline(box("a", "Count", folder=str(folder)))
    first = planner.pretend(document)
    assert _why(planner.plan(document)) == {}
    for i in range(20):
        (folder / f"new{i}.txt").write_text("x")
    (folder / "sub" / "0.txt").unlink()
    (folder / "sub" / "1.txt").write_text("longer")
    (folder / "ignored.csv").write_text("x")
    again = planner.plan(document)
    assert _why(again) == {"a": "folder gained 20 files, lost 1 file, changed 1 file"}
    assert again.tasks[0].shared == first.tasks[0].shared
    assert again.tasks[0].out != first.tasks[0].out
    previous = again.tasks[0].previous["out"]
    assert previous.manifest == first.tasks[0].listings["folder"]


def test_a_removed_result_runs_again_but_not_when_nothing_needs_it(planner: Planner) -> None:
    import shutil

    plan = planner.pretend(two())
    shutil.rmtree(planner.workspace.data / plan.task("a").out)
    again = planner.plan(two())
    assert _why(again) == {}
    assert again.task("a").reason == "not needed: what follows is up to date"
    shutil.rmtree(planner.workspace.data / plan.task("b").out)
    why = _why(planner.plan(two()))
    assert set(why) == {"a", "b"}
    assert "is gone" in why["a"]


def test_a_damaged_result_runs_again_also_when_what_follows_stands(planner: Planner) -> None:
    plan = planner.pretend(two())
    out = planner.workspace.data / plan.task("a").out
    (out / "report.html").write_text("a page")
    (result,) = (r for r in planner.store.results.all() if r.node == "a")
    write_sizes(out, result.outputs)
    assert _why(planner.plan(two())) == {}
    (out / "report.html").write_text("")
    assert _why(planner.plan(two())) == {
        "a": f"its result is no longer usable: {out / 'report.html'} has 0 bytes, not 6"
    }


def test_more_epochs_extend_and_fewer_start_anew(planner: Planner) -> None:
    planner.pretend(pipeline(box("a", "Grow", epochs=3)))
    planner.pretend(pipeline(box("a", "Grow", epochs=5)))
    longer = planner.plan(pipeline(box("a", "Grow", epochs=8)))
    assert _why(longer) == {"a": "parameter epochs changed 5 -> 8"}
    assert longer.tasks[0].extends["out"].uri.endswith(planner.plan(pipeline(box("a", "Grow", epochs=5))).tasks[0].out)
    assert planner.plan(pipeline(box("a", "Grow", epochs=2))).tasks[0].extends == {}


def test_from_to_and_fresh(planner: Planner) -> None:
    document = pipeline(
        box("a", "Make"), box("b", "Join"), box("c", "Join"), box("x", "Make", text="x"),
        wires="a.out>b.first b.out>c.first",
    )  # fmt: skip
    planner.pretend(document)
    assert _why(planner.plan(document, start="b")) == {"b": "asked for", "c": "asked for"}
    only = planner.plan(document, end="b")
    assert [t.node for t in only.tasks] == ["a", "b"]
    assert set(only.left_out) == {"c", "x"}
    fresh = planner.plan(document, fresh=True)
    assert set(_why(fresh)) == {"a", "b", "c", "x"}
    assert all(t.previous == {} and t.extends == {} for t in fresh.tasks)
    both = planner.plan(document, fresh=True, start="b")
    assert set(_why(both)) == {"a", "b", "c"}, "a cached result would not be ignored"
    assert set(both.left_out) == {"x"}
    with pytest.raises(UsageError, match="no node nothing"):
        planner.plan(document, start="nothing")
    with pytest.raises(UsageError, match="does not lead"):
        planner.plan(document, start="x", end="b")


def test_problems_of_nodes_not_asked_for_do_not_stop_a_run(planner: Planner) -> None:
    document = pipeline(box("a", "Make"), box("bad", "Make", steps=-5))
    with pytest.raises(CheckFailed) as caught:
        planner.plan(document)
    assert [d.code for d in caught.value.diagnostics] == ["VF203"]
    assert [t.node for t in planner.plan(document, end="a").tasks] == ["a"]


def test_a_cycle_stops_every_run_that_would_pass_it_over(planner: Planner) -> None:
    """What waits for it was once left out, and the run was done without a word."""
    document = pipeline(
        box("a", "Make"), box("b", "Join"), box("c", "Join"), box("d", "Join"), box("p", "Join"), box("q", "Join"),
        wires="a.out>b.first c.out>b.second b.out>c.first c.out>d.first p.out>q.first q.out>p.first",
    )  # fmt: skip
    for choice in ({}, {"start": "a"}, {"start": "c"}, {"end": "b"}, {"end": "d"}, {"end": "q"}, {"start": "q"}):
        assert [line.partition(":")[0] for line in _refused(planner, document, **choice)] == ["error VF107 b"], choice
    assert [t.node for t in planner.plan(document, end="a").tasks] == ["a"]
    with pytest.raises(UsageError, match="d does not lead to a"):
        planner.plan(document, start="d", end="a")


def test_the_space_on_the_disk_is_counted_for_what_runs(planner: Planner) -> None:
    def preview(look: CheckContext) -> Preview:
        return Preview(kind="Report", bytes={"little": 10, "much": 10**18, "more": 2 * 10**18}[look.params["text"]])

    make = planner.catalog.find("Make")
    document = pipeline(*(box(name, "Make", text=name) for name in ("little", "much", "more")))
    planner.pretend(document)
    make.preview_hook = preview
    assert _why(planner.plan(document)) == {}
    too_small = "about 1,000,000 TB will be written"
    for choice in ({"start": "much"}, {"start": "much", "end": "much"}):
        (line,) = _refused(planner, document, **choice)
        assert line.startswith(f"error VF304 much: {too_small}")
    (line,) = _refused(planner, document, fresh=True)
    assert line.startswith("error VF304 more: about 3,000,000 TB will be written")
    assert _why(planner.plan(document, end="little", fresh=True)) == {"little": "asked for"}
    planner.store.results.forget([result.fingerprint for result in planner.store.results.all()])
    (line,) = _refused(planner, document, end="much")
    assert line.startswith(f"error VF304 much: {too_small}")
    assert list(_why(planner.plan(document, end="little"))) == ["little"]


def test_a_plan_survives_json(planner: Planner) -> None:
    planner.pretend(pipeline(box("a", "Grow", epochs=3)))
    plan = planner.plan(pipeline(box("a", "Grow", epochs=4)))
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_another_file_of_the_same_node_has_another_fingerprint(planner: Planner, workspace: Workspace) -> None:
    from engine.catalog import build_catalog

    document = two()
    before = identify(resolve(document, planner.catalog), {})
    source = workspace.my_nodes / "probes.py"
    source.write_text(source.read_text() + "\n# changed\n")
    after = identify(resolve(document, build_catalog((), workspace)), {})
    assert before["a"].fingerprint != after["a"].fingerprint


@st.composite
def graphs(draw: st.DrawFn) -> Pipeline:
    size = draw(st.integers(1, 7))
    nodes = [box(f"n{i}", "Make" if i == 0 else "Join") for i in draw(st.permutations(range(size)))]
    edges = [
        Edge(**{"from": f"n{draw(st.integers(0, i - 1))}.out", "to": f"n{i}.{port}"})
        for i in range(1, size)
        for port in ("first", "second")[: draw(st.integers(1, 2))]
    ]
    return Pipeline(name="g", nodes=tuple(nodes), edges=tuple(draw(st.permutations(edges))))


@given(graphs())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(40))
def test_a_plan_respects_every_edge(planner: Planner, document: Pipeline) -> None:
    order = topological_order(document)
    assert sorted(order) == sorted(n.id for n in document.nodes)
    for edge in document.edges:
        assert order.index(edge.source_node) < order.index(edge.target_node)
    assert [t.node for t in planner.plan(document).tasks] == list(order)


_ABSENT = "no_such_package"


def _refused(planner: Planner, document: Pipeline, **choice) -> list[str]:
    with pytest.raises(CheckFailed) as failed:
        planner.plan(document, **choice)
    return [d.line() for d in failed.value.diagnostics if d.severity == "error"]


def test_a_node_whose_package_is_not_installed_is_refused_before_the_run(planner: Planner) -> None:
    for name in ("Make", "Join"):
        planner.catalog.find(name).needs = ("json", _ABSENT)
    message = "needs no_such_package, which is not installed. Install it: pip install no_such_package"
    assert _refused(planner, two()) == [f"error VF311 a: Make {message}", f"error VF311 b: Join {message}"]
    assert _refused(planner, two(), end="a") == [f"error VF311 a: Make {message}"]


def test_a_package_that_a_node_misses_for_its_data_is_reported_before_the_run(planner: Planner) -> None:
    def preview(look: CheckContext) -> Preview:
        look.report(PackageMissing, "reading a.xyz needs xyz, which is not installed", hint="Install it.")
        return Preview(kind="VolumeFiles")

    make = planner.catalog.find("Make")
    make.preview_hook = preview
    assert _refused(planner, two()) == ["error VF311 a: reading a.xyz needs xyz, which is not installed. Install it."]
    make.preview_hook = None
    planner.pretend(two())
    make.preview_hook = preview
    assert _why(planner.plan(two())) == {}, "nothing reads it again"


def test_a_profile_on_databricks_takes_no_run(planner: Planner) -> None:
    cloud = Profile(name="cloud", backend="spark", master="databricks", cores=1, memory_bytes=1 << 30)
    with pytest.raises(CheckFailed) as failed:
        prepare(two(), planner.catalog, planner.workspace, planner.store, profile=cloud)
    assert [d.line() for d in failed.value.diagnostics] == [
        "error VF312: the profile cloud is on Databricks, where a pipeline runs as a job."
        " `voxelflow export PIPELINE --to databricks --profile cloud` writes the job."
    ]


def test_what_is_up_to_date_needs_no_package(planner: Planner) -> None:
    planner.pretend(two())
    planner.catalog.find("Make").needs = (_ABSENT,)
    assert _why(planner.plan(two())) == {}
    assert _why(planner.plan(two(), start="b")) == {"b": "asked for"}
    for choice in ({"fresh": True}, {"start": "a"}):
        assert [line.partition(":")[0] for line in _refused(planner, two(), **choice)] == ["error VF311 a"]


def test_a_result_that_nobody_needs_any_more_needs_no_package(planner: Planner) -> None:
    made = planner.pretend(two())
    shutil.rmtree(planner.workspace.data / made.task("a").out)
    planner.catalog.find("Make").needs = (_ABSENT,)
    assert _why(planner.plan(two())) == {}


def test_a_missing_package_is_reported_with_the_other_problems(planner: Planner) -> None:
    planner.catalog.find("Make").needs = (_ABSENT,)
    document = pipeline(box("a", "Make"), box("b", "Join", colour="red"), wires="a.out>b.first")
    assert [line.partition(":")[0] for line in _refused(planner, document)] == ["error VF311 a", "error VF201 b.colour"]


def test_a_value_may_need_a_package_of_its_own(planner: Planner) -> None:
    make = planner.catalog.find("Make")
    make.parameters = tuple(
        replace(p, needs=(Needs("loud", _ABSENT),)) if p.name == "text" else p for p in make.parameters
    )
    assert _why(planner.plan(two(text="quiet"))) != {}
    assert _refused(planner, two(text="loud")) == [
        "error VF311 a.text: the text loud needs no_such_package, which is not installed."
        " Install it: pip install no_such_package"
    ]


def test_a_revision_makes_another_call_of_some_parameters_alone() -> None:
    def fingerprints() -> dict[str, str]:
        return {by: identity_of(split_dataset, {"by": by}, {}, {}).fingerprint for by in ("volume", "label")}

    assert [split_dataset.version_with({"by": by}) for by in ("volume", "label", "group")] == [1, 2, 1]
    now = fingerprints()
    hook, split_dataset.revision_hook = split_dataset.revision_hook, None
    try:
        before = fingerprints()
    finally:
        split_dataset.revision_hook = hook
    assert before["volume"] == now["volume"]
    assert before["label"] != now["label"]
