"""What is stale is found out in the background, anew when results or pipelines have changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from building import box, pipeline
from pretended_results import pretend
from recorded_runs import Did, record
from waiting import WAIT_S, wait_until

from engine.catalog import Catalog
from engine.document.pipeline import Node, Pipeline, dump, write_pipeline
from engine.run.launch import prepare
from engine.store.runs import RunStore
from engine.workspace import Workspace
from ui.build.catalogue import Catalogue
from ui.build.library import Library
from ui.lineage.judging import Judged, Judging
from ui.studio_context import Studio


@pytest.fixture
def judging(probes: Catalog, workspace: Workspace, store: RunStore) -> Iterator[Judging]:
    studio = Studio(workspace, store, workspace.root, lambda _: probes)
    found = Judging(studio, Library(workspace), Catalogue(workspace, lambda _: probes))
    yield found
    found.close()


def document(text: str, name: str = "demo") -> Pipeline:
    return pipeline(box("a", "Make", text=text), name=name)


def settled(judging: Judging) -> Judged:
    judging.now()
    return wait_until(lambda: judged if (judged := judging.now()).complete else None, "the plans")


def test_a_saved_pipeline_decides_and_else_its_last_run(
    judging: Judging, probes: Catalog, workspace: Workspace, store: RunStore
) -> None:
    assert settled(judging) == Judged(complete=True)
    plan = prepare(document("one"), probes, workspace, store).plan
    pretend(plan, workspace, store)
    fingerprint = plan.tasks[0].identity.fingerprint
    with store.write() as db:
        db.execute("UPDATE runs SET document = ?", (dump(document("one")),))
    assert settled(judging).verdicts.current == {fingerprint}
    write_pipeline(document("two"), workspace.pipelines / "demo.json")
    assert settled(judging).verdicts.stale == {fingerprint: "parameter text changed one -> two"}
    # It has no plan: what counts is how it ran.
    write_pipeline(pipeline(box("a", "NoSuchType"), name="demo"), workspace.pipelines / "demo.json")
    assert settled(judging).verdicts.current == {fingerprint}
    with store.write() as db:
        db.execute("UPDATE runs SET document = '{'")
    (workspace.pipelines / "demo.json").unlink()
    judged = settled(judging)
    assert list(judged.problems) == ["demo"]
    assert (judged.done, judged.of, judged.verdicts.current) == (1, 1, frozenset())


def test_what_keeps_a_pipeline_from_a_plan_is_said_with_the_node_on_the_canvas(
    judging: Judging, workspace: Workspace, store: RunStore
) -> None:
    ran = pipeline(box("a", "NoSuchType"), name="demo")
    record(store, "20260101-000000-aaaaaa", ran, "done", {"a": Did("done")}, began=1e9, took=5)
    assert settled(judging).problems["demo"].startswith("NoSuchType: ")
    # What can be put right is the saved one.
    nodes = (Node(id="x", type="Gone", title="First"), Node(id="y", type="GoneToo", title="Second"))
    write_pipeline(pipeline(*nodes, name="demo"), workspace.pipelines / "demo.json")
    said = settled(judging).problems["demo"]
    assert said.startswith("First: ")
    assert said.endswith("; 1 more problem")
    write_pipeline(pipeline(box("m", "Make", steps="x"), name="demo"), workspace.pipelines / "demo.json")
    assert settled(judging).problems["demo"].startswith("Make, steps: ")


def test_a_pipeline_whose_plan_raises_is_named_and_the_others_are_judged(
    judging: Judging, probes: Catalog, workspace: Workspace, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = prepare(document("one"), probes, workspace, store).plan
    pretend(plan, workspace, store)
    with store.write() as db:
        db.execute("UPDATE runs SET document = ?", (dump(document("one")),))
    record(store, "20260101-000000-aaaaaa", document("bad", "broken"), "done", {"a": Did("done")}, began=1e9, took=5)

    def planned(pipeline: Pipeline, *given: Any, **how: Any) -> Any:
        if pipeline.name == "broken":
            raise RuntimeError("nobody thought of this")
        return prepare(pipeline, *given, **how)

    monkeypatch.setattr("ui.lineage.judging.prepare", planned)
    judged = settled(judging)
    assert judged.problems == {"broken": "RuntimeError: nobody thought of this"}
    assert (judged.of, judged.verdicts.current) == (2, {plan.tasks[0].identity.fingerprint})


def test_who_asks_first_may_wait_for_the_answer_and_later_ones_have_the_last_at_once(
    judging: Judging, probes: Catalog, workspace: Workspace, store: RunStore
) -> None:
    plan = prepare(document("one"), probes, workspace, store).plan
    pretend(plan, workspace, store)
    with store.write() as db:
        db.execute("UPDATE runs SET document = ?", (dump(document("one")),))
    assert not judging.now().complete
    first = judging.now(first_within_s=WAIT_S)
    assert (first.complete, first.verdicts.current) == (True, {plan.tasks[0].identity.fingerprint})
    write_pipeline(document("two"), workspace.pipelines / "demo.json")
    assert judging.now(first_within_s=WAIT_S).verdicts == first.verdicts
