"""The test tables of Delta's projects: we see what a plain replay of each log gives, or refuse it by name."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.golden_rows import GOLDEN_ROWS
from tests.golden_tables import GOLDEN_TABLES, check_table

REFUSED = Path(__file__).with_name("golden_tables_refused.txt")
"""A line for each table that is refused. `UPDATE_GOLDEN=1 pytest tests/nodes/table/test_golden_tables.py` writes it."""

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The tables, for one attempt: a check changes them."""
    with zipfile.ZipFile(GOLDEN_TABLES) as logs:
        logs.extractall(tmp_path)
    with tarfile.open(GOLDEN_ROWS) as rows:
        rows.extractall(tmp_path, filter="data")
    return tmp_path


def test_each_table_is_seen_as_its_log_says_or_refused(folder: Path) -> None:
    names = sorted(str(log.parent.relative_to(folder)) for log in folder.rglob("_delta_log"))
    assert Counter(name.partition("/")[0] for name in names) == {
        "delta": 44,
        "delta-kernel-rs": 149,
        "delta-rs": 50,
        "delta_kernel-0.13.0": 36,
        "deltalake-1.6.6": 60,
    }
    refused, wrong = [], []
    for name in names:
        try:
            reason = check_table(folder / name)
        except Exception as exc:
            wrong.append(f"{name}: {type(exc).__name__}: {exc}")
        else:
            refused += [f"{name}: {reason}\n"] if reason else []
    assert wrong == []
    if os.environ.get("UPDATE_GOLDEN"):
        REFUSED.write_text("".join(refused))
    assert "".join(refused) == REFUSED.read_text()
