"""Folders of log copies go with their owner, or with the next use when that was killed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import delta_tables
import pytest
from delta_tables import context, shards
from waiting import wait_for_line

from engine.storage.find_place import place_at
from nodes.parquet_to_delta import parquet_to_delta
from nodes.table import temporary_folder
from nodes.table.log import LOG
from nodes.table.log_copy import load_copy, log_copy
from nodes.table.log_sample import sample_table

HOLDS_ONE = """
import sys
from pathlib import Path
from engine.storage.find_place import place_at
from nodes.table.log_copy import load_copy

table = load_copy(place_at(sys.argv[1]), None)
print(f"has {table.version()}", flush=True)
sys.stdin.read()
"""

# Killed while delta-rs is asked how it spells a path.
ASKS_DELTA_RS = """
import sys
from nodes.table import delta_rs_paths

def create(folder, schema, adds):
    print("has a folder", flush=True)
    sys.stdin.read()

delta_rs_paths.create_table_with_add_actions = create
delta_rs_paths._logged_by_delta_rs(["k=0.parquet"])
"""

# Killed while Delta's code is loaded in a session of its own, by a table in a folder.
LOADS_DELTA = """
import sys, threading
from pathlib import Path
from types import SimpleNamespace
from delta_tables import context
from nodes.spark import load_delta

def sql(*_):
    print("has a folder", flush=True)
    sys.stdin.read()

load_delta.sql = sql
session = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda *_: None), conf=None)
ctx = context(Path(sys.argv[1]))
object.__setattr__(ctx, "open_spark", lambda: SimpleNamespace(newSession=lambda: session))
load_delta.settings = lambda *_: threading.Lock()
load_delta._load(ctx)
"""


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


@pytest.fixture
def table(tmp_path: Path) -> str:
    return parquet_to_delta(shards(tmp_path / "p", 2, 2), ctx=context(tmp_path)).uri


@pytest.fixture
def holder(folders: Path, table: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a copy of the table's log."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE, table],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(folders)},
    )
    with process:
        wait_for_line(process, "has 1")
        yield process
        process.kill()


@pytest.mark.slow
def test_the_next_use_removes_what_a_killed_process_left_and_nothing_that_is_in_use(
    holder: subprocess.Popen[bytes], folders: Path, table: str
) -> None:
    (of_others,) = folders.iterdir()
    other = folders / "voxelflow-spark-1"
    other.mkdir()
    with log_copy(place_at(table)) as copy:
        assert set(folders.iterdir()) == {of_others, other, copy}
        holder.kill()
        holder.wait()
        assert (of_others / LOG).is_dir()
        with log_copy(place_at(table)) as another:
            assert set(folders.iterdir()) == {other, copy, another}
            assert (copy / LOG).is_dir()
    assert list(folders.iterdir()) == [other]


@pytest.mark.slow
@pytest.mark.parametrize("program", [ASKS_DELTA_RS, LOADS_DELTA], ids=["asks delta-rs", "loads Delta"])
def test_folders_of_other_uses_are_removed_too(program: str, folders: Path, tmp_path: Path) -> None:
    support = Path(delta_tables.__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "it")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(folders), "PYTHONPATH": os.pathsep.join([str(support), *sys.path])},
    )
    with process:
        wait_for_line(process, "has a folder")
        assert len(list(folders.iterdir())) == 1
        process.kill()
        process.wait()
    assert len(list(folders.iterdir())) == 1
    with temporary_folder.temporary_folder() as mine:
        assert list(folders.iterdir()) == [mine]


def test_a_copy_is_there_as_long_as_the_table_that_is_read_from_it(folders: Path, table: str) -> None:
    delta = load_copy(place_at(table), None)
    gc.collect()
    assert sample_table(table, delta.version(), 1).version == 1
    assert len(list(folders.iterdir())) == 1
    assert len(delta.file_uris()) == 2
    del delta
    gc.collect()
    assert not list(folders.iterdir())


def test_a_forked_process_leaves_the_folder_of_its_parent(folders: Path) -> None:
    path, remove = temporary_folder.make_folder()
    if not (child := os.fork()):
        remove()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert path.is_dir()
    remove()
    assert not path.exists()


def test_a_folder_that_was_taken_for_abandoned_before_it_was_locked_is_made_again(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = temporary_folder._open
    seen: list[Path] = []

    def open_late(path: Path) -> int:
        seen.append(path)
        if len(seen) == 1:
            path.rmdir()
        lock = opened(path)
        if len(seen) == 2:
            path.rmdir()
        return lock

    monkeypatch.setattr(temporary_folder, "_open", open_late)
    path, remove = temporary_folder.make_folder()
    assert [path] == list(folders.iterdir()) == seen[2:]
    remove()
