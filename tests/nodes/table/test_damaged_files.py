"""A data file that was lost or cut short is noticed, and put right or refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from building import box, pipeline
from delta_tables import context, dataset_of, ids, read_by_deltalake, rows_of, shards, write_shard
from deltalake import DeltaTable
from file_handles import none_left
from running import Runner
from volumes import rows_by_pyarrow, write_volumes

import voxelflow
from engine.declare.datasets import Dataset, VolumeDelta
from engine.document.pipeline import Pipeline
from engine.document.plan import Choice
from engine.errors import DataError, FileError, StaleInput
from engine.observe.results import check_result, problem_with
from engine.run.launch import prepare
from engine.storage.hard_link import link_or_copy
from engine.storage.io_errors import explain
from engine.store.runs import Run, RunStore
from engine.workspace import Workspace
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.compaction import Target, compact
from nodes.table.provenance import open_ledger
from nodes.table.snapshot import open_table
from nodes.volume_file.parts import read_parts


def _delete(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    """One byte less, in a file of its own: a hard link's other name keeps its bytes."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1])


def _empty(path: Path) -> None:
    path.unlink()
    path.touch()


def _grow(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data + b"more")


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = (_delete, _cut, _empty, _grow, _make_folder)


def _files(table: VolumeDelta) -> list[Path]:
    """The files of the table's newest version."""
    return [Path(table.uri) / f.path for f in open_table(table.uri).files]


def _problem(table: VolumeDelta, for_change: bool = False) -> str:
    assert parquet_to_delta.verify_hook is not None
    return parquet_to_delta.verify_hook({"out": table}, for_change)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "damage"), [*(("link", d) for d in DAMAGES), ("copy", _cut)])
def test_a_damaged_file_of_a_table_is_named_and_put_back_from_its_part(
    tmp_path: Path, mode: str, damage: Callable[[Path], None]
) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = parquet_to_delta(dataset, mode=mode, ctx=context(tmp_path))
    damaged = _files(table)[1]
    damage(damaged)
    assert _problem(table).startswith(f"{damaged.name} of version 1 ")
    again = parquet_to_delta(dataset, mode=mode, ctx=context(tmp_path))
    assert _problem(again) == ""
    for read in (read_by_deltalake, rows_by_pyarrow):
        assert read(again.uri) == rows_of(ids(0, 7))
    if damage is not _make_folder:
        # The same bytes under the same name: older versions can be read again too.
        assert again == table
        assert _problem(table) == ""


@pytest.mark.parametrize("made", ["parts", "table"])
def test_a_shortage_of_file_handles_is_not_taken_for_damage(tmp_path: Path, made: str) -> None:
    """Else the result would be made again, and the table of a later run refused."""
    parts = shards(tmp_path / "p", 3)
    table = parquet_to_delta(parts, ctx=context(tmp_path))
    outputs: dict[str, Dataset] = {"out": parts if made == "parts" else table}
    node_type = parquet_to_delta if made == "table" else None
    assert problem_with(node_type, tmp_path, outputs) == ""
    with none_left(), pytest.raises(Exception) as caught:
        problem_with(node_type, tmp_path, outputs)
    found = explain(caught.value)
    assert isinstance(found, FileError)
    assert found.message.startswith("too many open files")
    assert problem_with(node_type, tmp_path, outputs) == ""


def test_the_problem_names_both_sizes(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", 300), ctx=context(tmp_path))
    (file,) = _files(table)
    size = f"{file.stat().st_size:,}"
    _empty(file)
    assert _problem(table) == f"{file.name} of version 1 has 0 bytes, not {size}"
    file.unlink()
    assert _problem(table) == f"{file.name} of version 1 is gone"


def test_a_link_that_was_cut_in_place_cut_the_part_too(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    damaged = _files(table)[0]
    os.truncate(damaged, 100)
    with pytest.raises(StaleInput, match=rf"{damaged.name} .*100 bytes"):
        parquet_to_delta(dataset, ctx=context(tmp_path))
    # As NumpyToParquet does: the same part in another file.
    (tmp_path / "p" / damaged.name).unlink()
    again = parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=context(tmp_path))
    assert read_by_deltalake(again.uri) == rows_of(ids(0, 7))


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "damage"), [("link", _delete), ("link", _make_folder), ("in_place", _cut)])
def test_a_damaged_compacted_file_is_made_again_from_the_parts(
    tmp_path: Path, mode: str, damage: Callable[[Path], None]
) -> None:
    dataset = shards(tmp_path / "p", 3, 4, 5)
    table = parquet_to_delta(dataset, mode=mode, ctx=context(tmp_path))
    optimized = optimize_delta(table, ctx=context(tmp_path, "o"))
    (damaged,) = _files(optimized)
    damage(damaged)
    assert damaged.name in _problem(optimized)
    # The first version is whole, but nothing can be built on the newest.
    assert _problem(table) == ""
    assert damaged.name in _problem(table, for_change=True)
    with pytest.raises(DataError, match=damaged.name):
        optimize_delta(table, ctx=context(tmp_path, "o"))
    made = parquet_to_delta(dataset, mode=mode, ctx=context(tmp_path))
    assert made.count == 12
    assert read_by_deltalake(made.uri) == rows_of(ids(0, 12))
    if damage is _make_folder:
        damaged.rmdir()
    # Its name identifies the content: the damaged file of that name is replaced.
    compact = optimize_delta(made, ctx=context(tmp_path, "o2"))
    assert _files(compact) == [damaged]
    assert _problem(compact) == ""
    assert read_by_deltalake(compact.uri) == rows_of(ids(0, 12))


