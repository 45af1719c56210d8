"""The head of a run's page."""

from __future__ import annotations

import json

import pytest
from building import some_run

from engine.store.estimates import Estimated
from ui.runs.run_page import _facts


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"start": "restart", "end": "trend"}, "from restart, to trend"),
        ({"end": "append"}, "to append"),
        ({"start": None, "end": None}, None),
    ],
)
def test_the_part_that_ran_names_its_nodes(options: dict[str, str | None], shown: str | None) -> None:
    assert dict(_facts(some_run(options=options), [])).get("Part") == shown


def test_nodes_are_named_as_on_the_canvas() -> None:
    nodes = [{"id": "n1", "type": "SplitDataset", "title": "Parts"}, {"id": "n2", "type": "TrainResNet3D"}]
    document = json.dumps({"schema_version": 1, "name": "p", "nodes": nodes, "edges": []})
    options = {"start": "n1", "end": "gone", **Estimated(unknown=("n2", "n1")).as_options()}
    shown = dict(_facts(some_run(document=document, options=options, state="running"), []))
    assert shown["Part"] == "from Parts, to gone"
    assert shown["Expected"].endswith("without an earlier run of TrainResNet3D, Parts or a price an hour")
    # A document that this Voxelflow cannot read.
    shown = dict(_facts(some_run(document="{}", options=options, state="running"), []))
    assert shown["Part"] == "from n1, to gone"


def test_what_a_run_took_and_has_cost_is_said_once() -> None:
    priced = {"price_per_hour": 3600.0, "currency": "USD"}
    shown = dict(_facts(some_run(options={**Estimated(5, 20).as_options(), **priced}), []))
    assert (shown["Duration"], shown["Cost"]) == ("12 s", "12.00 USD at 3,600 USD an hour")
    assert shown["Expected"] == "5.0 s to 20 s, 5.00 to 20.00 USD"


def test_nothing_is_expected_of_a_run_that_is_done() -> None:
    options = Estimated(unknown=("train",)).as_options()
    assert "Expected" in dict(_facts(some_run(options=options, state="running"), []))
    assert "Expected" not in dict(_facts(some_run(options=options), []))
