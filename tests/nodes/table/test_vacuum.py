from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from delta_tables import (
    context,
    dataset_of,
    ids,
    read_by_deltalake,
    rows_of,
    shards,
    start_node,
    was_killed,
    write_shard,
)
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from volumes import rows_by_pyarrow

from engine.declare.datasets import VolumeDelta
from engine.declare.events import Event, Message
from engine.errors import DataError
from engine.storage.find_place import place_at
from engine.storage.process_lock import ProcessLock
from engine.storage.table_lock import INTERNALS
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.log import has_version
from nodes.table.snapshot import open_table
from nodes.table.vacuum import protected_versions, vacuum
from nodes.volume_file.parts import read_parts


def _history(tmp_path: Path) -> tuple[VolumeDelta, VolumeDelta, VolumeDelta]:
    """Three versions: four shards; then the first gone and one new; then compacted. No file is in all of them."""
    dataset = shards(tmp_path / "p", 3, 4, 5, 6)
    first = parquet_to_delta(dataset, ctx=context(tmp_path))
    parts = read_parts(shards(tmp_path / "p", 3, 4, 5, 6, 7)).parts[1:]
    second = parquet_to_delta(dataset_of(tmp_path / "p", list(parts)), ctx=context(tmp_path))
    third = optimize_delta(second, ctx=context(tmp_path, "o"))
    assert (first.version, second.version, third.version) == (1, 2, 3)
    return first, second, third


def _files(table: VolumeDelta) -> set[str]:
    return {p.name for p in Path(table.uri).glob("*.parquet")}


def _needed(*tables: VolumeDelta) -> set[str]:
    return {f.path for t in tables for f in open_table(t.uri, t.version).files}


@pytest.mark.slow
def test_only_what_nothing_needs_is_deleted(tmp_path: Path) -> None:
    first, second, third = _history(tmp_path)
    done = vacuum(third.uri, (second.version,), 0, context(tmp_path, "v"))
    assert (done.files, done.kept) == (1, 4)
    assert _files(third) == _needed(second, third)
    for table in (second, third):
        assert read_by_deltalake(table.uri, table.version) == rows_of(ids(3, 22))
    assert vacuum(third.uri, (second.version,), 0, context(tmp_path, "v")).files == 0
    done = vacuum(third.uri, (), 0, context(tmp_path, "v"))
    assert done.bytes == second.bytes
    assert _files(third) == _needed(third)
    assert rows_by_pyarrow(third.uri) == rows_of(ids(3, 22))
    assert first.version == 1


@pytest.mark.slow
def test_the_node_keeps_its_input_and_what_is_protected(tmp_path: Path) -> None:
    first, second, third = _history(tmp_path)
    # The cache holds the first version, under another spelling of the table's place.
    spelt = str(Path(third.uri).parent / ".." / Path(third.uri).parent.name / Path(third.uri).name)
    ctx = context(tmp_path, "v", protected={spelt: (first.version,), str(tmp_path): (0,), "s3://b/t": (1,)})
    done = optimize_delta(third, vacuum=True, ctx=ctx)
    assert done.version == third.version
    assert _files(third) == _needed(first, third)
    assert protected_versions(Path(third.uri), ctx.protected) == {first.version}
    assert read_by_deltalake(first.uri, first.version) == rows_of(ids(0, 18))
    assert second.version == 2


@pytest.mark.slow
def test_a_version_that_cannot_be_read_now_is_not_taken_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, third = _history(tmp_path)
    before = _files(third)

    class Failing(DeltaTable):
        def __init__(self, uri: str, version: int | None = None) -> None:
            if version == second.version:
                raise DeltaError("Generic LocalFileSystem error: No space left on device")
            super().__init__(uri, version=version)

    with monkeypatch.context() as patched:
        patched.setattr("deltalake.DeltaTable", Failing)
        with pytest.raises(DataError, match=r"version 2 of the table .* cannot be read: .*No space left") as caught:
            vacuum(third.uri, (second.version,), 0, context(tmp_path, "v"))
    assert "run it again" in caught.value.hint
    assert _files(third) == before

    # Gone for good: the commits before it were cleaned away, and no checkpoint stands in for them.
    log = Path(third.uri) / "_delta_log"
    assert has_version(place_at(third.uri), second.version)
    DeltaTable(third.uri).create_checkpoint()
    (log / f"{0:020d}.json").unlink()
    assert not has_version(place_at(third.uri), second.version)
    assert has_version(place_at(third.uri), third.version)
    heard: list[Event] = []
    vacuum(third.uri, (second.version,), 0, replace(context(tmp_path, "v"), emit=heard.append))
    assert any(isinstance(e, Message) and "version 2 cannot be kept" in e.text for e in heard)
    assert _files(third) == _needed(third)


@pytest.mark.slow
def test_what_was_current_lately_is_kept_when_asked(tmp_path: Path) -> None:
    first, second, third = _history(tmp_path)
    log = Path(third.uri) / "_delta_log"
    hours_ago = {1: 5, 2: 3, 3: 1}
    for version, hours in hours_ago.items():
        when = time.time() - hours * 3600
        os.utime(log / f"{version:020d}.json", (when, when))
    # The first version was current until three hours ago, the second until an hour ago.
    assert vacuum(third.uri, (), 4, context(tmp_path, "v")).files == 0
    assert vacuum(third.uri, (), 2, context(tmp_path, "v")).files == 1
    assert _files(third) == _needed(second, third)
    vacuum(third.uri, (), 0.5, context(tmp_path, "v"))
    assert _files(third) == _needed(third)
    assert first.version == 1


