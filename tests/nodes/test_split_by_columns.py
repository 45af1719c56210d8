"""Splits that keep together what belongs together: groups, labels, time, blocks of space, folds."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from delta_tables import context, ids
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from split_tables import ROWS, members, parts_of, table_of

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, Selection, VolumeDelta, id_fraction
from engine.errors import DataError, UsageError
from nodes.split_dataset import split_dataset
from nodes.splitting import selections
from nodes.table.selection import held


def rows_in(table: VolumeDelta) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(table.uri).to_pyarrow_table().drop(["volume"]).to_pylist()
    return rows


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> VolumeDelta:
    names = [None if i % 50 == 49 else f"P{i % 40}" for i in range(ROWS)]
    dates = [None if i == 7 else dt.date(2024, 1, 1) + dt.timedelta(days=i // 4) for i in range(ROWS)]
    labels = [None if i % 20 == 19 else float(i % 10 == 0) for i in range(ROWS)]
    site = [i % 3 for i in range(ROWS)]
    return table_of(tmp_path_factory.mktemp("patients"), {"patient": names, "seen": dates, "site": site}, labels)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["patient", "site", "patient, site", "seen"])
@pytest.mark.parametrize("folds", [0, 3])
def test_a_group_is_never_parted_and_nothing_is_lost(
    tmp_path: Path, patients: VolumeDelta, column: str, folds: int
) -> None:
    split = split_dataset(patients, by="group", column=column, test=0.2, folds=folds, ctx=context(tmp_path))
    train, validation, test = parts_of(split)
    assert len(train) + len(validation) + len(test) == ROWS == len(train | validation | test)
    rows = rows_in(patients)
    names = [name.strip() for name in column.split(",")]
    groups: dict[Any, set[int]] = {}
    for row in rows:
        key = tuple(row[name] for name in names)
        if None not in key:
            side = next(n for n, part in enumerate((train, validation, test)) if row["id"] in part)
            groups.setdefault(key, set()).add(side)
    assert all(len(sides) == 1 for sides in groups.values())


@pytest.mark.slow
def test_each_label_has_its_share_in_every_part(tmp_path: Path, patients: VolumeDelta) -> None:
    rows = {row["id"]: row["label"] for row in rows_in(patients)}
    split = split_dataset(patients, by="label", validation=0.25, test=0.25, ctx=context(tmp_path))
    for label in (0.0, 1.0, None):
        total = sum(value == label for value in rows.values())
        counts = [sum(rows[i] == label for i in part) for part in parts_of(split)]
        assert sum(counts) == total
        assert counts == pytest.approx([total / 2, total / 4, total / 4], abs=1)
    folds = [split_dataset(patients, by="label", folds=4, fold=n, ctx=context(tmp_path)) for n in (1, 2, 3, 4)]
    held_out = [members(fold.validation) for fold in folds]
    assert set().union(*held_out) == rows.keys()
    assert sum(map(len, held_out)) == ROWS
    assert [sum(rows[i] == 1.0 for i in part) for part in held_out] == pytest.approx([10] * 4, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["volume", "group"])
def test_every_volume_is_validated_on_in_one_fold(tmp_path: Path, patients: VolumeDelta, by: str) -> None:
    column = "patient" if by == "group" else ""
    splits = [
        split_dataset(patients, by=by, column=column, folds=5, fold=n, test=0.1, ctx=context(tmp_path))
        for n in range(1, 6)
    ]
    tests = {frozenset(members(split.test)) for split in splits}
    assert len(tests) == 1
    rest = set(ids(0, ROWS)) - next(iter(tests))
    held_out = [members(split.validation) for split in splits]
    assert set().union(*held_out) == rest
    assert sum(map(len, held_out)) == len(rest)
    for split, part in zip(splits, held_out, strict=True):
        assert members(split.train) == rest - part


@pytest.mark.slow
def test_later_volumes_are_validated_on(tmp_path: Path, patients: VolumeDelta) -> None:
    rows = {row["id"]: row["seen"] for row in rows_in(patients)}
    split = split_dataset(patients, by="time", column="seen", validation=0.25, test=0.25, ctx=context(tmp_path))
    train, validation, test = parts_of(split)
    assert train | validation | test == rows.keys()
    times = [[rows[i] for i in part if rows[i] is not None] for part in (train, validation, test)]
    assert max(times[0]) < min(times[1])
    assert max(times[1]) < min(times[2])
    assert [len(part) for part in (train, validation, test)] == pytest.approx([200, 100, 100], abs=5)
    assert next(i for i, seen in rows.items() if seen is None) in train


@pytest.mark.slow
@pytest.mark.parametrize("params", [{"by": "time", "validation": 0.2, "test": 0.1}, {"by": "group", "test": 0.2}])
def test_nan_in_a_column_is_no_value(tmp_path: Path, params: dict[str, Any]) -> None:
    """The parts are those of a table that has null there."""
    numbers = [float("nan") if i % 4 == 0 else float(i // 2) for i in range(ROWS)]
    columns = {"nan": pa.array(numbers), "null": pa.array(numbers, from_pandas=True)}
    split = []
    for name, column in columns.items():
        table = table_of(tmp_path / name, {"seen": column})
        split.append(parts_of(split_dataset(table, column="seen", **params, ctx=context(tmp_path / name))))
    assert split[0] == split[1]
    assert sum(map(len, split[0])) == ROWS
    empty = set(ids(0, ROWS)[::4])
    assert empty <= split[0][0] if params["by"] == "time" else len(empty & split[0][0]) < len(empty)


def test_nan_is_before_everything_as_null_is() -> None:
    columns = {"id": pa.array(["a", "b", "c", "d"]), "seen": pa.array([1.0, float("nan"), None, 3.0], pa.float32())}
    early = Selection(salt="", low=0, high=0.5, by=("seen",), until="2")
    late = Selection(salt="", low=0.5, high=1, by=("seen",), since="2")
    assert held([early], columns).tolist() == [True, True, True, False]
    assert held([late], columns).tolist() == [False, False, False, True]


def test_ends_of_an_earlier_version_are_understood() -> None:
    """It read as nanoseconds what is read as microseconds now."""
    times = [dt.datetime(2020, 1, 1), dt.datetime(9999, 12, 31)]
    columns = {"id": pa.array(["a", "b"]), "seen": pa.array(times, pa.timestamp("us"))}
    late = Selection(salt="", low=0.5, high=1, by=("seen",), since="2021-05-05 00:00:00.000000000")
    assert held([late], columns).tolist() == [False, True]


@pytest.mark.timeout(60)
def test_a_split_by_labels_that_all_differ_takes_no_longer_than_another(tmp_path: Path) -> None:
    """As those of a regression; a look at all volumes for each label would take hours."""
    labels = np.arange(60_000, dtype=np.float32)
    columns = {"id": pa.array([f"v{n}" for n in range(len(labels))]), "label": pa.array(labels)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(selections, "_columns", lambda *_: columns)
        table = VolumeDelta(uri=str(tmp_path), count=len(labels), bytes=0, version=0, data_version=0)
        split = selections.by_label(table, "s", selections.Shares(0.7, 0.9), selections.Folds())
    parts = [held(part, columns) for part in split]
    assert [int(part.sum()) for part in parts] == pytest.approx([42_000, 12_000, 6_000], abs=1)
    assert (np.sum(parts, axis=0) == 1).all()


@pytest.mark.parametrize("kind", [pa.decimal128(10, 2), pa.int16()], ids=str)
def test_numbers_of_any_type_have_an_order(kind: pa.DataType) -> None:
    columns = {
        "id": pa.array(list("abcd")),
        "label": pa.nulls(4, pa.float32()),
        "seen": pa.array([3, None, 1, 2], kind),
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(selections, "_columns", lambda *_: columns)
        table = VolumeDelta(uri="t", count=4, bytes=0, version=0, data_version=0)
        split = selections.by_time(table, "s", selections.Shares(0.34, 0.67), "seen")
    assert [held(part, columns).tolist() for part in split] == [
        [False, True, True, False],
        [False, False, False, True],
        [True, False, False, False],
    ]


def test_what_cannot_be_split_is_refused_by_name(tmp_path: Path, patients: VolumeDelta) -> None:
    with pytest.raises(DataError, match="no column survey"):
        split_dataset(patients, by="group", column="survey", ctx=context(tmp_path))
    with pytest.raises(DataError, match="the column patient is string, not times"):
        split_dataset(patients, by="time", column="patient", ctx=context(tmp_path))
    with pytest.raises(UsageError, match="there is no fold 4"):
        split_dataset(patients, folds=3, fold=4, ctx=context(tmp_path))
    with pytest.raises(UsageError, match="shorter than the gap"):
        split_dataset(patients, by="blocks", column="site", block=1, gap=2, ctx=context(tmp_path))


@pytest.mark.parametrize(
    ("params", "parameter", "said"),
    [
        ({"by": "blocks", "column": "place", "block": 4.0, "gap": 1.0}, "column", "place is string, not numbers"),
        ({"by": "blocks", "column": "seen", "block": 4.0, "gap": 1.0}, "column", "seen is date32[day], not numbers"),
        (
            {"by": "blocks", "column": "x", "source_column": "path", "block": 4.0, "gap": 1.0},
            "source_column",
            "path is list<",
        ),
        ({"by": "group", "column": "path"}, "column", "path is list<"),
        ({"by": "group", "column": "x,path"}, "column", "path is list<"),
    ],
)
def test_a_column_of_another_kind_is_reported_before_the_run_and_by_it(
    tmp_path: Path, params: dict[str, Any], parameter: str, said: str
) -> None:
    day = dt.date(2024, 1, 1)
    columns = {"place": [f"s{i % 5}" for i in range(ROWS)], "seen": [day] * ROWS, "x": list(range(ROWS))}
    table = table_of(tmp_path, columns | {"path": [[i, i + 1] for i in range(ROWS)]})
    given = Preview.of(table).model_copy(update={"dataset": table})
    assert split_dataset.scan_hook is not None
    assert split_dataset.preview_hook is not None
    look = CheckContext(params, {"table": given}, facts=split_dataset.scan_hook(CheckContext(params, {"table": given})))
    split_dataset.preview_hook(look)
    assert [(d.code, d.parameter) for d in look.problems] == [("VF442", parameter)]
    assert said in look.problems[0].message
    with pytest.raises(DataError, match="nothing says") as caught:
        split_dataset(table, **params, ctx=context(tmp_path))
    assert caught.value.parameter == parameter


def test_positions_that_are_text_are_read_as_numbers(tmp_path: Path) -> None:
    table = table_of(tmp_path, {"x": list(range(ROWS)), "text": [f"{i}.0" for i in range(ROWS)]})
    one, other = (
        split_dataset(table, by="blocks", column=name, block=20, gap=2, ctx=context(tmp_path)) for name in ("x", "text")
    )
    assert parts_of(one) == parts_of(other)


LABELS = st.lists(st.integers(0, 40), min_size=1, max_size=200)


@given(LABELS, st.floats(0, 0.6), st.floats(0, 0.39), st.integers(0, 3))
def test_labels_of_any_size_are_met_to_one_volume_and_nothing_is_lost(
    labels: list[int], validation: float, test: float, seed: int
) -> None:
    names = np.array([str(label) for label in labels])
    hashes = np.random.default_rng(seed).random(len(labels))
    shares = [0, 1 - validation - test, 1 - test, 1]
    cuts = selections._cuts(hashes, names, str(seed), shares)
    assert cuts == selections._cuts(hashes, names, str(seed), shares)
    for name, ends in cuts.items():
        own = hashes[names == name]
        assert ends == sorted(ends)
        assert (ends[0], ends[-1]) == (0, 1)
        counts = [np.count_nonzero((low <= own) & (own < high)) for low, high in itertools.pairwise(ends)]
        assert sum(counts) == len(own)
        wanted = np.diff(shares) * len(own)
        assert (np.abs(counts - wanted) < 1 + 1e-9).all()


@pytest.mark.parametrize(
    ("each", "validation", "test", "folds"),
    [(2, 0.2, 0.0, 0), (4, 0.2, 0.0, 0), (4, 0.3, 0.0, 0), (4, 0.1, 0.1, 0), (1, 0.2, 0.1, 0), (2, 0, 0.1, 5)],
)
def test_small_labels_have_their_shares_together(
    tmp_path: Path, each: int, validation: float, test: float, folds: int
) -> None:
    table = table_of(tmp_path, {"x": list(range(ROWS))}, [0.5 * (i // each) for i in range(ROWS)])
    params = {"by": "label", "validation": validation, "test": test, "folds": folds}
    given = Preview.of(table).model_copy(update={"dataset": table})
    assert split_dataset.scan_hook is not None
    counts = split_dataset.scan_hook(CheckContext(params, {"table": given}))["counts"]
    held_out = (1 - test) / folds if folds else validation
    wanted = [ROWS * (1 - test - held_out), ROWS * held_out, ROWS * test]
    # Of folds only the labels that are left after the test part are divided again.
    assert counts == pytest.approx(wanted, abs=10 if folds else 1)


def test_a_split_by_label_that_was_stored_keeps_its_ends() -> None:
    """Ends are part of the selection, so what decided them does not matter any more."""
    stored = '{"salt":"s","low":0.0,"high":0.8,"strata":[["0",0.0,0.25],["1",0.0,1.0]]}'
    selection = Selection.model_validate_json(stored)
    assert selection.model_dump_json() == stored
    columns = {
        "id": pa.array([f"v{i}" for i in range(40)]),
        "label": pa.array([i % 2 for i in range(40)], pa.float32()),
    }
    wanted = [i % 2 == 1 or id_fraction(f"v{i}", "s") < 0.25 for i in range(40)]
    assert held([selection], columns).tolist() == wanted


def test_labels_with_too_few_volumes_are_named_as_such(tmp_path: Path) -> None:
    table = table_of(tmp_path, {"x": list(range(ROWS))}, [1.0] * ROWS)
    part = table.select(Selection(salt="few", low=0, high=0.02))
    given = Preview.of(part).model_copy(update={"dataset": part})
    params = {"by": "label", "validation": 0.2, "test": 0.01}
    assert split_dataset.scan_hook is not None
    assert split_dataset.preview_hook is not None
    look = CheckContext(params, {"table": given}, facts=split_dataset.scan_hook(CheckContext(params, {"table": given})))
    split_dataset.preview_hook(look)
    assert [(d.code, d.parameter) for d in look.problems] == [("VF446", "by")]
    said = "test has no volumes: the labels have too few volumes each: to be in every part, a label needs about 100"
    assert look.problems[0].message == said
    assert "seed" not in (look.problems[0].hint or "")


@pytest.mark.parametrize(
    ("params", "codes"),
    [
        ({}, []),
        ({"by": "group"}, ["VF442"]),
        ({"by": "time", "column": "a,b"}, ["VF442"]),
        ({"by": "time", "column": "a", "folds": 2}, ["VF442"]),
        ({"folds": 1}, ["VF442"]),
        ({"folds": 3, "fold": 4}, ["VF442"]),
        ({"folds": 2, "validation": 1.0}, []),
        ({"column": "patient"}, ["VF443"]),
        ({"by": "label", "column": "patient"}, ["VF443"]),
    ],
)
def test_contradictions_are_reported_before_a_run(params: dict[str, Any], codes: list[str]) -> None:
    look = CheckContext({"validation": 0.2, "test": 0.0, "seed": 0, **params})
    assert split_dataset.preview_hook is not None
    split_dataset.preview_hook(look)
    assert [d.code for d in look.problems] == codes


def test_a_column_that_is_not_there_is_reported_before_a_run() -> None:
    given = Preview(kind="VolumeDelta", columns=("patient",))
    assert split_dataset.preview_hook is not None
    for column, codes in (("patient", []), ("survey", ["VF444"])):
        look = CheckContext({"by": "group", "column": column}, {"table": given})
        parts = split_dataset.preview_hook(look)
        assert [d.code for d in look.problems] == codes
        assert isinstance(parts, dict)
        assert {part.grouped_by for part in parts.values()} == {(column,)}


@pytest.mark.parametrize(
    ("by", "columns", "said"),
    [
        ("volume", ("age", "Patient-ID"), "parted one by one, and the table has a column Patient-ID:"),
        ("label", ("subject",), "parted by their labels, and the table has a column subject:"),
        ("volume", ("age", "patient_age", "x"), ""),
        ("volume", None, ""),
        ("group", ("patient", "site"), ""),
    ],
)
def test_a_split_that_may_part_a_patient_is_reported_before_a_run(
    by: str, columns: tuple[str, ...] | None, said: str
) -> None:
    params = {p.name: p.default for p in split_dataset.parameters}
    look = CheckContext(
        params | {"by": by, "column": "site" if by == "group" else ""},
        {"table": Preview(kind="VolumeDelta", columns=columns)},
    )
    assert split_dataset.preview_hook is not None
    split_dataset.preview_hook(look)
    assert [d.code for d in look.problems] == (["VF445"] if said else [])
    assert all(said in d.message for d in look.problems)


@given(
    st.lists(st.sampled_from("abcdef") | st.none(), min_size=1, max_size=30),
    st.lists(st.sampled_from("abcdefgh") | st.none(), max_size=30),
    st.floats(0, 1),
    st.integers(0, 3),
)
def test_adding_rows_moves_no_row_and_the_same_seed_gives_the_same_split(
    groups: list[str | None], more: list[str | None], end: float, seed: int
) -> None:
    selection = Selection(salt=str(seed), low=0, high=end, by=("g",))

    def chosen(values: list[str | None]) -> list[bool]:
        columns = {"id": pa.array([f"v{i}" for i in range(len(values))]), "g": pa.array(values, pa.string())}
        found: list[bool] = held([selection], columns).tolist()
        return found

    assert chosen(groups + more)[: len(groups)] == chosen(groups) == chosen(groups)
    expected = [id_fraction(f"v{i}" if g is None else g, str(seed)) < end for i, g in enumerate(groups)]
    assert chosen(groups) == expected


def test_selections_of_before_are_stored_as_before() -> None:
    assert Selection(salt="s", low=0, high=0.5).model_dump_json() == '{"salt":"s","low":0.0,"high":0.5}'
    grouped = Selection(salt="s", low=0, high=0.5, by=("g",))
    assert Selection.model_validate_json(grouped.model_dump_json()) == grouped


def test_a_column_without_times_is_reported_before_the_run(patients: VolumeDelta) -> None:
    given = Preview.of(patients).model_copy(update={"dataset": patients})
    params = {"by": "time", "column": "patient"}
    assert split_dataset.scan_hook is not None
    assert split_dataset.preview_hook is not None
    look = CheckContext(params, {"table": given}, facts=split_dataset.scan_hook(CheckContext(params, {"table": given})))
    split_dataset.preview_hook(look)
    assert [d.code for d in look.problems] == ["VF442"]
    assert "not times or numbers" in look.problems[0].message
