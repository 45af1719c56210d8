"""Where nodes work under a profile, and where their results then lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import box, pipeline
from pretended_results import pretend

from engine.catalog import Catalog
from engine.diagnostics.rule import CheckFailed
from engine.document.checks import check
from engine.document.pipeline import Pipeline
from engine.document.plan import Choice, Plan
from engine.document.resolve import resolve
from engine.profiles import Profile
from engine.profiles.dynamic_allocation import is_for_fixed_executors, on_fixed_executors
from engine.run.launch import prepare
from engine.store.runs import RunStore
from engine.workspace import Workspace, place_lock, place_of, storage_of, storages

SPARK = Profile(name="cluster", backend="spark", master="spark://host:7077", cores=2, memory_bytes=1 << 30)
LOCAL = Profile(name="local", cores=2, memory_bytes=1 << 30)


@pytest.fixture
def mixed(probes: Catalog) -> Catalog:
    """`Make` has a Spark variant, `Join` needs none, all others run embedded only."""
    for node_type in probes:
        node_type.backends.pop("spark", None)
        node_type.anywhere = ""
    make, join = probes.find("Make"), probes.find("Join")
    make.backends["spark"] = make.function
    join.anywhere = "only joins words"
    return probes


def two() -> Pipeline:
    return pipeline(box("a", "Make"), box("b", "Join"), wires="a.out>b.first")


def test_each_task_says_where_it_works_and_why(mixed: Catalog, workspace: Workspace, store: RunStore) -> None:
    plan = prepare(two(), mixed, workspace, store, profile=SPARK).plan
    assert [(t.backend, t.backend_reason) for t in plan.tasks] == [
        ("spark", "profile cluster"),
        ("embedded", "only joins words: runs on the driver's machine"),
    ]
    plan = prepare(two(), mixed, workspace, store, profile=LOCAL).plan
    assert {(t.backend, t.backend_reason) for t in plan.tasks} == {("embedded", "profile local")}


def test_a_node_without_a_variant_is_refused_not_quietly_run_here(
    mixed: Catalog, workspace: Workspace, store: RunStore
) -> None:
    document = pipeline(box("a", "Make"), box("g", "Grow"))
    with pytest.raises(CheckFailed) as caught:
        prepare(document, mixed, workspace, store, profile=SPARK)
    (problem,) = [d for d in caught.value.diagnostics if d.severity == "error"]
    assert (problem.code, problem.node) == ("VF307", "g")
    assert "Grow cannot run on spark, the backend of the profile cluster" in problem.message
    for way in ("Put Make in its place.", "the profile local", '@grow.on("spark")', 'anywhere="..."'):
        assert way in problem.hint
    assert prepare(document, mixed, workspace, store, profile=LOCAL).plan.to_run


def test_only_what_fits_is_named_as_an_alternative(mixed: Catalog) -> None:
    document = pipeline(box("a", "Make"), box("h", "Halve"), wires="a.out>h.whole")
    (problem,) = check(resolve(document, mixed), None, SPARK).diagnostics
    assert problem.node == "h"
    assert "in its place" not in problem.hint


def test_the_built_in_nodes_that_name_rows_or_files_run_under_every_profile() -> None:
    from nodes.split_dataset import split_dataset
    from nodes.synthetic_volumes import synthetic_volumes
    from nodes.volume_folder import volume_folder

    for node_type in (volume_folder, split_dataset, synthetic_volumes):
        backend, reason = node_type.runs_on("spark") or ("", "")
        assert backend in ("embedded", "spark")
        assert bool(reason) == (backend == "embedded")
        assert node_type.describe()["anywhere"] == node_type.anywhere


# --- executors that come and go ----------------------------------------------------------------------

ELASTIC = SPARK.model_copy(update={"name": "elastic", "spark": {"spark.dynamicAllocation.enabled": "true"}})


@pytest.fixture
def together(mixed: Catalog) -> Catalog:
    """`Join` works on all executors at once, `Make` on as many as there are."""
    join = mixed.find("Join")
    join.on("spark")(on_fixed_executors(join.function))
    return mixed


def refused(catalog: Catalog, profile: Profile) -> list[str | None]:
    """The nodes that cannot work on executors that come and go, by the checks alone."""
    return [d.node for d in check(resolve(two(), catalog), None, profile).diagnostics if d.code == "VF314"]


def test_a_node_that_needs_a_fixed_number_of_executors_is_refused_before_anything_runs(
    together: Catalog, workspace: Workspace, store: RunStore
) -> None:
    with pytest.raises(CheckFailed) as caught:
        prepare(two(), together, workspace, store, profile=ELASTIC)
    (problem,) = caught.value.diagnostics
    assert (problem.code, problem.severity, problem.node) == ("VF314", "error", "b")
    assert "Join" in problem.message
    assert "profile elastic" in problem.message
    assert "spark.dynamicAllocation.enabled" in problem.message
    assert "spark.executor.instances" in problem.hint
    assert prepare(two(), together, workspace, store, profile=SPARK).plan.to_run
    assert prepare(two(), together, workspace, store, profile=LOCAL).plan.to_run
    # The conversion before it may be done there.
    assert prepare(two(), together, workspace, store, profile=ELASTIC, choice=Choice(end="a")).plan.to_run


def test_only_a_cluster_that_spark_itself_resizes_is_elastic(together: Catalog) -> None:
    assert refused(together, ELASTIC) == ["b"]
    for change in (
        {"spark": {"spark.dynamicAllocation.enabled": "false"}},
        {"spark": {}},
        {"master": "local[*]"},  # one executor, whatever is set
        {"master": "databricks"},  # the size of the job's cluster, which Databricks sees to
        {"backend": "embedded"},
    ):
        assert refused(together, ELASTIC.model_copy(update=change)) == [], change


def test_a_result_that_is_there_needs_no_executors(together: Catalog, workspace: Workspace, store: RunStore) -> None:
    pretend(prepare(two(), together, workspace, store, profile=SPARK).plan, workspace, store)
    assert prepare(two(), together, workspace, store, profile=ELASTIC).plan.to_run == []
    for choice in (Choice(fresh=True), Choice(start="b")):
        with pytest.raises(CheckFailed) as caught:
            prepare(two(), together, workspace, store, profile=ELASTIC, choice=choice)
        assert [(d.code, d.node) for d in caught.value.diagnostics] == [("VF314", "b")]


def test_a_training_on_spark_needs_a_fixed_number_of_executors() -> None:
    from nodes.numpy_to_parquet import numpy_to_parquet
    from nodes.profile_training import profile_training
    from nodes.train_resnet3d import train_resnet3d

    assert is_for_fixed_executors(train_resnet3d.backends["spark"])
    assert is_for_fixed_executors(profile_training.backends["spark"])
    assert not is_for_fixed_executors(train_resnet3d.backends["embedded"])
    assert not is_for_fixed_executors(numpy_to_parquet.backends["spark"])


# --- storage -----------------------------------------------------------------------------------------


def test_each_workspace_has_a_folder_of_its_own_below_a_storage_root(workspace: Workspace, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    other = Workspace(tmp_path / "other")
    other.root.mkdir()
    mine, theirs = storage_of(workspace, shared), storage_of(other, shared)
    assert mine.root.parent == theirs.root.parent == shared
    assert mine.root != theirs.root
    assert storage_of(workspace, shared / "x" / "..") == mine
    assert storages(workspace)[1:] == [mine]
    assert not shared.exists()


def test_a_plan_says_where_its_results_will_be(
    mixed: Catalog, workspace: Workspace, store: RunStore, tmp_path: Path
) -> None:
    profile = SPARK.model_copy(update={"storage_root": tmp_path / "shared"})
    here = prepare(two(), mixed, workspace, store, profile=SPARK).plan
    there = prepare(two(), mixed, workspace, store, profile=profile).plan
    root = storage_of(workspace, profile.storage_root).root
    assert (here.storage, here.data_root(workspace)) == (None, workspace.data)
    assert (there.storage, there.scratch_root(workspace)) == (root, root / "scratch")
    for mine, theirs in zip(here.tasks, there.tasks, strict=True):
        assert mine.identity == theirs.identity
        assert theirs.out == str(root / "data" / mine.out)
    assert Plan.model_validate_json(there.model_dump_json()) == there


def test_results_from_elsewhere_are_used_and_warned_of_where_a_cluster_may_not_see_them(
    mixed: Catalog, workspace: Workspace, store: RunStore, tmp_path: Path
) -> None:
    join = mixed.find("Join")
    join.backends["spark"] = join.function
    profile = SPARK.model_copy(update={"storage_root": tmp_path / "shared"})
    first = pipeline(box("a", "Make"))
    pretend(prepare(first, mixed, workspace, store, profile=LOCAL).plan, workspace, store)
    plan = prepare(two(), mixed, workspace, store, profile=profile).plan
    assert [t.action for t in plan.tasks] == ["cached", "run"]
    (warning,) = plan.diagnostics
    assert (warning.code, warning.severity, warning.node, warning.port) == ("VF309", "warning", "b", "first")
    assert "--from a" in warning.hint
    # Made again there, it is used from there by everyone.
    pretend(prepare(first, mixed, workspace, store, profile=profile).plan, workspace, store)
    again = prepare(two(), mixed, workspace, store, profile=LOCAL).plan
    assert [t.action for t in again.tasks] == ["cached", "run"]
    assert again.diagnostics == ()
    here = profile.model_copy(update={"master": "local[2]"})
    assert prepare(two(), mixed, workspace, store, profile=here).plan.diagnostics == ()


def test_growing_work_goes_on_from_what_is_in_the_same_storage(
    probes: Catalog, workspace: Workspace, store: RunStore, tmp_path: Path
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("x")
    document = pipeline(box("c", "Count", folder=str(folder)))
    elsewhere = LOCAL.model_copy(update={"name": "big", "storage_root": tmp_path / "shared"})

    def grown(profile: Profile, name: str) -> Plan:
        (folder / name).write_text("x")
        plan = prepare(document, probes, workspace, store, profile=profile).plan
        assert plan.tasks[0].action == "run"
        pretend(plan, workspace, store)
        return plan

    here, there = grown(LOCAL, "b.txt"), grown(elsewhere, "c.txt")
    assert here.tasks[0].previous == there.tasks[0].previous == {}
    here_again, there_again = grown(LOCAL, "d.txt"), grown(elsewhere, "e.txt")
    for before, after in ((here, here_again), (there, there_again)):
        assert after.tasks[0].shared == before.tasks[0].shared
        assert after.tasks[0].previous["out"].uri == str(before.data_root(workspace) / before.tasks[0].out)


def test_a_storage_root_that_cannot_be_written_is_reported_before_the_run(
    probes: Catalog, workspace: Workspace, store: RunStore, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    profile = LOCAL.model_copy(update={"storage_root": tmp_path / "file"})
    with pytest.raises(CheckFailed) as caught:
        prepare(pipeline(box("a", "Make")), probes, workspace, store, profile=profile)
    (problem,) = caught.value.diagnostics
    assert problem.code == "VF303"
    assert "is a file" in problem.message
    assert "storage_root" in problem.hint


def test_places_of_two_storages_have_locks_of_their_own(workspace: Workspace, tmp_path: Path) -> None:
    there = storage_of(workspace, tmp_path / "shared")
    inside = workspace.root / "inside"
    places = [s / "Make" / "aaaa" for s in (workspace.data, there.data, storage_of(workspace, inside).data)]
    assert len({place_lock(workspace, place) for place in places}) == 3
    for place in places:
        assert place_of(workspace, place / "result" / "file") == place
    assert place_of(workspace, tmp_path / "else") is None
    assert place_of(workspace, workspace.data / "Make") is None
