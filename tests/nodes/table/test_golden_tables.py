"""The test tables of delta-rs and delta-kernel-rs: we see what a plain replay of each log gives, or refuse by name."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from tests.golden_tables import GOLDEN_TABLES, check_table

REFUSED = Path(__file__).with_name("golden_tables_refused.txt")
"""A line for each table that is refused. `UPDATE_GOLDEN=1 pytest tests/nodes/table/test_golden_tables.py` writes it."""

with zipfile.ZipFile(GOLDEN_TABLES) as _archive:
    NAMES = sorted({name.partition("/_delta_log/")[0] for name in _archive.namelist() if "/_delta_log/" in name})

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("golden")
    with zipfile.ZipFile(GOLDEN_TABLES) as archive:
        archive.extractall(out)
    return out


def test_both_projects_are_there() -> None:
    assert len(NAMES) == 96
    assert len({name.partition("/")[0] for name in NAMES}) == 2


def test_each_table_is_seen_as_its_log_says_or_refused(folder: Path) -> None:
    refused, wrong = [], []
    for name in NAMES:
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
