from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from delta_tables import (
    SPEC,
    Interfering,
    context,
    dataset_of,
    exactly,
    finish_node,
    ids,
    read_by_deltalake,
    rows_of,
    shards,
    start_node,
    volume_of,
    write_shard,
)
from deltalake import DeltaTable
from volume_sets import flip_a_bit
from volumes import rows_by_pyarrow

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview, VolumeDelta
from engine.declare.events import Progress
from engine.declare.progress import current_reporter
from engine.errors import Cancelled, DataError, StaleInput, TableConflict
from engine.storage.table_lock import INTERNALS
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table import compaction
from nodes.table.snapshot import open_table
from nodes.volume_file.rewrite import compression_of, layout_problem, read_metadata


@pytest.fixture
def small_files(tmp_path: Path) -> VolumeDelta:
    """A table of 30 files with 5 volumes each."""
    return parquet_to_delta(shards(tmp_path / "p", *[5] * 30), ctx=context(tmp_path))


def _staged(table: VolumeDelta) -> list[str]:
    folder = Path(table.uri) / INTERNALS / "staging"
    return sorted(p.name for p in folder.glob("*/*"))


@pytest.mark.slow
def test_small_files_become_one(small_files: VolumeDelta, tmp_path: Path) -> None:
    done = optimize_delta(small_files, ctx=context(tmp_path, "o"))
    assert (done.files, done.count, done.version) == (1, 150, small_files.version + 1)
    assert done.data_version == small_files.data_version
    assert done.labelled == small_files.labelled
    exactly(done.uri, ids(0, 150))
    assert read_by_deltalake(small_files.uri, small_files.version) == rows_of(ids(0, 150))
    assert _staged(done) == []


def test_the_new_files_are_in_the_volume_layout(small_files: VolumeDelta, tmp_path: Path) -> None:
    done = optimize_delta(small_files, ctx=context(tmp_path, "o"))
    (file,) = open_table(done.uri).files
    with pq.ParquetFile(Path(done.uri) / file.path) as parquet:
        meta = parquet.metadata
        assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [60, 60, 30]
        volume = meta.row_group(0).column(2)
        assert (volume.compression, volume.has_dictionary_page, volume.is_stats_set) == ("UNCOMPRESSED", False, False)
        assert set(volume.encodings) <= {"PLAIN", "RLE"}
        label = meta.row_group(0).column(1)
        assert label.is_stats_set
        assert b"voxelflow.shape" in parquet.schema_arrow.metadata
        assert not parquet.schema_arrow.field("volume").nullable
    # In the order of their ids, as they were.
    assert pq.read_table(Path(done.uri) / file.path)["id"].to_pylist() == ids(0, 150)


def test_a_volume_is_found_by_arithmetic(small_files: VolumeDelta, tmp_path: Path) -> None:
    from nodes.volume_file.page_index import index_pages

    done = optimize_delta(small_files, ctx=context(tmp_path, "o"))
    (file,) = open_table(done.uri).files
    path = Path(done.uri) / file.path
    offsets = index_pages(str(path), pq.read_metadata(path), SPEC.volume_bytes).offsets
    data = path.read_bytes()
    assert [data[at : at + SPEC.volume_bytes] for at in offsets] == [volume_of(i) for i in ids(0, 150)]


@pytest.mark.slow
def test_optimizing_twice_from_one_version_doubles_nothing(small_files: VolumeDelta, tmp_path: Path) -> None:
    first = optimize_delta(small_files, ctx=context(tmp_path, "one"))
    second = optimize_delta(small_files, ctx=context(tmp_path, "two"))
    assert second == first
    exactly(second.uri, ids(0, 150))


def test_nothing_to_do_makes_no_version(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 50), ctx=context(tmp_path))
    assert optimize_delta(table, ctx=context(tmp_path, "o")) == table


