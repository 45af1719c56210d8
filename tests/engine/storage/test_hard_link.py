from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from engine.storage.hard_link import link_or_copy


def test_a_link_shares_the_bytes_and_a_copy_does_not(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_text("x")
    os.utime(source, ns=(1, 1_700_000_000_000_000_123))
    assert not link_or_copy(source, tmp_path / "link", "link")
    assert link_or_copy(source, tmp_path / "copy", "copy")
    assert (tmp_path / "link").samefile(source)
    assert not (tmp_path / "copy").samefile(source)
    assert (tmp_path / "copy").stat().st_mtime_ns == 1_700_000_000_000_000_123
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "copy", "link"]


def test_what_stands_there_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("same")
    (tmp_path / "b").write_text("same")
    before = (tmp_path / "b").stat()
    for mode in ("link", "copy"):
        assert not link_or_copy(tmp_path / "a", tmp_path / "b", mode)
    # Also when the source is gone meanwhile.
    assert not link_or_copy(tmp_path / "none", tmp_path / "b", "link")
    after = (tmp_path / "b").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("mode", ["link", "copy"])
@pytest.mark.parametrize("left", [b"", b"whol", bytes(5)])
def test_what_a_power_cut_has_damaged_is_replaced(tmp_path: Path, mode: Literal["link", "copy"], left: bytes) -> None:
    """It may cut a copy short, or leave its size and lose the content."""
    (tmp_path / "a").write_text("whole")
    (tmp_path / "b").write_bytes(left)
    link_or_copy(tmp_path / "a", tmp_path / "b", mode)
    assert (tmp_path / "b").read_text() == "whole"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_an_error_that_a_copy_would_not_fix_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        link_or_copy(tmp_path / "none", tmp_path / "b", "link")
    assert list(tmp_path.iterdir()) == []
