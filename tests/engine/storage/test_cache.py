"""The local cache of ranges: limits, several processes, kills."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import examples

from engine.errors import UsageError
from engine.storage.cache import FOLDER, LIMIT, RangeCache

_WRITER = """
import os, sys
from pathlib import Path
from engine.storage.cache import RangeCache
cache = RangeCache(Path(sys.argv[1]), int(sys.argv[2]))
seed = int(sys.argv[3])
for i in range(seed, seed + 40):
    data = bytes([i % 251]) * 10_000
    cache.put("az://box/a", "tag", i, i + 10_000, data)
    found = cache.get("az://box/a", "tag", i, i + 10_000)
    assert found is None or bytes(found) == data
"""


def size_of(folder: Path) -> int:
    return sum(p.stat().st_size for p in (folder / "pieces").rglob("*") if p.is_file())


def test_a_piece_is_found_by_address_tag_and_range(tmp_path: Path) -> None:
    cache = RangeCache(tmp_path, 1_000_000)
    cache.put("az://box/a", "tag", 10, 14, b"data")
    assert bytes(cache.get("az://box/a", "tag", 10, 14) or b"") == b"data"
    for other in (("az://box/b", "tag", 10, 14), ("az://box/a", "gat", 10, 14), ("az://box/a", "tag", 10, 15)):
        assert cache.get(*other) is None
    cache.put("az://box/a", "", 10, 14, b"data")  # nobody could tell when it changes
    assert cache.get("az://box/a", "", 10, 14) is None


@settings(max_examples=examples(25), deadline=None)
@given(sizes=st.lists(st.integers(1, 2000), max_size=30))
def test_the_limit_holds_whatever_comes(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    folder = tmp_path_factory.mktemp("cache")
    cache = RangeCache(folder, 5_000)
    for at, size in enumerate(sizes):
        cache.put("a", "t", at, at + size, os.urandom(size))
        assert size_of(folder) <= 5_000
        assert cache.get("a", "t", at, at + size) is not None


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = RangeCache(tmp_path, 10_000)
    for at in range(3):
        cache.put("a", "t", at, at + 3_000, bytes(3_000))
        time.sleep(0.01)
    assert cache.get("a", "t", 0, 3_000) is not None
    cache.put("a", "t", 3, 3_003, bytes(3_000))
    assert cache.get("a", "t", 0, 3_000) is not None
    assert cache.get("a", "t", 1, 3_001) is None


def test_a_damaged_piece_is_no_hit(tmp_path: Path) -> None:
    cache = RangeCache(tmp_path, 10_000)
    cache.put("a", "t", 0, 4, b"data")
    (piece,) = (p for p in (tmp_path / "pieces").rglob("*") if p.is_file())
    for wrong in (piece.read_bytes()[:-1], piece.read_bytes()[:-1] + b"A", b""):
        cache.put("a", "t", 0, 4, b"data")
        piece.write_bytes(wrong)
        assert cache.get("a", "t", 0, 4) is None
        assert not piece.exists()


def test_a_lock_that_is_never_freed_is_waited_for_once_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.storage.cache._PATIENCE_S", 0.05)
    cache = RangeCache(tmp_path, 10_000)
    cache.put("a", "t", 0, 4, b"data")
    with (tmp_path / "total").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.warns(UserWarning, match=f"`fuser {tmp_path / 'total'}` names it"):
            cache.put("a", "t", 4, 8, b"more")
        cache.put("a", "t", 8, 12, b"last")  # without another wait, and no second warning
    assert [cache.get("a", "t", at, at + 4) for at in (4, 8)] == [None, None]
    assert bytes(cache.get("a", "t", 0, 4) or b"") == b"data"
    again = RangeCache(tmp_path, 10_000)
    again.put("a", "t", 4, 8, b"more")
    assert bytes(again.get("a", "t", 4, 8) or b"") == b"more"


def test_without_a_place_to_write_there_are_no_hits_and_no_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = RangeCache(tmp_path / "file", 10_000)
    cache.put("a", "t", 0, 4, b"data")
    assert cache.get("a", "t", 0, 4) is None


def test_it_is_asked_for_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.delenv(LIMIT, raising=False)
    assert RangeCache.from_environment() is None
    for nothing in ("", "0", "-1"):
        monkeypatch.setenv(LIMIT, nothing)
        assert RangeCache.from_environment() is None
    for wrong in ("much", "nan", "inf"):
        monkeypatch.setenv(LIMIT, wrong)
        with pytest.raises(UsageError, match="not a number of GB"):
            RangeCache.from_environment()
    monkeypatch.setenv(LIMIT, "1.5")
    cache = RangeCache.from_environment()
    assert cache is not None
    assert (cache.folder, cache.limit) == (tmp_path, 1_500_000_000)


def writer(folder: Path, limit: int, seed: int, **environment: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _WRITER, str(folder), str(limit), str(seed)]
    return subprocess.Popen(command, env=os.environ | environment)


@pytest.mark.slow
def test_processes_share_a_cache_and_its_limit(tmp_path: Path) -> None:
    limit = 205_000
    writers = [writer(tmp_path, limit, seed) for seed in (0, 20, 40, 60)]
    while any(w.poll() is None for w in writers):
        if (tmp_path / "total").exists():
            # Under the cache's own lock: pieces that go and come while one counts would be counted both.
            with (tmp_path / "total").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                assert size_of(tmp_path) <= limit
    assert [w.returncode for w in writers] == [0, 0, 0, 0]
    assert 0 < size_of(tmp_path) <= limit
    assert not list((tmp_path / "making").iterdir())


@pytest.mark.slow
def test_a_killed_writer_leaves_a_cache_that_works(tmp_path: Path) -> None:
    limit = 205_000
    dead = writer(tmp_path, limit, 0, VOXELFLOW_KILL_AT="cache:counted#15")
    assert dead.wait() == -9
    assert len(list((tmp_path / "making").iterdir())) == 1
    assert size_of(tmp_path) == 14 * (10_000 + 20)
    for seed in (0, 100):
        assert writer(tmp_path, limit, seed).wait() == 0
        assert size_of(tmp_path) <= limit
    assert not list((tmp_path / "making").iterdir())
