"""Files written by hand: every reader finds the rows, and the same rows always give the same bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from delta_tables import read_by_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spark_nodes import rows_by_duckdb

from engine.declare.datasets import VolumeSpec
from nodes.volume_file import write as plain_file
from nodes.volume_file.join import can_join, join, template
from nodes.volume_file.layout import schema, writer_options
from nodes.volume_file.page_index import index_pages
from nodes.volume_file.write import PlainFile

SPEC = VolumeSpec(shape=(5, 1), dtype="float32")
Row = tuple[str, float | None]


def volume(volume_id: str, size: int = SPEC.volume_bytes) -> bytes:
    return (volume_id.encode() * size)[:size]


def write(
    path: Path,
    rows: Sequence[Row],
    group_rows: int,
    refused: Sequence[int] = (),
    size: int = SPEC.volume_bytes,
) -> None:
    """As the converter does: what is to come is announced when a row group begins, and some of it does not come."""
    empty = template(schema(SPEC), writer_options())
    with contextlib.closing(PlainFile(path, empty, size, group_rows)) as out:
        for place, (volume_id, label) in enumerate(rows):
            if out.is_between_groups:
                coming = rows[place : place + group_rows]
                out.expect([i for i, _ in coming], [x for _, x in coming])
            out.buffer()[:] = np.frombuffer(volume(volume_id, size), np.uint8)
            if place not in refused:
                out.keep(volume_id, label)
        out.finish()


_ROWS = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), st.none() | st.floats(width=32, allow_nan=False)
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda row: row[0],
)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=_ROWS, group_rows=st.integers(1, 9), data=st.data(), buffer=st.integers(1, 200))
def test_what_was_kept_is_read_and_what_was_refused_leaves_no_trace(
    tmp_path: Path, rows: list[Row], group_rows: int, data: st.DataObject, buffer: int
) -> None:
    refused = data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 1))
    kept = [row for place, row in enumerate(rows) if place not in refused]
    path, again = tmp_path / "a.parquet", tmp_path / "b.parquet"
    with pytest.MonkeyPatch.context() as patch:
        # Small enough that row groups take several writes, and are moved in several pieces.
        patch.setattr(plain_file, "BUFFER_BYTES", buffer)
        patch.setattr(plain_file, "_WRITE_OUT_BYTES", 3 * buffer)
        write(path, rows, group_rows, sorted(refused))
        write(again, kept, group_rows)
    assert path.read_bytes() == again.read_bytes()
    table = pq.read_table(path)
    assert table.schema.equals(schema(SPEC), check_metadata=True)
    assert table["id"].to_pylist() == [i for i, _ in kept]
    assert table["label"].to_pylist() == [x for _, x in kept]
    assert table["volume"].to_pylist() == [volume(i) for i, _ in kept]
    meta = pq.read_metadata(path)
    full, rest = divmod(len(kept), group_rows)
    assert [meta.row_group(n).num_rows for n in range(meta.num_row_groups)] == [group_rows] * full + [rest] * bool(rest)
    offsets = index_pages(str(path), meta, SPEC.volume_bytes).offsets
    raw = path.read_bytes()
    assert [raw[at : at + SPEC.volume_bytes] for at in offsets] == [volume(i) for i, _ in kept]


def _chunks(path: Path) -> list[tuple[Any, ...]]:
    meta = pq.read_metadata(path)
    out = []
    for group in range(meta.num_row_groups):
        for column in range(3):
            chunk = meta.row_group(group).column(column)
            found = chunk.statistics
            statistics = (found.null_count, found.min_raw, found.max_raw) if found else None
            out.append((chunk.path_in_schema, chunk.num_values, set(chunk.encodings), chunk.compression, statistics))
    return out


def test_the_footer_says_what_pyarrow_says_of_the_same_rows(tmp_path: Path) -> None:
    rows: list[Row] = [(f"vol-{i}", None if i % 3 == 0 else i * 0.5 - 3) for i in range(23)]
    rows += [(f"none-{i}", None) for i in range(5)] + [(f"zero-{i}", 0.0) for i in range(5)]
    write(tmp_path / "ours.parquet", rows, 5)
    table = pa.table(
        {
            "id": [i for i, _ in rows],
            "label": pa.array([x for _, x in rows], pa.float32()),
            "volume": [volume(i) for i, _ in rows],
        },
        schema=schema(SPEC),
    )
    with pq.ParquetWriter(tmp_path / "theirs.parquet", table.schema, **writer_options()) as writer:
        writer.write_table(table, row_group_size=5)
    assert _chunks(tmp_path / "ours.parquet") == _chunks(tmp_path / "theirs.parquet")
    # Page statistics apart, the files are as long as each other.
    assert pq.read_table(tmp_path / "ours.parquet").equals(pq.read_table(tmp_path / "theirs.parquet"))


@pytest.mark.slow
def test_other_engines_read_it_and_skip_by_its_statistics(tmp_path: Path) -> None:
    import polars as pl
    from deltalake import convert_to_deltalake

    rows: list[Row] = [(f"vol-{i:04}", None if i % 7 == 0 else float(i % 5)) for i in range(300)]
    (tmp_path / "t").mkdir()
    write(tmp_path / "t" / "a.parquet", rows, 64, refused=(3, 70, 299), size=360)
    wanted = [(i, x, volume(i, 360)) for n, (i, x) in enumerate(rows) if n not in (3, 70, 299)]
    assert pl.read_parquet(tmp_path / "t" / "a.parquet").rows() == wanted
    assert pl.scan_parquet(tmp_path / "t" / "a.parquet").filter(pl.col("id") == "vol-0150").collect().rows() == [
        wanted[148]
    ]
    convert_to_deltalake(str(tmp_path / "t"))
    assert read_by_deltalake(str(tmp_path / "t")) == wanted
    assert rows_by_duckdb(str(tmp_path / "t")) == wanted


def test_files_can_be_joined_like_those_of_pyarrow(tmp_path: Path) -> None:
    parts = []
    for number in range(3):
        path = tmp_path / f"{number}.parquet"
        write(path, [(f"vol-{number}-{i}", float(i)) for i in range(3)], 64)
        parts.append((path, pq.read_metadata(path)))
    empty = template(schema(SPEC), writer_options())
    assert can_join(((3, meta) for _, meta in parts), empty, "UNCOMPRESSED", 64)
    join(parts, tmp_path / "joined.parquet", empty, 64, lambda _: None, SPEC.volume_bytes)
    joined = pq.read_table(tmp_path / "joined.parquet")
    assert joined.equals(pa.concat_tables([pq.read_table(path) for path, _ in parts]))
    assert pc.min_max(joined["label"]).as_py() == {"min": 0.0, "max": 2.0}


def test_large_volumes_are_aligned_and_a_file_without_rows_is_none(tmp_path: Path) -> None:
    out = PlainFile(tmp_path / "a.parquet", template(schema(SPEC), writer_options()), 8 << 20, 4)
    assert out.buffer().ctypes.data % 64 == 0
    assert len(out.buffer()) == 8 << 20
    out.finish()
    assert not (tmp_path / "a.parquet").exists()


def test_a_disk_error_is_reported(tmp_path: Path) -> None:
    out = PlainFile(Path("/dev/full"), template(schema(SPEC), writer_options()), SPEC.volume_bytes, 1)
    with contextlib.closing(out), pytest.raises(OSError, match="No space"):
        out.keep("a", None)
