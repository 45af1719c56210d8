from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from delta_tables import SPEC, context, ids, shards
from hypothesis import given
from hypothesis import strategies as st
from volume_sets import make_delta, some_volumes

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeDelta
from engine.declare.events import Event, Message
from engine.errors import UsageError
from engine.wording import details_text, foreseen
from nodes.parquet_to_delta import parquet_to_delta
from nodes.split_dataset import Split, split_dataset

# In object storage, so that nothing is read to count the parts.
TABLE = VolumeDelta(
    uri="az://container/t", count=2000, bytes=1, spec=SPEC, version=3, data_version=2, files=4, labelled=5
)


def _split(tmp_path: Path, table: VolumeDelta = TABLE, **params: Any) -> Split:
    return split_dataset(table, ctx=context(tmp_path), **params)


def _holds(table: VolumeDelta, volume_id: str) -> bool:
    return all(s.holds(volume_id) for s in table.selections)


def _members(split: Split, volume_ids: list[str]) -> list[set[str]]:
    return [{i for i in volume_ids if _holds(part, i)} for part in split]


def test_every_volume_is_in_exactly_one_part(tmp_path: Path) -> None:
    train, validation, test = _members(_split(tmp_path, validation=0.2, test=0.1), ids(0, 2000))
    assert train | validation | test == set(ids(0, 2000))
    assert len(train) + len(validation) + len(test) == 2000
    # Shares are met on average: three standard deviations of a share of 2,000 are below 3%.
    for part, share in ((train, 0.7), (validation, 0.2), (test, 0.1)):
        assert abs(len(part) / 2000 - share) < 0.03


@given(st.floats(0, 0.6), st.floats(0, 0.39), st.integers(0, 5), st.text(min_size=1, max_size=20))
def test_no_id_falls_between_the_parts(
    tmp_path_factory: pytest.TempPathFactory, validation: float, test: float, seed: int, volume_id: str
) -> None:
    split = _split(tmp_path_factory.getbasetemp(), validation=validation, test=test, seed=seed)
    assert sum(_holds(part, volume_id) for part in split) == 1


def test_references_are_the_table_itself(tmp_path: Path) -> None:
    for part in _split(tmp_path):
        assert part.model_copy(update={"selections": ()}) == TABLE


def test_a_volume_stays_in_its_part_when_others_come(tmp_path: Path) -> None:
    few = _members(_split(tmp_path), ids(0, 500))
    many = _members(_split(tmp_path), ids(0, 2000))
    assert all(a <= b for a, b in zip(few, many, strict=True))


def test_the_test_part_does_not_depend_on_the_validation_share(tmp_path: Path) -> None:
    one = _members(_split(tmp_path, validation=0.1, test=0.2), ids(0, 500))[2]
    two = _members(_split(tmp_path, validation=0.3, test=0.2), ids(0, 500))[2]
    assert one == two


def test_another_seed_gives_another_split(tmp_path: Path) -> None:
    one, two = (_members(_split(tmp_path, seed=seed), ids(0, 500))[1] for seed in (0, 1))
    assert one != two
    assert one & two


def test_a_split_of_a_split_has_all_its_parts(tmp_path: Path) -> None:
    outer = _split(tmp_path, validation=0.3).train
    inner = _split(tmp_path, outer, validation=0.3)
    members = _members(inner, ids(0, 2000))
    assert members[0] | members[1] == _members(_split(tmp_path, validation=0.3), ids(0, 2000))[0]
    assert abs(len(members[1]) / 2000 - 0.7 * 0.3) < 0.04


def test_nothing_left_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to train on"):
        _split(tmp_path, validation=0.5, test=0.5)
    look = CheckContext({"validation": 0.5, "test": 0.5, "seed": 0})
    assert split_dataset.preview_hook is not None
    split_dataset.preview_hook(look)
    assert [(d.code, d.parameter) for d in look.problems] == [("VF441", "validation")]


def _foreseen(given: Preview, facts: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Preview]:
    look = CheckContext(params, {"table": given}, facts=facts or {})
    assert split_dataset.preview_hook is not None
    seen = split_dataset.preview_hook(look)
    assert isinstance(seen, Mapping)
    return dict(seen)


def test_each_part_is_foreseen_with_its_share() -> None:
    given = Preview(kind="VolumeDelta", count=2000, bytes=720, spec=SPEC, labelled=1000)
    parts = _foreseen(given, validation=0.2, test=0.1)
    assert [(part.count, part.selected, part.selected_exactly) for part in parts.values()] == [
        (2000, 1400, False),
        (2000, 400, False),
        (2000, 200, False),
    ]
    assert parts["train"].labelled_held == 700
    assert foreseen(parts["validation"]) == "about 400 of 2,000 volumes"
    folds = _foreseen(given, test=0.2, folds=4, fold=2)
    assert [part.selected for part in folds.values()] == [1200, 400, 400]
    again = _foreseen(parts["train"], validation=0.5)
    assert [part.held for part in again.values()] == [700, 700, 0]
    assert foreseen(again["test"]) == "0 of 2,000 volumes"


