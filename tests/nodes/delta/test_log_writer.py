"""Commits that we write ourselves: what every reader of Delta makes of them, and when they are left to delta-rs."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, context, ids, read_by_deltalake, rows_of, write_shard
from deltalake import DeltaTable, Schema
from spark_nodes import rows_by_duckdb
from volumes import rows_by_polars, rows_by_pyarrow

from engine.context import Transaction
from engine.errors import TableConflict
from nodes.delta import delta_commit
from nodes.delta.delta_commit import Change, table_writer
from nodes.delta.delta_log import actions, commit_file
from nodes.delta.delta_table import TableFile, describe_file, open_table
from nodes.delta.log_checkpoint import make_checkpoint
from nodes.delta.log_writer import write_commit
from nodes.volume_layout import schema

ODD = ["a b.parquet", "50%25 + é&?#=x.parquet", 'quo"te;[1]~.parquet']
"""Names that a table in place may have: in the log they are URI-encoded."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "t"
    with table_writer(root, context(tmp_path)) as writer:
        writer.create(SPEC, Schema.from_arrow(schema(SPEC)))
    return root


def _file(root: Path, first: int, name: str = "") -> TableFile:
    return describe_file(root, write_shard(root, ids(first, 2), name=name).path)


def _commit(root: Path, ctx_folder: Path, *changes: Change, data_change: bool = True) -> int:
    with table_writer(root, context(ctx_folder)) as writer:
        return writer.commit(open_table(root), changes, data_change=data_change, transaction=Transaction("somebody", 7))


def test_odd_names_and_all_fields_come_back(root: Path, tmp_path: Path) -> None:
    files = [_file(root, 2 * i, name) for i, name in enumerate(ODD)]
    _commit(root, tmp_path, *(Change(adds=(f,)) for f in files))
    assert set(open_table(root).files) == set(files)
    for read in (read_by_deltalake, rows_by_pyarrow, rows_by_polars, rows_by_duckdb):
        assert sorted(read(str(root))) == rows_of(ids(0, 6)), read
    _commit(root, tmp_path, Change(removes=(files[1],)))
    assert rows_by_pyarrow(str(root)) == rows_of(ids(0, 2) + ids(4, 2))
    assert DeltaTable(root).transaction_version("somebody") == 7
    assert [entry["operation"] for entry in DeltaTable(root).history(2)] == ["WRITE", "WRITE"]


def test_the_lines_say_what_delta_rs_says(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same change of two equal tables, written by us and by delta-rs."""
    file = _file(root, 0)
    other = tmp_path / "other"
    shutil.copytree(root, other)

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    found = []
    for place in (root, other):
        with monkeypatch.context() as patch:
            if place == other:
                patch.setattr(delta_commit, "write_commit", no_links)
            _commit(place, tmp_path, Change(adds=(file,)))
            _commit(place, tmp_path, Change(removes=(file,)), data_change=False)
        adds, removes = list(actions(place, 1, "add")), list(actions(place, 2, "remove"))
        removes[0].pop("deletionTimestamp")
        for action in (*adds, *removes):
            action["stats"] = json.loads(action["stats"]) if action.get("stats") else None
        kept = {"path", "size", "modificationTime", "dataChange", "partitionValues", "stats"}
        found.append([{k: v for k, v in a.items() if k in kept} for a in (*adds, *removes)])
    assert found[0] == found[1]


def test_a_commit_that_is_there_is_never_replaced(root: Path, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        write_commit(root, 0, [b"{}\n"])
    table = open_table(root)
    with table_writer(root, context(tmp_path)) as writer:
        commit_file(root, 1).write_bytes(b'{"commitInfo":{}}\n')
        with pytest.raises(TableConflict, match="another program committed"):
            writer.commit(table, [Change(adds=(_file(root, 0),))], data_change=True)
    assert commit_file(root, 1).read_bytes() == b'{"commitInfo":{}}\n'
    assert not [p for p in (root / "_delta_log").iterdir() if p.name.startswith(f".{commit_file(root, 1).name}")]


@pytest.mark.parametrize("property_name", ["delta.appendOnly", "delta.enableChangeDataFeed"])
def test_tables_that_ask_for_more_are_left_to_delta_rs(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, property_name: str
) -> None:
    log = commit_file(root, 0)
    text = log.read_text()
    if property_name == "delta.enableChangeDataFeed":
        text = text.replace('"minWriterVersion":2', '"minWriterVersion":4')
    log.write_text(text.replace('"configuration":{', f'"configuration":{{"{property_name}":"true",'))
    assert not open_table(root).plain_log

    def never(*_: object) -> None:
        raise AssertionError("we wrote it ourselves")

    monkeypatch.setattr(delta_commit, "write_commit", never)
    assert _commit(root, tmp_path, Change(adds=(_file(root, 0),))) == 1
    assert rows_by_pyarrow(str(root)) == rows_of(ids(0, 2))


def test_the_log_is_summed_up_now_and_then(root: Path, tmp_path: Path) -> None:
    for number in range(11):
        _commit(root, tmp_path, Change(adds=(_file(root, 2 * number),)))
    last = json.loads((root / "_delta_log" / "_last_checkpoint").read_text())
    assert last["version"] == 10
    assert pq.read_metadata(root / "_delta_log" / f"{10:020d}.checkpoint.parquet").num_rows >= 10
    assert make_checkpoint(root, 11, 10) == ()
    # A damaged pointer costs time alone.
    (root / "_delta_log" / "_last_checkpoint").write_bytes(os.urandom(8))
    assert make_checkpoint(root, 11, 10)
    assert rows_by_pyarrow(str(root)) == read_by_deltalake(str(root)) == rows_of(ids(0, 22))
