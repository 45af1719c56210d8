"""Delta tables in object storage: filled, grown, compacted, by several at once and killed anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from delta_tables import (
    SPEC,
    Interfering,
    context,
    dataset_of,
    finish_node,
    ids,
    read_by_deltalake,
    rows_of,
    shards,
    start_node,
    was_killed,
    write_shard,
)
from deltalake import DeltaTable, write_deltalake

from engine.datasets import VolumeDelta
from engine.errors import DataError, StaleInput, TableConflict, UsageError
from engine.storage.objects import RemotePath
from nodes.inspect_dataset import inspect_dataset
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.volume_parts import read_parts

pytestmark = pytest.mark.slow
SMALL = {"target_file_mb": 1, "min_fill": 1.0}


def holds(table: VolumeDelta, volume_ids: list[str]) -> None:
    """The version pinned and the newest one hold exactly these volumes, and the reference counts them."""
    assert read_by_deltalake(table.uri, table.version) == rows_of(volume_ids)
    assert read_by_deltalake(table.uri) == rows_of(volume_ids)
    assert (table.count, table.labelled) == (len(volume_ids), sum(r[1] is not None for r in rows_of(volume_ids)))


def uploaded(url: str) -> list[str]:
    return sorted(found.path for found in RemotePath.at(url).walk() if found.path.endswith(".parquet"))


def test_a_table_is_filled_grows_and_shrinks(container: str, tmp_path: Path) -> None:
    url = f"{container}/a table"
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), table=url, ctx=context(tmp_path))
    holds(table, ids(0, 7))
    assert table.uri == url
    again = parquet_to_delta(shards(tmp_path / "p", 3, 4), table=url, ctx=context(tmp_path))
    assert again == table
    grown = parquet_to_delta(shards(tmp_path / "p", 3, 4, 5), table=url, ctx=context(tmp_path, "grown"))
    holds(grown, ids(0, 12))
    assert grown.version == table.version + 1
    less = parquet_to_delta(shards(tmp_path / "p", 3), table=url, ctx=context(tmp_path, "less"))
    holds(less, ids(0, 3))
    assert read_by_deltalake(url, grown.version) == rows_of(ids(0, 12))


def test_a_compaction_changes_no_row_and_growing_goes_on(container: str, tmp_path: Path) -> None:
    url = f"{container}/table"
    dataset = shards(tmp_path / "p", *[2] * 12)
    table = parquet_to_delta(dataset, table=url, ctx=context(tmp_path))
    packed = optimize_delta(table, **SMALL, ctx=context(tmp_path, "optimize"))
    holds(packed, ids(0, 24))
    assert packed.files == 1
    assert packed.data_version == table.data_version
    assert optimize_delta(packed, **SMALL, ctx=context(tmp_path, "optimize")) == packed
    assert not list((tmp_path / "tasks" / "optimize" / "scratch").iterdir())
    assert parquet_to_delta(dataset, table=url, ctx=context(tmp_path)).version == packed.version
    grown = parquet_to_delta(shards(tmp_path / "p", *[2] * 13), table=url, ctx=context(tmp_path, "grown"))
    holds(grown, ids(0, 26))
    assert grown.files == 2
    twice = optimize_delta(grown, **SMALL, ctx=context(tmp_path, "optimize again"))
    holds(twice, ids(0, 26))
    parts = read_parts(dataset).parts
    less = dataset_of(tmp_path / "p", [*parts[:3], *parts[4:]])
    holds(parquet_to_delta(less, table=url, ctx=context(tmp_path, "less")), [*ids(0, 6), *ids(8, 16)])
    with pytest.raises(StaleInput):
        optimize_delta(twice, ctx=context(tmp_path, "late"))


POINTS = ["remote:created", "remote:file-uploaded#2", "remote:before-commit", "remote:after-commit"]


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_while_a_table_is_filled(azure: str, tmp_path: Path, point: str) -> None:
    url, dataset = f"{azure}/{point.partition('#')[0]}", shards(tmp_path / "p", 3, 4, 5)
    assert was_killed(start_node(tmp_path, "ParquetToDelta", dataset, "fill", point, table=url))
    table = parquet_to_delta(dataset, table=url, ctx=context(tmp_path, "fill"))
    holds(table, ids(0, 12))
    assert len(uploaded(url)) == 3
    assert table.version == 1


@pytest.mark.parametrize("point", ["remote:file-rewritten", "remote:before-commit", "remote:after-commit"])
def test_a_kill_while_a_table_is_compacted(azure: str, tmp_path: Path, point: str) -> None:
    url = f"{azure}/{point}"
    table = parquet_to_delta(shards(tmp_path / "p", *[2] * 6), table=url, ctx=context(tmp_path))
    assert was_killed(start_node(tmp_path, "OptimizeDelta", table, "optimize", point, **SMALL))
    packed = optimize_delta(table, **SMALL, ctx=context(tmp_path, "optimize"))
    holds(packed, ids(0, 12))
    assert (packed.files, packed.version) == (1, 2)


def test_several_processes_fill_one_table(container: str, tmp_path: Path) -> None:
    url, dataset = f"{container}/table", shards(tmp_path / "p", *[2] * 6)
    together = [start_node(tmp_path, "ParquetToDelta", dataset, f"fill-{n}", table=url) for n in range(3)]
    for process in together:
        holds(finish_node(process), ids(0, 12))


def test_what_others_commit_meanwhile_is_looked_at_anew(azure: str, tmp_path: Path) -> None:
    url = f"{azure}/table"
    table = parquet_to_delta(shards(tmp_path / "p", *[2] * 4), table=url, ctx=context(tmp_path))
    bigger = shards(tmp_path / "p", *[2] * 5)

    def compact() -> None:
        optimize_delta(table, **SMALL, ctx=context(tmp_path, "optimize"))

    ctx: Any = Interfering(context(tmp_path, "grow"), "remote:before-commit", compact)
    holds(parquet_to_delta(bigger, table=url, ctx=ctx), ids(0, 10))
    assert any("planning again" in line for line in ctx.said)

    def grow() -> None:
        parquet_to_delta(shards(tmp_path / "p", *[2] * 6), table=url, ctx=context(tmp_path, "grow more"))

    grown = parquet_to_delta(bigger, table=url, ctx=context(tmp_path, "grown"))
    late: Any = Interfering(context(tmp_path, "optimize late"), "remote:before-commit", grow)
    late.scratch.mkdir(exist_ok=True)
    with pytest.raises(StaleInput):
        optimize_delta(grown, **SMALL, ctx=late)
    assert read_by_deltalake(url) == rows_of(ids(0, 12))


def test_who_never_gets_his_turn_is_told(azure: str, tmp_path: Path) -> None:
    url = f"{azure}/table"
    parquet_to_delta(shards(tmp_path / "p", 2), table=url, ctx=context(tmp_path))

    def commit() -> None:
        DeltaTable(url).alter.set_table_properties({"delta.appendOnly": "false"})

    ctx: Any = Interfering(context(tmp_path, "grow"), "remote:before-commit", *[commit] * 5)
    with pytest.raises(TableConflict, match="another program committed"):
        parquet_to_delta(shards(tmp_path / "p", 2, 3), table=url, ctx=ctx)
    assert read_by_deltalake(url) == rows_of(ids(0, 2))


def test_what_does_not_go_together_is_refused(azure: str, tmp_path: Path) -> None:
    dataset, url = shards(tmp_path / "p", 3), f"{azure}/table"
    (RemotePath.at(azure) / "used/notes.txt").write_bytes(b"mine")
    with pytest.raises(UsageError, match="neither a Delta table nor empty"):
        parquet_to_delta(dataset, table=f"{azure}/used", ctx=context(tmp_path))
    with pytest.raises(UsageError, match="in place"):
        parquet_to_delta(dataset, table=url, mode="in_place", ctx=context(tmp_path))
    table = parquet_to_delta(dataset, table=url, ctx=context(tmp_path))
    with pytest.raises(UsageError, match="filled from another dataset"):
        parquet_to_delta(shards(tmp_path / "other", 3), table=url, ctx=context(tmp_path))
    spec = SPEC.model_copy(update={"shape": (2, 2, 2)})
    with pytest.raises(DataError, match="holds volumes of shape"):
        parquet_to_delta(shards(tmp_path / "p", 3, spec=spec), table=url, ctx=context(tmp_path))
    with pytest.raises(UsageError, match="not vacuumed"):
        optimize_delta(table, vacuum=True, ctx=context(tmp_path))
    with pytest.raises(UsageError, match="not looked into"):
        optimize_delta(table, rewrite_layout=True, ctx=context(tmp_path))
    with pytest.raises(UsageError, match="local folder"):
        inspect_dataset(table, ctx=context(tmp_path))


def test_rows_of_another_program_are_neither_doubled_nor_lost_unasked(azure: str, tmp_path: Path) -> None:
    url, dataset = f"{azure}/table", shards(tmp_path / "p", 3, 4)
    parquet_to_delta(dataset, table=url, ctx=context(tmp_path))
    DeltaTable(url).optimize.compact()
    with pytest.raises(StaleInput, match="another program"):
        parquet_to_delta(dataset, table=url, ctx=context(tmp_path))
    holds(parquet_to_delta(dataset, table=url, existing="replace", ctx=context(tmp_path)), ids(0, 7))
    write_deltalake(url, DeltaTable(url).to_pyarrow_table().slice(0, 1), mode="append")
    with pytest.raises(StaleInput, match="another program"):
        parquet_to_delta(dataset, table=url, ctx=context(tmp_path))


def test_a_part_that_changed_is_not_uploaded(azure: str, tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    part = read_parts(dataset).parts[1]
    (tmp_path / "p" / part.path).unlink()
    with pytest.raises(DataError, match=r"is gone|cannot be read"):
        parquet_to_delta(dataset, table=f"{azure}/table", ctx=context(tmp_path))
    write_shard(tmp_path / "p", ids(3, 5), name=part.path)
    with pytest.raises(StaleInput, match="not the file it was"):
        parquet_to_delta(dataset, table=f"{azure}/table", ctx=context(tmp_path))
