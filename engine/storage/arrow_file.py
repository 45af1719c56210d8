"""Arrow IPC files that carry a checksum of their bytes, so that a listing or a ledger that rotted is not believed.

The file stays one that every reader of Arrow opens. Its last part, the footer, says where the rest lies; the bytes
before the footer are free (https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format), and 16 of them hold

    VXFCRC32    CRC-32 of all other bytes (64 bits, little endian)

The schema says that they are there: a file whose mark was overwritten is damaged, one of an earlier version is not.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from engine.storage.checksum import crc32

if TYPE_CHECKING:
    import pyarrow as pa

_MAGIC = b"ARROW1"
_END = struct.Struct("<i6s")
"""The last bytes: length of the footer, magic."""
_MARK = b"VXFCRC32"
_CHECKSUM = struct.Struct("<8sQ")
_KEY, _VALUE = b"voxelflow.checksum", b"crc32"


@contextmanager
def new_file(sink: Any, schema: pa.Schema) -> Iterator[pa.RecordBatchFileWriter]:
    """A writer of batches into `sink`, which has `write`. The file is whole when the context ends without an error."""
    import pyarrow as pa

    sealed = _Sealed(sink)
    marked = schema.with_metadata({**(schema.metadata or {}), _KEY: _VALUE})
    with pa.PythonFile(sealed, mode="w") as file:
        writer = pa.ipc.new_file(file, marked)
        yield writer
        sealed.hold()
        writer.close()
    sealed.finish()


def open_file(data: pa.Buffer) -> pa.RecordBatchFileReader:
    """A reader of what `new_file` has written, without a copy. Raises `ValueError` when any byte of it changed."""
    import pyarrow as pa

    is_checked = check(memoryview(data))
    with _damage_named():
        reader = pa.ipc.open_file(pa.BufferReader(data))
    if not is_checked and (reader.schema.metadata or {}).get(_KEY) is not None:
        raise ValueError("its checksum is gone")
    return reader


def read_table(data: pa.Buffer) -> pa.Table:
    """All batches, with the schema that they were written with. Raises `ValueError` as `open_file` does."""
    reader = open_file(data)
    with _damage_named():
        table = reader.read_all()
    metadata = {k: v for k, v in (table.schema.metadata or {}).items() if k != _KEY}
    return table.replace_schema_metadata(metadata or None)


@contextmanager
def _damage_named() -> Iterator[None]:
    """Arrow's errors as `ValueError`: of bytes in memory, an `OSError` too is about what they say."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as exc:
        raise ValueError(f"Arrow cannot read it: {exc}") from exc


def check(data: memoryview) -> bool:
    """Whether the file has a checksum, which is right. Raises `ValueError` when it is wrong or the file was cut short.

    Reads every byte: 50 MB, a listing of 650,000 files, take some milliseconds.
    """
    whole = len(data)
    if whole < len(_MAGIC) + _END.size or bytes(data[: len(_MAGIC)]) != _MAGIC:
        raise ValueError(f"it is no Arrow file ({whole:,} bytes)")
    footer_bytes, magic = _END.unpack(data[whole - _END.size :])
    footer = whole - _END.size - footer_bytes
    if magic != _MAGIC or footer_bytes < 0 or footer < len(_MAGIC):
        raise ValueError(f"it was cut short ({whole:,} bytes)")
    at = footer - _CHECKSUM.size
    if at < 0:
        return False
    mark, wanted = _CHECKSUM.unpack(data[at:footer])
    if mark != _MARK:
        return False
    if crc32(data[footer:], crc32(data[:at])) != wanted:
        raise ValueError("its bytes do not match its checksum")
    return True


class _Sealed(io.RawIOBase):
    """Hands bytes on, and holds back the last ones, which the checksum is put between."""

    def __init__(self, sink: Any) -> None:
        self._sink, self._crc, self._bytes = sink, 0, 0
        self._held: bytearray | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._bytes

    def write(self, data: Any) -> int:
        size = len(data)
        self._bytes += size
        if self._held is not None:
            self._held += data
        else:
            self._crc = crc32(data, self._crc)
            self._sink.write(data)
        return size

    def hold(self) -> None:
        self._held = bytearray()

    def finish(self) -> None:
        held = bytes(self._held or b"")
        footer = len(held) - _END.size - _END.unpack(held[-_END.size :])[0]
        crc = crc32(held, self._crc)
        self._sink.write(held[:footer] + _CHECKSUM.pack(_MARK, crc) + held[footer:])
