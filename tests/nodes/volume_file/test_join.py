from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, ids, label_of, volume_of, write_shard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from laws import examples

from engine.errors import DataError
from nodes.volume_file.footer import footer
from nodes.volume_file.join import can_join, join, template
from nodes.volume_file.layout import schema, writer_options

_CODECS = {"none": "UNCOMPRESSED", "zstd": "ZSTD", "lz4": "LZ4", "snappy": "SNAPPY", "gzip": "GZIP"}


def _table(volume_ids: list[str], columns: pa.Schema) -> pa.Table:
    values: dict[str, Any] = {
        "id": volume_ids,
        "label": pa.array([label_of(i) for i in volume_ids], pa.float32()),
        "volume": [volume_of(i) for i in volume_ids],
    }
    extra = {
        f.name: pa.array([None if int(i[-5:]) % 3 == 0 else int(i[-5:]) for i in volume_ids], f.type)
        for f in columns
        if f.name not in values
    }
    return pa.table(values | extra, schema=columns)


def _write(
    folder: Path, sizes: list[int], columns: pa.Schema, group: int = 64, codec: str = "none", **options: Any
) -> list[Path]:
    out = []
    first = 0
    for number, size in enumerate(sizes):
        path = folder / f"{number:04d}.parquet"
        with pq.ParquetWriter(path, columns, **writer_options(codec) | options) as writer:
            writer.write_table(_table(ids(first, size), columns), row_group_size=group)
        out.append(path)
        first += size
    return out


def _join(paths: list[Path], columns: pa.Schema, codec: str = "none", group: int = 64) -> tuple[Path, list[int]]:
    empty = template(columns, writer_options(codec))
    files = [(p, pq.read_metadata(p)) for p in paths]
    assert can_join(((meta.num_rows, meta) for _, meta in files), empty, _CODECS[codec], group)
    written: list[int] = []
    target = paths[0].parent / "joined.parquet"
    join(files, target, empty, group, written.append, SPEC.volume_bytes)
    return target, written


@pytest.mark.slow
@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=17),
    st.integers(1, 40),
    st.sampled_from(sorted(_CODECS)),
    st.integers(0, 20),
)
@example(sizes=[10], group=1, codec="lz4", extra=0)  # a compressed page as long as one of ours
@example(sizes=[38, 44, 4, 57, 60], group=1, codec="none", extra=0)  # with statistics and a short checksum
def test_joined_files_hold_the_same_rows(tmp_path: Path, sizes: list[int], group: int, codec: str, extra: int) -> None:
    columns = schema(SPEC)
    for number in range(extra):
        columns = columns.append(pa.field(f"x{number}", pa.int64()))
    paths = _write(tmp_path, sizes, columns, group, codec)
    joined, written = _join(paths, columns, codec, group=40)
    expected = _table(ids(0, sum(sizes)), columns)
    assert pq.read_table(joined).equals(expected)
    assert pl.read_parquet(joined).to_arrow()["volume"].to_pylist() == expected["volume"].to_pylist()
    meta = pq.read_metadata(joined)
    assert sum(written) == meta.num_rows == sum(sizes)
    lengths = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
    assert written == lengths
    assert max(lengths) <= 40
    assert all(a + b > 40 for a, b in itertools.pairwise(lengths))
    assert pq.read_schema(joined).equals(columns, check_metadata=True)


def test_no_file_stays_open(tmp_path: Path) -> None:
    columns = schema(SPEC)
    paths = _write(tmp_path, [20, 3], columns, group=1)
    before = psutil.Process().num_fds()
    _join(paths, columns, group=40)
    assert psutil.Process().num_fds() <= before  # those of tests before may be closed meanwhile


