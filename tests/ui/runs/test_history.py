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
from engine.store.runs import RunStore, Task
from engine.text import number
from ui.runs.history import (
    AllRuns,
    Filters,
    Results,
    chosen,
    columns_of,
    counted,
    frame_of,
    pipelines_of,
    positions,
    reselected,
    result_of,
)

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


def _put(store: RunStore, *numbers: int) -> None:
    with store.write() as db:
        db.executemany(
            "INSERT INTO runs (run_id, pipeline, document, options, profile, state, created, attempt)"
            " VALUES (?, 'p', '{}', '{}', 'local', 'done', ?, 1)",
            [(f"r{number}", float(number)) for number in numbers],
        )


def test_all_runs_are_read_and_those_that_changed_again(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.runs.history._READ_ANEW", 2)
    every = AllRuns()
    _put(store, *range(6), 5 + 1)
    first = every.of(store)
    assert [run.run_id for run in first] == ["r6", "r5", "r4", "r3", "r2", "r1", "r0"]
    store.finish_run("r1", "failed", "no space")
    _put(store, 7)
    again = every.of(store)
    assert [run.run_id for run in again] == ["r7", *(run.run_id for run in first)]
    assert (again[6].state, again[6].error) == ("failed", "no space")
    assert again[4] is first[3], "what has not changed is not read again"


def test_where_not_all_runs_are_read_their_number_is_said(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.runs.history._READ_ANEW", 2)
    monkeypatch.setattr("ui.runs.history._MOST_READ", 4)
    _put(store, *range(6))
    assert [run.run_id for run in AllRuns().of(store)] == ["r5", "r4", "r3", "r2"]
    assert counted(None, 4, store.count()) == "the newest 4 of 6 runs"
    assert counted(1, 4, store.count()) == "1 of the newest 4 of 6 runs"
    assert [counted(None, 1, 1), counted(None, 6_001, 6_001), counted(0, 6, 6)] == [
        "1 run",
        "6,001 runs",
        "0 of 6 runs",
    ]


def test_runs_of_one_moment_are_all_there_once(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.runs.history._READ_ANEW", 2)
    _put(store, *range(5))
    with store.write() as db:
        db.execute("UPDATE runs SET created = 1")
    assert sorted(run.run_id for run in AllRuns().of(store)) == ["r0", "r1", "r2", "r3", "r4"]


def test_times_and_amounts_are_numbers_that_are_read_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a click on a column's header sorts by them."""
    monkeypatch.setattr("ui.runs.history._result", lambda run: "")
    seconds = (0.4, 65.0, 12.0, 198_000.0)
    runs = [some_run(str(s), started=0.0, ended=s, options={"price_per_hour": 10, "currency": "USD"}) for s in seconds]
    euros = {"price_per_hour": 10, "currency": "EUR"}
    runs += [some_run("e", started=0.0, ended=360.0, options=euros), some_run("n", started=None, ended=None)]
    table = frame_of(runs)
    assert table.data["duration"].tolist()[:5] == [*seconds, 360.0]
    assert table.data["cost"].tolist()[:5] == [0.0011, 0.18, 0.033, 550.0, 1.0]
    # Streamlit shows what the style says in columns that have no format of their own.
    body = table._translate(False, False)["body"]
    words = {c: tuple(row[at]["display_value"] for row in body) for at, c in enumerate(table.data.columns, 1)}
    assert words["duration"] == ("0.4 s", "1 min 05 s", "12 s", "2 days 7 h", "6 min 00 s", "")
    assert words["cost"] == ("0.0011 USD", "0.18 USD", "0.033 USD", "550.00 USD", "1.00 EUR", "")


@pytest.mark.parametrize("column", ["trial", "duration", "attempt", "cost"])
def test_figures_stand_below_the_words_of_their_column(column: str) -> None:
    """Which are always on the left."""
    assert columns_of([])[column]["alignment"] == "left"


def test_a_result_has_the_room_that_the_other_columns_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.runs.history._result", lambda run: "")
    few = frame_of([RUN]).data
    assert columns_of(few)["result"]["width"] == 420
    assert columns_of([*few, "cost"])["result"]["width"] == 330
    assert columns_of([*few, "sweep", "trial", "cost"])["result"]["width"] == 300


def test_trials_are_numbers_beside_their_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """So trial 10 comes after trial 2."""
    monkeypatch.setattr("ui.runs.history._result", lambda run: "")
    trials = [some_run(f"t-{n}", options={"sweep": "20260102-030405-abcdef", "trial": n}) for n in (10, 2)]
    table = frame_of([*trials, RUN])
    assert table.data["sweep"].tolist() == ["abcdef", "abcdef", ""]
    assert table.data["trial"].sort_values().tolist()[:2] == [2, 10]
    at = 1 + list(table.data.columns).index("trial")
    assert [row[at]["display_value"] for row in table._translate(False, False)["body"]] == ["10", "2", ""]
    assert "trial" not in frame_of([RUN]).data


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
