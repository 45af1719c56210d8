"""A log says the same after it was summed up, whoever did that and whoever reads it."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, context, ids, rows_of, write_shard
from deltalake import DeltaTable, Schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spark_nodes import rows_by_duckdb
from volumes import rows_by_polars, rows_by_pyarrow

from engine.declare.context import Transaction
from engine.errors import DataError
from engine.storage.local_place import LocalPlace
from engine.storage.table_lock import INTERNALS, WRITER_APP_ID
from nodes.table import log_checkpoint
from nodes.table.commit import TableWriter, table_writer
from nodes.table.log import checkpoint_file, commit_file
from nodes.table.log_checkpoint import make_checkpoint
from nodes.table.log_writer import Change
from nodes.table.snapshot import TableFile, describe_file, open_table
from nodes.volume_file.layout import schema

NAMES = [f"{letter}.parquet" for letter in "abcdefg"] + ["a b.parquet", "50%25 é&?#=x.parquet", 'quo"te;[1]~.parquet']


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return _empty_table(tmp_path)


def _empty_table(folder: Path) -> Path:
    root = folder / "t"
    with table_writer(root, context(folder)) as writer:
        writer.create(SPEC, Schema.from_arrow(schema(SPEC)))
    return root


def _file(name: str, number: int) -> TableFile:
    label = number / 4 if number % 3 else None
    return TableFile(name, 100 + number, 2, 2 if label is not None else 0, number, f"id {number}", "z", label, label)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sets(st.sampled_from(NAMES), max_size=4), st.sets(st.sampled_from(NAMES))),
        st.sampled_from([("ours",), ("delta-rs",)]),
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_any_history_reads_as_it_was_committed(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple]) -> None:
    folder = tmp_path_factory.mktemp("history")
    root, number, history = _empty_table(folder), 0, [dict[str, TableFile]()]
    for step in steps:
        table = open_table(root)
        if step == ("ours",):
            log_checkpoint._sum_up(root, table.version, log_checkpoint._last(LocalPlace(root))[0])
        elif step == ("delta-rs",):
            DeltaTable(root).create_checkpoint()
        else:
            active = history[-1]
            number += 1
            removes = tuple(active[name] for name in sorted(step[2] & active.keys()))
            adds = tuple(_file(name, number) for name in sorted(step[1] - active.keys()))
            with table_writer(root, context(folder)) as writer:
                writer.commit(table, [Change(adds=adds, removes=removes)], data_change=True)
            left = {name: file for name, file in active.items() if file not in removes}
            history.append(left | {file.path: file for file in adds})
    assert open_table(root).version == len(history) - 1
    for version, active in enumerate(history):
        found = open_table(root, version)
        assert set(found.files) == set(active.values())
        assert found.token == (DeltaTable(root, version=version).transaction_version(WRITER_APP_ID) or 0)
    assert not (root / INTERNALS / "checkpoint").exists()


def _grow(root: Path, folder: Path, writer: TableWriter, commits: int, first: int = 0) -> None:
    for number in range(first, first + commits):
        shard = write_shard(root, ids(2 * number, 2), name=f"{number}.parquet")
        writer.commit(open_table(root), [Change(adds=(describe_file(root, shard.path),))], data_change=True)


@pytest.mark.slow
def test_everybody_reads_our_checkpoint(root: Path, tmp_path: Path) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        _grow(root, tmp_path, writer, 3)
        first = open_table(root).files[0]
        writer.commit(open_table(root), [Change(removes=(first,))], data_change=True)
    assert make_checkpoint(root, 4, 1)
    # Without the commits before it, only the checkpoint says it.
    for version in range(4):
        commit_file(root, version).unlink()
    for read in (rows_by_pyarrow, rows_by_polars, rows_by_duckdb):
        assert sorted(read(str(root))) == rows_of(ids(2, 4)), read
    checkpoint = pq.read_table(root / "_delta_log" / f"{4:020d}.checkpoint.parquet").to_pylist()
    removed = [row["remove"]["path"] for row in checkpoint if row["remove"]]
    assert removed == [first.path]
    last = json.loads((root / "_delta_log" / "_last_checkpoint").read_text())
    assert (last["version"], last["size"], last["numOfAddFiles"]) == (4, len(checkpoint), 2)


@pytest.mark.slow
def test_checkpoints_come_more_rarely_as_the_table_grows(root: Path, tmp_path: Path) -> None:
    """All of them together take a multiple of the log, not its square."""
    with table_writer(root, context(tmp_path)) as writer:
        for commit in range(60):
            files = tuple(_file(f"{commit}-{i}.parquet", i) for i in range(20))
            writer.commit(open_table(root), [Change(adds=files)], data_change=True)
    log = root / "_delta_log"
    made = sorted(log.glob("*.checkpoint.parquet"))
    assert 2 <= len(made) <= 4
    assert sum(pq.read_metadata(p).num_rows for p in made) < 3 * 60 * 20


@pytest.mark.parametrize("days", [6, 8])
def test_removed_files_are_forgotten_after_a_week(root: Path, tmp_path: Path, days: int) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        _grow(root, tmp_path, writer, 1)
        writer.commit(open_table(root), [Change(removes=open_table(root).files)], data_change=True)
    then = int((time.time() - days * 24 * 3600) * 1000)
    commit = commit_file(root, 2)
    commit.write_text(re.sub(r'"deletionTimestamp":\d+', f'"deletionTimestamp":{then}', commit.read_text()))
    assert make_checkpoint(root, 2, 1)
    rows = pq.read_table(checkpoint_file(root, 2)).to_pylist()
    assert len([row for row in rows if row["remove"]]) == (1 if days < 7 else 0)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["no links", "sidecars", "left over"])
def test_a_checkpoint_is_made_where_the_log_cannot_be_linked(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        _grow(root, tmp_path, writer, 3)

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    if what == "no links":
        monkeypatch.setattr(os, "link", no_links)
    elif what == "sidecars":
        (root / "_delta_log" / "_sidecars").mkdir()
    else:
        left = root / INTERNALS / "checkpoint" / "_delta_log"
        left.mkdir(parents=True)
        (left / commit_file(root, 3).name).write_text("what a killed process left")
    assert make_checkpoint(root, 3, 1)
    for version in range(3):
        commit_file(root, version).unlink()
    assert len(open_table(root).files) == 3
    assert not (root / INTERNALS / "checkpoint").exists()


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["protocol", "domain", "hole", "text", "multi-part"])
def test_a_log_is_read_or_refused_as_delta_rs_does(root: Path, tmp_path: Path, harm: str) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        _grow(root, tmp_path, writer, 3)
    commit = commit_file(root, 1)
    if harm == "protocol":
        commit.write_text(commit.read_text() + '{"protocol":{"minReaderVersion":1,"minWriterVersion":4}}\n')
    elif harm == "domain":
        line = '{"domainMetadata":{"domain":"d","configuration":"","removed":false}}\n'
        commit.write_text(commit.read_text() + line)
    elif harm == "hole":
        commit.unlink()
    elif harm == "text":
        commit.write_text("{")
    else:
        (root / "_delta_log" / f"{2:020d}.checkpoint.0000000001.0000000002.parquet").touch()
    if harm in ("hole", "text"):
        with pytest.raises(DataError):
            open_table(root)
        assert not make_checkpoint(root, 3, 1)
    else:
        assert len(open_table(root).files) == 3
        assert make_checkpoint(root, 3, 1)
        assert len(open_table(root).files) == 3


def test_the_checkpoint_of_many_commits_stays_small(root: Path, tmp_path: Path) -> None:
    """One row for all our commits, and one row group: another for each task would stay for ever."""
    for number in range(12):
        with table_writer(root, context(tmp_path, str(number))) as writer:
            change = Change(adds=(_file(f"{number}.parquet", number),))
            writer.commit(open_table(root), [change], data_change=True, transaction=Transaction(f"task {number}", 1))
    rows = pq.read_table(checkpoint_file(root, 10)).to_pylist()
    assert [row["txn"]["appId"] for row in rows if row["txn"]] == [WRITER_APP_ID]
    assert pq.read_metadata(checkpoint_file(root, 10)).num_row_groups == 1


def test_the_token_outlasts_transactions_that_expire(root: Path, tmp_path: Path) -> None:
    DeltaTable(root).alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 days"})
    with table_writer(root, context(tmp_path)) as writer:
        _grow(root, tmp_path, writer, 1)
    commit = commit_file(root, 2)
    commit.write_text(re.sub(r'"lastUpdated":\d+', '"lastUpdated":1', commit.read_text()))
    assert make_checkpoint(root, 2, 1)
    assert DeltaTable(root).transaction_version(WRITER_APP_ID) is None
    assert open_table(root).token == writer.token


def test_a_checkpoint_of_delta_rs_with_long_ids_and_without_labels(root: Path, tmp_path: Path) -> None:
    file = TableFile("x.parquet", 5, 2, 0, 7, "a" * 40, "b" * 40)
    with table_writer(root, context(tmp_path)) as writer:
        writer.commit(open_table(root), [Change(adds=(file,))], data_change=True)
    assert open_table(root).files == (file,)
    DeltaTable(root).create_checkpoint()
    assert open_table(root).files == (file,)