def test_statistics_cover_the_joined_groups(tmp_path: Path) -> None:
    columns = schema(SPEC)
    joined, _ = _join(_write(tmp_path, [7, 9, 20, 1], columns), columns)
    group = pq.read_metadata(joined).row_group(0)
    expected = _table(ids(0, 37), columns)
    found_ids, found_labels = group.column(0).statistics, group.column(1).statistics
    assert (found_ids.min, found_ids.max, found_ids.null_count) == ("vol-00000", "vol-00036", 0)
    assert (found_labels.min, found_labels.max) == tuple(pc.min_max(expected["label"]).as_py().values())
    assert found_labels.null_count == expected["label"].null_count
    assert not group.column(2).is_stats_set
    assert group.total_byte_size == sum(group.column(i).total_uncompressed_size for i in range(3))
    # A reader that prunes by them finds what is there.
    found = pl.scan_parquet(joined).filter(pl.col("id") == "vol-00020").select("id").collect()
    assert found["id"].to_list() == ["vol-00020"]


def test_a_group_without_labels_joins_one_with_labels(tmp_path: Path) -> None:
    columns = schema(SPEC)
    paths = []
    for name, labels in (("a", [None, None]), ("b", [1.0, 0.5]), ("c", [None])):
        table = pa.table(
            {"id": ids(0, len(labels)), "label": pa.array(labels, pa.float32()), "volume": [b"x"] * len(labels)},
            schema=columns,
        )
        paths.append(tmp_path / f"{name}.parquet")
        with pq.ParquetWriter(paths[-1], columns, **writer_options()) as writer:
            writer.write_table(table)
    joined, _ = _join(paths, columns)
    statistics = pq.read_metadata(joined).row_group(0).column(1).statistics
    assert (statistics.min, statistics.max, statistics.null_count) == (0.5, 1.0, 3)
    assert pq.read_table(joined)["label"].to_pylist() == [None, None, 1.0, 0.5, None]


@pytest.mark.parametrize(
    ("reason", "options"),
    [
        ("a dictionary", {"use_dictionary": ["volume"], "column_encoding": None}),
        ("another compression", {"compression": "zstd"}),
        ("large row groups", {"group": 100}),
        ("other columns", {"columns": schema(SPEC).append(pa.field("site", pa.float64()))}),
        ("nulls allowed", {"columns": pa.schema([f.with_nullable(True) for f in schema(SPEC)])}),
    ],
)
def test_files_that_must_be_decoded_are_not_joined(tmp_path: Path, reason: str, options: dict[str, Any]) -> None:
    columns = schema(SPEC)
    empty = template(columns, writer_options())
    good = pq.read_metadata(tmp_path / write_shard(tmp_path, ids(0, 100)).path)
    assert can_join([(100, good)], empty, "UNCOMPRESSED", 64)
    assert not can_join([(99, good)], empty, "UNCOMPRESSED", 64), "it has other rows"
    (other,) = _write(tmp_path, [100], **{"columns": columns} | options)
    assert not can_join([(100, good), (100, pq.read_metadata(other))], empty, "UNCOMPRESSED", 64), reason


def test_a_file_that_shrinks_meanwhile_is_an_error(tmp_path: Path) -> None:
    columns = schema(SPEC)
    (path,) = _write(tmp_path, [20], columns)
    empty = template(columns, writer_options())
    meta = pq.read_metadata(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=rf"{path.name} is damaged: a column of it lies outside of it"):
        join([(path, meta)], tmp_path / "out.parquet", empty, 64, lambda _: None, SPEC.volume_bytes)


def test_a_template_must_be_a_parquet_file() -> None:
    for wrong in (b"", b"PAR1", b"PAR1" + b"\xff\xff\xff\xff" + b"PAR1"):
        with pytest.raises(ValueError, match="no Parquet file"):
            footer(wrong, 0, [])


def test_an_empty_join_is_an_empty_file(tmp_path: Path) -> None:
    columns = schema(SPEC)
    join([], tmp_path / "none.parquet", template(columns, writer_options()), 64, lambda _: None, SPEC.volume_bytes)
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0
