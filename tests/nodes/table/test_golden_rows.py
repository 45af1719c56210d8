"""The test tables of Delta's projects: ConvertTable reads the rows that Spark or delta-rs reads, or refuses it."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from tests.golden_rows import GOLDEN_ROWS, check_rows, tables

REFUSED = Path(__file__).with_name("golden_rows_refused.txt")
"""A line for each table that is refused. `UPDATE_GOLDEN=1 pytest tests/nodes/table/test_golden_rows.py` writes it."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN_ROWS) as archive:
        archive.extractall(out, filter="data")
    return out


def test_each_table_is_read_as_others_read_it_or_refused(folder: Path, tmp_path: Path) -> None:
    refused, wrong, count = [], [], 0
    for name, root in tables(folder):
        count += 1
        try:
            reason = check_rows(root, tmp_path)
        except Exception as exc:
            wrong.append(f"{name}: {type(exc).__name__}: {exc}")
        else:
            refused += [f"{name}: {reason}\n"] if reason else []
    assert wrong == []
    assert count == 243
    if os.environ.get("UPDATE_GOLDEN"):
        REFUSED.write_text("".join(refused))
    assert "".join(refused) == REFUSED.read_text()
