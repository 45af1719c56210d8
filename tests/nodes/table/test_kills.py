"""Kill -9 at every named moment and at random ones, and several processes on one table: no row is lost or doubled.

Each law on a local table, under its lock, and on one in an object store, where writers meet.
"""

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
    exactly,
    finish_node,
    ids,
    read_by_deltalake,
    shards,
    start_node,
    was_killed,
)
from waiting import wait_for_line

from engine.declare.datasets import VolumeDelta
from engine.storage.find_place import place_at
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.snapshot import is_table, open_table
from nodes.volume_file.parts import read_parts

pytestmark = pytest.mark.slow


_FILLING = [
    "delta:created",
    "delta:file-linked",
    "delta:file-linked#2",
    "delta:before-ledger",
    "delta:before-commit",
    "delta:after-commit",
]


@pytest.mark.parametrize(("point", "mode"), [*((p, "link") for p in _FILLING), ("delta:file-linked", "copy")])
def test_a_table_killed_while_it_is_made(home: str, tmp_path: Path, point: str, mode: str) -> None:
    dataset, table = shards(tmp_path / "p", 3, 4, 5), f"{home}/t"
    assert was_killed(start_node(tmp_path, "ParquetToDelta", dataset, "t", point, mode=mode, table=table))
    if point != "delta:created":
        exactly(table, ids(0, 12) if point == "delta:after-commit" else [])
    made = parquet_to_delta(dataset, mode=mode, table=table, ctx=context(tmp_path, "t"))
    assert made.version == 1
    exactly(table, ids(0, 12))
    assert sorted(_data_files(table)) == sorted(p.path for p in read_parts(dataset).parts)


@pytest.mark.parametrize("point", _FILLING[1:])
def test_an_update_killed_on_the_way(home: str, tmp_path: Path, point: str) -> None:
    """Shards come, go, and one is taken out of a merged file: all of it happens once."""
    before, table = shards(tmp_path / "p", 3, 4, 5), f"{home}/t"
    optimize_delta(parquet_to_delta(before, table=table, ctx=context(tmp_path, "t")), ctx=context(tmp_path, "o"))
    parts = read_parts(shards(tmp_path / "p", 3, 4, 5, 6, 7)).parts
    after = dataset_of(tmp_path / "p", [parts[0], *parts[2:]])
    assert was_killed(start_node(tmp_path, "ParquetToDelta", after, "t", point, table=table))
    wanted = ids(0, 3) + ids(7, 18)
    exactly(table, wanted if point == "delta:after-commit" else ids(0, 12))
    done = parquet_to_delta(after, table=table, ctx=context(tmp_path, "t"))
    assert done.version == 3
    exactly(table, wanted)
    # And everything is still known: back to where it was.
    parquet_to_delta(before, table=table, ctx=context(tmp_path, "t"))
    exactly(table, ids(0, 12))


@pytest.mark.parametrize("point", ["optimize:file-written", "optimize:before-commit", "optimize:after-commit"])
def test_a_compaction_killed_on_the_way(home: str, tmp_path: Path, point: str) -> None:
    dataset = shards(tmp_path / "p", *[5] * 12)
    table = parquet_to_delta(dataset, table=f"{home}/t", ctx=context(tmp_path, "t"))
    assert was_killed(start_node(tmp_path, "OptimizeDelta", table, "o", point))
    exactly(table.uri, ids(0, 60))
    assert len(open_table(table.uri).files) == (1 if point == "optimize:after-commit" else 12)
    done = optimize_delta(table, ctx=context(tmp_path, "o"))
    assert (done.files, done.version, done.data_version) == (1, 2, 1)
    assert len([name for name in _data_files(table.uri) if name.startswith("rewritten-")]) == 1
    exactly(table.uri, ids(0, 60))
    rest = dataset_of(tmp_path / "p", list(read_parts(dataset).parts[1:]))
    exactly(parquet_to_delta(rest, table=table.uri, ctx=context(tmp_path, "t")).uri, ids(5, 55))


def _data_files(uri: str) -> list[str]:
    return [name for name in place_at(uri).names() if not name.startswith(("_", "."))]


