"""What differs between runs, in words and figures."""

from __future__ import annotations

import pytest
from building import box, pipeline, some_task
from compared_runs import FIRST, SECOND, compared
from running import Runner

from engine.catalog import Catalog
from engine.declare.datasets import Report, TrainedModel, VolumeSpec
from engine.declare.events import Metrics, RunStateChanged, TaskStateChanged
from engine.document.pipeline import Node
from engine.history.comparison import (
    duration_rows,
    final_rows,
    labels,
    parameter_rows,
    shared_name,
)
from engine.history.details import read_details
from engine.store.runs import RunStore
from engine.wording import time_taken
from engine.workspace import Workspace


def test_parameters_stand_side_by_side_with_those_that_differ_marked() -> None:
    rows = parameter_rows([compared(FIRST), compared(SECOND, run_id="2-bbb")])
    assert [(r.where, r.name, r.values, r.differs) for r in rows] == [
        ("pipeline", "data", ("same", "same"), False),
        ("pipeline", "epochs", ("3", "5"), True),
        ("Maker", "steps", ("3", "5"), True),
        ("Maker", "text", ("x", "-"), True),
    ]


def test_a_value_that_the_pipeline_gives_a_node_is_listed_once() -> None:
    def rows(second: object) -> list[tuple[str, ...]]:
        runs = [
            pipeline(box("a", "Make", steps="${epochs}", text="${data} and more"), epochs=epochs, data="same")
            for epochs in (3, 5)
        ]
        runs[1] = runs[1].model_copy(update={"nodes": (box("a", "Make", steps=second, text="${data} and more"),)})
        found = parameter_rows([compared(run, run_id=f"{at}-a") for at, run in enumerate(runs)])
        return [(row.where, row.name) for row in found]

    of_pipeline = [("pipeline", "data"), ("pipeline", "epochs")]
    assert rows("${epochs}") == [*of_pipeline, ("Make", "text")]
    assert rows(5) == [*of_pipeline, ("Make", "steps"), ("Make", "text")], "one run has a value of its own"


def test_nodes_of_the_same_title_are_distinguished() -> None:
    twins = pipeline(Node(id="a", type="T", title="Same", params={"x": 1}), Node(id="b", type="T", title="Same"))
    rows = parameter_rows([compared(twins), compared(twins, run_id="2-bbb")])
    assert {r.where for r in rows} == {"Same (a)"}


def test_labels_differ_for_every_run() -> None:
    alike = [compared(FIRST, run_id="1-aaa"), compared(FIRST, run_id="2-aaa"), compared(FIRST, run_id="3-bbb")]
    assert labels(alike) == ["1-aaa", "2-aaa", "bbb"]
    assert max(map(len, labels([alike[0], compared(FIRST, run_id="4-ddd", name="x" * 300)]))) < 40


def test_a_name_that_all_runs_share_stands_in_no_label() -> None:
    alike = [compared(FIRST, run_id="1-aaa"), compared(SECOND, run_id="2-bbb")]
    assert (shared_name(alike), labels(alike)) == ("p", ["aaa", "bbb"])
    other = [*alike, compared(SECOND, run_id="3-ccc", name="q")]
    assert (shared_name(other), labels(other)) == ("", ["aaa p", "bbb p", "ccc q"])
    assert len(shared_name([compared(FIRST, name="x" * 300)])) == 30
    assert shared_name([]) == ""


def test_final_figures_come_from_the_model_and_else_from_the_curve() -> None:
    spec = VolumeSpec(shape=(4, 4, 4, 1), dtype="float32")
    model = TrainedModel(uri="/m", spec=spec, metrics={"loss": 0.25}, parameters=1000)
    runs = [compared(FIRST, some_task("a", outputs={"out": model})), compared(SECOND, some_task("a"), run_id="2-bbb")]
    curves = [{("a", "loss"): 0.3}, {("a", "loss"): 0.2}]
    assert [(r.where, r.name, r.values) for r in final_rows(runs, curves)] == [
        ("Maker", "loss", ("0.25", "0.2")),
        ("Maker", "parameters of the model", ("1,000", "-")),
    ]