@pytest.mark.slow
def test_files_of_a_good_size_stay(tmp_path: Path) -> None:
    # About 100 bytes a row: 7,000 rows are 0.8 MB, more than three quarters of a target of 1 MB.
    table = parquet_to_delta(shards(tmp_path / "p", 7000, 20, 20), ctx=context(tmp_path))
    large = max(open_table(table.uri).files, key=lambda f: f.bytes)
    assert 0.75e6 < large.bytes < 1e6
    done = optimize_delta(table, target_file_mb=1, ctx=context(tmp_path, "o"))
    assert done.files == 2
    assert large.path in {f.path for f in open_table(done.uri).files}
    everything = optimize_delta(done, target_file_mb=1, min_fill=1.0, ctx=context(tmp_path, "o2"))
    assert everything.files == 1
    exactly(everything.uri, ids(0, 7040))


def test_a_reference_to_other_rows_is_stale(small_files: VolumeDelta, tmp_path: Path) -> None:
    parquet_to_delta(shards(tmp_path / "p", *[5] * 31), ctx=context(tmp_path))
    with pytest.raises(StaleInput, match="other rows since version 1") as caught:
        optimize_delta(small_files, ctx=context(tmp_path, "o"))
    assert caught.value.hint


def test_a_table_made_anew_is_stale(small_files: VolumeDelta, tmp_path: Path) -> None:
    import shutil

    shutil.rmtree(small_files.uri)
    again = parquet_to_delta(shards(tmp_path / "q", 2, 2), ctx=context(tmp_path))
    assert (again.uri, again.version) == (small_files.uri, small_files.version)
    with pytest.raises(StaleInput):
        optimize_delta(small_files, ctx=context(tmp_path, "o"))


def test_selections_are_handed_on(small_files: VolumeDelta, tmp_path: Path) -> None:
    from engine.declare.datasets import Selection

    part = small_files.select(Selection(salt="s", low=0, high=0.5))
    assert optimize_delta(part, ctx=context(tmp_path, "o")).selections == part.selections


def _set_property(table: VolumeDelta, value: int) -> None:
    DeltaTable(table.uri).alter.set_table_properties({"delta.logRetentionDuration": f"interval {value} days"})


@pytest.mark.slow
def test_a_commit_without_rows_meanwhile_makes_it_plan_again(small_files: VolumeDelta, tmp_path: Path) -> None:
    ctx: Any = Interfering(context(tmp_path, "o"), "optimize:file-written", lambda: _set_property(small_files, 5))
    done = optimize_delta(small_files, ctx=ctx)
    assert any("planning again" in text for text in ctx.said)
    assert (done.files, done.version) == (1, small_files.version + 2)
    exactly(done.uri, ids(0, 150))


@pytest.mark.slow
def test_a_commit_at_the_last_moment_is_refused_by_the_log(small_files: VolumeDelta, tmp_path: Path) -> None:
    """Another program that knows no lock commits after the last look at the table."""
    ctx: Any = Interfering(context(tmp_path, "o"), "optimize:before-commit", lambda: _set_property(small_files, 5))
    done = optimize_delta(small_files, ctx=ctx)
    assert any("planning again" in text for text in ctx.said)
    exactly(done.uri, ids(0, 150))


@pytest.mark.slow
def test_another_compaction_meanwhile_leaves_nothing_to_do(small_files: VolumeDelta, tmp_path: Path) -> None:
    other = lambda: DeltaTable(small_files.uri).optimize.compact()  # noqa: E731 - one of several actions
    for point in ("optimize:file-written", "optimize:before-commit"):
        ctx: Any = Interfering(context(tmp_path, point), point, other)
        done = optimize_delta(small_files, ctx=ctx)
        assert done.files == 1
        exactly(done.uri, ids(0, 150))


@pytest.mark.slow
def test_rows_added_meanwhile_make_the_reference_stale(small_files: VolumeDelta, tmp_path: Path) -> None:
    grow = lambda: parquet_to_delta(shards(tmp_path / "p", *[5] * 31), ctx=context(tmp_path))  # noqa: E731
    ctx: Any = Interfering(context(tmp_path, "o"), "optimize:file-written", grow)
    with pytest.raises(StaleInput):
        optimize_delta(small_files, ctx=ctx)
    assert read_by_deltalake(small_files.uri) == rows_of(ids(0, 155))
    # What it had written is found by the next one, which is allowed to use it.
    staged = _staged(small_files)
    assert any(name.startswith("rewritten-") for name in staged)


