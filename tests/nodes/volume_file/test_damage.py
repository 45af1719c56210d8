"""Flipped bits and cut files: whatever byte is another one, it is found, or nothing that is read changes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables import SPEC, ids, volume_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import examples
from volume_sets import labels_for, some_volumes, write_file

from engine.errors import DataError
from nodes.volume_file.damage import FileCheck, check_file
from nodes.volume_file.join import join, template
from nodes.volume_file.layout import schema, writer_options
from nodes.volume_file.pages import ChunkCheck, DamagedPage, VolumePages, crc32, page_header, parse_header
from nodes.volume_file.write import PlainFile

ROWS = 23
GROUP = 8


def _write(path: Path, rows: int = ROWS) -> None:
    out = PlainFile(path, template(schema(SPEC), writer_options()), SPEC.volume_bytes, GROUP)
    for number, volume_id in enumerate(ids(0, rows)):
        if out.is_between_groups:
            coming = ids(number, min(GROUP, rows - number))
            out.expect(coming, [1.0] * len(coming))
        out.buffer()[:] = np.frombuffer(volume_of(volume_id), np.uint8)
        out.keep(volume_id, 1.0)
    out.finish()


def _check(data: bytes, rows: int = ROWS) -> FileCheck:
    return check_file(pa.BufferReader(data), rows, SPEC.volume_bytes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("damage") / "a.parquet"
    _write(path)
    return path.read_bytes()


def test_a_whole_file_is_right_and_pyarrow_agrees(whole: bytes) -> None:
    assert _check(whole) == FileCheck(checked=ROWS)
    table = pq.ParquetFile(pa.BufferReader(whole), page_checksum_verification=True).read()
    assert table["volume"].to_pylist() == [volume_of(i) for i in ids(0, ROWS)]


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
@example(at=26557, bit=2)
def test_any_flipped_bit_before_the_footer_is_found(whole: bytes, at: int, bit: int) -> None:
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    # The magic at the start is not what anybody reads by.
    place = 4 + at % (len(whole) - footer - 4)
    data = bytearray(whole)
    data[place] ^= 1 << bit
    found = _check(bytes(data))
    if not found.problems:
        # A bit of a page header that means nothing, such as the encoding of levels that are not there.
        read = pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True).read()
        assert read.equals(pq.read_table(pa.BufferReader(whole)))
        return
    assert found.lost in range(1, GROUP + 1)


@pytest.fixture(scope="module")
def compressed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("damage") / "a.parquet"
    volumes = {name: np.full(60, number, np.float32) for number, name in enumerate(ids(0, ROWS))}
    write_file(path, volumes, dict.fromkeys(volumes, 1.0), compression="ZSTD", write_page_checksum=True)
    return path.read_bytes()


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_compressed_file_is_found(compressed: bytes, at: int, bit: int) -> None:
    """Also in the headers of its volumes' pages, which say how long they are without compression."""
    footer = int.from_bytes(compressed[-8:-4], "little") + 8
    data = bytearray(compressed)
    data[4 + at % (len(compressed) - footer - 4)] ^= 1 << bit
    if not check_file(pa.BufferReader(bytes(data)), ROWS, 240).problems:
        read = pq.ParquetFile(pa.BufferReader(bytes(data)), page_checksum_verification=True).read()
        assert read.equals(pq.read_table(pa.BufferReader(compressed)))


def test_volumes_that_cannot_be_decompressed_are_lost(whole: bytes, compressed: bytes) -> None:
    """How a column is compressed is only in the footer, which has no checksum."""
    for data, size, codec in ((whole, SPEC.volume_bytes, b"\0"), (compressed, 240, b"\x0c")):
        place = data.rindex(b"\x18\x06volume\x15" + codec) + 9
        damaged = data[:place] + b"\4" + data[place + 1 :]
        found = check_file(pa.BufferReader(damaged), ROWS, size)
        assert "its volumes cannot be read" in found.problems[0]
        assert found.rows[-1][1] == ROWS


def test_volumes_of_another_length_are_lost(compressed: bytes) -> None:
    (problem,) = check_file(pa.BufferReader(compressed), ROWS, 236).problems
    assert problem == "a volume in it has 240 bytes, not 236"


@settings(max_examples=examples(200), deadline=None)
@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_in_the_footer_never_raises(whole: bytes, at: int, bit: int) -> None:
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    data = bytearray(whole)
    data[len(whole) - 1 - at % footer] ^= 1 << bit
    _check(bytes(data))


@pytest.mark.parametrize("kept", [0, 3, 100, 0.5, -1, -9])
def test_a_file_cut_short_is_lost_as_a_whole(whole: bytes, kept: float) -> None:
    length = round(kept * len(whole)) if isinstance(kept, float) else int(kept)
    found = _check(whole[:length])
    assert "footer cannot be read" in found.problems[0]
    assert found.lost == ROWS


