"""Compaction on Spark: as the embedded backend does it, or by Delta's own OPTIMIZE."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, Interfering, context, ids, rows_of, shards, write_shard
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tables_on_spark import EMBEDDED, SPARK, Tables, log_of
from volumes import rows_by_pyarrow

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeDelta
from engine.errors import DataError, StaleInput
from nodes.table.log import actions
from nodes.table.snapshot import open_table
from nodes.volume_file.layout import properties, schema
from nodes.volume_file.rewrite import layout_problem, read_metadata

pytestmark = pytest.mark.slow


def test_a_compaction_makes_embedded_s_files(tables: Tables, tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", *[5] * 12)
    tables_of = {b: tables.fill(EMBEDDED, dataset, tables.ctx(b)) for b in (EMBEDDED, SPARK)}
    done = {b: tables.optimize(b, t, target_file_mb=1) for b, t in tables_of.items()}
    tables.hold(done[SPARK], ids(0, 60))
    here, there = (open_table(done[b].uri) for b in (EMBEDDED, SPARK))
    assert [f.path for f in there.files] == [f.path for f in here.files]
    for file in here.files:
        assert (here.root / file.path).read_bytes() == (there.root / file.path).read_bytes()
    assert done[SPARK].data_version == tables_of[SPARK].data_version
    assert [p for p in (there.root / "_voxelflow" / "staging").rglob("*") if p.is_file()] == [
        there.root / "_voxelflow" / "staging" / "0.lock"
    ]


@pytest.mark.parametrize("point", ["optimize:file-written", "optimize:before-commit"])
def test_a_commit_of_another_program_is_planned_around(tables: Tables, tmp_path: Path, point: str) -> None:
    table = tables.fill(EMBEDDED, shards(tmp_path / "p", *[5] * 12))
    ctx = Interfering(tables.ctx("o"), point, lambda: DeltaTable(table.uri).optimize.compact())
    ctx.__dict__["spark"] = tables.session
    done = tables.optimize(SPARK, table, ctx)
    assert any("planning again" in text for text in ctx.said)
    tables.hold(done, ids(0, 60))


def test_rows_that_changed_are_a_stale_input_with_the_history(tables: Tables, tmp_path: Path) -> None:
    table = tables.fill(EMBEDDED, shards(tmp_path / "p", 3, 4))
    tables.fill(EMBEDDED, shards(tmp_path / "p", 3, 4, 5))
    with pytest.raises(StaleInput, match="has other rows since"):
        tables.optimize(SPARK, table)
    assert tables.said[-1].startswith(f"version {table.version + 1}: WRITE by Voxelflow/")


def test_a_source_that_cannot_be_read_is_reported_as_the_embedded_backend_does(tables: Tables, tmp_path: Path) -> None:
    table = tables.fill(EMBEDDED, shards(tmp_path / "p", 3, 4), mode="copy")
    damaged = Path(table.uri) / open_table(table.uri).files[1].path
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    with pytest.raises(DataError, match="cannot be read") as caught:
        tables.optimize(SPARK, table)
    assert damaged.name in caught.value.message
    assert open_table(table.uri).version == table.version


def foreign(base: Path, commits: int, **options: Any) -> VolumeDelta:
    """A volume table that another program made: several small files, no ledger."""
    DeltaTable.create(base / "foreign", schema(SPEC), configuration=properties(SPEC), raise_if_key_not_exists=False)
    for number in range(commits):
        rows = rows_of(ids(150 * number, 150))
        columns = {name: [r[i] for r in rows] for i, name in enumerate(("id", "label", "volume"))}
        table = pa.table(columns, schema=schema(SPEC))
        write_deltalake(base / "foreign", table, mode="append", **options)
    return open_table(base / "foreign").reference(str(base / "foreign"))


def test_somebody_else_s_table_is_optimized_by_delta_in_our_layout(tables: Tables, tmp_path: Path) -> None:
    from deltalake import WriterProperties

    table = foreign(tmp_path, 4, writer_properties=WriterProperties(compression="UNCOMPRESSED", max_row_group_size=64))
    done = tables.optimize(SPARK, table)
    assert (done.files, done.version, done.data_version) == (1, table.version + 1, table.data_version)
    assert log_of(done, done.version)["commitInfo"]["operation"] == "OPTIMIZE"
    (file,) = open_table(done.uri).files
    footer = read_metadata(Path(done.uri) / file.path, file.bytes)
    assert layout_problem(footer) == ""
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [64] * 9 + [24]
    assert "OPTIMIZE by Apache-Spark" in tables.said[-1]
    tables.hold(done, ids(0, 600))
    tables.hold(table, ids(0, 600))
    assert tables.optimize(SPARK, done) == done, "nothing is left to do"
    grown = tables.fill(SPARK, shards(tmp_path / "p", 5, first=1000), table=table.uri)
    tables.hold(grown, ids(0, 600) + ids(1000, 5))


def test_a_flipped_bit_is_named_and_not_copied(tables: Tables, tmp_path: Path) -> None:
    from deltalake import convert_to_deltalake

    root = tmp_path / "foreign"
    root.mkdir()
    for number in range(4):
        columns = zip(*rows_of(ids(150 * number, 150)), strict=True)
        table = pa.table([*map(list, columns)], schema=schema(SPEC))
        pq.write_table(table, root / f"part {number}.parquet", use_dictionary=False, write_page_checksum=True)
    convert_to_deltalake(str(root))
    DeltaTable(root).alter.set_table_properties(properties(SPEC), raise_if_not_exists=False)
    damaged = root / "part 2.parquet"
    with damaged.open("r+b") as file:
        file.seek(damaged.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 16]))
    current = open_table(root)
    with pytest.raises(DataError) as caught:
        tables.optimize(SPARK, current.reference(str(root)))
    assert caught.value.message == f"{damaged} is damaged: a page does not match its checksum"
    assert "voxelflow verify" in caught.value.hint
    assert open_table(root).version == current.version


def settings_of(session: SparkSession) -> dict[str, str]:
    """All but Delta's own note of what it committed last."""
    return {name: value for name, value in session.conf.getAll.items() if "lastCommit" not in name}


