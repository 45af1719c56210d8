"""Constraints of a table: rows that break one do not come in, on either backend and wherever the table lies."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from constraint_expressions import CERTAIN, ROWS
from delta_tables import context, dataset_of, ids, read_by_deltalake, rows_of, write_shard
from deltalake import DeltaTable
from prediction_parts import card, work
from volume_sets import labels_for, make_delta, some_volumes
from volumes import rows_by_polars, rows_by_pyarrow

from engine.declare.datasets import VolumeDelta, VolumeParquet
from engine.errors import DataError, UnsupportedTable
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.prediction.parts import Ledger
from nodes.prediction.predictions_table import commit
from nodes.prediction.table_folder import ChosenTable, version_of
from nodes.table.constraint_sql import Uncertain, columns_in, parse
from nodes.table.constraint_values import holds
from nodes.table.snapshot import open_table
from nodes.volume_file.layout import writer_options
from nodes.volume_file.parts import Part

Change = Callable[[str], None]
GOOD, GROWN = ids(1, 5), ids(6, 9)
"""All of the first have labels; of the second vol-00007 and vol-00014 have none, and four have 1."""


def table_with(change: Change, tmp_path: Path) -> VolumeDelta:
    """A table of the volumes `GOOD` that somebody then changes."""
    table = parquet_to_delta(dataset_of(tmp_path / "p", [write_shard(tmp_path / "p", GOOD)]), ctx=context(tmp_path))
    change(table.uri)
    return table


def grown(tmp_path: Path, *more: list[str]) -> VolumeParquet:
    return dataset_of(tmp_path / "p", [write_shard(tmp_path / "p", some) for some in (GOOD, *more)])


def check(name: str, expression: str) -> Change:
    return lambda uri: DeltaTable(uri).alter.add_constraint({name: expression})


def property_check(name: str, expression: str) -> Change:
    """As Spark stores it: delta-rs would write the expression in its own words, or not at all."""
    return lambda uri: DeltaTable(uri).alter.set_table_properties(
        {f"delta.constraints.{name}": expression}, raise_if_not_exists=False
    )


def column(name: str, nullable: bool = True, **metadata: Any) -> Change:
    """Declare a column otherwise in the first commit, as another writer may have created it."""

    def change(uri: str) -> None:
        log = Path(uri) / "_delta_log" / f"{0:020d}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        described = next(a["metaData"] for a in actions if "metaData" in a)
        schema = json.loads(described["schemaString"])
        for field in schema["fields"]:
            if field["name"] == name:
                field.update(nullable=nullable, metadata=metadata)
        described["schemaString"] = json.dumps(schema)
        log.write_text("".join(json.dumps(a) + "\n" for a in actions))

    return change


def invariant(expression: str) -> str:
    return json.dumps({"expression": {"expression": expression}})


BROKEN = {
    "check": (check("known", "label IS NOT NULL"), "of 9 new rows: its constraint known .* in 2 rows", "vol-00007"),
    "check of a value": (property_check("low", "label < 1"), "its constraint low .* is broken in 5 rows", "vol-00007"),
    "null": (property_check("low", "label <= 1"), "its constraint low .* is broken in 2 rows", "vol-00007"),
    "not null": (column("label", nullable=False), "NOT NULL of the column label .* is broken in 2 rows", "vol-00007"),
    "invariant": (
        column("label", **{"delta.invariants": invariant("label = 0")}),
        "the invariant of the column label .* is broken in 5 rows",
        "vol-00007",
    ),
    "generated": (
        column("label", **{"delta.generationExpression": "1"}),
        r"the generated column label \(`label` <=> \(1\)\) is broken in 6 rows",
        "vol-00006",
    ),
    "varchar": (
        column("id", nullable=False, __CHAR_VARCHAR_TYPE_STRING="varchar(8)"),
        r"the type varchar\(8\) of the column id .* is broken in 9 rows",
        "vol-00006",
    ),
    "volume": (
        property_check("size", "octet_length(volume) = 95"),
        "its constraint size .* in 9 rows",
        "vol-00006",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_rows_that_break_a_constraint_stay_out(tmp_path: Path, kind: str) -> None:
    change, said, example = BROKEN[kind]
    table = table_with(change, tmp_path)
    before = open_table(table.uri)
    with pytest.raises(DataError, match=f"{said}.*for example {example}") as raised:
        parquet_to_delta(grown(tmp_path, GROWN), ctx=context(tmp_path))
    assert raised.value.parameter == "table"
    assert table.uri in raised.value.message
    after = open_table(table.uri)
    assert (after.version, after.files) == (before.version, before.files)
    data = {p.name for p in Path(table.uri).glob("*.parquet")}
    assert data == {f.path for f in before.files}, "nothing is left"


def test_every_broken_constraint_is_named_with_what_removes_it(tmp_path: Path) -> None:
    def change(uri: str) -> None:
        column("label", nullable=False)(uri)
        property_check("odd", "id > 'vol-00008'")(uri)

    table_with(change, tmp_path)
    with pytest.raises(DataError) as raised:
        parquet_to_delta(grown(tmp_path, GROWN), ctx=context(tmp_path))
    assert (
        "NOT NULL of the column label (`label` IS NOT NULL) is broken in 2 rows, for example vol-00007"
        in raised.value.message
    )
    assert "its constraint odd (id > 'vol-00008') is broken in 3 rows, for example vol-00006" in raised.value.message
    assert "ALTER COLUMN `label` DROP NOT NULL; ALTER TABLE" in raised.value.hint
    assert "DROP CONSTRAINT `odd`;" in raised.value.hint


@pytest.mark.slow
def test_rows_that_keep_all_constraints_come_in_and_are_compacted(tmp_path: Path) -> None:
    def change(uri: str) -> None:
        column("label", nullable=False, **{"delta.invariants": invariant("label >= 0")})(uri)
        check("known", "label IN (0, 1) AND id LIKE 'vol-%'")(uri)

    table = table_with(change, tmp_path)
    some = ids(8, 5)
    full = parquet_to_delta(grown(tmp_path, some), ctx=context(tmp_path))
    done = optimize_delta(full, ctx=context(tmp_path, "optimize"))
    assert (done.files, done.count) == (1, 10)
    for read in (read_by_deltalake, rows_by_pyarrow, rows_by_polars):
        assert read(table.uri) == rows_of([*GOOD, *some])
    # What is in the table is not looked at again, what vanished needs no look.
    assert parquet_to_delta(grown(tmp_path, some), ctx=context(tmp_path)).version == done.version
    assert parquet_to_delta(grown(tmp_path), ctx=context(tmp_path)).count == len(GOOD)
    assert "delta.constraints.known" in open_table(table.uri).properties


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (property_check("odd", "id RLIKE '^vol'"), r"break its constraint odd \(id RLIKE '\^vol'\) is not certain"),
        (column("label", **{"delta.identity.start": 1}), "label of the table is an identity column"),
        (column("id", __CHAR_VARCHAR_TYPE_STRING="char(9)"), r"id of the table is declared char\(9\)"),
        (column("label", **{"delta.invariants": "nonsense"}), "an invariant that cannot be read"),
    ],
)
def test_what_cannot_be_decided_is_refused(tmp_path: Path, change: Change, said: str) -> None:
    table = table_with(change, tmp_path)
    with pytest.raises(UnsupportedTable, match=said) as raised:
        parquet_to_delta(grown(tmp_path, ids(8, 5)), ctx=context(tmp_path))
    assert raised.value.hint
    assert read_by_deltalake(table.uri) == rows_of(GOOD)


def test_a_table_that_only_takes_rows(tmp_path: Path) -> None:
    def change(uri: str) -> None:
        DeltaTable(uri).alter.set_table_properties({"delta.appendOnly": "true"})

    table = table_with(change, tmp_path)
    full = parquet_to_delta(grown(tmp_path, GROWN), ctx=context(tmp_path))
    assert read_by_deltalake(table.uri) == rows_of([*GOOD, *GROWN])
    with pytest.raises(DataError, match="1 of its files hold rows that changed or vanished"):
        parquet_to_delta(grown(tmp_path), ctx=context(tmp_path))
    assert open_table(table.uri).version == full.version


def with_site(folder: Path, volume_ids: list[str], sites: list[str | None]) -> Part:
    """A shard with a column of the user's own, which has no statistics."""
    plain = write_shard(folder, volume_ids, name=f"{len(volume_ids)}-{volume_ids[0]}.parquet")
    path = folder / plain.path
    rows = pq.read_table(path).append_column("site", pa.array(sites, pa.string()))
    with pq.ParquetWriter(path, rows.schema, **writer_options()) as writer:
        writer.write_table(rows)
    stat = path.stat()
    return replace(plain, bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)