def test_a_damaged_volume_is_named_alone(whole: bytes) -> None:
    data = bytearray(whole)
    data[data.find(volume_of(ids(11, 1)[0])) + 5] ^= 1
    found = _check(bytes(data))
    assert (found.rows, found.ids) == (((11, 12),), tuple(ids(11, 1)))
    assert found.problems == ("the page does not match its checksum (column volume)",)


def test_a_damaged_header_costs_its_own_volume(whole: bytes) -> None:
    pages = VolumePages(SPEC.volume_bytes)
    for byte in range(pages.head_bytes):
        data = bytearray(whole)
        data[data.find(volume_of(ids(10, 1)[0])) - pages.head_bytes + byte] ^= 8
        assert _check(bytes(data)).rows == ((10, 11),), byte


@pytest.mark.parametrize("values", [0, 3])
def test_a_header_that_counts_other_values_costs_its_row_group(whole: bytes, values: int) -> None:
    """Voxelflow finds each volume by arithmetic; other readers go by the counts, and fail."""
    ours = page_header(100, 1, 0)
    at = whole.find(volume_of(ids(GROUP, 1)[0])) - VolumePages(SPEC.volume_bytes).head_bytes
    place = at + ours.index(b"\x1c\x15\x02") + 2 + 4
    assert whole[place] == 2
    data = bytearray(whole)
    data[place] = 2 * values
    found = _check(bytes(data))
    assert found.rows == ((GROUP, 2 * GROUP),)
    assert found.problems == (f"the page headers count {7 + values} values, not 8 (column volume)",)


def test_pages_of_ids_take_their_row_group_with_them(whole: bytes) -> None:
    data = bytearray(whole)
    data[data.find(ids(9, 1)[0].encode())] ^= 1
    found = _check(bytes(data))
    assert found.rows == ((GROUP, 2 * GROUP),)
    assert found.ids == ()


def test_files_without_checksums_are_counted_as_not_checked(tmp_path: Path) -> None:
    volumes = some_volumes(9, (4, 3, 2))
    write_file(tmp_path / "a.parquet", volumes, labels_for(volumes), write_page_checksum=False)
    with pa.OSFile(str(tmp_path / "a.parquet")) as file:
        assert check_file(file, 9, 96) == FileCheck(unchecked=9)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "ZSTD"},
        {"use_dictionary": ["volume"], "column_encoding": None},
        {"data_page_version": "2.0", "nullable": True},
        {"data_page_size": 1, "write_batch_size": 1},
    ],
)
def test_other_layouts_are_checked_too(tmp_path: Path, options: dict[str, Any]) -> None:
    volumes = some_volumes(20, (40,))
    path = tmp_path / "a.parquet"
    write_file(path, volumes, labels_for(volumes), write_page_checksum=True, **options)
    with pa.OSFile(str(path)) as file:
        assert check_file(file, 20, 160) == FileCheck(checked=20)
    column = pq.read_metadata(path).row_group(2).column(2)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 3] ^= 1
    with pa.BufferReader(bytes(data)) as file:
        assert check_file(file, 20, 160).problems


@given(size=st.integers(0, 2**31 - 5), values=st.integers(1, 2**31 - 1), checksum=st.integers(0, 2**32 - 1))
def test_page_headers_are_read_as_they_were_written(size: int, values: int, checksum: int) -> None:
    found = parse_header(page_header(size, values, checksum) + b"more")
    assert (found.body, found.values, found.checksum) == (size, values, checksum)


@given(checksum=st.integers(0, 2**32 - 1), volume_bytes=st.integers(1, 2**31 - 9))
def test_heads_of_volumes_are_equally_long(checksum: int, volume_bytes: int) -> None:
    pages = VolumePages(volume_bytes)
    head = bytearray(pages.head.tobytes())
    head[pages.checksum_at : pages.checksum_at + 5] = pages.encoded(checksum)
    heads = np.frombuffer(bytes(head), np.uint8)[None]
    assert pages.are_heads(heads).all()
    assert pages.checksums(heads) == [checksum]
    found = parse_header(bytes(head))
    assert (found.length + 4, found.body, found.checksum) == (len(head), volume_bytes + 4, checksum)


@given(
    checksum=st.integers(0, 2**32 - 1),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), max_size=3),
    whole_head=st.booleans(),
)
def test_a_head_alone_is_read_as_many_are(checksum: int, flips: list[tuple[float, int]], whole_head: bool) -> None:
    pages = VolumePages(SPEC.volume_bytes)
    head = bytearray(pages.head.tobytes())
    head[pages.checksum_at : pages.checksum_at + 5] = pages.encoded(checksum)
    if not whole_head:
        del head[-4:]  # what stands before the page
    for place, bit in flips:
        head[int(place * len(head))] ^= 1 << bit
    heads = np.frombuffer(bytes(head), np.uint8)[None]
    expected = pages.checksums(heads)[0] if pages.are_heads(heads)[0] else None
    assert pages.checksum_in(bytes(head)) == expected


