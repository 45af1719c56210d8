from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.storage import page_cache
from engine.storage.page_cache import cached, forget, will_read


def test_a_file_that_is_to_be_read_is_brought_into_the_cache_without_being_opened_for_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda handle, *advice: asked.append(advice))
    (tmp_path / "a").write_bytes(b"x")
    before = len(os.listdir("/proc/self/fd"))
    will_read(tmp_path / "a")
    assert asked == [(0, 0, os.POSIX_FADV_WILLNEED)]
    assert len(os.listdir("/proc/self/fd")) == before
    will_read(tmp_path / "none")  # the reader reports that it is gone
    assert len(asked) == 1


def test_the_system_takes_the_bytes_that_it_is_to_write_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = page_cache._sync_file_range()
    if call is None:
        pytest.skip("this system has no sync_file_range")
    answers = []
    monkeypatch.setattr(page_cache, "_sync_file_range", lambda: lambda *asked: answers.append((asked, call(*asked))))
    with (tmp_path / "a").open("wb", buffering=0) as file:
        file.write(bytes(8192))
        page_cache.start_writing(file.fileno(), 4096, 4096)
        assert answers == [((file.fileno(), 4096, 4096, 2), 0)]


def test_without_such_a_call_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "_sync_file_range", lambda: None)
    page_cache.start_writing(-1, 0, 1)


def test_files_of_which_nothing_is_known_are_not_said_to_be_cached(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10_000)
    assert cached([]) == "cold"
    assert cached([tmp_path / "a"]) in ("warm", "unknown")
    forget([tmp_path / "a"])
    with pytest.raises(FileNotFoundError):
        forget([tmp_path / "none"])
