"""InspectDataset and the rows of the editor show what else is known of the volumes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from npy_folders import context, convert, make_volumes, numbered

from engine.declare.datasets import Selection
from nodes.inspect_dataset import inspect_dataset
from nodes.inspection.column_figures import MOST_DIFFERENT, ColumnFigures
from nodes.parquet_to_delta import parquet_to_delta
from nodes.viewing.volumes import RowTable, volume_rows


@pytest.mark.slow
def test_columns_are_on_the_page_and_in_the_rows_of_the_editor(tmp_path: Path) -> None:
    root = tmp_path / "in"
    make_volumes(root, numbered(20))
    lines = [f"v{n:04d},{n % 2},P{n % 3},{'' if n % 4 == 0 else n / 2}" for n in range(20)]
    (root / "labels.csv").write_text("file,label,patient,age\n" + "\n".join(lines))
    parquet = convert(root, tmp_path / "work")
    table = parquet_to_delta(parquet, ctx=context(tmp_path, "t"))
    expected = [("patient", "string", "20", "3", "P0", "P2"), ("age", "double", "15", "15", "0.5", "9.5")]
    for number, dataset in enumerate((parquet, table)):
        report = inspect_dataset(dataset, ctx=context(tmp_path, f"i{number}"))
        assert "volumes with a value" in Path(report.uri).read_text()
        figures = json.loads(Path(report.uri).with_name("figures.json").read_text())
        assert [tuple(column.values()) for column in figures["columns"]] == expected
        page = RowTable(volume_rows(dataset)).page(0, 2, {})
        assert [column.title for column in page.columns] == ["id", "label", "patient", "age", "file"]
        assert [row.cells[:4] for row in page.rows] == [("v0000.npy", "0", "P0", ""), ("v0001.npy", "1", "P1", "0.5")]
    part = table.select(Selection(salt="s", low=0, high=0.5, by=("patient",)))
    report = inspect_dataset(part, ctx=context(tmp_path, "part"))
    rows = volume_rows(part)
    assert report.figures["volumes"] == len(rows.members()) == sum(rows.holds(n) for n in range(20))
    assert 0 < len(rows.members()) < 20


def test_of_very_many_values_only_some_are_counted() -> None:
    figures = ColumnFigures("a", "int64")
    for start in range(0, 5 * MOST_DIFFERENT, MOST_DIFFERENT):
        figures.add(pa.array(range(start, start + MOST_DIFFERENT)))
    assert figures.row() == ("a", "int64", "5,000", "over 1,000", "0", "4999")
    assert len(figures.different) <= 2 * MOST_DIFFERENT + 1


def test_nan_is_no_value() -> None:
    figures = ColumnFigures("a", "double")
    figures.add(pa.array([float("nan"), float("nan")]))
    figures.add(pa.array([1.5, float("nan"), 0.5]))
    assert figures.row() == ("a", "double", "2", "2", "0.5", "1.5")
