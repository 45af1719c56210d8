"""InspectDataset and the rows of the editor show what else is known of the volumes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import dataset_of, ids, write_shard
from npy_folders import context, convert, make_volumes, numbered

from engine.declare.datasets import Selection, VolumeParquet
from nodes.inspect_dataset import inspect_dataset
from nodes.inspection.column_figures import MOST_DIFFERENT, ColumnFigures, column_figures, python_values
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
    figures = ColumnFigures("a", pa.int64())
    for start in range(0, 5 * MOST_DIFFERENT, MOST_DIFFERENT):
        figures.add(pa.array(range(start, start + MOST_DIFFERENT)))
    assert figures.row() == ("a", "int64", "5,000", "over 1,000", "0", "4999")
    assert len(figures.different) <= 2 * MOST_DIFFERENT + 1


def test_nan_is_no_value() -> None:
    figures = ColumnFigures("a", pa.float64())
    figures.add(pa.array([float("nan"), float("nan")]))
    figures.add(pa.array([1.5, float("nan"), 0.5]))
    assert figures.row() == ("a", "double", "2", "2", "0.5", "1.5")


def _with_column(folder: Path, *files: pa.Array) -> VolumeParquet:
    """A file for each of these columns, as other programs write it."""
    parts, first = [], 0
    for values in files:
        part = write_shard(folder, ids(first, len(values)))
        path = folder / part.path
        table = pq.read_table(path).append_column("more", values)
        pq.write_table(table, path)
        parts.append(replace(part, bytes=path.stat().st_size))
        first += len(values)
    return dataset_of(folder, parts)


def _columns(tmp_path: Path, dataset: VolumeParquet) -> list[tuple[str, ...]]:
    report = inspect_dataset(dataset, ctx=context(tmp_path, "i"))
    figures = json.loads(Path(report.uri).with_name("figures.json").read_text())
    return [tuple(column.values()) for column in figures.get("columns", [])]


_LATE = pa.array([3_000_000, None, 5], pa.int32()).cast(pa.date32())
_NO_DAY = pa.array([2**62, None, 5], pa.int64())
_READABLE = {
    "categories": (pa.array(["b", "a", None, "b"]).dictionary_encode(), ("string", "3", "2", "a", "b")),
    "categories of numbers": (
        pa.array([2.5, float("nan"), None]).dictionary_encode(), ("double", "1", "1", "2.5", "2.5")
    ),
    "float16": (pa.array([1.5, None, float("nan"), -2]).cast(pa.float16()), ("halffloat", "2", "2", "-2.0", "1.5")),
    "short floats": (pa.array([63.2, None, 0.1], pa.float32()), ("float", "2", "2", "0.1", "63.2")),
    "string view": (pa.array(["b", None, "a"], pa.string_view()), ("string", "2", "2", "a", "b")),
    "large string": (pa.array(["b", None, "a"], pa.large_string()), ("large_string", "2", "2", "a", "b")),
    "bool": (pa.array([True, None, False, True]), ("bool", "3", "2", "0", "1")),
    "null": (pa.nulls(3), ("null", "0", "0", "", "")),
    "uint64": (pa.array([2**64 - 1, 1], pa.uint64()), ("uint64", "2", "2", "1", str(2**64 - 1))),
    "decimal": (pa.array([Decimal("1.50"), Decimal("-2")]), ("decimal128(3, 2)", "2", "2", "-2.00", "1.50")),
    "decimal32": (
        pa.array([Decimal("1.50"), None], pa.decimal32(5, 2)), ("decimal32(5, 2)", "1", "1", "1.50", "1.50")
    ),
    "time": (pa.array([time(1, 2), time(0, 0, 1)], pa.time64("us")), ("time64[us]", "2", "2", "00:00:01", "01:02:00")),
    "duration": (
        pa.array([timedelta(1), None, timedelta(seconds=1)]), ("duration[us]", "2", "2", "0:00:01", "1 day, 0:00:00")
    ),
    "too long a duration": (_NO_DAY.cast(pa.duration("s")), ("duration[s]", "2", "2", "0:00:05", str(2**62))),
    "day": (pa.array([date(2026, 1, 2), date(2025, 1, 2)]), ("date32[day]", "2", "2", "2025-01-02", "2026-01-02")),
    "after the year 9999": (_LATE, ("date32[day]", "2", "2", "1970-01-06", "10183-09-21")),
    "no day at all": (
        _NO_DAY.cast(pa.timestamp("us")),
        ("timestamp[us]", "2", "2", "1970-01-01 00:00:00.000005", f"<value out of range: {2**62}>"),
    ),
    "time zone": (
        pa.array([datetime(2026, 1, 2, tzinfo=UTC)]),
        ("timestamp[us, tz=UTC]", "1", "1", "2026-01-02 00:00:00+00:00", "2026-01-02 00:00:00+00:00"),
    ),
    "unknown time zone": (
        pa.array([5], pa.timestamp("us", "Mars/One")),
        ("timestamp[us, tz=Mars/One]", "1", "1", "1970-01-01 00:00:00.000005Z", "1970-01-01 00:00:00.000005Z"),
    ),
    "UUID": (pa.array([UUID(int=1).bytes], pa.uuid()), ("extension<arrow.uuid>", "1", "1", *[str(UUID(int=1))] * 2)),
}  # fmt: skip
_OTHERS = {
    "list": pa.array([[1], None]),
    "struct": pa.array([{"a": 1}, None]),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int8())),
    "list of days after the year 9999": pa.array([[3_000_000], None], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    "binary": pa.array([b"a", None]),
    "large binary": pa.array([b"a", None], pa.large_binary()),
    "bytes of one length": pa.array([b"ab", None], pa.binary(2)),
    "categories of bytes": pa.array([b"a", None]).dictionary_encode(),
    "tensors": pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 2, 2), np.float32)),
}


@pytest.mark.parametrize("kind", [*_READABLE, *_OTHERS])
def test_columns_of_any_type(tmp_path: Path, kind: str) -> None:
    """What holds no single values that a person can read is left out."""
    values, expected = _READABLE[kind] if kind in _READABLE else (_OTHERS[kind], None)
    dataset = _with_column(tmp_path / "p", values)
    assert _columns(tmp_path, dataset) == ([] if expected is None else [("more", *expected)])
    rows = [row.cells[2] for row in RowTable(volume_rows(dataset)).page(0, 9, {}).rows]
    assert len(rows) == len(values)
    if expected is not None:
        # Python writes a bool in its own way.
        ends = {"bool": {"False", "True"}}.get(kind, {*expected[3:]})
        assert ends - {""} <= {*rows}
        assert "nan" not in rows


def test_files_keep_the_same_values_in_their_own_ways(tmp_path: Path) -> None:
    """As pandas does, whose indices are wider where there are more categories."""
    many = pa.array([f"c{n:03d}" for n in range(300)])
    narrow = pa.array(["c001", "b"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    wide = many.dictionary_encode().cast(pa.dictionary(pa.int16(), pa.string()))
    found = _columns(tmp_path, _with_column(tmp_path / "p", narrow, wide, pa.array(["d", None])))
    assert found == [("more", "string", "303", "302", "b", "d")]


@pytest.mark.parametrize("kind", ["string", "dictionary", "extension<arrow.json>"])
def test_a_text_that_is_not_utf8_is_shown(kind: str) -> None:
    """Parquet takes any bytes for a text, and Arrow reads them."""
    held = pa.array([b"b\xff", b"a", None], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), len(held), held.buffers(), held.null_count)
    if kind == "dictionary":
        texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), texts.slice(0, 2))
    if kind == "extension<arrow.json>":
        texts = pa.ExtensionArray.from_storage(pa.json_(pa.string()), texts)
    batch = pa.record_batch({"name": texts})
    (figures,) = column_figures(batch.schema, iter([batch]))
    assert figures.row() == ("name", kind.replace("dictionary", "string"), "2", "2", "a", "b\ufffd")
    assert python_values(pa.chunked_array([texts])) == ["b\ufffd", "a", None]
