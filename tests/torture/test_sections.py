"""What bit rot strikes: files are known byte for byte by what they hold, and no kind of it is struck seldom."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from volume_sets import labels_for, make_delta, some_volumes

from tests.torture.bit_rot import choose
from tests.torture.sections import OTHER, sections_of

pytestmark = pytest.mark.slow
PAGES = {"checksums", "footers", "ids", "labels", "log", "volumes"}


def _table(folder: Path) -> Path:
    volumes = some_volumes(12, (6, 6, 5, 2))
    return Path(make_delta(folder, volumes, labels_for(volumes, unlabelled=2), rows=6).uri)


def test_the_sections_of_a_file_are_all_of_it(tmp_path: Path) -> None:
    for path in _table(tmp_path).rglob("*.parquet"):
        sections = sections_of(path)
        assert sections[0].begin == len(b"PAR1")
        assert [s.end for s in sections[:-1]] == [s.begin for s in sections[1:]]
        assert sections[-1].end == path.stat().st_size
        assert {s.kind for s in sections} >= PAGES - {"log"}
        data = path.read_bytes()
        volumes = [data[s.begin : s.end] for s in sections if s.kind == "volumes"]
        assert sum(map(len, volumes)) > len(data) / 2


def test_small_sections_are_struck_as_often_as_large_ones(tmp_path: Path) -> None:
    _table(tmp_path)
    (tmp_path / "model.keras").write_bytes(bytes(1000))
    struck = Counter(choose(tmp_path, random.Random(seed))[1].kind for seed in range(400))
    assert struck.keys() >= PAGES | {OTHER}
    pages = [count for kind, count in struck.items() if kind != OTHER]
    assert min(pages) > max(pages) / 2, struck


def test_only_files_that_are_wanted_are_struck(tmp_path: Path) -> None:
    _table(tmp_path)
    (tmp_path / "model.keras").write_bytes(bytes(1000))
    (tmp_path / "lock").write_bytes(bytes(1000))
    struck = {choose(tmp_path, random.Random(seed), re.compile("model.*|lock"))[0].name for seed in range(20)}
    assert struck == {"model.keras"}
