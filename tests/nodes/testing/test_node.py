"""What the kit for node types looks at in a result's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.testing.node import _visible


@pytest.mark.parametrize("table", ["predictions", "predictions-2", "forecasts", "deep/forecasts"])
def test_the_files_of_a_table_are_left_to_its_log_whatever_its_folder_is_called(tmp_path: Path, table: str) -> None:
    (tmp_path / table / "_delta_log").mkdir(parents=True)
    for name in ("a.json", "deep/b.json", ".hidden", f"{table}/part.parquet", f"{table}/month=1/part.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [str(path.relative_to(tmp_path)) for path in _visible(tmp_path)] == ["a.json", "deep/b.json"]


def test_files_of_a_folder_that_is_no_table_are_looked_at_be_it_called_predictions(tmp_path: Path) -> None:
    (tmp_path / "predictions").mkdir()
    (tmp_path / "predictions" / "page.html").touch()
    assert [path.name for path in _visible(tmp_path)] == ["page.html"]