@settings(max_examples=examples(40), deadline=None)
@given(pieces=st.lists(st.integers(1, 300), min_size=1, max_size=40))
def test_bytes_may_come_in_any_pieces(whole: bytes, pieces: list[int]) -> None:
    chunk = pq.ParquetFile(pa.BufferReader(whole)).metadata.row_group(0).column(2)
    stored = io.BytesIO(whole[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size])
    for volumes in (VolumePages(SPEC.volume_bytes), None):
        check = ChunkCheck(GROUP, chunk.total_compressed_size, volumes)
        stored.seek(0)
        for size in pieces:
            check.feed(stored.read(size))
        check.feed(stored.read())
        check.finish()
        assert (check.checked, check.damaged) == (GROUP, [])


@settings(max_examples=examples(100), deadline=None)
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), max_size=4),
    pieces=st.lists(st.integers(1, 3000), max_size=10),
)
def test_damage_is_the_same_in_any_pieces(flips: list[tuple[float, int]], pieces: list[int]) -> None:
    """Many volumes at once are checked together, some bytes at a time one by one."""
    pages, count = VolumePages(SPEC.volume_bytes), 30
    page = bytearray(pages.head.tobytes() + volume_of("vol-00001"))
    page[pages.checksum_at : pages.checksum_at + 5] = pages.encoded(pages.checksum(volume_of("vol-00001")))
    chunk = bytearray(page * count)
    for place, bit in flips:
        chunk[int(place * len(chunk))] ^= 1 << bit

    def check(pieces: list[int]) -> tuple[int, int, list[DamagedPage]]:
        found, stored = ChunkCheck(count, len(chunk), pages), io.BytesIO(chunk)
        for size in pieces:
            found.feed(stored.read(size))
        found.feed(stored.read())
        found.finish()
        return found.checked, found.unchecked, found.damaged

    one_by_one = check([pages.stride] * count)
    assert check(pieces) == one_by_one
    assert check([]) == one_by_one


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("ID label volume", "it has no column id"),
        ("id label volumes", "it has no column volume"),
        ("id label volume id", "it has 2 columns id"),
        ("id label volume label", "it has 2 columns label"),
        ("id label volume volume", "it has 2 columns volume"),
    ],
)
@pytest.mark.parametrize("is_damaged", [False, True])
def test_columns_that_are_not_those_of_volumes_are_damage(names: str, problem: str, is_damaged: bool) -> None:
    """None of them ends the check, though Arrow gives no column of a name that is there twice."""
    columns = [pa.array(ids(0, 3)), pa.array([1.0] * 3, pa.float32()), pa.array(map(volume_of, ids(0, 3)))]
    table = pa.Table.from_arrays([*columns, pa.array("abc")][: len(names.split())], names.split())
    pq.write_table(table, sink := io.BytesIO(), use_dictionary=False, compression="NONE", write_page_checksum=True)
    data = bytearray(sink.getvalue())
    data[data.index(volume_of("vol-00000"))] ^= is_damaged
    assert _check(bytes(data), 3) == FileCheck((problem,), ((0, 3),))


def test_the_checksum_is_gzips() -> None:
    assert crc32(b"123456789") == 0xCBF43926


@pytest.mark.parametrize("large", [False, True])
def test_a_compaction_copies_no_damage(tmp_path: Path, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr("nodes.volume_file.join._SMALL", 0)
    path = tmp_path / "a.parquet"
    _write(path)
    metadata = pq.read_metadata(path)
    data = bytearray(path.read_bytes())
    data[data.find(volume_of(ids(20, 1)[0])) + 50] ^= 32
    path.write_bytes(data)
    empty = template(schema(SPEC), writer_options())
    with pytest.raises(DataError, match=r"a\.parquet: the page does not match its checksum, in the column volume"):
        join([(path, metadata)], tmp_path / "out.parquet", empty, 64, lambda _: None, SPEC.volume_bytes)


def test_a_compaction_counts_what_has_no_checksum(tmp_path: Path) -> None:
    volumes = some_volumes(9, (4, 3, 2))
    for name, checksum in (("a", False), ("b", True)):
        path = tmp_path / f"{name}.parquet"
        write_file(path, volumes, labels_for(volumes), write_page_checksum=checksum)
    files = [(p, pq.read_metadata(p)) for p in sorted(tmp_path.glob("*.parquet"))]
    empty = template(schema(SPEC), writer_options())
    assert join(files, tmp_path / "out", empty, 64, lambda _: None, 96) == 9
