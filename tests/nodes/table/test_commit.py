from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from delta_tables import SPEC, context, ids, read_by_deltalake, rows_of, write_shard
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake import Transaction as DeltaTransaction
from deltalake.transaction import AddAction
from volumes import rows_by_pyarrow

from engine.declare.context import Transaction
from engine.errors import DataError, TableConflict, UnsupportedTable
from engine.storage.table_lock import WRITER_APP_ID
from nodes.table import commit as delta_commit
from nodes.table.commit import table_writer
from nodes.table.log_writer import Change
from nodes.table.snapshot import TableFile, describe_file, open_table
from nodes.volume_file.layout import schema


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty volume table."""
    root = tmp_path / "t"
    with table_writer(root, context(tmp_path)) as writer:
        writer.create(SPEC, Schema.from_arrow(schema(SPEC)))
    return root


def _file(root: Path, first: int, count: int = 2) -> TableFile:
    return describe_file(root, write_shard(root, ids(first, count)).path)


def _foreign_commit(root: Path, first: int) -> None:
    """What another program does: it knows nothing of our lock."""
    file = _file(root, first)
    delta = DeltaTable(root)
    action = AddAction(file.path, file.bytes, {}, file.mtime_ms, True, file.statistics())
    delta.create_write_transaction([action], "append", delta.schema())


def _log(root: Path) -> set[str]:
    return {p.name for p in (root / "_delta_log").iterdir()}


def test_a_commit_adds_and_removes_together(root: Path, tmp_path: Path) -> None:
    one, two, three = (_file(root, first) for first in (0, 2, 4))
    with table_writer(root, context(tmp_path)) as writer:
        assert writer.commit(open_table(root), [Change(adds=(one,)), Change(adds=(two,))], data_change=True) == 1
        change = Change(adds=(three,), removes=(one, two))
        assert writer.commit(open_table(root), [change], data_change=True) == 2
    assert read_by_deltalake(str(root), 1) == rows_of(ids(0, 4))
    assert rows_by_pyarrow(str(root), 2) == rows_of(ids(4, 2))


def test_the_token_and_the_transaction_stand_in_the_log(root: Path, tmp_path: Path) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        writer.commit(
            open_table(root), [Change(adds=(_file(root, 0),))], data_change=True, transaction=Transaction("task", 1)
        )
        delta = DeltaTable(root)
        assert delta.transaction_version(WRITER_APP_ID) == writer.token == 2
        assert delta.transaction_version("task") is None
        assert delta.history(1)[0]["voxelflow.task"] == "task"


def test_a_commit_by_another_program_is_found_out(root: Path, tmp_path: Path) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        table = open_table(root)
        _foreign_commit(root, 10)
        log = _log(root)
        with pytest.raises(TableConflict, match="another program committed") as caught:
            writer.commit(table, [Change(adds=(_file(root, 0),))], data_change=True)
        assert caught.value.hint
        assert _log(root) == log
    assert rows_by_pyarrow(str(root)) == rows_of(ids(10, 2))


def test_a_writer_that_lost_its_lock_is_refused(root: Path, tmp_path: Path) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        # What a network file system that forgets locks lets happen: the next holder commits first.
        delta = DeltaTable(root)
        delta.create_write_transaction(
            [],
            "append",
            delta.schema(),
            commit_properties=CommitProperties(
                app_transactions=[DeltaTransaction(WRITER_APP_ID, writer.token + 1)], max_commit_retries=0
            ),
        )
        with pytest.raises(TableConflict, match="took over"):
            writer.commit(open_table(root), [Change(adds=(_file(root, 0),))], data_change=True)
    assert rows_by_pyarrow(str(root)) == []
    with table_writer(root, context(tmp_path)) as later:
        assert later.token > writer.token + 1


def test_files_that_are_not_there_cannot_be_removed(root: Path, tmp_path: Path) -> None:
    one, two = _file(root, 0), _file(root, 2)
    with table_writer(root, context(tmp_path)) as writer:
        writer.commit(open_table(root), [Change(adds=(one,))], data_change=True)
        # delta-rs itself would take both of these.
        for change in (Change(removes=(two,)), Change(adds=(one,))):
            with pytest.raises(TableConflict, match="changed meanwhile"):
                writer.commit(open_table(root), [change], data_change=False)
    assert open_table(root).version == 1


def test_large_changes_are_committed_in_parts(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_commit, "MAX_ACTIONS", 4)
    files = [_file(root, 2 * i) for i in range(9)]
    seen = itertools.count()
    with table_writer(root, context(tmp_path)) as writer:
        version = writer.commit(
            open_table(root), [Change(adds=(f,)) for f in files], data_change=True, after_each=lambda: next(seen)
        )
        assert (version, next(seen)) == (3, 3)
        # What belongs together stays together, even when it is more than a part should be.
        merged = Change(adds=(_file(root, 100),), removes=tuple(files[:6]))
        rest = Change(adds=(_file(root, 102),), removes=tuple(files[6:]))
        assert writer.commit(open_table(root), [merged, rest], data_change=True) == 5
    assert rows_by_pyarrow(str(root), 4) == rows_of(ids(12, 6) + ids(100, 2))
    assert rows_by_pyarrow(str(root), 5) == rows_of(ids(100, 4))


def test_nothing_to_commit_makes_no_version(root: Path, tmp_path: Path) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        assert writer.commit(open_table(root), [], data_change=True) == 0
    assert open_table(root).version == 0


@pytest.mark.slow
def test_many_commits_make_checkpoints(root: Path, tmp_path: Path) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        for i in range(13):
            writer.commit(open_table(root), [Change(adds=(_file(root, 2 * i),))], data_change=True)
    checkpoints = [name for name in _log(root) if name.endswith(".checkpoint.parquet")]
    assert checkpoints
    # Every version stays readable: the log is never cleaned.
    assert len([name for name in _log(root) if name.endswith(".json")]) == 14
    assert read_by_deltalake(str(root)) == rows_by_pyarrow(str(root)) == rows_of(ids(0, 26))
    assert read_by_deltalake(str(root), 3) == rows_of(ids(0, 6))
    reopened = open_table(root)
    assert reopened.token == writer.token
    assert reopened.spec == SPEC


def test_making_a_table_twice_is_refused(root: Path, tmp_path: Path) -> None:
    with table_writer(root, context(tmp_path)) as writer, pytest.raises(TableConflict, match="just made"):
        writer.create(SPEC, Schema.from_arrow(schema(SPEC)))


def test_a_table_that_delta_rs_cannot_write_is_refused(root: Path, tmp_path: Path) -> None:
    log = root / "_delta_log" / f"{0:020d}.json"
    old, new = '"minWriterVersion":2', '"minWriterVersion":7,"writerFeatures":["rowTracking","domainMetadata"]'
    assert old in log.read_text()
    log.write_text(log.read_text().replace(old, new))
    with table_writer(root, context(tmp_path)) as writer, pytest.raises(UnsupportedTable, match="cannot be written"):
        writer.commit(open_table(root), [Change(adds=(_file(root, 0),))], data_change=True)


def test_a_table_deleted_meanwhile_is_reported(root: Path, tmp_path: Path) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        table = open_table(root)
        (root / "_delta_log" / f"{0:020d}.json").unlink()
        with pytest.raises(DataError):
            writer.commit(table, [Change(adds=(_file(root, 0),))], data_change=True)


def test_user_columns_survive(tmp_path: Path) -> None:
    columns = schema(SPEC).append(pa.field("site", pa.string()))
    with table_writer(tmp_path / "t", context(tmp_path)) as writer:
        writer.create(SPEC, Schema.from_arrow(columns))
    assert [f.name for f in DeltaTable(tmp_path / "t").schema().fields] == ["id", "label", "volume", "site"]
