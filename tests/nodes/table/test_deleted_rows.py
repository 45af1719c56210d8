"""What other programs deleted from a table stays deleted when ParquetToDelta runs again, and comes back on request."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta_tables import Interfering, context, dataset_of, ids, read_by_deltalake, rows_of, shards, write_shard
from deltalake import DeltaTable, write_deltalake
from volumes import rows_by_polars

from engine.declare.datasets import VolumeDelta, VolumeParquet
from engine.errors import DataError, StaleInput
from engine.storage.find_place import place_at
from nodes.inspection.verify import check_data
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import open_table
from nodes.volume_file.parts import read_parts

SIZES = (3, 4, 5)


def delete(where: str | None) -> Callable[[str], Any]:
    return lambda uri: DeltaTable(uri).delete(where)


def overwrite(uri: str) -> None:
    """With a part of what was there, as a program does that filters a table."""
    kept = DeltaTable(uri).to_pyarrow_table().sort_by("id").slice(0, 5)
    write_deltalake(uri, kept, mode="overwrite")


def overwrite_by_polars(uri: str) -> None:
    import polars

    frame = polars.read_delta(uri).filter(polars.col("id") < "vol-00005")
    frame.write_delta(uri, mode="overwrite")


def compact_and_delete_all(uri: str) -> None:
    DeltaTable(uri).optimize.compact()
    DeltaTable(uri).delete()


def delete_and_append(uri: str) -> None:
    rows = DeltaTable(uri).to_pyarrow_table().slice(0, 1)
    DeltaTable(uri).delete("id < 'vol-00003'")
    write_deltalake(uri, rows.set_column(0, "id", pa.array(["zzz"])), mode="append")


DELETES: dict[str, tuple[Callable[[str], Any], list[str]]] = {
    "rows of one file": (delete("id = 'vol-00004'"), [*ids(0, 4), *ids(5, 7)]),
    "rows of two files": (delete("id >= 'vol-00002' and id < 'vol-00005'"), [*ids(0, 2), *ids(5, 7)]),
    "one file": (delete("id < 'vol-00003'"), ids(3, 9)),
    "two files": (delete("id >= 'vol-00003'"), ids(0, 3)),
    "all": (delete(None), []),
    "overwrite": (overwrite, ids(0, 5)),
    "overwrite by polars": (overwrite_by_polars, ids(0, 5)),
    "compacted, then all": (compact_and_delete_all, []),
    "a file, and rows of its own": (delete_and_append, [*ids(3, 9), "zzz"]),
}


_IN_A_STORE = ("rows of two files", "one file", "overwrite", "compacted, then all")
on_delete = pytest.mark.parametrize(
    ("home", "how"),
    [
        *(("local", how) for how in DELETES),
        *(pytest.param("azure_server", how, marks=pytest.mark.slow) for how in _IN_A_STORE),
    ],
    indirect=["home"],
)
Fill = Callable[..., VolumeDelta]


@pytest.fixture
def fill(home: str, tmp_path: Path) -> Fill:
    """Fills the one table of a test; messages go to `said`."""

    def fill(dataset: VolumeParquet, said: list[str] | None = None, **params: Any) -> VolumeDelta:
        ctx: Any = Interfering(context(tmp_path), "")
        table = parquet_to_delta(dataset, ctx=ctx, **{"table": f"{home}/t"} | params)
        if said is not None:
            said += ctx.said
        return table

    return fill


def held(table: VolumeDelta) -> list[str]:
    found = [row[0] for row in read_by_deltalake(table.uri)]
    if "://" not in table.uri:
        assert [row[0] for row in rows_by_polars(table.uri)] == found
    assert len(found) == len(set(found)) == table.count
    return found


@pytest.mark.slow
@on_delete
def test_what_others_deleted_stays_deleted(fill: Fill, tmp_path: Path, how: str) -> None:
    dataset = shards(tmp_path / "p", *SIZES)
    table = fill(dataset)
    act, left = DELETES[how]
    act(table.uri)
    said: list[str] = []
    again = fill(dataset, said)
    assert held(again) == left
    lacking = 12 - sum(1 for i in left if i != "zzz")
    assert [text for text in said if "restore" in text and f"{lacking} row" in text], said
    # Parts that are new come, and nothing else, also after our own compaction and another commit.
    grown = shards(tmp_path / "p", *SIZES, 2)
    grown_ids = sorted([*left, *ids(12, 2)])
    assert held(fill(grown)) == grown_ids
    optimize_delta(fill(grown), min_fill=1.0, ctx=context(tmp_path, "o"))
    more = shards(tmp_path / "p", *SIZES, 2, 1)
    assert held(fill(more)) == sorted([*grown_ids, *ids(14, 1)])
    # Until somebody asks for them.
    said = []
    whole = sorted([*ids(0, 15), *(i for i in left if i == "zzz")])
    back = fill(more, said, deleted_rows="restore")
    assert held(back) == whole
    assert [text for text in said if f"comes back: {lacking} row" in text], said
    assert [r for r in read_by_deltalake(back.uri) if r[0] != "zzz"] == rows_of(ids(0, 15))
    assert fill(more, deleted_rows="restore").version == back.version
    assert fill(more).version == back.version


@pytest.mark.slow
@on_delete
def test_replace_leaves_out_deleted_rows_and_restore_fills_the_table_again(
    fill: Fill, tmp_path: Path, how: str
) -> None:
    dataset = shards(tmp_path / "p", *SIZES)
    table = fill(dataset)
    act, left = DELETES[how]
    act(table.uri)
    assert held(fill(dataset, existing="replace")) == [i for i in left if i != "zzz"]
    assert held(fill(dataset, existing="replace", deleted_rows="restore")) == ids(0, 12)


def test_a_changed_part_comes_whole(fill: Fill, tmp_path: Path) -> None:
    parts = [write_shard(tmp_path / "p", ids(3 * n, 3), name=f"{n}.parquet") for n in range(3)]
    table = fill(dataset_of(tmp_path / "p", parts))
    DeltaTable(table.uri).delete("id < 'vol-00006'")
    os.utime(tmp_path / "p" / "0.parquet", ns=(1, 1))
    parts[0] = replace(parts[0], mtime_ns=1)
    assert held(fill(dataset_of(tmp_path / "p", parts))) == [*ids(0, 3), *ids(6, 3)]


@pytest.mark.slow
def test_a_changed_part_whose_rows_another_program_moved_needs_a_word(fill: Fill, tmp_path: Path) -> None:
    parts = [write_shard(tmp_path / "p", ids(3 * n, 3), name=f"{n}.parquet") for n in range(3)]
    table = fill(dataset_of(tmp_path / "p", parts))
    DeltaTable(table.uri).delete("id = 'vol-00001' or id = 'vol-00004'")
    os.utime(tmp_path / "p" / "0.parquet", ns=(1, 1))
    parts[0] = replace(parts[0], mtime_ns=1)
    changed = dataset_of(tmp_path / "p", parts)
    with pytest.raises(StaleInput, match="another program has rewritten"):
        fill(changed)
    left = ["vol-00003", "vol-00005"]
    assert held(fill(changed, existing="replace")) == [*ids(0, 3), *left, *ids(6, 3)]


@pytest.mark.slow
def test_a_compaction_by_others_deletes_nothing(fill: Fill, tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", *SIZES)
    table = fill(dataset)
    DeltaTable(table.uri).optimize.compact()
    said: list[str] = []
    for params in ({}, {"deleted_rows": "restore"}):
        assert held(fill(dataset, said, **params)) == ids(0, 12)
    assert said == []
    # Asked to restore, it looked at the ids: now it knows whose the rows are.
    assert held(fill(dataset_of(tmp_path / "p", read_parts(dataset).parts[1:]))) == ids(3, 9)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_rows_that_two_compactions_doubled_are_refused(fill: Fill, tmp_path: Path, first: str) -> None:
    """delta-rs commits a compaction also when another one has replaced the same files meanwhile."""
    dataset = shards(tmp_path / "p", *SIZES)
    table = fill(dataset)
    stale = DeltaTable(table.uri)
    if first == "ours":
        optimize_delta(table, min_fill=1.0, ctx=context(tmp_path, "o"))
    else:
        DeltaTable(table.uri).optimize.compact()
    stale.optimize.compact()
    whole = DeltaTable(table.uri).version() - 1
    DeltaTable(table.uri).optimize.compact()  # what is there twice stays so
    assert len(DeltaTable(table.uri).to_pyarrow_table()) == 24
    with pytest.raises(
        DataError, match=r"are in it twice: in version 3 delta-rs.*version 2 had replaced already"
    ) as said:
        fill(dataset)
    assert f".restore({whole})" in said.value.hint
    (damage,) = (d for d in check_data(table.uri, threads=1, progress=lambda done, total: None).damages)
    assert (damage.kind, Path(damage.file).stem) == ("rows", f"{3:020}")
    DeltaTable(table.uri).restore(whole)
    grown = shards(tmp_path / "p", *SIZES, 2)
    assert held(fill(grown)) == ids(0, 14)
    assert held(fill(grown)) == ids(0, 14)


@pytest.mark.slow
def test_it_is_remembered_without_the_log(fill: Fill, tmp_path: Path) -> None:
    """Others delete and clean the log and the files: what our ledger says is enough."""
    dataset = shards(tmp_path / "p", *SIZES, 2)
    fill(dataset)
    parts = read_parts(dataset).parts
    table = fill(dataset_of(tmp_path / "p", parts[1:]))  # the first one goes by our own hand
    place = place_at(table.uri)
    delta = DeltaTable(table.uri)
    delta.delete("id >= 'vol-00007' and id < 'vol-00012'")
    delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    delta = DeltaTable(table.uri)
    delta.create_checkpoint()
    for version in range(delta.version()):
        place.delete(f"_delta_log/{version:020d}.json")
    DeltaTable(table.uri).alter.set_table_properties({"delta.logRetentionDuration": "interval 30 days"})
    assert held(fill(dataset)) == [*ids(0, 7), *ids(12, 2)]
    assert held(fill(dataset, deleted_rows="restore")) == ids(0, 14)


@pytest.mark.slow
def test_going_back_to_an_older_version_is_a_delete_too(fill: Fill, tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", *SIZES)
    old = fill(shards(tmp_path / "p", 3))
    fill(dataset)
    DeltaTable(old.uri).restore(old.version)
    assert held(fill(dataset)) == ids(0, 3)
    # Deleted, put back, and deleted once more.
    DeltaTable(old.uri).restore(old.version + 1)
    assert held(fill(dataset)) == ids(0, 12)
    DeltaTable(old.uri).restore(old.version)
    assert held(fill(dataset)) == ids(0, 3)


@pytest.mark.slow
@pytest.mark.parametrize("home", ["local"], indirect=True)
def test_a_table_made_anew_knows_of_no_deletes(fill: Fill, tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", *SIZES)
    table = fill(dataset, table="", mode="in_place")
    DeltaTable(table.uri).delete("id < 'vol-00003'")
    assert held(fill(dataset, table="", mode="in_place")) == ids(3, 9)
    assert held(fill(dataset, table="", mode="in_place", deleted_rows="restore")) == ids(0, 12)
    DeltaTable(table.uri).delete()
    assert held(fill(dataset, table="", mode="in_place")) == []
    shutil.rmtree(Path(table.uri) / "_delta_log")
    assert held(fill(dataset, table="", mode="in_place")) == ids(0, 12)


def test_our_own_half_done_change_is_no_delete_of_others(
    fill: Fill, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change in several commits that ends between them is made whole by the next run."""
    dataset = shards(tmp_path / "p", *SIZES)
    fill(dataset)
    monkeypatch.setattr("nodes.table.commit.MAX_ACTIONS", 1)

    def stop() -> None:
        raise KeyboardInterrupt

    ctx: Any = Interfering(context(tmp_path), "delta:after-commit", stop)
    with pytest.raises(KeyboardInterrupt):
        parquet_to_delta(shards(tmp_path / "p", 6, first=20), table=f"{home}/t", ctx=ctx)
    said: list[str] = []
    assert open_table(f"{home}/t").files
    assert held(fill(dataset, said)) == ids(0, 12)
    assert said == []
