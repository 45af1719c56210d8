from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes.durable_files import flush, flush_many, place


@pytest.mark.parametrize("count", [1, 100])
def test_files_and_folders_are_flushed(tmp_path: Path, count: int) -> None:
    paths = [tmp_path / str(i) for i in range(count)]
    for path in paths:
        path.write_text("x")
    flush([*paths, tmp_path])
    flush_many([*paths, tmp_path])
    with pytest.raises(FileNotFoundError):
        flush_many([tmp_path / "none", *paths])


def test_a_link_shares_the_bytes_and_a_copy_does_not(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_text("x")
    os.utime(source, ns=(1, 1_700_000_000_000_000_123))
    assert not place(source, tmp_path / "link", "link")
    assert place(source, tmp_path / "copy", "copy")
    assert (tmp_path / "link").samefile(source)
    assert not (tmp_path / "copy").samefile(source)
    assert (tmp_path / "copy").stat().st_mtime_ns == 1_700_000_000_000_000_123
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "copy", "link"]


def test_what_stands_there_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    for mode in ("link", "copy"):
        assert not place(tmp_path / "a", tmp_path / "b", mode)
        assert (tmp_path / "b").read_text() == "old"


def test_an_error_that_a_copy_would_not_mend_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        place(tmp_path / "none", tmp_path / "b", "link")
    assert list(tmp_path.iterdir()) == []