@pytest.mark.slow
@pytest.mark.parametrize("damaged", [0, 1])
def test_rows_of_a_shard_that_are_in_a_whole_file_too_are_not_doubled(tmp_path: Path, damaged: int) -> None:
    parts = [write_shard(tmp_path / "p", ids(30 * i, 30), compression="ZSTD", row_group=10) for i in range(3)]
    dataset = dataset_of(tmp_path / "p", parts)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    # Decompressed they grow, so that the last shard is cut in two.
    compact(table, Target(12_000, 1.0, True), context(tmp_path, "o"))
    current = open_table(table.uri)
    ledger = open_ledger(current)
    assert [[s.rows for s in ledger.segments(f.path, f.rows)] for f in current.files] == [[30, 30, 4], [26]]
    _delete(current.root / current.files[damaged].path)
    made = parquet_to_delta(dataset, ctx=context(tmp_path))
    assert _problem(made) == ""
    assert read_by_deltalake(made.uri) == rows_of(ids(0, 90))


@pytest.mark.slow
def test_a_damaged_file_never_brings_back_what_others_deleted(tmp_path: Path) -> None:
    parts = [write_shard(tmp_path / "p", ids(30 * i, 30), compression="ZSTD", row_group=10) for i in range(3)]
    dataset = dataset_of(tmp_path / "p", parts)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    compact(table, Target(12_000, 1.0, True), context(tmp_path, "o"))
    # All of the second file, which holds 26 rows of the last shard. Its other four are in the first.
    DeltaTable(table.uri).delete("id >= 'vol-00064'")
    (damaged,) = _files(table)
    _delete(damaged)
    with pytest.raises(DataError, match=damaged.name) as refused:
        parquet_to_delta(dataset, ctx=context(tmp_path))
    assert parts[2].path.rsplit("/", 1)[-1] in refused.value.message
    assert "deleted_rows" in refused.value.hint
    restored = parquet_to_delta(dataset, deleted_rows="restore", ctx=context(tmp_path))
    assert read_by_deltalake(restored.uri) == rows_of(ids(0, 90))


def test_rows_that_no_part_has_are_refused_by_name(tmp_path: Path) -> None:
    mine, theirs = shards(tmp_path / "mine", 3), shards(tmp_path / "theirs", 4, first=100)
    place_of_table = str(tmp_path / "t")
    parquet_to_delta(theirs, table=place_of_table, ctx=context(tmp_path, "theirs"))
    both = parquet_to_delta(mine, table=place_of_table, ctx=context(tmp_path))
    (their_file,) = (Path(place_of_table) / p.path for p in read_parts(theirs).parts)
    _cut(their_file)
    with pytest.raises(DataError, match=their_file.name) as refused:
        parquet_to_delta(mine, table=place_of_table, ctx=context(tmp_path))
    assert "theirs" in refused.value.message
    assert "replace" in refused.value.hint
    # Whose rows they are can put them back ...
    parquet_to_delta(theirs, table=place_of_table, ctx=context(tmp_path, "theirs"))
    assert _problem(both) == ""
    assert read_by_deltalake(both.uri) == rows_of(ids(0, 3) + ids(100, 4))
    # ... and who wants the table for himself does without them.
    _cut(their_file)
    alone = parquet_to_delta(mine, table=place_of_table, existing="replace", ctx=context(tmp_path))
    assert read_by_deltalake(alone.uri) == rows_of(ids(0, 3))


