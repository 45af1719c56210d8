"""Tables made and compacted on Spark: what every reader finds, and how either backend goes on from the other's."""

from __future__ import annotations

import dataclasses
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta_tables import (
    SPEC,
    Interfering,
    context,
    dataset_of,
    ids,
    read_by_deltalake,
    rows_of,
    shards,
    write_shard,
)
from deltalake import DeltaTable
from spark_nodes import on_spark, rows_by_spark
from tables_on_spark import EMBEDDED, SPARK, Tables, log_of

from engine.declare.datasets import VolumeDelta, VolumeParquet
from engine.errors import DataError, TableConflict, UnsupportedTable
from engine.spark.jars import INTERPRETED
from engine.storage.table_lock import WRITER_APP_ID
from nodes.parquet_to_delta import parquet_to_delta
from nodes.spark import convert_to_delta
from nodes.spark.delta_transactions import DeltaTransactions
from nodes.spark.session import settings, table_name
from nodes.table.commit import CHECKPOINT_INTERVAL, TASK_NOTE, CommitPart
from nodes.table.log import actions, note_of
from nodes.table.log_writer import Operation
from nodes.table.snapshot import is_table, open_table
from nodes.table.staging import open_conversion
from nodes.volume_file.layout import properties
from nodes.volume_file.parts import read_parts

pytestmark = pytest.mark.slow


def internals(table: VolumeDelta) -> set[str]:
    return {p.name for p in (Path(table.uri) / "_voxelflow").iterdir()} - {"staging"}


def test_a_new_table_is_converted_by_delta_and_is_as_ours(tables: Tables, tmp_path: Path) -> None:
    seen: list[bool] = []
    spec = SPEC.model_copy(update={"classes": ("it's", 'a "b"', "back\\slash", "ä$`")})
    parts = [write_shard(tmp_path / "p", ids(4 * i, 4), spec=spec) for i in range(3)]
    dataset = dataset_of(tmp_path / "p", parts, spec)
    ours = tables.fill(EMBEDDED, dataset, tables.ctx("ours"))
    ctx = tables.ctx("t")
    watching = Interfering(ctx, "delta:before-commit", lambda: seen.append(is_table(ctx.shared / "table")))
    watching.__dict__["spark"] = tables.session
    theirs = tables.fill(SPARK, dataset, watching)
    assert seen == [False], "nobody sees it before it is whole"
    assert watching.said == []
    tables.hold(theirs, ids(0, 12))
    assert theirs.model_dump(exclude={"uri", "version", "data_version"}) == ours.model_dump(
        exclude={"uri", "version", "data_version"}
    )
    one, two = open_table(ours.uri), open_table(theirs.uri)
    assert (two.spec, two.in_place, two.token) == (one.spec, False, 1)
    assert two.files == one.files
    assert log_of(theirs, 0)["commitInfo"]["operation"] == "CONVERT"
    assert [a["appId"] for a in actions(two.root, theirs.version, "txn")] == ["voxelflow.writer"]
    noted = [note_of(a, TASK_NOTE) for a in actions(two.root, theirs.version, "commitInfo")]
    assert noted == [tables.ctx("t").transaction.app_id]
    configuration = DeltaTable(theirs.uri).metadata().configuration
    assert configuration.items() >= DeltaTable(ours.uri).metadata().configuration.items()
    assert internals(theirs) == {"lock", "writer.json", "ledger"}
    assert not list((Path(theirs.uri) / "_delta_log").glob(".*.crc"))
    for file, part in zip(two.files, parts, strict=True):
        assert (two.root / file.path).samefile(tmp_path / "p" / part.path)


@pytest.mark.parametrize("backend", [EMBEDDED, SPARK])
def test_either_backend_goes_on_from_the_other_s_table(tables: Tables, backend: str, tmp_path: Path) -> None:
    """Filled by one, brought up to date, compacted and cut by the other: every shard stays known."""
    other = SPARK if backend == EMBEDDED else EMBEDDED
    dataset = shards(tmp_path / "p", 3, 4, 5)
    table = tables.fill(backend, dataset)
    assert tables.fill(other, dataset) == table, "it is up to date"
    grown = tables.fill(other, shards(tmp_path / "p", 3, 4, 5, 6))
    assert grown.version == table.version + 1
    done = tables.optimize(other, grown)
    assert (done.files, done.version, done.data_version) == (1, grown.version + 1, grown.data_version)
    tables.hold(done, ids(0, 18))
    parts = read_parts(shards(tmp_path / "p", 3, 4, 5, 6)).parts
    less = tables.fill(backend, dataset_of(tmp_path / "p", [parts[0], *parts[2:]]))
    tables.hold(less, ids(0, 3) + ids(7, 11))
    tables.hold(grown, ids(0, 18))


