"""What differs between runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import box, pipeline

from engine.datasets import TrainedModel, VolumeSpec
from engine.pipeline import Node, Pipeline
from engine.runs import Run, Task
from ui.runs.comparison import (
    duration_rows,
    final_rows,
    graph_changes,
    labels,
    metric_lines,
    parameter_rows,
)
from ui.runs.details import Details, read_details
from ui.runs.feed import Feed
from ui.runs.series import Series

RUN = Run("1-aaa", "p", "{}", {}, "local", "done", "", 1, 10, 22, 2, None, None, 1, False)


def _task(node: str, **more: object) -> Task:
    task = Task("r", node, 0, "T", node, "done", "", "", 1, 10.0, 15.0, None, None, {}, None)
    return replace(task, **more)  # type: ignore[arg-type]


def _details(document: Pipeline, *tasks: Task, run_id: str = "1-aaa", name: str = "p") -> Details:
    return Details(replace(RUN, run_id=run_id, pipeline=name), tasks, document, None)


FIRST = pipeline(
    Node(id="a", type="Make", title="Maker", params={"steps": 3, "text": "x"}),
    box("j", "Join"),
    wires="a.out>j.first",
    epochs=3,
    data="same",
)
SECOND = pipeline(
    Node(id="a", type="Make", title="Maker", params={"steps": 5}, retries=2),
    box("h", "Halve", part=1),
    wires="a.out>h.whole",
    epochs=5,
    data="same",
)


def test_parameters_stand_side_by_side_with_those_that_differ_marked() -> None:
    rows = parameter_rows([_details(FIRST), _details(SECOND, run_id="2-bbb")])
    assert [(r.where, r.name, r.values, r.differs) for r in rows] == [
        ("pipeline", "data", ("same", "same"), False),
        ("pipeline", "epochs", ("3", "5"), True),
        ("Maker", "steps", ("3", "5"), True),
        ("Maker", "text", ("x", "-"), True),
    ]


def test_nodes_of_the_same_title_are_told_apart() -> None:
    twins = pipeline(Node(id="a", type="T", title="Same", params={"x": 1}), Node(id="b", type="T", title="Same"))
    rows = parameter_rows([_details(twins), _details(twins, run_id="2-bbb")])
    assert {r.where for r in rows} == {"Same (a)"}


def test_graph_changes_are_told_against_the_first() -> None:
    found = graph_changes(_details(FIRST), _details(SECOND))
    assert [(c.change, c.what, c.name, c.detail) for c in found] == [
        ("added", "node", "h", "Halve"),
        ("removed", "node", "j", "Join"),
        ("changed", "node", "Maker (a)", "retries 0 → 2, steps 3 → 5, text x → default"),
        ("added", "edge", "a.out → h.whole", ""),
        ("removed", "edge", "a.out → j.first", ""),
    ]


def test_where_boxes_lie_is_no_difference() -> None:
    moved = FIRST.model_copy(
        update={"nodes": tuple(n.model_copy(update={"ui": {"folded": True}}) for n in FIRST.nodes), "ui": {"zoom": 2}}
    )
    assert graph_changes(_details(FIRST), _details(moved)) == []
    unreadable = Details(RUN, (), None, None)
    assert graph_changes(unreadable, _details(FIRST)) == []


def test_curves_of_one_metric_lie_over_each_other() -> None:
    runs = [_details(FIRST), _details(SECOND, run_id="2-bbb", name="q")]
    feeds = [Feed("1"), Feed("2")]
    feeds[0].metrics = {("a", "loss"): Series([1], [0.5])}
    feeds[1].metrics = {
        ("a", "loss"): Series([1], [0.4]),
        ("h", "loss"): Series([1], [0.3]),
        ("a", "x"): Series([1], [1]),
    }
    found = metric_lines(runs, feeds)
    assert list(found) == ["loss", "x"]
    assert [line.label for line in found["loss"]] == ["aaa p", "bbb q, Maker", "bbb q, h"]


def test_labels_differ_for_every_run() -> None:
    alike = [_details(FIRST, run_id="1-aaa"), _details(FIRST, run_id="2-aaa"), _details(FIRST, run_id="3-bbb")]
    assert labels(alike) == ["1-aaa", "2-aaa", "bbb p"]
    assert len(labels([_details(FIRST, name="x" * 300)])[0]) < 40


def test_final_figures_come_from_the_model_and_else_from_the_curve() -> None:
    spec = VolumeSpec(shape=(4, 4, 4, 1), dtype="float32")
    model = TrainedModel(uri="/m", spec=spec, metrics={"loss": 0.25}, parameters=1000)
    runs = [_details(FIRST, _task("a", outputs={"out": model})), _details(SECOND, _task("a"), run_id="2-bbb")]
    feeds = [Feed("1"), Feed("2")]
    feeds[0].metrics = {("a", "loss"): Series([1, 2], [0.9, 0.3])}
    feeds[1].metrics = {("a", "loss"): Series([1, 2], [0.8, 0.2]), ("a", "empty"): Series()}
    assert [(r.where, r.name, r.values) for r in final_rows(runs, feeds)] == [
        ("Maker", "loss", ("0.25", "0.2")),
        ("Maker", "parameters of the model", ("1,000", "-")),
    ]


def test_durations_stand_side_by_side() -> None:
    runs = [
        _details(FIRST, _task("a"), _task("j", state="cached", started=None, ended=None)),
        _details(FIRST, _task("a", state="failed"), run_id="2-bbb"),
    ]
    assert [(r.name, r.values) for r in duration_rows(runs)] == [
        ("whole run", ("12 s", "12 s")),
        ("Maker", ("5.0 s", "failed, 5.0 s")),
        ("j", ("cached", "-")),
    ]


@pytest.mark.slow
def test_real_runs_differ_by_what_they_ran_with(runs, workspace, store) -> None:
    ids = []
    for steps in (2, 3):
        run, _ = runs.run(pipeline(box("a", "Make", text="${text}", steps=steps), text=f"t{steps}"))
        ids.append(run.run_id)
    details = [read_details(workspace, store, run_id) for run_id in ids]
    rows = {(r.where, r.name): r.values for r in parameter_rows(details) if r.differs}
    # Values as they ran: `${text}` is filled in.
    assert rows == {("pipeline", "text"): ("t2", "t3"), ("a", "steps"): ("2", "3"), ("a", "text"): ("t2", "t3")}
    everything = {(r.where, r.name): r.values for r in parameter_rows(details)}
    assert everything["a", "step_s"] == ("0.0", "0.0")