@pytest.mark.slow
def test_it_gives_up_on_a_table_that_never_rests(small_files: VolumeDelta, tmp_path: Path) -> None:
    changes = [lambda n=n: _set_property(small_files, n) for n in range(2, 2 + compaction.TRIES)]
    ctx: Any = Interfering(context(tmp_path, "o"), "optimize:before-commit", *changes)
    with pytest.raises(TableConflict, match=f"{compaction.TRIES} times"):
        optimize_delta(small_files, ctx=ctx)
    exactly(small_files.uri, ids(0, 150))


@pytest.mark.slow
def test_compressed_files_stay_compressed_unless_their_layout_is_to_change(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    parts = [write_shard(folder, ids(5 * i, 5), compression="ZSTD") for i in range(4)]
    table = parquet_to_delta(dataset_of(folder, parts), ctx=context(tmp_path))
    done = optimize_delta(table, ctx=context(tmp_path, "o"))
    (file,) = open_table(done.uri).files
    assert compression_of([read_metadata(Path(done.uri) / file.path, file.bytes)]) == "zstd"
    plain = optimize_delta(done, rewrite_layout=True, ctx=context(tmp_path, "o2"))
    (file,) = open_table(plain.uri).files
    assert layout_problem(read_metadata(Path(plain.uri) / file.path, file.bytes)) == ""
    exactly(plain.uri, ids(0, 20))
    assert optimize_delta(plain, rewrite_layout=True, ctx=context(tmp_path, "o3")) == plain


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"compression": "ZSTD"}])
@pytest.mark.parametrize("rewrite_layout", [False, True])
def test_a_flipped_bit_is_named_and_not_copied(tmp_path: Path, options: dict[str, Any], rewrite_layout: bool) -> None:
    """Whether the rows are copied as they are stored, or decoded and written anew."""
    parts = [write_shard(tmp_path / "p", ids(5 * i, 5), **options) for i in range(4)]
    table = parquet_to_delta(dataset_of(tmp_path / "p", parts), ctx=context(tmp_path))
    before = open_table(table.uri)
    damaged = Path(table.uri) / before.files[2].path
    flip_a_bit(damaged, "volume")
    with pytest.raises(DataError, match=rf"{damaged.name}.*checksum") as refused:
        optimize_delta(table, rewrite_layout=rewrite_layout, ctx=context(tmp_path, "o"))
    assert "voxelflow verify" in refused.value.hint
    after = open_table(table.uri)
    assert (after.version, after.files) == (before.version, before.files)
    assert not [name for name in _staged(table) if not name.endswith(".partial")]
    # Put back, as `voxelflow verify` says, all is there.
    flip_a_bit(damaged, "volume")
    done = optimize_delta(table, rewrite_layout=rewrite_layout, ctx=context(tmp_path, "o2"))
    assert done.files == 1
    exactly(done.uri, ids(0, 20))