def test_twelve_commits_by_turns_with_a_checkpoint(tables: Tables, tmp_path: Path) -> None:
    sizes: list[int] = []
    table: VolumeDelta | None = None
    for number in range(12):
        sizes.append(2 + number % 3)
        table = tables.fill((SPARK, EMBEDDED)[number % 2], shards(tmp_path / "p", *sizes))
        if number % 5 == 4:
            table = tables.optimize((EMBEDDED, SPARK)[number % 2], table)
    assert table is not None
    assert table.version > int(CHECKPOINT_INTERVAL)
    log = Path(table.uri) / "_delta_log"
    assert max(p.name for p in log.glob("*.checkpoint.parquet")) >= f"{int(CHECKPOINT_INTERVAL) - 1:020d}"
    assert not (log / "._last_checkpoint.crc").exists()
    tables.hold(table, ids(0, sum(sizes)))
    # A reader that begins at the checkpoint.
    tables.session.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert rows_by_spark(tables.session, table.uri) == rows_of(ids(0, sum(sizes)))
    tables.hold(tables.optimize(SPARK, table), ids(0, sum(sizes)))


@pytest.mark.parametrize("mode", ["copy", "in_place"])
def test_other_modes(tables: Tables, mode: str, tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = tables.fill(SPARK, dataset, mode=mode)
    current = open_table(table.uri)
    assert current.in_place == (mode == "in_place")
    assert log_of(table, 0)["commitInfo"]["operation"] == "CONVERT"
    same = [(current.root / f.path).samefile(Path(dataset.uri) / f.path) for f in current.files]
    assert same == [mode == "in_place"] * 2
    tables.hold(tables.fill(EMBEDDED, shards(tmp_path / "p", 3, 4, 5), mode=mode), ids(0, 12))


def test_where_there_is_nothing_to_convert_delta_makes_an_empty_table(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested = [write_shard(tmp_path / "p", ids(3 * i, 3), name=f"k={i}/{i:032x}.parquet") for i in range(2)]
    table = tables.fill(SPARK, dataset_of(tmp_path / "p", nested), mode="in_place")
    assert "lie in folders" in tables.said[-1]
    assert [f.rows for f in open_table(table.uri).files] == [3, 3]
    monkeypatch.setattr(convert_to_delta, "_can_link", lambda aside: False)
    table = tables.fill(SPARK, shards(tmp_path / "q", 3), tables.ctx("unlinked"))
    assert "no hard links" in tables.said[-1]
    tables.hold(table, ids(0, 3))
    monkeypatch.undo()
    monkeypatch.setattr(convert_to_delta, "table_name", lambda folder, provider: table_name(folder, "orc"))
    table = tables.fill(SPARK, shards(tmp_path / "q", 3), tables.ctx("refused"))
    assert "CONVERT TO DELTA cannot make the table" in tables.said[-1]
    tables.hold(table, ids(0, 3))
    assert operations(tables, table) == ["CREATE TABLE", "WRITE"]
    assert internals(table) == {"lock", "writer.json", "ledger"}


def operations(tables: Tables, table: VolumeDelta) -> list[str]:
    """The operations of all commits, the oldest first, each by Delta itself."""
    history = tables.session.sql(f"DESCRIBE HISTORY delta.`{table.uri}`").collect()
    assert {row["engineInfo"].split("/")[0] for row in history} == {"Apache-Spark"}
    assert all("Delta-Lake/" in row["engineInfo"] for row in history)
    return [row["operation"] for row in reversed(history)]


def test_every_commit_is_delta_s_with_its_figures(tables: Tables, tmp_path: Path) -> None:
    table = tables.fill(SPARK, shards(tmp_path / "p", 3, 4))
    table = tables.fill(SPARK, shards(tmp_path / "p", 3, 4, 5))
    table = tables.optimize(SPARK, table)
    tables.hold(table, ids(0, 12))
    table = tables.fill(SPARK, shards(tmp_path / "p", 3, 4, 5, 6))
    parts = read_parts(shards(tmp_path / "p", 3, 4, 5, 6)).parts
    table = tables.fill(SPARK, dataset_of(tmp_path / "p", [parts[0], *parts[2:]]))
    table = tables.fill(SPARK, dataset_of(tmp_path / "p", [parts[0], parts[2]]))
    tables.hold(table, ids(0, 3) + ids(7, 5))
    assert operations(tables, table) == [
        *("CONVERT", "SET TBLPROPERTIES", "WRITE", "OPTIMIZE", "WRITE", "DELETE", "DELETE")
    ]
    infos = [log_of(table, version)["commitInfo"] for version in range(table.version + 1)]
    assert infos[2]["operationMetrics"]["numOutputRows"] == "5"
    assert infos[3]["operationMetrics"].items() >= {"numAddedFiles": "1", "numRemovedFiles": "3"}.items()
    assert infos[6]["operationMetrics"].items() >= {"numRemovedFiles": "1", "numDeletedRows": "6"}.items()
    assert [i["tags"]["voxelflow.node"] for i in infos[1:]] == ["t", "t", "o", "t", "t", "t"]
    tokens = [
        [a["version"] for a in actions(Path(table.uri), version, "txn") if a["appId"] == WRITER_APP_ID]
        for version in range(1, table.version + 1)
    ]
    assert tokens == [[n] for n in range(1, len(tokens) + 1)], "each commit carries the fencing token of its writer"
    assert not any(a["dataChange"] for kind in ("add", "remove") for a in actions(Path(table.uri), 3, kind))


def test_delta_s_work_on_its_log_compiles_no_code(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a conversion nor a commit does, also where the session's own queries may."""
    conf, seen = tables.session.conf, list[dict[str, str | None]]()
    usual: dict[str, str | None] = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

    def watched(work: Any) -> Any:
        def look(*given: Any) -> Any:
            seen.append({name: conf.get(name) for name in usual})
            return work(*given)

        return look

    monkeypatch.setattr(convert_to_delta, "sql", watched(convert_to_delta.sql))
    monkeypatch.setattr(DeltaTransactions, "_operation_of", watched(DeltaTransactions._operation_of))
    with settings(tables.ctx("t"), {name: str(value) for name, value in usual.items()}):
        tables.fill(SPARK, shards(tmp_path / "p", 3))
        tables.fill(SPARK, shards(tmp_path / "p", 3, 4))
        assert {name: conf.get(name) for name in usual} == usual
    assert seen == [INTERPRETED, INTERPRETED]


def test_any_thread_may_commit(tables: Tables, tmp_path: Path) -> None:
    """A run's session is opened in another thread than its tasks', which Java then knows no session for."""
    with ThreadPoolExecutor(1) as another:
        table = another.submit(tables.fill, SPARK, shards(tmp_path / "p", 3)).result()
        table = another.submit(tables.fill, SPARK, shards(tmp_path / "p", 3, 4)).result()
    assert operations(tables, table) == ["CONVERT", "SET TBLPROPERTIES", "WRITE"]


def test_a_writer_whose_lock_was_taken_over_commits_nothing(tables: Tables, tmp_path: Path) -> None:
    table = tables.fill(SPARK, shards(tmp_path / "p", 3))
    table = tables.fill(SPARK, shards(tmp_path / "p", 3, 4))
    delta = DeltaTransactions(tables.ctx("t"))
    nothing = Operation.of((), data_change=False, replaces_all=False)
    for version, message in ((table.version, "took over writing"), (table.version - 1, "committed to the table")):
        with pytest.raises(TableConflict, match=message):
            delta.commit(Path(table.uri), CommitPart(version, (), nothing, data_change=False, token=1, notes={}))
    assert open_table(table.uri).version == table.version


def test_a_table_in_object_storage_is_committed_by_us(tmp_path: Path, azure: str) -> None:
    """Where a conditional put keeps one writer from replacing another's commit. No session is asked for."""
    uri = f"{azure}/t"
    for sizes in ((3,), (3, 4)):
        table = on_spark(parquet_to_delta, shards(tmp_path / "p", *sizes), ctx=context(tmp_path), table=uri)
    assert read_by_deltalake(uri) == rows_of(ids(0, 7))
    *ours, created = (commit.get("engineInfo") or commit["clientVersion"] for commit in DeltaTable(uri).history())
    assert len(ours) == table.version
    assert all(engine.startswith("Voxelflow/") for engine in ours)
    assert "Spark" not in created


def made_by_spark(tables: Tables, folder: Path, features: str, more: str = "") -> str:
    """An empty volume table with properties of Delta's own."""
    given = ", ".join(f"'{name}' = '{value}'" for name, value in properties(SPEC).items())
    tables.session.sql(
        f"CREATE TABLE delta.`{folder}` (id STRING, label FLOAT, volume BINARY) USING DELTA {more}"
        f" TBLPROPERTIES ({given}, {features})"
    )
    return str(folder)


@pytest.mark.parametrize(
    ("features", "more"),
    [
        ("'delta.enableInCommitTimestamps' = 'true', 'delta.checkpointPolicy' = 'v2'", "CLUSTER BY (id)"),
        ("'delta.appendOnly' = 'true', 'delta.enableRowTracking' = 'true'", ""),
    ],
)
def test_features_that_delta_alone_writes(tables: Tables, tmp_path: Path, features: str, more: str) -> None:
    """Rows come in whatever Delta has to add to the commit; what would break a promise is refused by its name."""
    uri = made_by_spark(tables, tmp_path / "made", features, more)
    for sizes in ((3,), (3, 4)):
        table = tables.fill(SPARK, shards(tmp_path / "p", *sizes), table=uri)
    assert rows_by_spark(tables.session, uri) == rows_of(ids(0, 7))
    if "enableRowTracking" not in features:
        info = log_of(table, table.version)["commitInfo"]
        assert "inCommitTimestamp" in info
        done = tables.optimize(SPARK, table)
        assert (done.files, operations(tables, done)[-1]) == (1, "OPTIMIZE")
        assert rows_by_spark(tables.session, uri) == rows_of(ids(0, 7))
        return
    assert [a["baseRowId"] for v in (1, 2) for a in actions(Path(uri), v, "add")] == [0, 3]
    with pytest.raises(UnsupportedTable, match=r"keeps an id for each row .*enableRowTracking"):
        tables.optimize(SPARK, table)
    parts = read_parts(shards(tmp_path / "p", 3, 4)).parts
    with pytest.raises(DataError, match="only takes new rows"):
        tables.fill(SPARK, dataset_of(tmp_path / "p", [parts[1]]), table=uri)
    assert open_table(uri).version == table.version


@pytest.mark.parametrize(
    ("features", "why"),
    [
        ("'delta.enableDeletionVectors' = 'true'", "has deletion vectors for 1 of its files"),
        ("'delta.columnMapping.mode' = 'name'", "maps the column id"),
    ],
)
def test_files_that_do_not_hold_the_rows_as_they_are_are_refused(
    tables: Tables, tmp_path: Path, features: str, why: str
) -> None:
    uri = made_by_spark(tables, tmp_path / "made", features)
    tables.session.sql(f"INSERT INTO delta.`{uri}` VALUES ('a', 0, X'00'), ('b', 1, X'00'), ('c', 1, X'00')")
    tables.session.sql(f"DELETE FROM delta.`{uri}` WHERE id = 'b'")
    with pytest.raises(UnsupportedTable, match=why):
        tables.fill(SPARK, shards(tmp_path / "p", 3), table=uri)


def with_depth(folder: Path, values: list[Any], *, number: int = 1) -> VolumeParquet:
    """The dataset of `shards(folder, 3, 4)` with a column `depth` in one of its files, besides those that have it."""
    import pyarrow.parquet as pq

    parts = list(read_parts(shards(folder, 3, 4)).parts)
    path = folder / parts[number].path
    rows = pq.read_table(path)
    if "depth" not in rows.column_names:
        pq.write_table(rows.append_column("depth", pa.array(values)), path)
    found = [(part, (folder / part.path).stat()) for part in parts]
    return dataset_of(
        folder, [dataclasses.replace(part, bytes=at.st_size, mtime_ns=at.st_mtime_ns) for part, at in found]
    )


def test_columns_of_two_types_are_refused_before_anything_is_made(tables: Tables, tmp_path: Path) -> None:
    with_depth(tmp_path / "p", ["deep"] * 3, number=0)
    with pytest.raises(DataError, match="column depth"):
        tables.fill(SPARK, with_depth(tmp_path / "p", [1.0] * 4))
    root = tables.ctx("t").shared / "table"
    assert not is_table(root)
    assert not list(root.glob("*.parquet"))


@pytest.mark.parametrize("backend", [EMBEDDED, SPARK])
def test_a_new_column_joins_a_table_that_is_there(tables: Tables, tmp_path: Path, backend: str) -> None:
    other = SPARK if backend == EMBEDDED else EMBEDDED
    before = tables.fill(other, shards(tmp_path / "p", 3))
    table = tables.fill(backend, with_depth(tmp_path / "p", [1.0, None, 2.0, 3.0]))
    assert table.version == before.version + 2
    frame = tables.session.read.format("delta").load(table.uri).select("id", "depth").orderBy("id")
    assert [row["depth"] for row in frame.collect()] == [None] * 3 + [1.0, None, 2.0, 3.0]
    found = DeltaTable(table.uri).to_pyarrow_table(columns=["id", "depth"]).sort_by("id")
    assert found["depth"].to_pylist() == [None] * 3 + [1.0, None, 2.0, 3.0]
    assert log_of(table, before.version + 1)["commitInfo"]["operation"] == "ADD COLUMNS"
    assert tables.fill(other, with_depth(tmp_path / "p", [])) == table, "it is up to date"


def test_what_a_dead_conversion_left_is_nobody_s(tables: Tables, tmp_path: Path) -> None:
    """Files linked into the folder before the rename do not make it a stranger's, and the aside goes."""
    dataset = shards(tmp_path / "p", 3)
    root = tables.ctx("t").shared / "table"
    aside = open_conversion(root, 7)
    (part,) = read_parts(dataset).parts
    for folder in (aside, root):
        shutil.copy2(tmp_path / "p" / part.path, folder / part.path)
    table = tables.fill(EMBEDDED, dataset)
    tables.hold(table, ids(0, 3))
    assert internals(table) == {"lock", "writer.json", "ledger"}


# --- what others deleted, and what a disk lost ------------------------------------------------


def test_what_spark_deleted_stays_deleted(tables: Tables, tmp_path: Path) -> None:
    """A whole file by DELETE and rows of another by MERGE, in a table that Delta made: one, copied for each backend."""
    dataset = shards(tmp_path / "p", 3, 4, 5)
    uri = tables.fill(SPARK, dataset).uri
    tables.session.sql(f"DELETE FROM delta.`{uri}` WHERE id < 'vol-00003'")
    tables.session.sql(
        f"MERGE INTO delta.`{uri}` AS t USING (SELECT 'vol-00004' AS id) AS gone ON t.id = gone.id"
        " WHEN MATCHED THEN DELETE"
    )
    left = [*ids(3, 1), *ids(5, 7)]
    grown = shards(tmp_path / "p", 3, 4, 5, 2)
    for backend in (EMBEDDED, SPARK):
        tables.said.clear()
        copy = shutil.copytree(uri, tmp_path / backend)
        again = tables.fill(backend, dataset, table=str(copy))
        assert [text for text in tables.said if "4 rows" in text and "restore" in text], tables.said
        tables.hold(tables.optimize(backend, again), left)
        more = tables.fill(backend, grown, table=str(copy))
        assert more.count == len(left) + 2
        back = tables.fill(backend, grown, table=str(copy), deleted_rows="restore")
        assert [text for text in tables.said if "comes back: 4 rows" in text], tables.said
        tables.hold(more, [*left, *ids(12, 2)])
        tables.hold(back, ids(0, 14))


def test_damaged_files_are_put_back_from_their_parts(tables: Tables, tmp_path: Path) -> None:
    """A file that Delta converted comes back under its name; one that was compacted is made again."""
    dataset = shards(tmp_path / "p", 3, 4, 5)
    table = tables.fill(SPARK, dataset)
    one, two, _ = (Path(table.uri) / f.path for f in open_table(table.uri).files)
    one.unlink()
    content = two.read_bytes()
    two.unlink()  # a link: cut in place, the part would be cut too
    two.write_bytes(content[:-1])
    assert tables.fill(SPARK, dataset) == table
    assert [text for text in tables.said if one.name in text and "1 more" in text and "put back" in text], tables.said
    tables.hold(table, ids(0, 12))
    optimized = tables.optimize(SPARK, table)
    (compacted,) = (Path(optimized.uri) / f.path for f in open_table(optimized.uri).files)
    compacted.unlink()
    with pytest.raises(DataError, match=compacted.name):
        tables.optimize(SPARK, optimized)
    tables.hold(tables.fill(SPARK, dataset), ids(0, 12))
    assert operations(tables, optimized)[2:] == ["OPTIMIZE", "WRITE"]
