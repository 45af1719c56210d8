"""The first tab of a run's page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import some_run, some_task

from engine.declare.datasets import Report
from engine.history.details import Details
from engine.history.summary import Tile
from ui.runs.overview import nodes_table, pill_words, tile_block


@pytest.mark.parametrize(
    ("name", "value", "before", "shown"),
    [
        ("val_rmse", 122.6, 123.4, ("122.6", "↓ better, was 123.4")),
        ("val_auc", 0.93124, 0.93121, ("0.93124", "↑ better, was 0.93121")),
        ("val_auc", 0.93124, 0.93124004, ("0.9312", "as before")),
        ("val_auc", 0.93124, None, ("0.9312",)),
    ],
)
def test_a_tile_shows_what_it_calls_better(
    name: str, value: float, before: float | None, shown: tuple[str, ...]
) -> None:
    drawn = tile_block(Tile("a", "A", name, value, before), several=False)
    assert [f">{text}<" in drawn for text in shown] == [True] * len(shown)


def test_two_pills_never_read_alike() -> None:
    node = "Split by patient into train, validation and test of all"
    one, other = ("Delta table", f"{node} (train)"), ("Delta table", f"{node} (test)")
    found = pill_words([one, other, ("Report", "Evaluate"), (60 * "x", "Train")])
    assert len(set(found)) == 4
    assert found[0].endswith("(train\\)")
    assert found[2] == "Report"
    assert found[3].endswith("…"), "alone it is cut short"


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([("Table", "Table"), ("Table", "Split (test)"), ("Report", "Evaluate")], ["Table", "Split (test)", "Report"]),
        ([("Table", "Report"), ("Table", "B"), ("Report", "Evaluate")], ["Table: Report", "B", "Report"]),
        ([("Table", "A"), ("Table", "B"), ("Model", "A"), ("Model", "C")], ["Table: A", "B", "Model: A", "C"]),
    ],
)
def test_a_pill_names_the_kind_or_else_what_made_it(results: list[tuple[str, str]], words: list[str]) -> None:
    assert [pill.replace("\\", "") for pill in pill_words(results)] == words


def test_the_nodes_of_a_run_without_figures_say_how_far_it_came() -> None:
    tasks = (
        replace(some_task("a"), title="Maker", outputs={"out": Report(uri="/r", figures={"count": 3})}),
        replace(some_task("b"), state="failed", failure={"message": "survey.npy <ends> early"}, ended=75.0),
        replace(some_task("c"), state="cancelled", started=None, reason="another node failed"),
    )
    shown = nodes_table(Details(some_run(), tasks, None, None))
    for words in (
        "Maker",
        "done",
        "5.0 s",
        "failed",
        "1 min 05 s",
        "survey.npy &lt;ends&gt; early",
        "another node failed",
    ):
        assert words in shown