def test_of_an_unknown_table_nothing_is_foreseen() -> None:
    parts = _foreseen(Preview(kind="VolumeDelta", spec=SPEC))
    assert {part.held for part in parts.values()} == {None}


@pytest.mark.slow
@pytest.mark.parametrize("params", [{"test": 0.1}, {"by": "label", "test": 0.1}, {"folds": 3, "fold": 3}])
def test_a_table_that_is_there_is_counted_before_the_run(tmp_path: Path, params: dict[str, Any]) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 40), ctx=context(tmp_path))
    given = Preview.of(table).model_copy(update={"dataset": table})
    assert split_dataset.scan_hook is not None
    parts = _foreseen(given, split_dataset.scan_hook(CheckContext(params, {"table": given})), **params)
    made = _split(tmp_path, table, **params)._asdict()
    assert {port: part.selected for port, part in parts.items()} == {port: made[port].selected for port in made}
    assert sum(part.selected or 0 for part in parts.values()) == 40
    assert all(part.selected_exactly and part.dataset == made[port] for port, part in parts.items())


def test_a_part_without_volumes_is_reported_before_the_run(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 2), ctx=context(tmp_path))
    given = Preview.of(table).model_copy(update={"dataset": table})
    params = {"validation": 0.01}
    assert split_dataset.scan_hook is not None
    assert split_dataset.preview_hook is not None
    look = CheckContext(params, {"table": given}, facts=split_dataset.scan_hook(CheckContext(params, {"table": given})))
    split_dataset.preview_hook(look)
    assert [(d.code, d.severity) for d in look.problems] == [("VF446", "warning")]
    assert "validation has no volumes: there are too few volumes" in look.problems[0].message


@pytest.mark.slow
def test_a_class_that_a_part_lacks_is_reported_before_the_run_and_in_it(tmp_path: Path) -> None:
    volumes = some_volumes(30)
    table = make_delta(tmp_path, volumes, {name: float(number < 2) for number, name in enumerate(volumes)})
    given = Preview.of(table).model_copy(update={"dataset": table})
    assert split_dataset.scan_hook is not None
    assert split_dataset.preview_hook is not None
    found = {}
    for params in ({"seed": seed, "test": 0.2} for seed in range(12)):
        look = CheckContext(
            params, {"table": given}, facts=split_dataset.scan_hook(CheckContext(params, {"table": given}))
        )
        split_dataset.preview_hook(look)
        events: list[Event] = []
        split_dataset(table, ctx=replace(context(tmp_path), emit=events.append), **params)
        said = [event.text for event in events if isinstance(event, Message) and "class" in event.text]
        before = [problem.message for problem in look.problems if problem.code == "VF449"]
        assert [text.partition(". ")[0] for text in said] == before
        found |= dict.fromkeys(text.partition(",")[0].partition(" (")[0] for text in before)
    assert found.keys() == {
        "no training volume is of class 1",
        "the validation volumes are all of class 0",
        "the test volumes are all of class 0",
    }


def test_a_part_that_ran_is_counted(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 40), ctx=context(tmp_path))
    split = _split(tmp_path, table, test=0.25)
    counts = [len(part) for part in _members(split, ids(0, 40))]
    assert [part.selected for part in split] == counts
    assert [Preview.of(part).held for part in split] == counts
    assert details_text(split.test.details()).startswith(f"{counts[2]} of 40 volumes, ")
    assert VolumeDelta.model_validate_json(split.test.model_dump_json()) == split.test
    assert "selected" not in table.model_dump()


def test_of_a_part_that_was_not_counted_its_share_is_known(tmp_path: Path) -> None:
    train = _split(tmp_path, validation=0.25).train
    assert train.selected is None
    assert (Preview.of(train).selected, Preview.of(train).selected_exactly) == (1500, False)
    assert details_text(train.details()).startswith("75% of 2,000 volumes, ")


def test_a_real_table_splits_without_new_files(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 30), ctx=context(tmp_path))
    before = sorted(Path(table.uri).rglob("*"))
    split = _split(tmp_path, table)
    assert sorted(Path(table.uri).rglob("*")) == before
    assert split.train.uri == table.uri
    assert split_dataset.verify_hook is not None
    assert split_dataset.verify_hook(split._asdict(), False) == ""