@pytest.mark.slow
def test_a_required_column_of_the_user_s_own(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    first = with_site(folder, GOOD, ["a"] * 5)
    table = parquet_to_delta(dataset_of(folder, [first]), ctx=context(tmp_path))
    column("site", nullable=False)(table.uri)
    for sites, said in (
        (["a", None, "b"], "of 3 new rows: NOT NULL of the column site .* is broken in 1 row, .*vol-00007"),
        (None, "site"),
    ):
        some = ids(6, 3)
        new = with_site(folder, some, sites) if sites else write_shard(folder, some)
        with pytest.raises(DataError, match=said):
            parquet_to_delta(dataset_of(folder, [first, new]), ctx=context(tmp_path))
    good = with_site(folder, ids(6, 4), ["a"] * 4)
    full = parquet_to_delta(dataset_of(folder, [first, good]), ctx=context(tmp_path))
    done = optimize_delta(full, ctx=context(tmp_path, "optimize"))
    assert (done.files, read_by_deltalake(done.uri)) == (1, rows_of([*GOOD, *ids(6, 4)]))
    less = parquet_to_delta(dataset_of(folder, [good]), ctx=context(tmp_path))
    assert read_by_deltalake(less.uri) == rows_of(ids(6, 4)), "rows that stay need no look"


@pytest.mark.slow
def test_predictions_keep_the_constraints_of_their_table(tmp_path: Path) -> None:
    volumes = some_volumes(23, (3, 4, 2))
    data = make_delta(tmp_path, volumes, labels_for(volumes, unlabelled=3))
    root = tmp_path / "predictions"

    def predict(name: str) -> None:
        ctx = context(tmp_path, name)
        ledger = Ledger(ctx.scratch / "prediction")
        ledger.begin(name, lambda: ChosenTable(version_of(root)))
        work(tmp_path, data, ledger)
        commit(root, ledger, [*ledger.done().values()], version_of(root), card(tmp_path), "digest", ctx)

    predict("one")
    column("label", nullable=False)(str(root))
    with pytest.raises(DataError, match=r"of 23 new rows: NOT NULL of the column label .* is broken in 3 rows"):
        predict("two")
    column("label")(str(root))
    property_check("scored", "predicted IN (0, 1) AND label IS NOT NULL")(str(root))
    version = version_of(root)
    with pytest.raises(DataError, match=r"its constraint scored .* is broken in 3 rows"):
        predict("three")
    assert version_of(root) == version


# --- what expressions mean ----------------------------------------------------------------------

UNCERTAIN = [
    "id RLIKE 'a'",
    "n / 2 = 1",
    "n + 1 > 2",
    "id > 1",
    "label = '1'",
    "id = 'it''s'",
    "id LIKE 'a\\%'",
    'id = "n"',
    "missing > 1",
    "upper(id) = 'A'",
    "cast(label AS int) = label",
    "n = 1 OR n = 2 IS TRUE",
    "n = 1 = flag",
    "floor(label) = label",
    "`Big One` = label",
    "n > 0 -- all of them",
    "n > 0 AND",
    "CASE WHEN n = 1 THEN true END",
    "n",
    "volume = id",
    "n > 1L",
    "length(id, n) = 1",
    "n NOT",
    "",
]


def good_ids(expression: str, rows: pa.Table = ROWS) -> list[str | None]:
    """For which rows it holds."""
    parsed = parse(expression, rows.column_names)
    assert columns_in(parsed) <= set(rows.column_names)
    (batch,) = rows.to_batches()
    found: list[str | None] = batch["id"].filter(holds(parsed, batch)).to_pylist()
    return found


@pytest.mark.parametrize(
    ("expression", "good"),
    [
        ("label >= 0", ["a", "b%", "Ä\n", "e"]),  # -0.0 is 0.0, NaN is large
        ("label = 0.1", []),  # as doubles
        ("label = label", ["a", "b%", "Ä\n", "e", None]),
        ("NOT label >= 0", [None]),
        ("label NOT IN (0, NULL)", []),
        ("isnan(label) OR isnull(label)", ["", "Ä\n"]),
        ("n % 3 = -1", ["Ä\n"]),
        ("NULL", []),
    ],
)
def test_an_expression_means_what_it_means_to_spark(expression: str, good: list[str | None]) -> None:
    assert good_ids(expression) == good


@pytest.mark.parametrize("expression", UNCERTAIN)
def test_what_may_mean_something_else_is_not_guessed_at(expression: str) -> None:
    with pytest.raises(Uncertain, match=r"\w"):
        good_ids(expression)


@pytest.mark.parametrize("expression", CERTAIN)
def test_every_expression_is_evaluated(expression: str) -> None:
    """What it must give is Spark's to say (`tests/nodes/spark/test_constraints.py`)."""
    assert isinstance(good_ids(expression), list)
