"""A version that somebody reads keeps its files, and nothing outlives the reader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from delta_tables import context, ids, read_by_deltalake, rows_of, shards
from volumes import rows_by_pyarrow
from waiting import WAIT_S, wait_for_line

from engine.declare.datasets import VolumeDelta
from engine.errors import Cancelled
from engine.storage.table_lock import INTERNALS
from nodes.optimize_delta import optimize_delta
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table.lease import hold_version, no_new_leases
from nodes.table.vacuum import vacuum

_HOLD = """
import sys
from pathlib import Path
from nodes.table.lease import hold_version

with hold_version(Path(sys.argv[1]), int(sys.argv[2])) as held:
    print(held, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def table(tmp_path: Path) -> VolumeDelta:
    return parquet_to_delta(shards(tmp_path / "p", 3, 4), ctx=context(tmp_path))


def _leases(table: VolumeDelta) -> list[str]:
    folder = Path(table.uri) / INTERNALS / "leases"
    return sorted(p.name for p in folder.iterdir() if p.name != "gate") if folder.exists() else []


def _reader(table: VolumeDelta) -> subprocess.Popen[str]:
    """A process that holds the table's version until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, table.uri, str(table.version)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    wait_for_line(process, "^True$")
    return process


def test_vacuum_keeps_what_a_reader_holds_and_frees_it_afterwards(table: VolumeDelta, tmp_path: Path) -> None:
    with hold_version(Path(table.uri), table.version) as held:
        assert held
        done = optimize_delta(table, ctx=context(tmp_path, "o"))
        assert vacuum(done.uri, (), 0, context(tmp_path, "v")).kept == 2
        assert read_by_deltalake(table.uri, table.version) == rows_of(ids(0, 7))
    assert _leases(table) == []
    assert vacuum(done.uri, (), 0, context(tmp_path, "v")).files == 2
    assert rows_by_pyarrow(done.uri) == rows_of(ids(0, 7))


def test_several_readers_of_one_version(table: VolumeDelta) -> None:
    root = Path(table.uri)
    with hold_version(root, 1), hold_version(root, 1), hold_version(root, 0):
        with no_new_leases(root) as versions:
            assert versions == {0, 1}
        assert len(_leases(table)) == 3
    with no_new_leases(root) as versions:
        assert versions == set()


def test_a_folder_that_is_no_table_or_cannot_be_written_has_no_leases(
    table: VolumeDelta, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hold_version(tmp_path / "nothing", 0) as held:
        assert not held
    assert not (tmp_path / "nothing").exists()

    def read_only(*_: object, **__: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    with hold_version(Path(table.uri), 1) as held:
        assert not held


@pytest.mark.slow
def test_no_lease_begins_while_files_are_deleted(table: VolumeDelta) -> None:
    root = Path(table.uri)
    taken = threading.Event()

    def read() -> None:
        with hold_version(root, table.version):
            taken.set()

    with no_new_leases(root) as versions:
        reader = threading.Thread(target=read)
        reader.start()
        assert not taken.wait(0.3)
        assert versions == set()
    reader.join(WAIT_S)
    assert taken.is_set()
    stop = time.monotonic() + 0.2
    with no_new_leases(root), pytest.raises(Cancelled), hold_version(root, 1, lambda: time.monotonic() > stop):
        pass


@pytest.mark.slow
def test_a_lease_ends_with_its_holder_however_that_dies(table: VolumeDelta, tmp_path: Path) -> None:
    reader = _reader(table)
    done = optimize_delta(table, vacuum=True, ctx=context(tmp_path, "o"))
    assert vacuum(done.uri, (), 0, context(tmp_path, "v")).files == 0
    assert read_by_deltalake(table.uri, table.version) == rows_of(ids(0, 7))
    reader.send_signal(signal.SIGKILL)
    reader.communicate()
    assert len(_leases(table)) == 1, "its name is left behind"
    assert vacuum(done.uri, (), 0, context(tmp_path, "v")).files == 2
    assert _leases(table) == []
