"""Arrow files with a checksum: every change of a byte is noticed, and every other reader of Arrow opens them."""

from __future__ import annotations

import io
import struct

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.storage import arrow_file

TABLE = pa.table({"path": [f"{n}.npy" for n in range(300)], "size": range(300)}).replace_schema_metadata({"a": "b"})


def written(table: pa.Table, rows: int = 100) -> bytes:
    sink = io.BytesIO()
    with arrow_file.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def read(data: bytes) -> pa.Table:
    return arrow_file.read_table(pa.py_buffer(data))


WHOLE = written(TABLE)


@pytest.mark.parametrize("table", [TABLE, TABLE.slice(0, 0), TABLE.replace_schema_metadata()])
def test_what_was_written_is_read(table: pa.Table) -> None:
    data = written(table)
    assert arrow_file.check(memoryview(data))
    assert read(data).equals(table, check_metadata=True)
    assert pa.ipc.open_file(io.BytesIO(data)).read_all().equals(table)


@example(WHOLE.index(b"VXFCRC32"), 1)
@example(WHOLE.index(b"VXFCRC32") + 15, 1)
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_noticed(at: int, change: int) -> None:
    data = bytearray(WHOLE)
    data[at] ^= change
    with pytest.raises(ValueError, match=r"."):
        read(bytes(data))


@example(WHOLE.index(b"VXFCRC32") - 50, 600)
@given(st.integers(0, len(WHOLE)), st.integers(1, 600))
def test_a_block_of_zeros_is_noticed(at: int, size: int) -> None:
    data = bytearray(WHOLE)
    data[at : at + size] = bytes(len(data[at : at + size]))
    if bytes(data) != WHOLE:
        with pytest.raises(ValueError, match=r"."):
            read(bytes(data))


@given(st.integers(0, len(WHOLE) - 1))
def test_a_file_cut_short_is_noticed(size: int) -> None:
    with pytest.raises(ValueError, match=r"cut short|no Arrow file"):
        arrow_file.check(memoryview(WHOLE[:size]))


def test_a_file_of_an_earlier_version_is_read_unchecked() -> None:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    assert not arrow_file.check(memoryview(sink.getvalue()))
    assert read(sink.getvalue()).equals(TABLE, check_metadata=True)


def test_the_footer_is_where_readers_want_it() -> None:
    (size,) = struct.unpack("<i", WHOLE[-10:-6])
    assert (len(WHOLE) - 10 - size) % 8 == 0
