"""Commits that we write ourselves: what every reader of Delta makes of them, and when they are left to delta-rs."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, context, ids, read_by_deltalake, rows_of, write_shard
from deltalake import DeltaTable, Schema
from spark_nodes import rows_by_duckdb
from volumes import rows_by_polars, rows_by_pyarrow

from engine.declare.context import Transaction
from engine.errors import DataError, TableConflict, UnsupportedTable
from engine.storage.files import temporary_beside
from engine.storage.local_place import LocalPlace
from engine.storage.table_lock import INTERNALS
from nodes.table import commit as delta_commit
from nodes.table.commit import table_writer
from nodes.table.ledger import Ledger, drop_old_ledgers, write_ledger
from nodes.table.log import actions, checkpoint_file, commit_file
from nodes.table.log_checkpoint import make_checkpoint
from nodes.table.log_writer import Change, write_commit
from nodes.table.snapshot import TableFile, describe_file, load_delta, open_table
from nodes.volume_file.layout import schema

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


@pytest.mark.slow
def test_odd_names_and_all_fields_come_back(root: Path, tmp_path: Path) -> None:
    files = [_file(root, 2 * i, name) for i, name in enumerate(ODD)]
    _commit(root, tmp_path, *(Change(adds=(f,)) for f in files))
    assert set(open_table(root).files) == set(files)
    for read in (read_by_deltalake, rows_by_pyarrow, rows_by_polars, rows_by_duckdb):
        assert sorted(read(str(root))) == rows_of(ids(0, 6)), read
    _commit(root, tmp_path, Change(removes=(files[1],)))
    assert rows_by_pyarrow(str(root)) == rows_of(ids(0, 2) + ids(4, 2))
    assert [entry["operation"] for entry in DeltaTable(root).history(2)] == ["DELETE", "WRITE"]


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


@pytest.mark.slow
def test_without_hard_links_the_log_says_what_was_done(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    files = (_file(root, 0), _file(root, 2))
    monkeypatch.setattr(os, "link", no_links)
    _commit(root, tmp_path, Change(adds=files))
    _commit(
        root,
        tmp_path,
        Change(removes=files, adds=(describe_file(root, write_shard(root, ids(0, 4)).path),)),
        data_change=False,
    )
    _commit(root, tmp_path, Change(removes=open_table(root).files))
    done = [entry for version in (1, 2, 3) for entry in actions(root, version, "commitInfo")]
    assert [entry["operation"] for entry in done] == ["WRITE", "OPTIMIZE", "DELETE"]
    assert [entry["operationMetrics"]["numRemovedFiles"] for entry in done[1:]] == ["2", "1"]


def test_a_commit_that_is_there_is_never_replaced(root: Path, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        write_commit(LocalPlace(root), 0, [b"{}\n"])
    table = open_table(root)
    with table_writer(root, context(tmp_path)) as writer:
        commit_file(root, 1).write_bytes(b'{"commitInfo":{}}\n')
        with pytest.raises(TableConflict, match="another program committed"):
            writer.commit(table, [Change(adds=(_file(root, 0),))], data_change=True)
    assert commit_file(root, 1).read_bytes() == b'{"commitInfo":{}}\n'
    assert not [p for p in (root / "_delta_log").iterdir() if p.name.startswith(f".{commit_file(root, 1).name}")]


@pytest.mark.slow
@pytest.mark.parametrize("property_name", ["delta.appendOnly", "delta.enableChangeDataFeed"])
def test_tables_that_ask_for_more_get_the_same_lines(root: Path, tmp_path: Path, property_name: str) -> None:
    DeltaTable(root).alter.set_table_properties({property_name: "true"})
    first, second = _file(root, 0), _file(root, 2)
    assert _commit(root, tmp_path, Change(adds=(first,)), Change(adds=(second,))) == 2
    merged = Change(adds=(describe_file(root, write_shard(root, ids(0, 4)).path),), removes=(first, second))
    assert _commit(root, tmp_path, merged, data_change=False) == 3
    if property_name == "delta.appendOnly":
        with pytest.raises(UnsupportedTable, match="appendOnly"):
            _commit(root, tmp_path, Change(removes=merged.adds))
    for read in (read_by_deltalake, rows_by_pyarrow, rows_by_polars, rows_by_duckdb):
        assert sorted(read(str(root))) == rows_of(ids(0, 4)), read
    assert [entry["operation"] for entry in DeltaTable(root).history(2)] == ["OPTIMIZE", "WRITE"]


@pytest.mark.slow
def test_the_log_is_summed_up_now_and_then(root: Path, tmp_path: Path) -> None:
    for number in range(11):
        _commit(root, tmp_path, Change(adds=(_file(root, 2 * number),)))
    last = json.loads((root / "_delta_log" / "_last_checkpoint").read_text())
    assert last["version"] == 10
    assert pq.read_metadata(root / "_delta_log" / f"{10:020d}.checkpoint.parquet").num_rows >= 10
    assert not make_checkpoint(root, 11, 10)
    # A damaged pointer costs time alone.
    (root / "_delta_log" / "_last_checkpoint").write_bytes(os.urandom(8))
    assert make_checkpoint(root, 11, 10)
    assert rows_by_pyarrow(str(root)) == read_by_deltalake(str(root)) == rows_of(ids(0, 22))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0, 0.5], ids=["empty", "half"])
def test_a_commit_that_was_cut_short_is_named(root: Path, tmp_path: Path, share: float) -> None:
    """delta-rs reads a commit without content as one that changed nothing: its rows would lack without a word."""
    for i in range(2):
        _commit(root, tmp_path, Change(adds=(_file(root, 2 * i),)))
    commit = commit_file(root, 2)
    os.truncate(commit, int(commit.stat().st_size * share))
    for read in (open_table, load_delta):
        with pytest.raises(DataError) as caught:
            read(root)
        assert caught.value.message.startswith(f"{commit} is damaged: ")
        assert str(root) in caught.value.hint


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "it is a named pipe"),
        (lambda path: path.symlink_to("nothing"), "it is a link whose target is missing"),
    ],
)
@pytest.mark.parametrize("name", ["0" * 19 + "2.json", "0" * 19 + "2.checkpoint.parquet", "_last_checkpoint"])
def test_what_is_no_file_of_a_log_is_named_and_not_waited_for(
    root: Path, tmp_path: Path, name: str, make: Callable[[Path], object], said: str
) -> None:
    for i in range(2):
        _commit(root, tmp_path, Change(adds=(_file(root, 2 * i),)))
    file = root / "_delta_log" / name
    file.unlink(missing_ok=True)
    make(file)
    for read in (open_table, load_delta):
        with pytest.raises(DataError, match=said) as caught:
            read(root)
        assert caught.value.message.startswith(f"{file} is damaged: ")


def test_a_commit_with_a_line_that_rotted_is_named(root: Path, tmp_path: Path) -> None:
    for i in range(2):
        _commit(root, tmp_path, Change(adds=(_file(root, 2 * i),)))
    commit = commit_file(root, 1)
    lines = commit.read_bytes().splitlines(keepends=True)
    for place, name in enumerate((b"commitInfo", b"add")):
        number = next(n for n, line in enumerate(lines) if name in line)
        rotten = [*lines[:number], lines[number].replace(b"{", b"\0", 2), *lines[number + 1 :]]
        commit.write_bytes(b"".join(rotten))
        with pytest.raises(DataError, match=f"line {number + 1} is not JSON") as caught:
            open_table(root)
        assert caught.value.message.startswith(f"{commit} is damaged: "), place


@pytest.mark.parametrize(
    ("version", "before", "after", "problem"),
    [
        (0, rb"\"type\"", rb"\"typd\"", "its schema cannot be read"),
        (0, rb"\"binary\"", rb"\"binar9\"", "its schema has a column of type binar9, and Delta has no such type"),
        (1, b'"path"', b'"pati"', "the add in line . lacks path"),
    ],
)
def test_a_commit_with_a_name_that_rotted_is_named(
    root: Path, tmp_path: Path, version: int, before: bytes, after: bytes, problem: str
) -> None:
    _commit(root, tmp_path, Change(adds=(_file(root, 0),)))
    commit = commit_file(root, version)
    commit.write_bytes(commit.read_bytes().replace(before, after, 1))
    with pytest.raises(DataError, match=problem) as caught:
        open_table(root)
    assert caught.value.message.startswith(f"{commit} is damaged: ")


def test_a_type_that_rotted_in_a_checkpoint_is_named_and_a_newer_one_of_delta_is_no_damage(
    root: Path, tmp_path: Path
) -> None:
    _commit(root, tmp_path, Change(adds=(_file(root, 0),)))
    assert make_checkpoint(root, 1, 1)
    checkpoint, commit = checkpoint_file(root, 1), commit_file(root, 0)
    stored = pq.read_table(checkpoint)
    rotten = pa.Table.from_pylist(
        [
            row | {"metaData": data and data | {"schemaString": data["schemaString"].replace("binary", "binar9")}}
            for row in stored.to_pylist()
            for data in [row["metaData"]]
        ],
        schema=stored.schema,
    )
    pq.write_table(rotten, checkpoint)
    with pytest.raises(DataError, match="a column of type binar9") as caught:
        open_table(root)
    assert caught.value.message.startswith(f"{checkpoint} is damaged: ")
    assert caught.value.hint.startswith(f"Delete {checkpoint.name} and _last_checkpoint")
    for path in (checkpoint, checkpoint.with_name("_last_checkpoint")):
        path.unlink()
    commit.write_bytes(commit.read_bytes().replace(rb"\"binary\"", rb"\"geometry(OGC:CRS84)\""))
    with pytest.raises(UnsupportedTable, match="geometry"):
        open_table(root)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0, 0.5], ids=["empty", "half"])
def test_a_checkpoint_that_was_cut_short_is_named_and_can_be_deleted(root: Path, tmp_path: Path, share: float) -> None:
    for i in range(3):
        _commit(root, tmp_path, Change(adds=(_file(root, 2 * i),)))
    assert make_checkpoint(root, 3, 1)
    checkpoint, log = checkpoint_file(root, 3), root / "_delta_log"
    os.truncate(checkpoint, int(checkpoint.stat().st_size * share))
    with pytest.raises(DataError) as caught:
        open_table(root)
    assert caught.value.message.startswith(f"{checkpoint} is damaged: ")
    what = "the log's commits have the same."
    assert caught.value.hint == f"Delete {checkpoint.name} and _last_checkpoint in {log}: {what}"
    checkpoint.unlink()
    # Who deletes the one alone needs to know of the other: delta-rs does not read past it.
    with pytest.raises(DataError) as caught:
        open_table(root)
    assert (
        caught.value.message
        == f"{log}/_last_checkpoint is damaged: it names the checkpoint of version 3, which is gone"
    )
    assert caught.value.hint == f"Delete _last_checkpoint in {log}: {what}"
    (log / "_last_checkpoint").unlink()
    assert len(open_table(root).files) == 3


def test_a_lost_checkpoint_without_the_commits_before_it_is_lost(root: Path, tmp_path: Path) -> None:
    for i in range(3):
        _commit(root, tmp_path, Change(adds=(_file(root, 2 * i),)))
    assert make_checkpoint(root, 3, 1)
    commit_file(root, 0).unlink()
    checkpoint_file(root, 3).unlink()
    with pytest.raises(DataError, match="which is gone") as caught:
        open_table(root)
    assert "Restore that file from a backup" in caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("share", [0, 0.5], ids=["empty", "half"])
def test_the_name_of_the_last_checkpoint_may_be_cut_short(root: Path, tmp_path: Path, share: float) -> None:
    for i in range(3):
        _commit(root, tmp_path, Change(adds=(_file(root, 2 * i),)))
    assert make_checkpoint(root, 3, 1)
    last = root / "_delta_log" / "_last_checkpoint"
    os.truncate(last, int(last.stat().st_size * share))
    assert len(open_table(root).files) == 3
    assert len(rows_by_pyarrow(str(root))) == 6
    assert make_checkpoint(root, 3, 1)
    assert json.loads(last.read_text())["version"] == 3


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(3):
        _commit(root, tmp_path, Change(adds=(_file(root, 2 * i),)))
    flushed: set[int] = set()
    fsync, replace = os.fsync, os.replace

    def recorded(handle: int) -> None:
        fsync(handle)
        flushed.add(os.fstat(handle).st_ino)

    def checked(source: Path, target: Path) -> None:
        assert os.stat(source).st_ino in flushed, target
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded)
    monkeypatch.setattr(os, "replace", checked)
    assert make_checkpoint(root, 3, 1)


@pytest.mark.parametrize("content", ["", '{"token": 1, "pi', None], ids=["empty", "half", "gone"])
def test_a_token_whose_note_is_lost_is_not_given_twice(root: Path, tmp_path: Path, content: str | None) -> None:
    """A ledger was written under it, for a commit that never came: another commit with it would make that one count."""
    with table_writer(root, context(tmp_path)) as writer:
        write_ledger(open_table(root), Ledger(), writer.token)
    note = root / INTERNALS / "writer.json"
    if content is None:
        note.unlink()
    else:
        note.write_text(content)
    with table_writer(root, context(tmp_path)) as following:
        assert following.token == writer.token + 1


def test_what_a_killed_writer_left_of_a_ledger_is_cleared(root: Path, tmp_path: Path) -> None:
    with table_writer(root, context(tmp_path)) as writer:
        write_ledger(open_table(root), Ledger(), writer.token)
        left = temporary_beside(next((root / INTERNALS / "ledger").glob("*.arrow")))
        left.write_bytes(b"half")
        drop_old_ledgers(LocalPlace(root), writer.token)
    assert not left.exists()


def _info(root: Path, version: int) -> dict[str, Any]:
    (info,) = actions(root, version, "commitInfo")
    return info


@pytest.mark.slow
def test_a_commit_says_what_it_did(root: Path, tmp_path: Path) -> None:
    """In Delta's words and types: what `DESCRIBE HISTORY` shows of a commit of Spark's."""
    one, two, three = (_file(root, first) for first in (0, 2, 4))
    rest = describe_file(root, write_shard(root, ids(4, 1), name="rest.parquet").path)
    joined = describe_file(root, write_shard(root, ids(0, 4), name="joined.parquet").path)
    everything = describe_file(root, write_shard(root, ids(20, 5), name="all.parquet").path)
    _commit(root, tmp_path, *(Change(adds=(f,)) for f in (one, two, three)))
    _commit(root, tmp_path, Change(adds=(joined,), removes=(one, two)), data_change=False)
    _commit(root, tmp_path, Change(adds=(rest,), removes=(three,)))
    _commit(root, tmp_path, Change(adds=(one,)), Change(removes=(rest,)))
    _commit(root, tmp_path, Change(removes=(one,)))
    _commit(root, tmp_path, Change(adds=(everything,), removes=(joined,)))
    _commit(root, tmp_path, Change(removes=(everything,)))
    found = [_info(root, version) for version in range(1, 8)]
    assert all(info["isBlindAppend"] is False for info in found)
    assert {info["engineInfo"] for info in found} == {f"Voxelflow/{importlib.metadata.version('voxelflow')}"}
    said = [(info["operation"], info["operationParameters"].get("mode"), info["operationMetrics"]) for info in found]
    assert said == [
        ("WRITE", "Append", _metrics(numFiles=3, numOutputRows=6, numOutputBytes=one.bytes + two.bytes + three.bytes)),
        (
            "OPTIMIZE",
            None,
            _metrics(numAddedFiles=1, numRemovedFiles=2)
            | _metrics(numAddedBytes=joined.bytes, numRemovedBytes=one.bytes + two.bytes)
            | dict.fromkeys([*(f"{x}FileSize" for x in ("min", "p25", "p50", "p75", "max"))], str(joined.bytes)),
        ),
        (
            "DELETE",
            None,
            _metrics(numDeletedRows=1, numCopiedRows=1, numAddedFiles=1, numRemovedFiles=1)
            | _metrics(numAddedBytes=rest.bytes, numRemovedBytes=three.bytes),
        ),
        (
            "MERGE",
            None,
            _metrics(numTargetRowsInserted=2, numTargetRowsUpdated=0, numTargetRowsDeleted=1, numTargetRowsCopied=0)
            | _metrics(numOutputRows=2, numTargetFilesAdded=1, numTargetFilesRemoved=1)
            | _metrics(numTargetBytesAdded=one.bytes, numTargetBytesRemoved=rest.bytes),
        ),
        (
            "DELETE",
            None,
            _metrics(numDeletedRows=2, numCopiedRows=0, numAddedFiles=0, numRemovedFiles=1)
            | _metrics(numAddedBytes=0, numRemovedBytes=one.bytes),
        ),
        (
            "WRITE",
            "Overwrite",
            _metrics(numFiles=1, numOutputRows=5, numOutputBytes=everything.bytes)
            | _metrics(numRemovedFiles=1, numRemovedBytes=joined.bytes),
        ),
        (
            "DELETE",
            None,
            _metrics(numDeletedRows=5, numCopiedRows=0, numAddedFiles=0, numRemovedFiles=1)
            | _metrics(numAddedBytes=0, numRemovedBytes=everything.bytes),
        ),
    ]
    # delta-rs reads it, too.
    assert [entry["operation"] for entry in reversed(DeltaTable(root).history(7))] == [what for what, _, _ in said]


def _metrics(**figures: int) -> dict[str, str]:
    return {name: str(value) for name, value in figures.items()}
