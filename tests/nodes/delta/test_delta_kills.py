"""Kill -9 at every named moment and at random ones, and two processes on one table: no row is lost or doubled."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from delta_tables import (
    STARTED,
    context,
    dataset_of,
    finish_node,
    ids,
    read_by_deltalake,
    rows_of,
    shards,
    start_node,
    was_killed,
)
from volumes import rows_by_polars, rows_by_pyarrow

from engine.datasets import VolumeDelta
from nodes.delta.delta_table import open_table
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.volume_parts import read_parts

pytestmark = pytest.mark.slow


def _exactly(uri: str, volume_ids: list[str]) -> None:
    for read in (read_by_deltalake, rows_by_pyarrow, rows_by_polars):
        assert read(uri) == rows_of(volume_ids), read


_FILLING = [
    "delta:file-linked",
    "delta:file-linked#2",
    "delta:before-ledger",
    "delta:before-commit",
    "delta:after-commit",
]


@pytest.mark.parametrize(("point", "mode"), [*((p, "link") for p in _FILLING), ("delta:file-linked", "copy")])
def test_a_table_killed_while_it_is_made(tmp_path: Path, point: str, mode: str) -> None:
    dataset = shards(tmp_path / "p", 3, 4, 5)
    assert was_killed(start_node(tmp_path, "ParquetToDelta", dataset, "t", point, mode=mode))
    root = context(tmp_path, "t").shared / "table"
    committed = point == "delta:after-commit"
    assert rows_by_pyarrow(str(root)) == (rows_of(ids(0, 12)) if committed else [])
    table = parquet_to_delta(dataset, mode=mode, ctx=context(tmp_path, "t"))
    assert table.version == 1
    _exactly(table.uri, ids(0, 12))


@pytest.mark.parametrize("point", _FILLING)
def test_an_update_killed_on_the_way(tmp_path: Path, point: str) -> None:
    """Shards come, go, and one is taken out of a merged file: all of it happens once."""
    before = shards(tmp_path / "p", 3, 4, 5)
    table = parquet_to_delta(before, ctx=context(tmp_path, "t"))
    optimize_delta(table, ctx=context(tmp_path, "o"))
    parts = read_parts(shards(tmp_path / "p", 3, 4, 5, 6, 7)).parts
    after = dataset_of(tmp_path / "p", [parts[0], *parts[2:]])
    assert was_killed(start_node(tmp_path, "ParquetToDelta", after, "t", point))
    wanted = ids(0, 3) + ids(7, 18)
    _exactly(table.uri, wanted if point == "delta:after-commit" else ids(0, 12))
    done = parquet_to_delta(after, ctx=context(tmp_path, "t"))
    assert done.version == 3
    _exactly(table.uri, wanted)
    # And everything is still known: back to where it was.
    parquet_to_delta(before, ctx=context(tmp_path, "t"))
    _exactly(table.uri, ids(0, 12))


@pytest.mark.parametrize("point", ["optimize:file-written", "optimize:before-commit", "optimize:after-commit"])
def test_a_compaction_killed_on_the_way(tmp_path: Path, point: str) -> None:
    dataset = shards(tmp_path / "p", *[5] * 12)
    table = parquet_to_delta(dataset, ctx=context(tmp_path, "t"))
    assert was_killed(start_node(tmp_path, "OptimizeDelta", table, "o", point))
    _exactly(table.uri, ids(0, 60))
    assert len(open_table(table.uri).files) == (1 if point == "optimize:after-commit" else 12)
    done = optimize_delta(table, ctx=context(tmp_path, "o"))
    assert (done.files, done.version, done.data_version) == (1, 2, 1)
    _exactly(table.uri, ids(0, 60))
    less = parquet_to_delta(dataset_of(tmp_path / "p", list(read_parts(dataset).parts[1:])), ctx=context(tmp_path, "t"))
    _exactly(less.uri, ids(5, 55))


def test_what_a_killed_compaction_had_written_is_used(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", *[5] * 12), ctx=context(tmp_path, "t"))
    assert was_killed(start_node(tmp_path, "OptimizeDelta", table, "o", "optimize:before-commit"))
    (written,) = Path(table.uri).glob("rewritten-*.parquet")
    inode = written.stat().st_ino
    optimize_delta(table, ctx=context(tmp_path, "o"))
    (file,) = open_table(table.uri).files
    assert (Path(table.uri) / file.path).stat().st_ino == inode


def test_two_processes_fill_one_table(tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    one, two = shards(tmp_path / "one", *[3] * 6), shards(tmp_path / "two", *[4] * 6, first=1000)
    both = [
        start_node(tmp_path, "ParquetToDelta", one, "one", table=place),
        start_node(tmp_path, "ParquetToDelta", two, "two", table=place),
        start_node(tmp_path, "ParquetToDelta", one, "again", table=place),
    ]
    for process in both:
        finish_node(process)
    _exactly(place, ids(0, 18) + ids(1000, 24))
    assert open_table(place).version == 2


def test_one_process_fills_and_one_compacts(tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    first = parquet_to_delta(shards(tmp_path / "one", *[3] * 10), table=place, ctx=context(tmp_path, "one"))
    two = shards(tmp_path / "two", *[4] * 6, first=1000)
    compacting = start_node(tmp_path, "OptimizeDelta", first, "o")
    filling = start_node(tmp_path, "ParquetToDelta", two, "two", table=place)
    finish_node(filling)
    _, error = compacting.communicate(timeout=120)
    # Whoever came first: a compaction of rows that have changed says so, and changes nothing.
    assert compacting.returncode == 0 or "StaleInput" in error
    _exactly(place, ids(0, 30) + ids(1000, 24))


def test_kills_at_random_moments(tmp_path: Path) -> None:
    """A table filled and compacted again and again by processes that are killed; then it is put right once."""
    rng = random.Random(20240517)
    place = str(tmp_path / "table")
    states = [[5] * 4, [5] * 4 + [6], [5] * 4 + [6, 7]]
    killed = 0
    until = time.monotonic() + 40
    for round_number in range(6):
        sizes = states[round_number % len(states)]
        dataset = shards(tmp_path / "p", *sizes)
        filling = start_node(tmp_path, "ParquetToDelta", dataset, f"t{round_number % 3}", table=place)
        killed += _end_somewhere(filling, rng)
        if Path(place, "_delta_log").exists():
            current = open_table(place).reference(place)
            killed += _end_somewhere(start_node(tmp_path, "OptimizeDelta", current, "o", vacuum=True), rng)
            _no_doubles(current)
        if time.monotonic() > until:
            break
    assert killed, "no process lived long enough to be killed"
    last = shards(tmp_path / "p", *states[-1])
    table = finish_node(start_node(tmp_path, "ParquetToDelta", last, "t2", table=place))
    done = optimize_delta(table, vacuum=True, ctx=context(tmp_path, "end"))
    _exactly(done.uri, ids(0, 33))


def _end_somewhere(process: subprocess.Popen[str], rng: random.Random) -> bool:
    """Kill the process at a random moment of its work; True when it was still alive."""
    assert process.stdout is not None
    assert process.stdout.readline().strip() == STARTED
    # A random moment cannot be awaited.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(0, 0.4))
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return alive


def _no_doubles(table: VolumeDelta) -> None:
    for read in (read_by_deltalake, rows_by_pyarrow):
        found = [row[0] for row in read(table.uri)]
        assert len(found) == len(set(found))
        assert read(table.uri) == rows_of(found)
