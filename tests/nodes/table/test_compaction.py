"""A compaction commits as it goes: what was committed stays, whatever ends it, and no row is lost or doubled."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from delta_tables import (
    SPEC,
    Interfering,
    context,
    exactly,
    finish_node,
    ids,
    shards,
    start_node,
    was_killed,
)
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from engine.declare.datasets import VolumeDelta
from engine.errors import StaleInput
from engine.storage.table_lock import INTERNALS
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table import compaction
from nodes.table.compaction import plan_bins
from nodes.table.ledger import shard_of
from nodes.table.log import actions
from nodes.table.provenance import open_ledger
from nodes.table.snapshot import TableFile, open_table
from nodes.volume_file.parts import read_parts

LARGE = SPEC.model_copy(update={"shape": (40, 40, 10)})
"""64 kB a volume: three shards of five make a file of a megabyte."""
SHARDS = [5] * 12
INCREMENT = 4
"""Three files out and one in: each large file is a commit of its own."""


@pytest.fixture
def table(tmp_path: Path) -> VolumeDelta:
    return parquet_to_delta(shards(tmp_path / "p", *SHARDS, spec=LARGE), ctx=context(tmp_path, "t"))


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "INCREMENT_ACTIONS", INCREMENT)


_exactly = partial(exactly, spec=LARGE)


def _ledgers(table: VolumeDelta) -> list[Path]:
    return sorted((Path(table.uri) / INTERNALS / "ledger").glob("*.arrow"))


def _every_row_is_known(table: VolumeDelta, tmp_path: Path) -> None:
    now = open_table(table.uri)
    placed = open_ledger(now).placed(f.path for f in now.files)
    parts = read_parts(shards(tmp_path / "p", *SHARDS, spec=LARGE)).parts
    assert placed == {shard_of(p): p.rows for p in parts}


@pytest.mark.slow
@pytest.mark.usefixtures("small_steps")
def test_each_large_file_is_a_commit_of_its_own(table: VolumeDelta, tmp_path: Path) -> None:
    done = optimize_delta(table, target_file_mb=1, ctx=context(tmp_path, "o"))
    assert (done.version, done.data_version, done.files) == (5, 1, 4)
    for version in range(1, 6):
        _exactly(table.uri, ids(0, 60), version)
        changes = [a["dataChange"] for kind in ("add", "remove") for a in actions(Path(table.uri), version, kind)]
        assert changes == [version == 1] * (12 if version == 1 else INCREMENT)
        (info,) = actions(Path(table.uri), version, "commitInfo")
        task = context(tmp_path, "o" if version > 1 else "t").transaction.app_id
        assert (info["operation"], info["voxelflow.task"]) == ("OPTIMIZE" if version > 1 else "WRITE", task)
    # The ledger grew with the commits, each fact written once; the next change of the table writes it whole.
    assert len(_ledgers(table)) == 4
    _every_row_is_known(table, tmp_path)
    parts = shards(tmp_path / "p", *SHARDS, 5, spec=LARGE)
    grown = parquet_to_delta(parts, ctx=context(tmp_path, "t"))
    assert len(_ledgers(table)) == 1
    _exactly(grown.uri, ids(0, 65))


@pytest.mark.slow
@pytest.mark.usefixtures("small_steps")
def test_rows_that_are_added_between_two_commits_end_it_and_what_was_committed_stays(
    table: VolumeDelta, tmp_path: Path
) -> None:
    more = shards(tmp_path / "q", 3, first=900, spec=LARGE)
    grow = lambda: parquet_to_delta(more, table=table.uri, ctx=context(tmp_path, "q"))  # noqa: E731
    ctx: Any = Interfering(context(tmp_path, "o"), "optimize:after-commit", lambda: None)
    # At the second file the first commit is done and its lock is free.
    ctx = Interfering(context(tmp_path, "o"), "optimize:file-written", lambda: None, grow)
    with pytest.raises(StaleInput, match="other rows"):
        optimize_delta(table, target_file_mb=1, ctx=ctx)
    now = open_table(table.uri)
    assert (now.version, len(now.files)) == (3, 12 - 3 + 1 + 1)
    _exactly(table.uri, ids(0, 60) + ids(900, 3))
    again = now.reference(table.uri)
    done = optimize_delta(again, target_file_mb=1, ctx=context(tmp_path, "o2"))
    assert done.files <= 5
    _exactly(table.uri, ids(0, 60) + ids(900, 3))


@pytest.mark.slow
@pytest.mark.usefixtures("small_steps")
def test_a_commit_without_rows_between_two_commits_makes_it_plan_again(table: VolumeDelta, tmp_path: Path) -> None:
    alter = lambda: DeltaTable(table.uri).alter.set_table_properties(  # noqa: E731
        {"delta.logRetentionDuration": "interval 9 days"}
    )
    ctx: Any = Interfering(context(tmp_path, "o"), "optimize:file-written", lambda: None, alter)
    done = optimize_delta(table, target_file_mb=1, ctx=ctx)
    assert any("planning again" in text for text in ctx.said)
    assert (done.files, done.version) == (4, 6)
    _exactly(table.uri, ids(0, 60))
    _every_row_is_known(table, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "files"),
    [
        ("optimize:file-written#2", 10),
        ("optimize:before-commit#2", 10),
        ("optimize:after-commit", 10),
        ("optimize:after-commit#3", 6),
    ],
)
def test_a_compaction_killed_between_its_commits_goes_on_from_there(
    table: VolumeDelta, tmp_path: Path, point: str, files: int
) -> None:
    kill = start_node(tmp_path, "OptimizeDelta", table, "o", point, INCREMENT, target_file_mb=1)
    assert was_killed(kill)
    killed = open_table(table.uri)
    assert len(killed.files) == files
    _exactly(table.uri, ids(0, 60))
    finished = {f.path for f in killed.files if f.path.startswith("rewritten-")}
    done = finish_node(start_node(tmp_path, "OptimizeDelta", table, "o", "", INCREMENT, target_file_mb=1))
    assert (done.files, done.version, done.data_version) == (4, 5, 1)
    assert finished <= {f.path for f in open_table(table.uri).files}, "what was committed is not written again"
    _exactly(table.uri, ids(0, 60))
    _exactly(table.uri, ids(0, 60), 1)
    _every_row_is_known(table, tmp_path)


@pytest.mark.slow
def test_two_compactions_at_once_in_small_steps(table: VolumeDelta, tmp_path: Path) -> None:
    both = [start_node(tmp_path, "OptimizeDelta", table, name, "", INCREMENT, target_file_mb=1) for name in ("a", "b")]
    assert [finish_node(process).files for process in both] == [4, 4]
    _exactly(table.uri, ids(0, 60))
    _every_row_is_known(table, tmp_path)


# --- which files are written together ---------------------------------------------------------------


def _sized(*sizes: int) -> list[TableFile]:
    return [TableFile(f"{i:03d}", size, 1, 1, 0, f"{i:03d}", f"{i:03d}") for i, size in enumerate(sizes)]


def _packed(*sizes: int, fill: float = 0.75, odd: tuple[str, ...] = ()) -> list[list[str]]:
    return [[f.path for f in b.files] for b in plan_bins(_sized(*sizes), 100, fill, odd)]


def test_small_files_are_packed_in_their_order() -> None:
    assert _packed(40, 40, 40, 10, 30) == [["000", "001"], ["002", "003", "004"]]


def test_files_of_a_good_size_stay() -> None:
    assert _packed(90, 10, 75, 20, 300) == [["001", "003"]]
    assert _packed(90, 10, 75, 20, 300, fill=0.1) == []


def test_a_file_alone_is_not_written_again() -> None:
    assert _packed(90, 10) == []
    assert _packed(60, 60, 60) == []


def test_odd_files_are_written_again_whatever_their_size() -> None:
    assert _packed(90, 10, 300, odd=("000", "002")) == [["000", "001"], ["002"]]


@given(
    st.lists(st.integers(1, 250), max_size=40),
    st.floats(0.05, 1),
    st.sets(st.integers(0, 39), max_size=5),
)
def test_planning_ends_and_loses_nothing(sizes: list[int], fill: float, odd_places: set[int]) -> None:
    files = _sized(*sizes)
    odd = {f"{i:03d}" for i in odd_places}
    for _ in range(len(files) + 2):
        bins = plan_bins(files, 100, fill, odd)
        taken = [f for b in bins for f in b.files]
        assert len(taken) == len({f.path for f in taken})
        assert {f.path for f in taken} <= {f.path for f in files}
        for b in bins:
            assert b.odd or b.bytes <= 100
            assert b.odd == any(f.path in odd for f in b.files)
        if not bins:
            break
        paths = {f.path for f in taken}
        merged = [TableFile(b.files[0].path + "+", b.bytes, b.rows, 0, 0, b.files[0].id_min, "") for b in bins]
        files = sorted([f for f in files if f.path not in paths] + merged, key=lambda f: (f.id_min, f.path))
        assert sum(f.bytes for f in files) == sum(sizes)
    else:
        raise AssertionError("planning went on for ever")