def test_final_figures_of_an_evaluation_are_those_that_say_how_good_the_model_is() -> None:
    counts = {"volumes": 40, "evaluated": 40, "val_auc_std": 0.1, "data": "ff", "mean_error": 0.1, "r2": float("nan")}
    reports = [Report(uri="r", figures={"accuracy": accuracy, "auc": 0.9, **counts}) for accuracy in (0.8, 1)]
    runs = [
        compared(FIRST, some_task("a", outputs={"out": report}), run_id=f"{at}-aaa")
        for at, report in enumerate(reports)
    ]
    assert [(r.where, r.name, r.values) for r in final_rows(runs, [{}, {}])] == [
        ("Maker", "accuracy", ("0.8", "1")),
        ("Maker", "auc", ("0.9", "0.9")),
    ]


def test_durations_stand_side_by_side() -> None:
    runs = [
        compared(FIRST, some_task("a"), some_task("j", state="cached", started=None, ended=None)),
        compared(FIRST, some_task("a", state="failed"), run_id="2-bbb"),
    ]
    assert [(r.name, r.values) for r in duration_rows(runs)] == [
        ("whole run", ("12 s", "12 s")),
        ("Maker", ("5.0 s", "failed, 5.0 s")),
        ("Join", ("cached", "-")),
    ]


def test_a_resumed_task_took_what_all_its_attempts_took(workspace: Workspace, store: RunStore) -> None:
    run_id = store.create_run("p", "{}", {}, "local")
    store.set_tasks(run_id, [("a", "T", "A"), ("b", "T", "B")])
    # Five hours, a kill, ten hours later one hour more.
    begin, killed, again, end = (3600.0 * hour for hour in (1, 6, 16, 17))
    store.add_events(
        run_id,
        [
            RunStateChanged(time=begin, state="running"),
            *(TaskStateChanged(time=begin, node=node, state="running") for node in "ab"),
            Metrics(time=killed, node="a", step=1, values={"loss": 0.5}),
            RunStateChanged(time=again, state="running"),
            *(TaskStateChanged(time=again, node=node, state="queued") for node in "ab"),
            TaskStateChanged(time=again, node="a", state="running", attempt=2),
            TaskStateChanged(time=end, node="a", state="done", attempt=2),
            TaskStateChanged(time=end, node="b", state="failed", attempt=2),
        ],
    )
    store.update_task(run_id, "a", state="done", attempt=2, started=again, ended=end)
    store.update_task(run_id, "b", state="failed", attempt=1, started=begin, ended=end)
    store.finish_run(run_id, "failed")
    details = read_details(workspace, store, run_id)
    assert [(row.name, *row.values) for row in duration_rows([details])[1:]] == [
        ("A", "6 h 00 min"),
        ("B", "failed, 5 h 00 min"),
    ]
    assert [time_taken(task) for task in details.tasks] == ["6 h 00 min", "5 h 00 min"]
    assert [task.seconds for task in store.tasks(run_id)] == [3600.0, 16 * 3600.0]


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_real_runs_differ_by_what_they_ran_with(probes: Catalog, workspace: Workspace, store: RunStore) -> None:
    ids = []
    runner = Runner(probes, workspace, store)
    for steps in (2, 3):
        run, _ = runner.run(pipeline(box("a", "Make", text="${text} long", steps=steps), text=f"t{steps}"))
        ids.append(run.run_id)
    details = [read_details(workspace, store, run_id) for run_id in ids]
    rows = {(r.where, r.name): r.values for r in parameter_rows(details) if r.differs}
    # `${text}` alone is the pipeline's; in a longer text it is filled in.
    texts = ("t2 long", "t3 long")
    assert rows == {("pipeline", "text"): ("t2", "t3"), ("Make", "steps"): ("2", "3"), ("Make", "text"): texts}
    everything = {(r.where, r.name): r.values for r in parameter_rows(details)}
    assert everything["Make", "step_s"] == ("0.0", "0.0")
