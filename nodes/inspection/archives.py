"""Zip archives by their own checksums: files of models, and the cells that petastorm's CompressedNdarrayCodec writes.

Each member of an archive has a CRC-32 of its unpacked bytes. They are unpacked a megabyte at a time and thrown away:
no array is made of them, and no pickle loaded.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.text import safe
from nodes.foreign_tables.cells import can_hold_arrays, is_bytes

_START, _END = b"PK\x03\x04", b"PK\x05\x06"
_END_BYTES = 22
"""Of the record at an archive's end, which has no comment where NumPy writes it."""
_READ_BYTES = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What NumPy and Keras write, and what `zipfile` unpacks in bounded memory."""
_IS_ENCRYPTED = 1
_LOCAL = struct.Struct("<4s3H")
"""The first fields of a member's own header: the signature, the version needed, the flags, the method."""
_NAMED = 3
_UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, IndexError, OverflowError, MemoryError,
    RuntimeError,  # also NotImplementedError, of a method or a version that is not known
    struct.error, zlib.error,
)  # fmt: skip
"""What `zipfile` raises for flipped bits, beside its own error."""


def archive_problem(file: Any) -> str | None:
    """What is wrong with an archive, a path or a file object that can be sought in; "" when all of it is as written.

    None for one of which nothing can be compared: it is empty, encrypted, or packed by another method than NumPy's.
    Memory: 1 MB and the list of members. Raises `OSError` with its number when the file cannot be read.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if not members or any(_is_of_other_program(archive, member) for member in members):
                return None
            for member in members:
                count = 0
                with archive.open(member) as data:
                    while read := len(data.read(_READ_BYTES)):
                        count += read
                if count != member.file_size:
                    return f"{safe(member.filename)} in it has {count:,} bytes, not {member.file_size:,}"
    except zipfile.BadZipFile as exc:
        if "Bad CRC-32" in str(exc):
            return f"{safe(member.filename)} in it does not match its checksum"
        return _unreadable(exc)
    except _UNREADABLE as exc:
        if isinstance(exc, OSError) and exc.errno:
            raise
        return _unreadable(exc)
    return ""


def _is_of_other_program(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    """Whether a member cannot be unpacked here by intent: a flipped bit changes one of its two headers only."""
    if member.compress_type in _METHODS and not member.flag_bits & _IS_ENCRYPTED:
        return False
    file: Any = archive.fp
    file.seek(member.header_offset)
    _, _, flags, method = _LOCAL.unpack(file.read(_LOCAL.size))
    return bool((method, flags & _IS_ENCRYPTED) == (member.compress_type, member.flag_bits & _IS_ENCRYPTED))


def _unreadable(exc: Exception) -> str:
    said = " ".join(str(exc).split()).rstrip(".") or type(exc).__name__
    return f"it cannot be read ({said})"


@dataclass
class ArchiveCells:
    """Compares the archives in the cells of one file, whose batches come in their order.

    `problems` names the first few that are damaged, `rows` are half-open ranges of all their rows. `compared` counts
    archives that are as written, `covered` the rows in which every array is such an archive.
    """

    problems: list[str] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)
    compared: int = 0
    covered: int = 0
    damaged: int = 0

    def feed(self, batch: pa.RecordBatch, group: int, first: int) -> None:
        """Compare a batch of the row group `group`, whose first row is the file's row `first`."""
        matches, others, broken = (np.zeros(batch.num_rows, bool) for _ in range(3))
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            if not can_hold_arrays(kind):
                continue
            if not is_bytes(kind):
                others |= column.is_valid().to_numpy(zero_copy_only=False)
                continue
            cells = column.dictionary_decode() if kind != column.type else column
            self._compare(cells, f"column {name}, row group {group}", first, (matches, others, broken))
        for row in np.flatnonzero(broken).tolist():
            self._lose(first + row)
        self.covered += int((matches & ~others & ~broken).sum())

    def _compare(self, cells: pa.Array, where: str, first: int, found: tuple[NDArray[np.bool_], ...]) -> None:
        matches, others, broken = found
        for row, cell in enumerate(cells):
            if not cell.is_valid:
                continue
            data = cell.as_buffer()
            problem = archive_problem(pa.BufferReader(data)) if _is_archive(data) else None
            if problem is None:
                others[row] = True
            elif problem:
                broken[row] = True
                if len(self.problems) < _NAMED:
                    self.problems.append(f"the archive in row {first + row} ({where}): {problem}")
            else:
                matches[row] = True
                self.compared += 1

    def _lose(self, row: int) -> None:
        self.damaged += 1
        if self.rows and self.rows[-1][1] == row:
            self.rows[-1] = (self.rows[-1][0], row + 1)
        else:
            self.rows.append((row, row + 1))


def _is_archive(data: pa.Buffer) -> bool:
    """Whether the bytes begin or end as a zip archive: one flipped bit changes only one of these."""
    view = memoryview(data)
    return bytes(view[: len(_START)]) == _START or bytes(view[-_END_BYTES:][: len(_END)]) == _END
