"""Splits that keep together what belongs together: groups, labels, time, blocks of space, folds."""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, context, dataset_of, ids, shards
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, Selection, Transform, VolumeDelta, id_fraction
from engine.errors import DataError, UsageError
from nodes.loaders import open_source
from nodes.parquet_to_delta import parquet_to_delta
from nodes.split_dataset import Split, split_dataset
from nodes.splitting import selections
from nodes.splitting.expected import clear_share
from nodes.table.selection import held
from nodes.volume_file.layout import schema, writer_options
from nodes.volume_file.parts import read_parts

ROWS = 400


def table_of(folder: Path, columns: dict[str, Any], labels: list[float | None] | None = None) -> VolumeDelta:
    """A table of `ROWS` volumes with these columns, in two files."""
    plain = shards(folder / "p", ROWS // 2, ROWS // 2)
    extra = pa.table(columns)
    parts = []
    for number, part in enumerate(read_parts(plain).parts):
        path = Path(plain.uri) / part.path
        rows = pq.read_table(path)
        own = slice(number * ROWS // 2, (number + 1) * ROWS // 2)
        if labels is not None:
            rows = rows.set_column(1, "label", pa.array(labels[own], pa.float32()))
        for name in columns:
            rows = rows.append_column(name, extra[name][own.start : own.stop])
        with pq.ParquetWriter(path, schema(SPEC, extra.schema), **writer_options()) as writer:
            writer.write_table(rows.cast(schema(SPEC, extra.schema)))
        parts.append(replace(part, bytes=path.stat().st_size))
    return parquet_to_delta(dataset_of(folder / "p", parts), ctx=context(folder))


def rows_in(table: VolumeDelta) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(table.uri).to_pyarrow_table().drop(["volume"]).to_pylist()
    return rows


def members(part: VolumeDelta) -> set[str]:
    """The volumes that a loader finds in the part, with a label or without."""
    source = open_source("arrow", part, cores=1)
    try:
        return set(source.ids(source.rows.selected(part.selections)))
    finally:
        source.close()


def parts_of(split: Split) -> list[set[str]]:
    return [members(part) for part in split]


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


@pytest.mark.slow
def test_patches_that_overlap_are_never_in_two_parts(tmp_path: Path) -> None:
    # 20 x 20 positions, 2 apart; volumes of 4 x 3 x 2 voxels overlap with their neighbours.
    at = [(2 * (i % 20), 2 * (i // 20)) for i in range(ROWS)]
    table = table_of(tmp_path, {"x": [x for x, _ in at], "y": [float(y) for _, y in at]})
    assert SPEC.shape[:2] == (4, 3)
    place = dict(zip(ids(0, ROWS), at, strict=True))
    for params in ({"test": 0.2}, {"folds": 3}, {"gap": 5.0, "test": 0.2}):
        split = split_dataset(table, by="blocks", column="x,y", block=6, ctx=context(tmp_path), **params)
        train, validation, test = parts_of(split)
        assert train
        assert validation
        near = (params.get("gap", 4.0), params.get("gap", 3.0))
        for one, other in itertools.combinations((train, validation, test), 2):
            assert not one & other
            meeting = [
                (a, b)
                for a in one
                for b in other
                if all(abs(p - q) < g for p, q, g in zip(place[a], place[b], near, strict=True))
            ]
            assert not meeting


@pytest.mark.slow
def test_each_source_has_blocks_of_its_own(tmp_path: Path) -> None:
    """Two surveys of 200 patches at the same 20 x 10 positions, which overlap with their neighbours."""
    half = ROWS // 2
    at = [(2 * (i % 20), 2 * (i % half // 20)) for i in range(ROWS)]
    surveys = ["north" if i < half else "south" for i in range(ROWS)]
    table = table_of(tmp_path, {"x": [x for x, _ in at], "y": [y for _, y in at], "source": surveys})
    place = dict(zip(ids(0, ROWS), zip(surveys, at, strict=True), strict=True))
    params: dict[str, Any] = {"by": "blocks", "column": "x,y", "block": 6.0, "validation": 0.4}
    together, alone = (
        parts_of(split_dataset(table, **params, source_column=column, ctx=context(tmp_path)))
        for column in ("", "source")
    )
    for parts, same in ((together, True), (alone, False)):
        train, validation, test = parts
        assert (bool(train), bool(validation), bool(test)) == (True, True, False)
        places = [{where: {at for name, at in map(place.get, part) if name == where} for where in ("north", "south")}
                  for part in (train, validation)]  # fmt: skip
        assert (places[0]["north"] == places[0]["south"]) is same
        for where in ("north", "south"):
            assert not any(
                abs(a[0] - b[0]) < 4 and abs(a[1] - b[1]) < 3 for a in places[0][where] for b in places[1][where]
            )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "known"), [("resample", False), ("axes", False), ("orient", False), ("crop-pad", True), ("scale", True)]
)
def test_patches_that_were_resampled_need_a_gap(tmp_path: Path, step: str, known: bool) -> None:
    """Their shape no longer says how near two of them may lie in what they were cut from."""
    made = table_of(tmp_path, {"x": list(range(ROWS))})
    assert made.spec is not None
    transform = Transform(name=step, version=1, parameters={}, words=step)
    table = made.model_copy(update={"spec": made.spec.model_copy(update={"transforms": (transform,)})})
    params: dict[str, Any] = {"by": "blocks", "column": "x"}
    foreseen = Preview(kind="VolumeDelta", columns=("x",), spec=table.spec)
    there = Preview.of(table).model_copy(update={"dataset": table, "columns": ("x",)})
    for shown in (foreseen, there):
        look = CheckContext({p.name: p.default for p in split_dataset.parameters} | params, {"table": shown})
        assert split_dataset.scan_hook is not None
        assert split_dataset.preview_hook is not None
        look.facts = split_dataset.scan_hook(look)
        split_dataset.preview_hook(look)
        assert [(d.code, d.parameter) for d in look.problems] == ([] if known else [("VF442", "gap")])
    if known:
        assert all(parts_of(split_dataset(table, **params, ctx=context(tmp_path)))[:2])
        return
    with pytest.raises(UsageError, match="resampled or turned") as caught:
        split_dataset(table, **params, ctx=context(tmp_path))
    assert caught.value.parameter == "gap"
    assert all(parts_of(split_dataset(table, **params, gap=6.0, ctx=context(tmp_path)))[:2])


@pytest.mark.slow
def test_several_sources_in_one_space_are_reported_before_the_run(tmp_path: Path) -> None:
    table = table_of(tmp_path, {"x": list(range(ROWS)), "source": ["north", "south"] * (ROWS // 2)})
    one = table_of(tmp_path / "one", {"x": list(range(ROWS)), "source": ["north"] * ROWS})
    foreseen = Preview(kind="VolumeDelta", columns=("source", "x"), sources=2)
    params = {p.name: p.default for p in split_dataset.parameters} | {"by": "blocks", "column": "x"}

    def problems(given: Preview, **more: Any) -> list[tuple[str, str | None]]:
        assert split_dataset.scan_hook is not None
        assert split_dataset.preview_hook is not None
        look = CheckContext(params | more, {"table": given})
        look.facts = split_dataset.scan_hook(look)
        split_dataset.preview_hook(look)
        return [(d.code, d.parameter) for d in look.problems]

    there = Preview.of(table).model_copy(update={"dataset": table, "columns": ("source", "x")})
    for known in (there, foreseen):
        assert problems(known) == [("VF447", "source_column")]
        assert problems(known, source_column="source") == []
        assert problems(known, source_column="survey")[0] == ("VF444", "source_column")
        assert problems(known, by="group", source_column="source") == [("VF443", "source_column")]
    assert problems(Preview.of(one).model_copy(update={"dataset": one, "columns": ("source", "x")})) == []
    assert problems(foreseen.model_copy(update={"sources": 1})) == []


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


@given(st.lists(st.tuples(st.integers(-40, 40), st.integers(-40, 40)), min_size=2, max_size=40), st.floats(0.1, 0.9))
def test_no_two_volumes_of_different_sides_meet(at: list[tuple[int, int]], end: float) -> None:
    like: dict[str, Any] = {"salt": "s", "by": ("x", "y"), "blocks": (7.0, 9.0), "gap": (3.0, 4.0)}
    one = Selection(low=0, high=end, clear_of=(end, 1.0), **like)
    other = Selection(low=end, high=1, **like)
    places = np.array(at, np.float64)
    columns = {
        "id": pa.array([f"v{i}" for i in range(len(at))]), "x": pa.array(places[:, 0]), "y": pa.array(places[:, 1])
    }  # fmt: skip
    left, right = (places[held([each], columns)] for each in (one, other))
    for p in left:
        assert not (np.abs(right - p) < (3.0, 4.0)).all(axis=1).any()


def test_selections_of_before_are_stored_as_before() -> None:
    assert Selection(salt="s", low=0, high=0.5).model_dump_json() == '{"salt":"s","low":0.0,"high":0.5}'
    grouped = Selection(salt="s", low=0, high=0.5, by=("g",))
    assert Selection.model_validate_json(grouped.model_dump_json()) == grouped


@given(st.floats(0.1, 3), st.floats(0, 0.5), st.integers(1, 3))
def test_the_gap_between_blocks_is_in_what_is_foreseen(gap: float, taken: float, axes: int) -> None:
    """Against places drawn at random in one block whose neighbours are on the other side with the chance `taken`."""
    length = 3.0
    lengths, gaps = (length,) * axes, (gap,) * axes
    at = np.random.default_rng(0).random((4000, axes)) * length
    blocks = (np.floor((at + gap) / length) - np.floor((at - gap) / length) + 1).prod(axis=1)
    assert clear_share(lengths, gaps, taken) == pytest.approx(float(((1 - taken) ** (blocks - 1)).mean()), abs=0.03)


@pytest.mark.slow
def test_a_split_by_blocks_is_foreseen_without_those_in_the_gap(tmp_path: Path) -> None:
    side = 24
    x, y = (grid.reshape(-1) for grid in np.meshgrid(np.arange(side), np.arange(side), indexing="ij"))
    assert len(x) >= ROWS
    table = table_of(tmp_path, {"x": x[:ROWS].tolist(), "y": y[:ROWS].tolist()})
    params: dict[str, Any] = {"by": "blocks", "column": "x,y", "block": 4.0, "gap": 1.0, "validation": 0.3}
    given = Preview.of(table).model_copy(update={"columns": ("x", "y")})
    assert split_dataset.preview_hook is not None
    about = split_dataset.preview_hook(CheckContext(params, {"table": given}))
    made = split_dataset(table, **params, ctx=context(tmp_path))
    assert isinstance(about, dict)
    assert made.train.selected == len(members(made.train)) < 0.7 * ROWS
    # Blocks are few here, so their share varies; the part that lies in the gap does not.
    assert about["train"].selected == pytest.approx(made.train.selected, rel=0.2)
    assert about["validation"].selected == 0.3 * ROWS


def test_a_column_without_times_is_reported_before_the_run(patients: VolumeDelta) -> None:
    given = Preview.of(patients).model_copy(update={"dataset": patients})
    params = {"by": "time", "column": "patient"}
    assert split_dataset.scan_hook is not None
    assert split_dataset.preview_hook is not None
    look = CheckContext(params, {"table": given}, facts=split_dataset.scan_hook(CheckContext(params, {"table": given})))
    split_dataset.preview_hook(look)
    assert [d.code for d in look.problems] == ["VF442"]
    assert "not times or numbers" in look.problems[0].message
