from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from delta_tables import context, dataset_of, ids, shards, write_shard
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DataError
from engine.storage.table_lock import INTERNALS
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.compaction import Target, compact
from nodes.table.ledger import Segment, Shard, concatenate, cut, is_content_named, owner_folder, shard_of, write_ledger
from nodes.table.provenance import open_ledger
from nodes.table.snapshot import open_table
from nodes.volume_file.parts import read_parts

_SEGMENTS = st.lists(
    st.builds(
        Segment,
        st.one_of(st.none(), st.builds(Shard, st.sampled_from("abc"), st.just(1), st.just(0))),
        st.integers(1, 9),
    ),
    max_size=8,
)


def test_content_names() -> None:
    assert is_content_named("0123456789abcdef0123456789abcdef.parquet")
    assert is_content_named("part-0123456789abcdef.parquet")
    assert not is_content_named("part-00000.parquet")
    assert not is_content_named("volumes-2024.parquet")


def test_identity_of_a_content_named_shard_needs_no_place(tmp_path: Path) -> None:
    here = write_shard(tmp_path / "here", ids(0, 3))
    there = write_shard(tmp_path / "there", ids(0, 3))
    assert here.mtime_ns != there.mtime_ns
    assert shard_of(here) == shard_of(there)
    assert shard_of(write_shard(tmp_path / "here", ids(0, 3), name="a.parquet")) != shard_of(
        write_shard(tmp_path / "there", ids(0, 3), name="a.parquet")
    )


@given(st.lists(_SEGMENTS, max_size=5))
def test_concatenating_keeps_every_row_in_order(parts: list[list[Segment]]) -> None:
    def rows(segments: list[Segment]) -> list[Shard | None]:
        return [s.shard for s in segments for _ in range(s.rows)]

    joined = concatenate(tuple(p) for p in parts)
    assert rows(list(joined)) == [shard for p in parts for shard in rows(p)]
    assert all(a.shard != b.shard for a, b in itertools.pairwise(joined))


@given(_SEGMENTS, st.data())
def test_cutting_is_the_inverse_of_concatenating(segments: list[Segment], data: st.DataObject) -> None:
    whole = concatenate([tuple(segments)])
    total = sum(s.rows for s in whole)
    lengths = []
    while total:
        lengths.append(data.draw(st.integers(1, total)))
        total -= lengths[-1]
    pieces = cut(whole, lengths)
    assert [sum(s.rows for s in p) for p in pieces] == lengths
    assert concatenate(pieces) == whole


def test_the_ledger_follows_rows_through_a_compaction(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4, 5)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    done = compact(table, Target(10**6, 0.75, False), context(tmp_path, "o"))
    (file,) = done.files
    ledger = open_ledger(done)
    parts = read_parts(dataset).parts
    assert ledger.files[file.path] == tuple(Segment(shard_of(p), p.rows) for p in parts)
    assert ledger.placed([file.path]) == {shard_of(p): p.rows for p in parts}
    (owner,) = set(ledger.owners.values())
    assert owner_folder(owner, done.place) == dataset.uri
    assert not ledger.absorbed


def test_a_ledger_that_no_commit_carries_does_not_count(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3), ctx=context(tmp_path))
    opened = open_table(table.uri)
    ledger = open_ledger(opened)
    ledger.files["never.parquet"] = (Segment(None, 1),)
    write_ledger(opened, ledger, opened.token + 1)
    assert "never.parquet" not in open_ledger(open_table(table.uri)).files


def test_files_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    first = parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=ctx)
    gone, kept = (f.path for f in open_table(first.uri).files)
    parts = read_parts(shards(tmp_path / "p", 3, 4, 5)).parts
    second = parquet_to_delta(dataset_of(tmp_path / "p", parts[1:]), ctx=ctx)
    assert gone in open_ledger(open_table(second.uri)).files, "an old version still has it"
    (Path(second.uri) / gone).unlink()
    third = parquet_to_delta(dataset_of(tmp_path / "p", parts[1:2]), ctx=ctx)
    assert open_ledger(open_table(third.uri)).files.keys() >= {kept}
    assert gone not in open_ledger(open_table(third.uri)).files


def test_rows_that_another_program_moved_are_absorbed(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    DeltaTable(table.uri).optimize.compact()
    ledger = open_ledger(open_table(table.uri))
    assert ledger.absorbed == {shard_of(p) for p in read_parts(dataset).parts}
    # Put back as it was: nothing is absorbed any more.
    DeltaTable(table.uri).restore(table.version)
    ledger = open_ledger(open_table(table.uri))
    assert ledger.absorbed == set()
    assert len(ledger.placed(f.path for f in open_table(table.uri).files)) == 2


def test_rows_that_another_program_added_absorb_nothing(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    table = parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=context(tmp_path))
    rows = DeltaTable(table.uri).to_pyarrow_table().slice(0, 1)
    write_deltalake(table.uri, rows, mode="append")
    ledger = open_ledger(open_table(table.uri))
    assert ledger.absorbed == set()
    assert len(ledger.placed(f.path for f in open_table(table.uri).files)) == 2


def test_a_damaged_ledger_is_reported(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 3), ctx=context(tmp_path))
    (path,) = (Path(table.uri) / INTERNALS / "ledger").iterdir()
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataError, match="damaged"):
        open_ledger(open_table(table.uri))