@pytest.mark.slow
def test_the_log_records_what_was_deleted_and_hides_nothing_of_others(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    root = Path(table.uri)
    DeltaTable(root).delete("id = 'vol-00001'")
    size = sum((root / f.path).stat().st_size for f in open_table(root, 1).files if f.rows == 3)
    assert vacuum(table.uri, (), 0, context(tmp_path, "v")).files == 1
    end, start = DeltaTable(root).history(2)
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationMetrics"] == {"numFilesToDelete": "1", "sizeOfDataToDelete": str(size)}
    assert end["operationMetrics"] == {"numDeletedFiles": "1", "numVacuumedDirectories": "1"}
    # Nothing to delete, nothing to record.
    assert vacuum(table.uri, (), 0, context(tmp_path, "v")).files == 0
    again = parquet_to_delta(dataset, ctx=context(tmp_path))
    assert (again.version, again.data_version, again.count) == (4, 2, 6), "what others deleted stays deleted"


def test_files_that_never_joined_the_table_go_too(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3), ctx=context(tmp_path))
    root = Path(table.uri)
    write_shard(root, ids(50, 2))
    (root / f".{'a' * 32}.parquet.123").write_bytes(b"half a copy")
    (root / "README.txt").write_text("somebody's")
    write_shard(root, ids(60, 2), name="part-00000-of-another-program.parquet")
    done = vacuum(table.uri, (), 0, context(tmp_path, "v"))
    assert done.files == 2
    assert _files(table) == _needed(table) | {"part-00000-of-another-program.parquet"}, "it may be about to join"
    assert (root / "README.txt").exists()
    assert rows_by_pyarrow(table.uri) == rows_of(ids(0, 3))


def test_files_that_other_programs_removed_go_at_once(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=context(tmp_path))
    DeltaTable(table.uri).optimize.compact()
    compacted = open_table(table.uri).reference(table.uri)
    vacuum(table.uri, (), 0, context(tmp_path, "v"))
    assert _files(table) == _needed(compacted)
    assert rows_by_pyarrow(table.uri) == rows_of(ids(0, 7))


@pytest.mark.slow
def test_a_table_in_place_loses_nothing_of_its_parquet_dataset(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = parquet_to_delta(dataset, mode="in_place", ctx=context(tmp_path))
    first = optimize_delta(table, ctx=context(tmp_path, "o"))
    waiting = shards(tmp_path / "p", 3, 4, 5)
    grown = parquet_to_delta(waiting, mode="in_place", ctx=context(tmp_path))
    last = optimize_delta(grown, ctx=context(tmp_path, "o"))
    unused = write_shard(tmp_path / "p", ids(90, 2))
    assert vacuum(table.uri, (), 0, context(tmp_path, "v")).files == 1
    kept = {p.path for p in read_parts(waiting).parts} | {unused.path} | _needed(last)
    assert _files(table) == kept
    assert not _needed(first) & kept


@pytest.mark.slow
def test_a_protected_version_that_is_gone_is_reported(tmp_path: Path) -> None:
    _, _, third = _history(tmp_path)
    heard: list[Event] = []
    ctx = context(tmp_path, "v", protected={third.uri: (77,)})
    object.__setattr__(ctx, "emit", heard.append)
    vacuum(third.uri, (), 0, ctx)
    assert any(isinstance(e, Message) and e.level == "warning" and "77" in e.text for e in heard)
    assert rows_by_pyarrow(third.uri) == rows_of(ids(3, 22))


def test_new_files_of_a_living_writer_are_not_touched(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3), ctx=context(tmp_path))
    staging = Path(table.uri) / INTERNALS / "staging"
    for slot in ("0", "1"):
        (staging / slot).mkdir(parents=True, exist_ok=True)
        (staging / slot / "rewritten-x.parquet").write_bytes(b"12345")
    living = ProcessLock(staging / "1.lock")
    assert living.acquire()
    try:
        (staging / "0.lock").touch()
        assert vacuum(table.uri, (), 0, context(tmp_path, "v")).bytes == 5
    finally:
        living.release()
    assert not (staging / "0" / "rewritten-x.parquet").exists()
    assert (staging / "1" / "rewritten-x.parquet").exists()


@pytest.mark.slow
def test_a_kill_before_the_vacuum_loses_nothing(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3, 4, 5), ctx=context(tmp_path))
    assert was_killed(start_node(tmp_path, "OptimizeDelta", table, "o", "optimize:before-vacuum", vacuum=True))
    assert rows_by_pyarrow(table.uri) == read_by_deltalake(table.uri) == rows_of(ids(0, 12))
    done = optimize_delta(table, vacuum=True, ctx=context(tmp_path, "o"))
    assert (done.files, done.version) == (1, table.version + 1)
    assert _files(done) == _needed(table, done)
