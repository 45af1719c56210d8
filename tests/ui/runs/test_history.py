"""The history: what runs came to, which are shown, which stay chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import box, pipeline, some_run, some_task
from hypothesis import given
from hypothesis import strategies as st

from engine.declare.datasets import Dataset, Report, TrainedModel, VolumeDelta, VolumeSpec
from engine.history.details import short_id
from engine.history.summary import tiles
from engine.store.runs import Task
from engine.text import number
from ui.runs.history import Filters, Results, chosen, pipelines_of, positions, reselected, result_of

RUN = some_run("20260102-030405-abcdef", pipeline="quickstart")
SPEC = VolumeSpec(shape=(4, 4, 4, 1), dtype="float32")
TABLE = VolumeDelta(uri="/t", count=2000, bytes=1, version=1, data_version=1)


def _model(**metrics: float) -> TrainedModel:
    return TrainedModel(uri="/m", spec=SPEC, metrics=metrics, parameters=7)


def _task(node: str, *outputs: Dataset, **more: object) -> Task:
    return some_task(node, outputs={f"out{i}": output for i, output in enumerate(outputs)}, **more)


@pytest.mark.parametrize(
    ("tasks", "result"),
    [
        ([_task("table", TABLE), _task("train", _model(accuracy=0.9, loss=0.61234))], "Accuracy 0.9, loss 0.6123"),
        (
            [_task("train", _model(loss=1, val_loss=2, accuracy=0.5, val_accuracy=0.25, val_auc=0.75))],
            "Validation AUC 0.75, validation accuracy 0.25",
        ),
        (
            [_task("train", _model(val_auc=0.8)), _task("judge", Report(uri="/r", figures={"auc": 0.7, "f1": 0.6}))],
            "AUC 0.7, F1 0.6",
        ),
        ([_task("train", _model(rmse=2, mae=1))], "MAE 1, RMSE 2"),
        ([_task("train", _model(iou=0.5, dice=0.6))], "Dice 0.6, iou 0.5"),
        ([_task("table", TABLE), _task("report", Report(uri="/r", figures={"bad": 3}))], "2,000 volumes"),
        ([_task("report", Report(uri="/r", figures={"bad": 3}))], "bad 3"),
        ([_task("a")], ""),
        ([], ""),
    ],
)
def test_a_finished_run_shows_its_main_figures(tasks: list[Task], result: str) -> None:
    assert result_of(RUN, tasks) == result


def test_a_failed_run_shows_the_reason() -> None:
    failure = {"message": "out of memory", "hint": "Give the node less to hold.", "parameter": "depth"}
    tasks = [_task("table", TABLE), _task("train", state="failed", failure=failure)]
    failed = replace(RUN, state="failed")
    assert result_of(failed, tasks) == "train.depth: out of memory. Give the node less to hold."
    assert result_of(replace(failed, error="no space left"), []) == "no space left"
    assert result_of(replace(RUN, state="lost"), []) == "the run's process died without reporting a result"
    assert len(result_of(failed, [_task("t", state="failed", failure={"message": "x" * 999})])) == 200


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["val_auc", "val_loss", "loss", "test_f1", "accuracy", "mae"]), st.floats()),
        max_size=4,
    )
)
def test_the_history_begins_with_the_figure_that_the_runs_own_page_begins_with(
    all_metrics: list[dict[str, float]],
) -> None:
    tasks = [_task(f"n{at}", TABLE, _model(**metrics)) for at, metrics in enumerate(all_metrics)]
    for first in tiles(tasks)[:1]:
        assert result_of(RUN, tasks).startswith(f"{first.text} {number(first.value)}")


RUNS = [
    replace(RUN, run_id="1-aaa"),
    replace(RUN, run_id="2-bbb", pipeline="Other one", state="failed", error="disk full"),
    replace(RUN, run_id="3-ccc", pipeline="other two", state="cancelled", profile="gpu"),
]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (Filters(), "123"),
        (Filters("OTHER"), "23"),
        (Filters("other gpu"), "3"),
        (Filters("bbb"), "2"),
        (Filters("disk"), "2"),
        (Filters("nothing like it"), ""),
        (Filters(states=["done", "failed"]), "12"),
        (Filters(pipelines=["Other one"]), "2"),
        (Filters("other", ["failed"], ["Other one"]), "2"),
    ],
)
def test_runs_are_found_by_words_state_and_pipeline(filters: Filters, found: str) -> None:
    assert "".join(run.run_id[0] for run in chosen(RUNS, filters)) == found
    assert filters.any == (filters != Filters())


def test_pipelines_are_listed_once() -> None:
    assert pipelines_of([*RUNS, *RUNS]) == ["Other one", "other two", "quickstart"]


def test_short_ids_are_what_the_command_line_finds() -> None:
    assert short_id("20260102-030405-abcdef") == "abcdef"
    assert short_id("odd") == "odd"


def test_ticks_stay_with_their_runs_when_new_ones_come() -> None:
    selected = reselected(["b", "a"], [0], [])
    assert selected == ["b"]
    assert positions(["c", "b", "a"], selected) == [1]


def test_ticks_stay_when_a_filter_hides_their_runs() -> None:
    assert reselected(["c"], [0], ["a", "c"]) == ["a", "c"]
    assert reselected(["c"], [], ["a", "c"]) == ["a"]
    assert reselected(["c"], [0, 7, -1], []) == ["c"]


def test_a_result_is_kept_until_the_run_changes() -> None:
    results = Results(capacity=10)
    results.keep(RUN, "x")
    assert results.known(RUN) == "x"
    resumed = replace(RUN, attempt=2, ended=9.0)
    assert results.known(resumed) is None
    running = replace(RUN, run_id="other", state="running")
    results.keep(running, "so far")
    assert results.known(running) is None
    for i in range(50):
        results.keep(replace(RUN, run_id=str(i)), str(i))
    assert results.known(replace(RUN, run_id="49")) == "49"
    assert results.known(RUN) is None


@pytest.mark.slow
def test_real_runs_show_what_they_made(runs) -> None:
    run, tasks = runs.run(pipeline(box("a", "Make", steps=3)))
    assert result_of(run, list(tasks.values())) == "steps 3"
    run, tasks = runs.run(pipeline(box("a", "Fail", how="told")))
    assert result_of(run, list(tasks.values())) == "a.how: the probe was told to fail. Tell it otherwise."