def test_a_damaged_file_whose_shard_vanished_is_taken_out(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    _cut(_files(table)[0])
    rest = dataset_of(tmp_path / "p", read_parts(dataset).parts[1:])
    assert read_by_deltalake(parquet_to_delta(rest, ctx=context(tmp_path)).uri) == rows_of(ids(3, 4))


def test_a_damaged_file_that_a_lost_ledger_named_is_still_known_by_its_name(tmp_path: Path) -> None:
    parts = [write_shard(tmp_path / "p", ids(0, 3), name="scan-1.parquet"), write_shard(tmp_path / "p", ids(3, 4))]
    dataset = dataset_of(tmp_path / "p", parts)
    table = parquet_to_delta(dataset, ctx=context(tmp_path))
    shutil.rmtree(Path(table.uri) / "_voxelflow" / "ledger")
    for file in _files(table):
        _cut(file)
    again = parquet_to_delta(dataset, ctx=context(tmp_path))
    assert _problem(again) == ""
    assert read_by_deltalake(again.uri) == rows_of(ids(0, 7))


def test_in_place_a_damaged_part_is_the_tables_file(tmp_path: Path) -> None:
    dataset = shards(tmp_path / "p", 3, 4)
    table = parquet_to_delta(dataset, mode="in_place", ctx=context(tmp_path))
    damaged = _files(table)[0]
    _cut(damaged)
    with pytest.raises(DataError, match=damaged.name):
        parquet_to_delta(dataset, mode="in_place", ctx=context(tmp_path))
    damaged.unlink()
    assert parquet_to_delta(shards(tmp_path / "p", 3, 4), mode="in_place", ctx=context(tmp_path)) == table


def test_a_file_of_another_size_is_not_taken_for_the_one_wanted(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"all of it")
    for mode in ("link", "copy"):
        target.write_bytes(b"all of")
        assert link_or_copy(source, target, mode) is (mode == "copy")
        assert target.read_bytes() == b"all of it"
        assert link_or_copy(source, target, mode) is False
        target.unlink()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["source"]


# --- through the engine ------------------------------------------------------------------------


@pytest.fixture
def runner(workspace: Workspace, store: RunStore) -> Runner:
    return Runner(voxelflow.catalog(workspace), workspace, store)


def _document(tmp_path: Path, *behind: str, **table: str) -> Pipeline:
    write_volumes(tmp_path / "volumes", 240, shape=(16, 16, 8, 1))
    nodes = {"optimize": ("OptimizeDelta", "table.out>optimize.table"), "split": ("SplitDataset", "")}
    last = behind[-2] if len(behind) > 1 else "table"
    wires = {"optimize": "table.out>optimize.table", "split": f"{last}.out>split.table"}
    return pipeline(
        box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
        box("convert", "NumpyToParquet", target_file_mb=1),
        box("table", "ParquetToDelta", **table),
        *(box(name, nodes[name][0]) for name in behind),
        wires=" ".join(["folder.out>convert.files convert.out>table.parquet", *(wires[name] for name in behind)]),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_run_puts_a_damaged_table_right(runner: Runner, tmp_path: Path) -> None:
    """Files deleted, cut through a hard link, and cut before everything is forced: the table is right after each."""
    document = _document(tmp_path, "optimize", "split", table=str(tmp_path / "t"))
    run, tasks = runner.run(document)
    assert run.state == "done", run.error
    small, large = (tasks[name].outputs["out"] for name in ("table", "optimize"))
    assert isinstance(small, VolumeDelta)
    assert isinstance(large, VolumeDelta)
    assert large.files == 1
    rows = rows_by_pyarrow(large.uri, large.version)
    assert len(rows) == 240

    def is_right(run: Run) -> None:
        assert run.state == "done", run.error
        assert rows_by_pyarrow(large.uri) == rows
        for result in runner.store.results.all():
            if result.run_id == run.run_id:
                node_type = runner.catalog.find(result.node_type)
                assert check_result(node_type, result, runner.workspace.data).problem == ""

    def planned(start: str | None = None) -> dict[str, str]:
        found = prepare(document, runner.catalog, runner.workspace, runner.store, choice=Choice(start=start)).plan
        return {task.node: task.reason for task in found.to_run}

    (compacted,) = _files(large)
    size = compacted.stat().st_size
    os.truncate(compacted, 100)
    for start in (None, "optimize"):
        reasons = planned(start)
        assert reasons.keys() == {"table", "optimize", "split"}
        assert reasons["table"] == f"{compacted.name} of version {large.version} has 100 bytes, not {size:,}"
    compacted.unlink()
    first = open_table(small.uri, small.version).files[0].path
    os.truncate(Path(small.uri) / first, 100)
    reasons = planned()
    assert reasons.keys() == {"convert", "table", "optimize", "split"}
    assert f"{first} has 100 bytes" in reasons["convert"]
    run, tasks = runner.run(document)
    is_right(run)
    assert planned() == {}

    os.truncate(_files(large)[0], 100)
    run, tasks = runner.run(document, start="optimize")
    assert {name for name, task in tasks.items() if task.state == "done"} == {"table", "optimize", "split"}
    is_right(run)

    os.truncate(_files(large)[0], 100)
    run, tasks = runner.run(document, fresh=True)
    is_right(run)
