from __future__ import annotations

import datetime as dt
import os
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import (
    SPEC,
    Interfering,
    context,
    dataset_of,
    exactly,
    ids,
    multiset,
    read_by_deltalake,
    rows_of,
    shards,
    write_shard,
)
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import PrimitiveType
from volumes import rows_by_pyarrow

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeDelta, VolumeParquet
from engine.errors import DataError, UsageError
from nodes.loaders import open_source
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import open_table
from nodes.volume_file.layout import schema, writer_options
from nodes.volume_file.parts import Part, read_parts


def _holds(table: VolumeDelta, volume_ids: list[str]) -> None:
    """The version pinned, and the newest one, hold exactly these volumes."""
    for version in (table.version, None):
        exactly(table.uri, volume_ids, version)
    assert table.count == len(volume_ids)


def _without(dataset: VolumeParquet, *places: int, extra: tuple[Part, ...] = ()) -> VolumeParquet:
    """The dataset without the shards at these places, and with others."""
    parts = [p for i, p in enumerate(read_parts(dataset).parts) if i not in places]
    return dataset_of(Path(dataset.uri), [*parts, *extra])


@pytest.mark.slow
def test_a_table_owns_its_files_without_copying_them(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    _holds(table, ids(0, 7))
    for file, part in zip(open_table(table.uri).files, read_parts(dataset).parts, strict=True):
        assert file.path == part.path
        assert (Path(table.uri) / file.path).samefile(Path(dataset.uri) / part.path)
    shutil.rmtree(dataset.uri)
    _holds(table, ids(0, 7))
    assert table.labelled == dataset.labelled
    assert table.spec == SPEC
    assert table.bytes == dataset.bytes


def test_copy_makes_files_of_its_own(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3)
    table = parquet_to_delta(dataset, mode="copy", ctx=context(tmp_path))
    (file,) = open_table(table.uri).files
    assert not (Path(table.uri) / file.path).samefile(Path(dataset.uri) / file.path)
    _holds(table, ids(0, 3))


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no second file system")
def test_link_across_file_systems_becomes_a_copy(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3)
    elsewhere = Path("/dev/shm") / f"voxelflow-{os.getpid()}"
    try:
        _holds(parquet_to_delta(dataset, table=str(elsewhere), ctx=context(tmp_path)), ids(0, 3))
    finally:
        shutil.rmtree(elsewhere, ignore_errors=True)


@pytest.mark.slow
def test_in_place_makes_the_parquet_folder_the_table(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = parquet_to_delta(dataset, mode="in_place", ctx=context(tmp_path))
    assert table.uri == dataset.uri
    _holds(table, ids(0, 7))
    grown = parquet_to_delta(shards(tmp_path / "p", 3, 4, 5), mode="in_place", ctx=context(tmp_path))
    _holds(grown, ids(0, 12))
    with pytest.raises(UsageError, match="in place"):
        parquet_to_delta(dataset, mode="in_place", table=str(tmp_path / "other"), ctx=context(tmp_path))


def test_a_file_of_a_table_in_place_must_not_change(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    parquet_to_delta(
        dataset_of(folder, [write_shard(folder, ids(0, 3), name="a.parquet")]), mode="in_place", ctx=context(tmp_path)
    )
    (folder / "a.parquet").unlink()
    changed = dataset_of(folder, [write_shard(folder, ids(0, 4), name="a.parquet")])
    with pytest.raises(DataError, match="must not change"):
        parquet_to_delta(changed, mode="in_place", ctx=context(tmp_path))


def test_doing_it_again_makes_no_version(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    first = parquet_to_delta(dataset, ctx=context(tmp_path))
    log = sorted((Path(first.uri) / "_delta_log").iterdir())
    assert parquet_to_delta(dataset, ctx=context(tmp_path)) == first
    assert sorted((Path(first.uri) / "_delta_log").iterdir()) == log


@pytest.mark.slow
def test_twenty_new_shards_cost_twenty_files(tmp_path: Path) -> None:
    before = parquet_to_delta(shards(tmp_path / "p", *[2] * 5), ctx=context(tmp_path))
    old = {f.path for f in open_table(before.uri).files}
    after = parquet_to_delta(shards(tmp_path / "p", *[2] * 25), ctx=context(tmp_path))
    assert after.version == before.version + 1
    actions = (Path(after.uri) / "_delta_log" / f"{after.version:020d}.json").read_text().splitlines()
    assert sum(line.startswith('{"add"') for line in actions) == 20
    assert not any(line.startswith('{"remove"') for line in actions)
    assert old < {f.path for f in open_table(after.uri).files}
    _holds(after, ids(0, 50))


@pytest.mark.slow
@pytest.mark.parametrize("optimized", [False, True])
def test_shards_vanish_and_change(tmp_path: Path, optimized: bool) -> None:
    dataset = shards(tmp_path / "p", 3, 4, 5)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    if optimized:
        assert optimize_delta(table, ctx=context(tmp_path, "o")).files == 1
    # The middle one vanishes.
    table = parquet_to_delta(_without(dataset, 1), ctx=context(tmp_path))
    _holds(table, ids(0, 3) + ids(7, 5))
    # The last one changes, and the middle one comes back: first and second state each stay readable.
    changed = write_shard(Path(dataset.uri), ids(7, 9))
    again = parquet_to_delta(_without(dataset, 2, extra=(changed,)), ctx=context(tmp_path))
    _holds(again, ids(0, 16))
    assert read_by_deltalake(table.uri, table.version) == rows_of(ids(0, 3) + ids(7, 5))
    # Everything but the new one goes.
    only = parquet_to_delta(dataset_of(Path(dataset.uri), [changed]), ctx=context(tmp_path))
    _holds(only, ids(7, 9))
    assert only.data_version == only.version


@pytest.mark.slow
def test_a_state_that_was_there_before_is_made_again(tmp_path: Path) -> None:
    """The same fingerprint runs twice with another state between: its transaction id must not stop it."""
    small, large = shards(tmp_path / "p", 3), shards(tmp_path / "p", 3, 4)
    first = parquet_to_delta(small, ctx=context(tmp_path))
    place = first.uri
    second = parquet_to_delta(large, table=place, ctx=context(tmp_path, "large"))
    third = parquet_to_delta(small, table=place, ctx=context(tmp_path))
    assert first.version < second.version < third.version
    _holds(third, ids(0, 3))
    fourth = parquet_to_delta(large, table=place, ctx=context(tmp_path, "large"))
    _holds(fourth, ids(0, 7))


@pytest.mark.slow
def test_files_with_plain_names_are_identified_by_size_and_time(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    first = [write_shard(folder, ids(0, 3), name="a.parquet"), write_shard(folder, ids(3, 3), name="sub/a.parquet")]
    table = parquet_to_delta(dataset_of(folder, first), ctx=context(tmp_path))
    _holds(table, ids(0, 6))
    (folder / "a.parquet").unlink()
    changed = write_shard(folder, ids(10, 3), name="a.parquet")
    assert changed.mtime_ns != first[0].mtime_ns
    after = parquet_to_delta(dataset_of(folder, [changed, first[1]]), ctx=context(tmp_path))
    _holds(after, ids(3, 3) + ids(10, 3))
    assert read_by_deltalake(table.uri, table.version) == rows_of(ids(0, 6))


def test_a_parquet_folder_may_move(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    shutil.copytree(dataset.uri, tmp_path / "moved")
    moved = dataset_of(tmp_path / "moved", list(read_parts(dataset).parts))
    again = parquet_to_delta(moved, table=table.uri, ctx=context(tmp_path, "other"))
    assert again.version == table.version


@pytest.mark.slow
@pytest.mark.parametrize("optimized", [False, True])
def test_the_same_volumes_from_two_sources_are_refused(tmp_path: Path, optimized: bool) -> None:
    place = str(tmp_path / "t")
    one = parquet_to_delta(shards(tmp_path / "one", 3, 4), table=place, ctx=context(tmp_path, "one"))
    if optimized:
        optimize_delta(one, ctx=context(tmp_path, "o"))
    # Ranges of ids meet in both, ids only in the second.
    between = dataset_of(tmp_path / "two", [write_shard(tmp_path / "two", ["vol-00001x-00000", "vol-00005x-00001"])])
    parquet_to_delta(between, table=place, ctx=context(tmp_path, "two"))
    with pytest.raises(DataError, match=r"already holds the volume vol-0000[456]") as caught:
        parquet_to_delta(shards(tmp_path / "three", 4, 3, first=4), table=place, ctx=context(tmp_path, "three"))
    assert "replace" in caught.value.hint
    assert max(multiset(rows_by_pyarrow(place)).values()) == 1


@pytest.mark.slow
def test_replace_makes_the_table_hold_this_dataset_alone(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    one = parquet_to_delta(shards(tmp_path / "one", 3, 4), table=place, ctx=context(tmp_path, "one"))
    write_deltalake(place, DeltaTable(place).to_pyarrow_table().slice(0, 2), mode="append")
    two = shards(tmp_path / "two", 5, first=2)
    table = parquet_to_delta(two, table=place, existing="replace", ctx=context(tmp_path, "two"))
    _holds(table, ids(2, 5))
    assert read_by_deltalake(place, one.version) == rows_of(ids(0, 7))


def test_a_commit_by_another_program_meanwhile_makes_it_plan_again(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=context(tmp_path))
    rows = DeltaTable(table.uri).to_pyarrow_table().slice(0, 1)
    foreign = rows.set_column(0, "id", pa.array(["another's"]))
    parts = read_parts(shards(tmp_path / "p", 3, 4, 5)).parts
    ctx: Any = Interfering(
        context(tmp_path), "delta:before-commit", lambda: write_deltalake(table.uri, foreign, mode="append")
    )
    done = parquet_to_delta(dataset_of(tmp_path / "p", [parts[0], parts[2]]), ctx=ctx)
    assert any("planning again" in text for text in ctx.said)
    found = [row[0] for row in read_by_deltalake(done.uri)]
    assert found == ["another's", *ids(0, 3), *ids(7, 5)]
    assert done.count == 9


def test_other_volumes_do_not_fit(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    parquet_to_delta(shards(tmp_path / "p", 3), table=place, ctx=context(tmp_path))
    other = SPEC.model_copy(update={"shape": (4, 3, 3)})
    with pytest.raises(DataError, match=r"shape \(4, 3, 2\); these have shape \(4, 3, 3\)") as caught:
        parquet_to_delta(shards(tmp_path / "q", 3, spec=other), table=place, ctx=context(tmp_path, "b"))
    assert caught.value.parameter == "table"
    more = SPEC.model_copy(update={"classes": ("a", "aa", "b")})
    with pytest.raises(DataError, match="classes"):
        parquet_to_delta(shards(tmp_path / "q", 3, spec=more), table=place, ctx=context(tmp_path, "b"))


@pytest.mark.slow
def test_a_managed_table_of_other_volumes_is_a_new_one(tmp_path: Path) -> None:
    first = parquet_to_delta(shards(tmp_path / "p", 3), ctx=context(tmp_path))
    more = SPEC.model_copy(update={"classes": ("a", "aa", "b")})
    second = parquet_to_delta(shards(tmp_path / "q", 4, spec=more), ctx=context(tmp_path))
    assert second.uri != first.uri
    _holds(first, ids(0, 3))
    _holds(second, ids(0, 4))
    assert parquet_to_delta(shards(tmp_path / "q", 4, spec=more), ctx=context(tmp_path)) == second


def _with_column(dataset: VolumeParquet, name: str, values: pa.Array, digit: str = "f") -> VolumeParquet:
    """The dataset with one more part: the rows of its first, under other ids, with a column more."""
    first = read_parts(dataset).parts[0]
    rows = pq.read_table(Path(dataset.uri) / first.path)
    columns = schema(SPEC, [pa.field(name, values.type)])
    path = Path(dataset.uri) / (digit * 32 + ".parquet")
    named = pa.array([f"{digit}{i}" for i in rows["id"].to_pylist()])
    with pq.ParquetWriter(path, columns, **writer_options()) as writer:
        writer.write_table(rows.set_column(0, "id", named).append_column(name, values).cast(columns))
    part = replace(
        first, path=path.name, bytes=path.stat().st_size, id_min=digit + first.id_min, id_max=digit + first.id_max
    )
    return dataset_of(Path(dataset.uri), [*read_parts(dataset).parts, part])


@pytest.mark.slow
def test_a_new_column_joins_the_table_and_is_null_in_older_rows(tmp_path: Path) -> None:
    first = shards(tmp_path / "p", 3)
    before = parquet_to_delta(first, ctx=context(tmp_path))
    second = _with_column(first, "site", pa.array(["x", None, "y"]))
    table = parquet_to_delta(second, ctx=context(tmp_path))
    assert table.uri == before.uri
    assert table.count == 6
    rows = DeltaTable(table.uri).to_pyarrow_table(columns=["id", "site"]).sort_by("id").to_pylist()
    assert [row["site"] for row in rows] == ["x", None, "y", None, None, None]
    # Its log is as other writers leave it, and doing it again changes nothing.
    changes = [commit["operation"] for commit in DeltaTable(table.uri).history()]
    assert changes == ["WRITE", "ADD COLUMNS", "WRITE", "CREATE TABLE"]
    assert parquet_to_delta(second, ctx=context(tmp_path)) == table
    # Rows whose files lack the column are compacted with those that have it.
    compacted = optimize_delta(table, ctx=context(tmp_path, "o"))
    again = DeltaTable(compacted.uri).to_pyarrow_table(columns=["id", "site"]).sort_by("id").to_pylist()
    assert again == rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "values", "stored"),
    [
        (pa.bool_(), [True, None, False], "boolean"),
        (pa.int8(), [-128, None, 127], "byte"),
        (pa.float64(), [0.1, None, -1e300], "double"),
        (pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], "date"),
        (
            pa.timestamp("us", tz="UTC"),
            [dt.datetime(2024, 1, 2, 3, 4, 5, 678_901, dt.UTC), None, dt.datetime(1900, 1, 1, tzinfo=dt.UTC)],
            "timestamp",
        ),
        (pa.decimal128(20, 2), [Decimal("123456789012345678.25"), None, Decimal("-0.01")], "decimal(20,2)"),
    ],
)
def test_columns_have_their_types_and_values_in_the_log(
    tmp_path: Path, kind: pa.DataType, values: list[Any], stored: str
) -> None:
    first = shards(tmp_path / "p", 3)
    parquet_to_delta(first, ctx=context(tmp_path))
    table = parquet_to_delta(_with_column(first, "of_mine", pa.array(values, kind)), ctx=context(tmp_path))
    found = DeltaTable(table.uri)
    types = {field.name: field.type for field in found.schema().fields}
    assert isinstance(types["of_mine"], PrimitiveType)
    assert types["of_mine"].type == stored
    rows = found.to_pyarrow_table(columns=["id", "of_mine"]).sort_by("id")
    assert rows["of_mine"].to_pylist() == [*values, None, None, None]


class _Killed(BaseException):
    """Not even `except Exception` sees it."""


def test_a_kill_after_a_column_joined_loses_nothing(tmp_path: Path) -> None:
    def killed() -> None:
        raise _Killed

    first = shards(tmp_path / "p", 3)
    before = parquet_to_delta(first, ctx=context(tmp_path))
    second = _with_column(first, "site", pa.array(["x", None, "y"]))
    with pytest.raises(_Killed):
        parquet_to_delta(second, ctx=Interfering(context(tmp_path), "delta:columns-added", killed))
    exactly(before.uri, ids(0, 3))
    assert open_table(before.uri).reference(before.uri).data_version == before.data_version
    table = parquet_to_delta(second, ctx=context(tmp_path))
    found = DeltaTable(table.uri).to_pyarrow_table(columns=["id", "site"]).sort_by("id")
    assert found["site"].to_pylist() == ["x", None, "y", None, None, None]
    assert [commit["operation"] for commit in DeltaTable(table.uri).history()].count("ADD COLUMNS") == 1


def test_a_column_joins_also_where_another_program_commits_meanwhile(tmp_path: Path) -> None:
    first = shards(tmp_path / "p", 3)
    place = parquet_to_delta(first, ctx=context(tmp_path)).uri

    def other() -> None:
        DeltaTable(place).alter.set_table_properties({"note": "x"}, raise_if_not_exists=False)

    second = _with_column(first, "site", pa.array(["x", None, "y"]))
    table = parquet_to_delta(second, ctx=Interfering(context(tmp_path), "delta:columns-added", other))
    assert table.count == 6
    assert DeltaTable(place).metadata().configuration["note"] == "x"
    assert DeltaTable(place).to_pyarrow_table(columns=["site"])["site"].null_count == 4


def test_a_column_joins_a_table_in_any_place(home: str, tmp_path: Path) -> None:
    first = shards(tmp_path / "p", 3)
    parquet_to_delta(first, table=f"{home}/t", ctx=context(tmp_path))
    table = parquet_to_delta(
        _with_column(first, "site", pa.array(["x", None, "y"])), table=f"{home}/t", ctx=context(tmp_path)
    )
    assert table.count == 6
    assert [field.name for field in open_table(f"{home}/t").columns.fields] == ["id", "label", "volume", "site"]
    source = open_source("arrow", table, cores=1)
    try:
        assert source.rows.columns(["site"])["site"].to_pylist() == ["x", None, "y", None, None, None]
    finally:
        source.close()


@pytest.mark.slow
def test_a_column_of_another_type_is_refused_by_name_and_a_managed_table_is_made_anew(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    first = shards(tmp_path / "p", 3)
    text = _with_column(first, "age", pa.array(["1", "2", "3"]))
    table = parquet_to_delta(text, table=place, ctx=context(tmp_path))
    numbers = _with_column(first, "age", pa.array([1, 2, 3]), "e")
    with pytest.raises(DataError, match=r"column age of e+\.parquet is .*long.*, in the table .* it is .*string"):
        parquet_to_delta(numbers, table=place, ctx=context(tmp_path))
    with pytest.raises(DataError, match=r"column Age of d+\.parquet is .*, in the table .* age is"):
        parquet_to_delta(_with_column(first, "Age", pa.array(["1"] * 3), "d"), table=place, ctx=context(tmp_path))
    assert open_table(table.uri).version == table.version
    own = parquet_to_delta(text, ctx=context(tmp_path, "own"))
    other = parquet_to_delta(numbers, ctx=context(tmp_path, "own"))
    assert other.uri != own.uri
    assert parquet_to_delta(numbers, ctx=context(tmp_path, "own")) == other


def test_nothing_to_make_a_table_of(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no volumes"):
        parquet_to_delta(dataset_of(tmp_path / "p", []), ctx=context(tmp_path))
    dataset = shards(tmp_path / "p", 3).model_copy(update={"spec": None})
    with pytest.raises(DataError, match="shape"):
        parquet_to_delta(dataset, ctx=context(tmp_path))


def test_what_is_foreseen(tmp_path: Path) -> None:
    assert parquet_to_delta.preview_hook is not None
    given = Preview(kind="VolumeParquet", count=7, bytes=70, spec=SPEC)
    params = {"table": "", "mode": "link", "existing": "keep"}
    seen = parquet_to_delta.preview_hook(CheckContext(params, {"parquet": given}))
    assert isinstance(seen, Preview)
    assert (seen.kind, seen.count, seen.spec) == ("VolumeDelta", 7, SPEC)

    table = parquet_to_delta(shards(tmp_path / "p", 3), table=str(tmp_path / "t"), ctx=context(tmp_path))
    params["table"] = table.uri
    assert parquet_to_delta.scan_hook is not None
    facts = parquet_to_delta.scan_hook(CheckContext(params))
    other = given.model_copy(update={"spec": SPEC.model_copy(update={"dtype": "int16"})})
    for preview, mode, codes in ((given, "link", []), (other, "link", ["VF432"]), (given, "in_place", ["VF431"])):
        look = CheckContext(params | {"mode": mode}, {"parquet": preview}, facts=facts)
        seen = parquet_to_delta.preview_hook(look)
        assert [d.code for d in look.problems] == codes
        # A table that exists may hold more than what is added.
        assert isinstance(seen, Preview)
        assert seen.count is None


def test_a_result_is_checked_before_it_is_used_again(tmp_path: Path) -> None:
    verify = parquet_to_delta.verify_hook
    assert verify is not None
    dataset = shards(tmp_path / "p", 3, 4)
    first = parquet_to_delta(dataset, ctx=context(tmp_path))
    assert verify({"out": first}, False) == verify({"out": first}, True) == ""
    optimize_delta(first, ctx=context(tmp_path, "o"))
    assert verify({"out": first}, True) == "", "a compaction changes no row"
    parquet_to_delta(shards(tmp_path / "p", 3, 4, 5), ctx=context(tmp_path))
    assert verify({"out": first}, False) == ""
    assert "other rows" in verify({"out": first}, True)
    (Path(first.uri) / open_table(first.uri, first.version).files[0].path).unlink()
    assert "is gone" in verify({"out": first}, False)
    shutil.rmtree(first.uri)
    assert "no Delta table" in verify({"out": first}, False)