@pytest.mark.slow
def test_files_in_another_layout_are_rewritten(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    parts = [
        write_shard(folder, ids(0, 300), use_dictionary=["volume"], column_encoding=None),
        write_shard(folder, ids(300, 400), row_group=400),
        write_shard(folder, ids(700, 100)),
    ]
    table = parquet_to_delta(dataset_of(folder, parts), ctx=context(tmp_path))
    problems = [layout_problem(read_metadata(Path(table.uri) / f.path, f.bytes)) for f in open_table(table.uri).files]
    assert problems == ["has a dictionary", "has row groups of 400 rows", ""]
    done = optimize_delta(table, rewrite_layout=True, ctx=context(tmp_path, "o"))
    assert [layout_problem(read_metadata(Path(done.uri) / f.path, f.bytes)) for f in open_table(done.uri).files] == [
        ""
    ] * done.files
    exactly(done.uri, ids(0, 800))
    # The ledger followed: a shard comes out again.
    less = parquet_to_delta(dataset_of(folder, [parts[0], parts[2]]), ctx=context(tmp_path))
    exactly(less.uri, ids(0, 300) + ids(700, 100))


@pytest.mark.slow
def test_a_huge_file_in_another_layout_becomes_several(tmp_path: Path) -> None:
    spec = SPEC.model_copy(update={"shape": (40, 40, 10)})
    folder = tmp_path / "p"
    part = write_shard(folder, ids(0, 50), spec=spec, compression="ZSTD")
    table = parquet_to_delta(dataset_of(folder, [part], spec), ctx=context(tmp_path))
    done = optimize_delta(table, target_file_mb=1, rewrite_layout=True, ctx=context(tmp_path, "o"))
    files = open_table(done.uri).files
    assert [f.rows for f in files] == [15, 15, 15, 5], "64 kB a volume, so 15 in a megabyte"
    assert all(f.bytes <= 1_000_000 for f in files)
    assert rows_by_pyarrow(done.uri) == rows_of(ids(0, 50), spec)
    # The shard lies in four files now, is still known, and comes out of all of them.
    same = parquet_to_delta(dataset_of(folder, [part], spec), ctx=context(tmp_path))
    assert same.version == done.version
    other = write_shard(folder, ids(50, 5), spec=spec)
    less = parquet_to_delta(dataset_of(folder, [other], spec), ctx=context(tmp_path))
    assert rows_by_pyarrow(less.uri) == rows_of(ids(50, 5), spec)


@pytest.mark.slow
def test_large_volumes_get_small_row_groups(tmp_path: Path) -> None:
    spec = SPEC.model_copy(update={"shape": (128, 128, 128), "dtype": "float64"})
    folder = tmp_path / "p"
    parts = [write_shard(folder, ids(2 * i, 2), spec=spec) for i in range(3)]
    table = parquet_to_delta(dataset_of(folder, parts, spec), ctx=context(tmp_path))
    done = optimize_delta(table, target_file_mb=500, ctx=context(tmp_path, "o"))
    (file,) = open_table(done.uri).files
    meta = pq.read_metadata(Path(done.uri) / file.path, file.bytes)
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [4, 2], "16 MB a volume"


@pytest.mark.slow
def test_it_reports_its_progress_and_can_be_cancelled(small_files: VolumeDelta, tmp_path: Path) -> None:
    class Watcher:
        def __init__(self) -> None:
            self.events: list[Progress] = []

        def emit(self, event: Progress, /) -> None:
            self.events.append(event)

        def cancelled(self) -> bool:
            return True

    watcher = Watcher()
    token = current_reporter.set(watcher)
    try:
        with pytest.raises(Cancelled):
            optimize_delta(small_files, ctx=context(tmp_path, "o"))
    finally:
        current_reporter.reset(token)
    assert (watcher.events[0].total, watcher.events[0].unit) == (150, "volumes")
    assert open_table(small_files.uri).version == small_files.version
    done = optimize_delta(small_files, ctx=context(tmp_path, "o"))
    exactly(done.uri, ids(0, 150))
    assert _staged(done) == []


def test_what_is_foreseen() -> None:
    assert optimize_delta.preview_hook is not None
    given = Preview(kind="VolumeDelta", count=7, spec=SPEC)
    assert optimize_delta.preview_hook(CheckContext({}, {"table": given})) == given
    assert optimize_delta.mutates == "table"


@pytest.mark.slow
def test_two_processes_optimize_one_table(small_files: VolumeDelta, tmp_path: Path) -> None:
    both = [start_node(tmp_path, "OptimizeDelta", small_files, name) for name in ("one", "two")]
    results = [finish_node(p) for p in both]
    assert [r.files for r in results] == [1, 1]
    exactly(small_files.uri, ids(0, 150))
    assert open_table(small_files.uri).version == small_files.version + 1
    names = {f.path for f in open_table(small_files.uri).files}
    assert names <= set(os.listdir(small_files.uri))
