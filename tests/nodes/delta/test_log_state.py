"""What we read of a log is what delta-rs reads of it, whoever wrote it and summed it up."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, context, ids, rows_of, write_shard
from deltalake import DeltaTable, Schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spark_nodes import rows_by_duckdb
from volumes import rows_by_polars, rows_by_pyarrow

from nodes.delta import log_checkpoint
from nodes.delta.delta_commit import Change, TableWriter, table_writer
from nodes.delta.delta_log import commit_file
from nodes.delta.delta_table import TableFile, describe_file, load_delta, open_table
from nodes.delta.log_checkpoint import make_checkpoint
from nodes.delta.log_state import NotPlain, read_log
from nodes.volume_layout import schema

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


def _as_delta_rs_sees_it(root: Path, version: int) -> tuple[set[TableFile], int, dict[str, str]]:
    from nodes.delta.delta_table import _from_delta_rs

    table = _from_delta_rs(root, load_delta(root, version))
    return set(table.files), table.token, dict(table.spec)


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
def test_any_history_reads_as_delta_rs_reads_it(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple]) -> None:
    folder = tmp_path_factory.mktemp("history")
    root, number = _empty_table(folder), 0
    for step in steps:
        table = open_table(root)
        if step == ("ours",):
            log_checkpoint._write(root, read_log(root))
        elif step == ("delta-rs",):
            DeltaTable(root).create_checkpoint()
        else:
            active = {f.path: f for f in table.files}
            number += 1
            removes = tuple(active[name] for name in sorted(step[2] & active.keys()))
            adds = tuple(_file(name, number) for name in sorted(step[1] - active.keys()))
            with table_writer(root, context(folder)) as writer:
                writer.commit(table, [Change(adds=adds, removes=removes)], data_change=True)
    for version in range(open_table(root).version + 1):
        ours = open_table(root, version)
        assert read_log(root, version).version == version
        assert (set(ours.files), ours.token, dict(ours.spec)) == _as_delta_rs_sees_it(root, version)


def _grow(root: Path, folder: Path, writer: TableWriter, commits: int, first: int = 0) -> None:
    for number in range(first, first + commits):
        shard = write_shard(root, ids(2 * number, 2), name=f"{number}.parquet")
        writer.commit(open_table(root), [Change(adds=(describe_file(root, shard.path),))], data_change=True)


def test_everybody_reads_our_checkpoint(root: Path, tmp_path: Path) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        _grow(root, tmp_path, writer, 3)
        first = open_table(root).files[0]
        writer.commit(open_table(root), [Change(removes=(first,))], data_change=True)
    assert make_checkpoint(root, 4, 1)
    # Without the commits before it, only the checkpoint can tell.
    for version in range(4):
        commit_file(root, version).unlink()
    for read in (rows_by_pyarrow, rows_by_polars, rows_by_duckdb):
        assert sorted(read(str(root))) == rows_of(ids(2, 4)), read
    checkpoint = pq.read_table(root / "_delta_log" / f"{4:020d}.checkpoint.parquet").to_pylist()
    removed = [row["remove"]["path"] for row in checkpoint if row["remove"]]
    assert removed == [first.path]
    assert all(row["add"]["dataChange"] is False for row in checkpoint if row["add"])
    told = json.loads((root / "_delta_log" / "_last_checkpoint").read_text())
    assert (told["version"], told["size"], told["numOfAddFiles"]) == (4, len(checkpoint), 2)


def test_checkpoints_come_more_rarely_as_the_table_grows(root: Path, tmp_path: Path) -> None:
    """All of them together take a multiple of the log, not its square."""
    with table_writer(root, context(tmp_path)) as writer:
        for commit in range(60):
            files = tuple(_file(f"{commit}-{i}.parquet", i) for i in range(200))
            writer.commit(open_table(root), [Change(adds=files)], data_change=True)
    log = root / "_delta_log"
    made = sorted(log.glob("*.checkpoint.parquet"))
    assert 2 <= len(made) <= 4
    assert sum(pq.read_metadata(p).num_rows for p in made) < 3 * 60 * 200


def test_removed_files_are_forgotten_after_a_week(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        _grow(root, tmp_path, writer, 1)
        writer.commit(open_table(root), [Change(removes=open_table(root).files)], data_change=True)
    assert len(read_log(root).removes) == 1
    monkeypatch.setattr(log_checkpoint, "_KEPT_S", -60)
    assert make_checkpoint(root, 2, 1)
    assert len(read_log(root).removes) == 0


@pytest.mark.parametrize("harm", ["protocol", "domain", "hole", "text", "multi-part"])
def test_other_logs_are_left_to_delta_rs(root: Path, tmp_path: Path, harm: str) -> None:
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
    with pytest.raises(NotPlain):
        read_log(root)
    if harm in ("protocol", "domain"):
        assert len(open_table(root).files) == 3


def test_a_checkpoint_of_delta_rs_with_long_ids_and_without_labels(root: Path, tmp_path: Path) -> None:
    file = TableFile("x.parquet", 5, 2, 0, 7, "a" * 40, "b" * 40)
    with table_writer(root, context(tmp_path)) as writer:
        writer.commit(open_table(root), [Change(adds=(file,))], data_change=True)
    assert open_table(root).files == (file,)
    DeltaTable(root).create_checkpoint()
    assert open_table(root).files == (file,)
