"""Data after a header, plain or compressed: read to the byte that the header promises and not further."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable
from typing import IO, Any, Protocol

import numpy as np
from isal import igzip
from numpy.typing import NDArray

from nodes.conversion.quarantine import Refused

MAX_RATIO = 1100
"""More than deflate can compress: 1,032 to 1."""
_BUFFER = 1 << 20
_SLACK = 1 << 16


class Stream(Protocol):
    """Where bytes come from, one after the other."""

    def readinto(self, buffer: memoryview, /) -> int | None: ...


def gzip_stream(file: IO[bytes]) -> Stream:
    """The content of a gzip file; its checksum is compared when it is read to its end."""
    opened: Any = igzip.IGzipFile
    found: Stream = opened(fileobj=file, mode="rb")
    return found


def zlib_stream(file: IO[bytes]) -> Stream:
    """The content of zlib's own format, or of gzip's."""
    return _Inflated(file, zlib.decompressobj(zlib.MAX_WBITS | 32))


def bzip2_stream(file: IO[bytes]) -> Stream:
    """The content of a bzip2 file."""
    return bz2.BZ2File(file)


class _Inflated:
    """`decompressobj` as a stream: no more is decompressed than is asked for."""

    def __init__(self, file: IO[bytes], decompressor: Any) -> None:
        self._file, self._decompressor = file, decompressor

    def readinto(self, buffer: memoryview, /) -> int:
        while True:
            tail = self._decompressor.unconsumed_tail
            data = tail or (b"" if self._decompressor.eof else self._file.read(_SLACK))
            if not data:
                return 0
            out = self._decompressor.decompress(data, len(buffer))
            if out:
                buffer[: len(out)] = out
                return len(out)


def refuse_impossible(promised: int, held: int, *, compressed: bool) -> None:
    """Raise `Refused` when a header promises more data than `held` bytes of the file can be."""
    if promised > held * (MAX_RATIO if compressed else 1):
        what = "bytes of compressed data" if compressed else "bytes of data"
        raise Refused("truncated", f"has {held} {what}, its header promises {promised} bytes")


def skip(stream: Stream, count: int) -> None:
    """Go on by so many bytes. Raises `Refused` when the file ends before."""
    buffer = memoryview(bytearray(min(count, _BUFFER)))
    while count:
        got = stream.readinto(buffer[:count])
        if not got:
            raise Refused("truncated", "ends within its header")
        count -= got


def read_exactly(stream: Stream, count: int) -> NDArray[np.uint8]:
    """The next `count` bytes. Raises `Refused` when the file ends before."""
    out = np.empty(count, np.uint8)
    view, place = out.data, 0
    while place < count:
        got = stream.readinto(view[place : place + _BUFFER])
        if not got:
            raise Refused("truncated", f"ends after {place} of {count} bytes of data")
        place += got
    return out


def refuse_more(stream: Stream) -> None:
    """Read to the end, which compares a compressed file's checksum. Raises `Refused` when that is not near."""
    buffer, left = memoryview(bytearray(_SLACK)), _SLACK
    while got := stream.readinto(buffer):
        left -= got
        if left <= 0:
            raise Refused("too-long", "goes on after the data that its header promises")


def filler(
    read: Callable[[], NDArray[Any]], slope: float = 1.0, intercept: float = 0.0
) -> Callable[[NDArray[Any]], None]:
    """A `fill` that puts what `read` gives into the array, scaled in float64 where there is something to scale."""

    def fill(out: NDArray[Any]) -> None:
        if (slope, intercept) == (1.0, 0.0):
            out[...] = read()
            return
        np.multiply(read(), np.float64(slope), out=out, casting="unsafe")
        np.add(out, np.float64(intercept), out=out, casting="unsafe")

    return fill
