from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import examples
from volume_sets import labels_for, some_volumes, write_file

from nodes.volume_file.page_index import NotIndexable, index_pages
from nodes.volume_file.thrift import Malformed, read_struct


def index(path: Path, volume_bytes: int) -> Any:
    return index_pages(str(path), pq.read_metadata(path), volume_bytes).offsets


def bytes_at(path: Path, offsets: Any, volume_bytes: int) -> list[bytes]:
    """The values behind the offsets; each must have its length in front."""
    data = path.read_bytes()
    for offset in offsets:
        assert int.from_bytes(data[offset - 4 : offset], "little") == volume_bytes
    return [data[offset : offset + volume_bytes] for offset in offsets]


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 70),
    values=st.integers(1, 40),
    group=st.integers(1, 80),
    page=st.sampled_from([1, 64, 1000, 1 << 20]),
    version=st.sampled_from(["1.0", "2.0"]),
    nullable=st.booleans(),
    statistics=st.booleans(),
    checksum=st.booleans(),
)
def test_every_plain_layout_is_indexed_rightly(
    tmp_path: Path,
    rows: int,
    values: int,
    group: int,
    page: int,
    version: str,
    nullable: bool,
    statistics: bool,
    checksum: bool,
) -> None:
    volumes = some_volumes(rows, (values,))
    write_file(
        tmp_path / "f.parquet",
        volumes,
        labels_for(volumes),
        group=group,
        nullable=nullable,
        data_page_size=page,
        write_batch_size=1,
        data_page_version=version,
        write_statistics=statistics,
        write_page_checksum=checksum,
    )
    offsets = index(tmp_path / "f.parquet", 4 * values)
    assert bytes_at(tmp_path / "f.parquet", offsets, 4 * values) == [v.tobytes() for v in volumes.values()]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"compression": "ZSTD"}, "compressed"),
        ({"compression": "LZ4"}, "compressed"),
        ({"use_dictionary": ["volume"], "column_encoding": None}, "dictionary"),
        ({"column_encoding": {"volume": "DELTA_LENGTH_BYTE_ARRAY"}}, "not laid out"),
    ],
)
def test_other_layouts_are_left_to_the_decoder(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    volumes = some_volumes(20)
    write_file(tmp_path / "f.parquet", volumes, labels_for(volumes), **options)
    with pytest.raises(NotIndexable, match=reason):
        index(tmp_path / "f.parquet", 96)


@pytest.mark.parametrize(
    "values",
    [
        [b"x" * 8, b"x" * 7],
        [b"x" * 8, None],
        # Nulls and lengths whose sum is that of two volumes of 8 bytes.
        [None, b"x" * 20],
        [None] + [b"x" * 8] * 8 + [b"x" * 20],
    ],
)
def test_values_of_other_lengths_and_nulls_are_never_indexed(tmp_path: Path, values: list[bytes | None]) -> None:
    table = pa.table({"volume": pa.array(values, pa.binary())})
    pq.write_table(table, tmp_path / "f.parquet", compression="NONE", use_dictionary=False)
    with pytest.raises(NotIndexable):
        index(tmp_path / "f.parquet", 8)


def test_a_list_column_is_not_indexed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"volume": [[b"a"], [b"b"]]}), tmp_path / "f.parquet", compression="NONE")
    with pytest.raises(NotIndexable):
        index(tmp_path / "f.parquet", 1)


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_struct_or_malformed(data: bytes) -> None:
    try:
        _, used = read_struct(data)
    except Malformed:
        return
    assert 0 < used <= len(data)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_damaged_page_header_gives_no_wrong_offset(tmp_path: Path, at: int, value: int) -> None:
    """Whatever byte of the volume column is another one: no offset is wrong but those that lack the length in front."""
    path = tmp_path / "f.parquet"
    volumes = some_volumes(12, (4,))
    write_file(path, volumes, labels_for(volumes), data_page_size=1, write_batch_size=2)
    metadata = pq.read_metadata(path)
    true = index_pages(str(path), metadata, 16).offsets
    column = metadata.row_group(1).column(2)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + at % column.total_compressed_size] = value
    path.write_bytes(data)
    try:
        offsets = index_pages(str(path), metadata, 16).offsets
    except NotIndexable:
        return
    accepted = [i for i, at in enumerate(offsets) if data[at - 4 : at] == (16).to_bytes(4, "little")]
    assert [offsets[i] for i in accepted] == [true[i] for i in accepted]
