"""Reading volumes from object storage: each object with one request, many of them in flight at a time.

`.npy` files are read from memory. Libraries of other formats get a local copy (`LocalCopies`), of a file at a time.

What is refused is refused with the words of `npy_files`. A store that cannot be reached refuses no file: the work
stops, and goes on where it was when it is started again.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.declare.datasets import VolumeSpec
from engine.errors import DataError
from engine.storage.objects import Found, RemotePath
from nodes.conversion.columns import NO_COLUMNS
from nodes.conversion.npy_files import (
    HASHED,
    MAX_HEADER_BYTES,
    Header,
    HeaderSample,
    ListedFile,
    finite_mask,
    parse_header,
    refuse_not_finite,
    refuse_other,
    refuse_unusable,
    sha256,
    turn,
)
from nodes.conversion.quarantine import Refused

if TYPE_CHECKING:
    from typing_extensions import Buffer

REQUESTS = 32
"""Objects in flight at a time in this process."""
AHEAD_FILES = 16
AHEAD_BYTES = 32 << 20
"""What one reader asks for before it is wanted: so many objects at most, and one at least, within this memory."""
_AT_ONCE = 64 << 20
"""A larger object is copied in pieces, not held in memory."""
_PIECE = 16 << 20
_SAMPLED_BYTES = 256 << 20
_HEADER = MAX_HEADER_BYTES + 12
_Fetched = tuple["Buffer", Found]


class ReadAhead:
    """Fetches objects below `source` whole, those that were announced before they are wanted."""

    def __init__(self, source: str, volume_bytes: int) -> None:
        self._root = RemotePath.at(source)
        self._ahead = max(1, min(AHEAD_FILES, AHEAD_BYTES // max(1, volume_bytes)))
        self._coming: Iterator[ListedFile] = iter(())
        self._waiting: deque[tuple[str, Future[_Fetched]]] = deque()

    def expect(self, files: Iterable[ListedFile]) -> None:
        """Announce the files that will be read next, in their order: reading begins."""
        for _, future in self._waiting:
            future.cancel()
        self._waiting.clear()
        self._coming = iter(files)

    def fetch(self, path: str, stamp: tuple[int, int] | None) -> NDArray[np.uint8]:
        """The object's bytes; `stamp` has size and mtime_ns of the listing, None: whatever is there now.

        Raises `Refused`, and `DataError` when the store gives no answer.
        """
        while len(self._waiting) < self._ahead and (file := next(self._coming, None)) is not None:
            self._waiting.append((file.path, _pool().submit((self._root / file.path).read)))
        try:
            if self._waiting and self._waiting[0][0] == path:
                data, found = self._waiting.popleft()[1].result()
            else:
                data, found = (self._root / path).read()
        except FileNotFoundError as exc:
            raise Refused("changed-during-run", "is gone since the folder was listed") from exc
        if stamp is not None and (found.size, found.mtime_ns) != stamp:
            raise Refused("changed-during-run", "has changed since the folder was listed")
        return np.frombuffer(memoryview(data), np.uint8)


class LocalCopies:
    """Objects below `source` as local files, each for as long as it is read: what the libraries of formats can open.

    See `formats.reader.VolumeFiles`. The copy lies in the folder for temporary files, under the object's name.
    """

    def __init__(self, source: str, largest_bytes: int) -> None:
        self._root, self._ahead = RemotePath.at(source), ReadAhead(source, largest_bytes)

    def expect(self, files: Iterable[ListedFile]) -> None:
        """Announce the files that will be read next, in their order: reading begins."""
        self._ahead.expect(file for file in files if file.size <= _AT_ONCE)

    @contextmanager
    def at(self, path: str, stamp: tuple[int, int] | None) -> Iterator[Path]:
        """The object's copy; `stamp` has size and mtime_ns of the listing.

        Raises `Refused`, and `DataError` when the store gives no answer.
        """
        with tempfile.TemporaryDirectory(prefix="voxelflow-volume-") as folder:
            place = Path(folder) / path.rpartition("/")[2]
            size = self._size(path) if stamp is None else stamp[0]
            if size > _AT_ONCE:
                self._copy_in_pieces(path, size, stamp, place)
            else:
                place.write_bytes(self._ahead.fetch(path, stamp).data)
            yield place

    def refuse_changed(self, place: Path, stamp: tuple[int, int] | None) -> None:
        """The copy was made of one state of the object."""

    def _size(self, path: str) -> int:
        try:
            return (self._root / path).stat().size
        except FileNotFoundError as exc:
            raise Refused("changed-during-run", "is gone since the folder was listed") from exc

    def _copy_in_pieces(self, path: str, size: int, stamp: tuple[int, int] | None, place: Path) -> None:
        tag = ""
        with place.open("wb") as out:
            for start in range(0, size, _PIECE):
                try:
                    data, found = (self._root / path).read_range(start, min(size, start + _PIECE), tag)
                except FileNotFoundError as exc:
                    raise Refused("changed-during-run", "is gone since the folder was listed") from exc
                if stamp is not None and (found.size, found.mtime_ns) != stamp:
                    raise Refused("changed-during-run", "has changed since the folder was listed")
                out.write(data)
                tag = found.tag


def affordable_copies(source: str, paths: Iterable[str], most_bytes: int | None) -> Iterator[str]:
    """Those objects of a sample that have `most_bytes` together: a look at each takes a copy of all of it.

    None: what a run can afford, and one in any case.
    """
    root, left = RemotePath.at(source), _SAMPLED_BYTES if most_bytes is None else most_bytes
    for number, path in enumerate(paths):
        with contextlib.suppress(FileNotFoundError):
            left -= (root / path).stat().size
        if left < 0 and (number or most_bytes is not None):
            return
        yield path


class RemoteVolumeReader:
    """Reads objects of one `spec` below `source` into rows of a buffer; see `npy_files.VolumeReader`."""

    def __init__(self, source: str, spec: VolumeSpec, *, finite: bool, hashes: bool = False) -> None:
        self.columns, self._hashes = HASHED if hashes else NO_COLUMNS, hashes
        self._files = ReadAhead(source, spec.volume_bytes)
        self._spec = spec
        self._dtype = np.dtype(spec.dtype).newbyteorder("<")
        self._mask = finite_mask(spec) if finite else None

    def expect(self, files: Iterable[ListedFile]) -> None:
        """Announce the files that will be read next, in their order: reading begins."""
        self._files.expect(files)

    def read(self, path: str, size: int, mtime_ns: int, row: NDArray[np.uint8]) -> tuple[str, ...]:
        """Fill `row` with the volume at `path`; see `npy_files.VolumeReader`.

        Raises `Refused`, and `DataError` when the store gives no answer.
        """
        values = self._files.fetch(path, (size, mtime_ns))
        header = header_in(values)
        refuse_other(header, size, self._spec)
        if header.is_plain:
            row[:] = values[header.offset :]
        else:
            turn(header, values[header.offset :], row.view(self._dtype))
        if self._mask is not None:
            refuse_not_finite(row.view(self._dtype), self._mask)
        return (sha256(values),) if self._hashes else ()


def header_in(values: NDArray[np.uint8]) -> Header:
    """The header of a whole object. Raises `Refused`."""
    return parse_header(lambda length, offset: values[offset : offset + length].tobytes(), len(values))


def sample_remote_headers(source: str, paths: Iterable[str]) -> HeaderSample:
    """See `volume_sources.sample_headers`. Raises `DataError` when the store gives no answer."""
    root, sample = RemotePath.at(source), HeaderSample()

    def look(path: str) -> tuple[str, Header | Refused]:
        try:
            return path, remote_header(root / path)
        except Refused as refused:
            return path, refused

    for path, header in _pool().map(look, paths):
        sample.looked += 1
        if isinstance(header, Refused):
            sample.refused.append((path, header))
        else:
            sample.specs[header.shape, header.dtype.name] += 1
    return sample


def remote_header(path: RemotePath) -> Header:
    """The header of an object that can be a volume. Raises `Refused`, `DataError` when the store does not answer."""
    try:
        data, found = path.read_range(0, _HEADER)
    except FileNotFoundError as exc:
        raise Refused("changed-during-run", "is gone since the folder was listed") from exc
    except DataError:
        # Stores have no range of an empty object.
        if path.stat().size:
            raise
        raise Refused("empty", "is empty") from None
    start = bytes(data)
    header = parse_header(lambda length, offset: start[offset : offset + length], found.size)
    refuse_unusable(header, found.size)
    return header


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(REQUESTS, thread_name_prefix="fetch")