def test_what_a_killed_compaction_had_written_is_used(tmp_path: Path) -> None:
    table = parquet_to_delta(shards(tmp_path / "p", *[5] * 12), ctx=context(tmp_path, "t"))
    assert was_killed(start_node(tmp_path, "OptimizeDelta", table, "o", "optimize:before-commit"))
    (written,) = Path(table.uri).glob("rewritten-*.parquet")
    inode = written.stat().st_ino
    optimize_delta(table, ctx=context(tmp_path, "o"))
    (file,) = open_table(table.uri).files
    assert (Path(table.uri) / file.path).stat().st_ino == inode


def test_several_processes_fill_one_table(home: str, tmp_path: Path) -> None:
    table = f"{home}/t"
    one, two = shards(tmp_path / "one", *[3] * 6), shards(tmp_path / "two", *[4] * 6, first=1000)
    together = [
        start_node(tmp_path, "ParquetToDelta", one, "one", table=table),
        start_node(tmp_path, "ParquetToDelta", two, "two", table=table),
        start_node(tmp_path, "ParquetToDelta", one, "again", table=table),
    ]
    for process in together:
        finish_node(process)
    exactly(table, ids(0, 18) + ids(1000, 24))
    assert open_table(table).version == 2
    # What each of them had put in is known, and comes out again.
    parquet_to_delta(shards(tmp_path / "one", 3), table=table, ctx=context(tmp_path, "one"))
    exactly(table, ids(0, 3) + ids(1000, 24))


def test_one_process_fills_and_one_compacts(home: str, tmp_path: Path) -> None:
    table = f"{home}/t"
    first = parquet_to_delta(shards(tmp_path / "one", *[3] * 10), table=table, ctx=context(tmp_path, "one"))
    two = shards(tmp_path / "two", *[4] * 6, first=1000)
    compacting = start_node(tmp_path, "OptimizeDelta", first, "o")
    filling = start_node(tmp_path, "ParquetToDelta", two, "two", table=table)
    finish_node(filling)
    _, error = compacting.communicate(timeout=120)
    # In either order: a compaction of rows that have changed says so, and changes nothing.
    assert compacting.returncode == 0 or "StaleInput" in error
    exactly(table, ids(0, 30) + ids(1000, 24))


def test_kills_at_random_moments(home: str, tmp_path: Path) -> None:
    """A table filled and compacted again and again by processes that are killed; then it is put right once."""
    rng = random.Random(20240517)
    place, vacuum = f"{home}/t", "://" not in home
    states = [[5] * 4, [5] * 4 + [6], [5] * 4 + [6, 7]]
    killed = 0
    until = time.monotonic() + 40
    for round_number in range(6):
        sizes = states[round_number % len(states)]
        dataset = shards(tmp_path / "p", *sizes)
        filling = start_node(tmp_path, "ParquetToDelta", dataset, f"t{round_number % 3}", table=place)
        killed += _end_somewhere(filling, rng)
        if is_table(place_at(place)):
            current = open_table(place).reference(place)
            killed += _end_somewhere(start_node(tmp_path, "OptimizeDelta", current, "o", vacuum=vacuum), rng)
            _no_doubles(current)
        if time.monotonic() > until:
            break
    assert killed, "no process lived long enough to be killed"
    last = shards(tmp_path / "p", *states[-1])
    table = finish_node(start_node(tmp_path, "ParquetToDelta", last, "t2", table=place))
    done = optimize_delta(table, vacuum=vacuum, ctx=context(tmp_path, "end"))
    exactly(done.uri, ids(0, 33))


def _end_somewhere(process: subprocess.Popen[str], rng: random.Random) -> bool:
    """Kill the process at a random moment of its work; True when it was still alive."""
    wait_for_line(process, f"^{STARTED}$")
    # A random moment cannot be awaited.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(0, 0.25))
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return alive


def _no_doubles(table: VolumeDelta) -> None:
    found = [row[0] for row in read_by_deltalake(table.uri)]
    assert len(found) == len(set(found))
    exactly(table.uri, found)
