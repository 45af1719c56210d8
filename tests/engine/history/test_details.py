"""All that is known of one run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import box, pipeline
from running import Runner

from engine.catalog import Catalog
from engine.document.pipeline import Node, dump, write_pipeline
from engine.errors import UsageError
from engine.history.details import (
    Details,
    ParameterRow,
    fact_text,
    failure_lines,
    output_rows,
    parameter_rows,
    read_details,
    saved_as,
    value_text,
)
from engine.store.runs import RunStore
from engine.workspace import Workspace


def test_a_document_of_another_voxelflow_is_no_reason_to_show_nothing(workspace: Workspace, store: RunStore) -> None:
    run_id = store.create_run("p", '{"schema_version": 99}', {}, "local")
    details = read_details(workspace, store, run_id)
    assert (details.run.run_id, details.pipeline, details.plan) == (run_id, None, None)
    assert parameter_rows(details, "gone", {}) == []


def test_a_run_that_is_not_there_is_reported(workspace: Workspace, store: RunStore) -> None:
    with pytest.raises(UsageError, match="there is no run nothing"):
        read_details(workspace, store, "nothing")


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_the_values_shown_are_those_of_the_plan(probes: Catalog, workspace: Workspace, store: RunStore) -> None:
    document = pipeline(box("a", "Make", text="${text}"), box("left", "Make", steps=9), text="hello")
    run, tasks = Runner(probes, workspace, store).run(document, end="a")
    details = read_details(workspace, store, run.run_id)
    defaults = {"text": "x", "steps": 1, "step_s": 0.0}
    assert parameter_rows(details, "a", defaults) == [
        ParameterRow("text", "hello", default=False),
        ParameterRow("step_s", "0.0", default=True),
        ParameterRow("steps", "1", default=True),
    ]
    # Not planned: as it was drawn.
    assert parameter_rows(details, "left", {}) == [ParameterRow("steps", "9", default=False)]
    (row,) = output_rows(tasks["a"].outputs)
    assert row[:3] == ("out", "Report", "steps 1")
    assert row[3].endswith("report.txt")


def test_names_distinguish_nodes_of_the_same_title(workspace: Workspace, store: RunStore) -> None:
    document = pipeline(
        Node(id="a", type="T", title="Same"), Node(id="b", type="T", title="Same"), Node(id="c", type="T", title="x\ny")
    )
    run_id = store.create_run("p", dump(document), {}, "local")
    assert read_details(workspace, store, run_id).names == {"a": "Same (a)", "b": "Same (b)", "c": "x y"}


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_failures_come_with_what_to_do(probes: Catalog, workspace: Workspace, store: RunStore) -> None:
    run, tasks = Runner(probes, workspace, store).run(
        pipeline(Node(id="f", type="Fail", title="The one", params={"how": "told"}))
    )
    assert failure_lines(run, list(tasks.values())) == [
        ("The one.how: the probe was told to fail", "Tell it otherwise."),
    ]
    lost = replace(run, state="lost", error="")
    assert failure_lines(lost, [])[0][1] == "Resume goes on from what is done."
    assert failure_lines(replace(run, error="no disk"), []) == [("no disk", "")]
    assert failure_lines(replace(run, state="done"), []) == []


def test_a_document_is_found_again_in_the_workspace(workspace: Workspace) -> None:
    document = pipeline(box("a", "Make"), name="mine")
    assert saved_as(workspace, dump(document)) is None
    write_pipeline(document, workspace.pipelines / "mine.json")
    assert saved_as(workspace, dump(document)) == "mine"
    assert saved_as(workspace, dump(pipeline(box("b", "Make"), name="mine"))) is None


def test_values_stand_as_in_the_document() -> None:
    assert [value_text(v) for v in ("text", 1, 0.5, True, None, [1, "a"], "a\nb")] == [
        "text", "1", "0.5", "true", "null", '[1, "a"]', "a b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.25, "0.25"),
        (True, "yes"),
        ("Make", "Make"),
        ('{"dome": 120, "fault": 80}', "dome 120, fault 80"),
        ("[0.1, 2]", "0.1, 2"),
        ("[not json", "[not json"),
        (str(list(range(30))), ", ".join(map(str, range(24))) + " and 6 more"),
    ],
)
def test_what_a_node_reports_is_never_json(value: object, shown: str) -> None:
    assert fact_text(value) == shown


def test_titles_of_nodes_that_the_document_lacks_come_from_the_tasks(workspace: Workspace, store: RunStore) -> None:
    run_id = store.create_run("p", "not json", {}, "local")
    store.set_tasks(run_id, [("a", "Make", "Titled")])
    details = read_details(workspace, store, run_id)
    assert isinstance(details, Details)
    assert details.titles == {"a": "Titled"}
    assert details.task("a") is not None
    assert details.task("b") is details.drawn("a") is details.planned("a") is None