def test_a_table_that_was_compressed_stays_so(tables: Tables, tmp_path: Path) -> None:
    before = settings_of(tables.session)
    done = tables.optimize(SPARK, foreign(tmp_path, 2))
    (file,) = open_table(done.uri).files
    footer = read_metadata(Path(done.uri) / file.path, file.bytes)
    assert layout_problem(footer) == "compressed with snappy"
    assert "Set rewrite_layout" in tables.said[-1]
    assert max(footer.row_group(i).num_rows for i in range(footer.num_row_groups)) == 64
    assert not any(c.has_dictionary_page for c in (footer.row_group(0).column(i) for i in range(3)))
    assert rows_by_pyarrow(done.uri) == rows_of(ids(0, 300))
    assert settings_of(tables.session) == before, "the session's settings are as they were"


def test_another_layout_is_our_rewriter_s(tables: Tables, tmp_path: Path) -> None:
    """Compressed files would outgrow Delta's target once they are plain; so where that is asked for, we write."""
    table = foreign(tmp_path, 2)
    done = tables.optimize(SPARK, table, rewrite_layout=True)
    (file,) = open_table(done.uri).files
    assert file.path.startswith("rewritten-")
    assert layout_problem(read_metadata(Path(done.uri) / file.path, file.bytes)) == ""
    tables.hold(done, ids(0, 300))


def test_vacuum_on_spark_keeps_what_is_needed(tables: Tables, tmp_path: Path) -> None:
    table = tables.fill(EMBEDDED, shards(tmp_path / "p", *[3] * 4))
    ctx = dataclasses.replace(tables.ctx("o"), protected={table.uri: (table.version,)})
    done = tables.optimize(SPARK, table, ctx, vacuum=True)
    tables.hold(table, ids(0, 12))
    tables.hold(done, ids(0, 12))
    again = tables.optimize(SPARK, done, context_of(tables), vacuum=True)
    assert again == done
    assert len(list(Path(done.uri).glob("*.parquet"))) == 1


def test_files_that_spark_logged_in_its_own_spelling_come_out(tables: Tables, tmp_path: Path) -> None:
    """By each backend, by Delta's OPTIMIZE and by a commit of our removals: one table, copied for each way."""
    made = tmp_path / "made"
    for place, name in enumerate(("k=0", "a+b", "a@b", "a b", "100%", "a%20b", "ü", "u\u0308")):
        write_shard(made, ids(2 * place, 2), name=f"{name}.parquet")
    tables.session.sql(f"CONVERT TO DELTA parquet.`{made}`")
    given = ", ".join(f"'{name}' = '{value}'" for name, value in properties(SPEC).items())
    tables.session.sql(f"ALTER TABLE delta.`{made}` SET TBLPROPERTIES ({given})")
    assert {a["path"] for a in actions(made, 0, "add")} > {"k=0.parquet", "ü.parquet", "u\u0308.parquet"}

    def copied(name: str) -> VolumeDelta:
        root = shutil.copytree(made, tmp_path / name)
        return open_table(root).reference(str(root))

    tables.hold(copied("as-it-is"), ids(0, 16))
    for backend, params in ((EMBEDDED, {}), (SPARK, {}), (SPARK, {"rewrite_layout": True})):
        done = tables.optimize(backend, copied(f"optimized-{backend}-{len(params)}"), **params)
        assert done.files == 1
        assert ("Spark" in log_of(done, done.version)["commitInfo"]["engineInfo"]) == (backend == SPARK)
        tables.hold(done, ids(0, 16))
    filled = tables.fill(SPARK, shards(tmp_path / "p", 3, first=50), table=copied("replaced").uri, existing="replace")
    tables.hold(filled, ids(50, 3))


def context_of(tables: Tables) -> TaskContext:
    """A context in which nothing is protected."""
    return dataclasses.replace(context(tables.base, "v"), open_spark=lambda: tables.session)
