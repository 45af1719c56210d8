"""Reading `.npy` files: headers without trust, volumes without copies.

A header is parsed as a Python literal, nothing in a file is ever executed, and no size that a header
claims is believed before it agrees with the size of the file.
"""

from __future__ import annotations

import ast
import errno
import hashlib
import math
import os
import re
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from engine.declare.datasets import DTYPES, VolumeSpec
from engine.storage.io_errors import OUT_OF_RESOURCES
from engine.storage.links import why_unusable
from engine.text import plural
from nodes.conversion.columns import NO_COLUMNS
from nodes.conversion.quarantine import Refused
from nodes.conversion.source_hash import SOURCE_HASH
from nodes.transforms.steps import ORIENTATION

MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 10_000
"""NumPy's own limit: a longer literal can exhaust the parser."""
_MAX_AXES = 64
"""NumPy's own limit."""
_MAX_LENGTH = 2**63 - 1
"""The largest size that a file system or an array can have."""
HASHED = pa.schema([(SOURCE_HASH, pa.string())])
Bytes = bytes | NDArray[np.uint8]
SAMPLE = 256
"""Headers that decide a dataset's shape and dtype: enough that a few bad files cannot win."""


@dataclass(frozen=True)
class Header:
    """What a `.npy` header says. `offset` is where the data starts, in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    offset: int

    @property
    def file_bytes(self) -> int:
        """The size of a whole file with this header."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_plain(self) -> bool:
        """C order and little-endian: the data is the volume's bytes as a table keeps them."""
        order = self.dtype.newbyteorder("<")
        return self.dtype == order and not (self.fortran_order and sum(n > 1 for n in self.shape) > 1)


class ListedFile(Protocol):
    """A file as it was listed."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...


class VolumeReader:
    """Reads files of one `spec` into rows of a buffer; one reader per thread.

    Measured side by side, `readv` of header and data straight into the buffer reads five times as
    many files a second as `np.load`, and more than `cat`.
    """

    def __init__(self, root: str, spec: VolumeSpec, *, finite: bool, hashes: bool = False) -> None:
        """`root` is the source folder; with `finite`, volumes with a NaN or an infinity are refused.

        A `.npy` file says nothing of its volume besides; with `hashes` the column `source_sha256` is that of its bytes.
        """
        self._root = root
        self.columns = HASHED if hashes else NO_COLUMNS
        self._hashes = hashes
        self._spec = spec
        self._bytes = spec.volume_bytes
        self._dtype = np.dtype(spec.dtype).newbyteorder("<")
        self._mask = finite_mask(spec) if finite else None
        # Files of one dataset nearly always have the very same header: it is compared, not parsed.
        self._known = b""
        self._head = bytearray()

    def expect(self, files: Iterable[ListedFile]) -> None:
        """Announce the files that will be read next, in their order. The system reads ahead by itself."""

    def read(self, path: str, size: int, mtime_ns: int, row: NDArray[np.uint8]) -> tuple[str, ...]:
        """Fill `row` (1-D, `spec.volume_bytes`) with the volume at `path`, C order, little-endian.

        Gives the values of `columns`. `size` and `mtime_ns` are those of the listing. Raises `Refused`.
        """
        handle, found = _open(self._root, path)
        try:
            if found.st_size != size or found.st_mtime_ns != mtime_ns:
                raise Refused("changed-during-run", "has changed since the folder was listed")
            if self._read_known(handle, row, size):
                parts: Sequence[Bytes] = (self._known, row)
            else:
                parts = self._read_any(handle, row, size)
        except OSError as exc:
            raise _unreadable(exc, "read") from exc
        finally:
            os.close(handle)
        if self._mask is not None:
            refuse_not_finite(row.view(self._dtype), self._mask)
        return (sha256(*parts),) if self._hashes else ()

    def _read_known(self, handle: int, row: NDArray[np.uint8], size: int) -> bool:
        if not self._known or size != len(self._known) + self._bytes:
            return False
        return os.readv(handle, (self._head, row.data)) == size and self._head == self._known

    def _read_any(self, handle: int, row: NDArray[np.uint8], size: int) -> tuple[Bytes, Bytes]:
        """Gives all that the file holds: its header and its data."""
        header = read_header(handle, size)
        refuse_other(header, size, self._spec)
        head = os.pread(handle, header.offset, 0)
        if header.is_plain:
            read_fully(handle, header.offset, row)
            self._known, self._head = head, bytearray(len(head))
            return head, row
        data = np.empty(self._bytes, np.uint8)
        read_fully(handle, header.offset, data)
        turn(header, data, row.view(self._dtype))
        return head, data


@dataclass
class HeaderSample:
    """What the headers of some files say; `largest_bytes` is the largest volume before its transforms.

    `remarks` and `summaries` are those of `VolumeHeader`, with the file's name before. `orientations` counts where the
    axes of the volumes point to, of those that say so.
    """

    looked: int = 0
    largest_bytes: int = 0
    specs: Counter[tuple[tuple[int, ...], str]] = field(default_factory=Counter)
    refused: list[tuple[str, Refused]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)
    orientations: Counter[str] = field(default_factory=Counter)

    def add_orientation(self, known: Mapping[str, Any]) -> None:
        """Count where a volume's axes point to, by the columns that are known of it."""
        if isinstance(letters := known.get(ORIENTATION), str):
            self.orientations[letters] += 1

    @property
    def majority(self) -> VolumeSpec | None:
        """The commonest shape and dtype; among equals that of the first file. None: no file is readable."""
        if not self.specs:
            return None
        (shape, dtype), _ = self.specs.most_common(1)[0]
        return VolumeSpec(shape=shape, dtype=dtype)


def sample_local_headers(root: str, paths: Iterable[str]) -> HeaderSample:
    """See `volume_sources.sample_headers`, for a folder."""
    sample = HeaderSample()
    for path in paths:
        sample.looked += 1
        try:
            header = header_of(root, path)
        except Refused as refused:
            sample.refused.append((path, refused))
        else:
            sample.specs[header.shape, header.dtype.name] += 1
    return sample


def spread(count: int, places: int = SAMPLE) -> list[int]:
    """Up to `places` row numbers, evenly spread over `count` rows: the rows whose headers are sampled."""
    places = min(count, places)
    return [i * count // places for i in range(places)]


def read_local_volume(root: str, path: str, stamp: tuple[int, int] | None) -> tuple[NDArray[Any], tuple[Bytes, Bytes]]:
    """The volume in a file, whatever its shape, and what the file holds: header and data.

    `stamp` has size and mtime_ns of the listing. Raises `Refused`.
    """
    handle, found = _open(root, path)
    try:
        if stamp is not None and (found.st_size, found.st_mtime_ns) != stamp:
            raise Refused("changed-during-run", "has changed since the folder was listed")
        header = read_header(handle, found.st_size)
        refuse_unusable(header, found.st_size)
        data = np.empty(found.st_size - header.offset, np.uint8)
        read_fully(handle, header.offset, data)
        head = os.pread(handle, header.offset, 0)
    except OSError as exc:
        raise _unreadable(exc, "read") from exc
    finally:
        os.close(handle)
    return array_of(header, data), (head, data)


def sha256(*parts: Bytes) -> str:
    """SHA-256 of a file that holds these parts, as `sha256sum` prints it."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.data if isinstance(part, np.ndarray) else part)
    return found.hexdigest()


def array_of(header: Header, data: NDArray[np.uint8]) -> NDArray[Any]:
    """The array that the bytes after a header are."""
    return data.view(header.dtype).reshape(header.shape, order="F" if header.fortran_order else "C")


def header_of(root: str, path: str) -> Header:
    """The header of a file that can be a volume. Raises `Refused`."""
    handle, found = _open(root, path)
    try:
        header = read_header(handle, found.st_size)
    except OSError as exc:
        raise _unreadable(exc, "read") from exc
    finally:
        os.close(handle)
    refuse_unusable(header, found.st_size)
    return header


def read_header(handle: int, size: int) -> Header:
    """The header of an open `.npy` file of `size` bytes. Raises `Refused`."""
    return parse_header(lambda length, offset: os.pread(handle, length, offset), size)


def parse_header(read: Callable[[int, int], bytes], size: int) -> Header:
    """Parse the header of a `.npy` file of `size` bytes (format versions 1, 2 and 3).

    `read` gives so many bytes from an offset on, fewer at the file's end.

    The layout is NEP 1's: magic, two bytes of version, the header's length, a Python literal.
    Raises `Refused`; executes nothing.
    """
    if size == 0:
        raise Refused("empty", "is empty")
    lead = read(12, 0)
    if not lead.startswith(MAGIC):
        if MAGIC.startswith(lead):
            raise Refused("truncated", f"ends after {size} bytes, within its header")
        raise Refused("not-npy", "does not start like a .npy file")
    major, minor = (*lead[6:8], 0, 0)[:2]
    if len(lead) >= 8 and (major not in (1, 2, 3) or minor):
        raise Refused("not-npy", f"has .npy format {major}.{minor}, which is not known")
    start = 10 if major == 1 else 12
    if len(lead) < start:
        raise Refused("truncated", f"ends after {size} bytes, within its header")
    length = int.from_bytes(lead[8:start], "little")
    if start + length > size:
        raise Refused("truncated", f"ends after {size} bytes, within its header")
    if length > MAX_HEADER_BYTES:
        raise Refused("not-npy", f"has a header of {length} bytes, too long for an array of numbers")
    return _parse(read(length, start), start + length)


T = TypeVar("T")
_PARSING = threading.Lock()
_TRIES = 5


def _literal(text: str) -> Any:
    """The Python literal. Threads parse one by one; see `retried`."""

    def parse() -> Any:
        with _PARSING:
            return ast.literal_eval(text)

    return retried(parse)


def retried(parse: Callable[[], T]) -> T:
    """What `parse` gives, which lets Python parse a header, in one of several threads.

    CPython counts how deep its parser is for all threads together. Measured with 3.11: where a thread loses the
    interpreter while it parses, another's literal can fail with SystemError, whatever it says. So it is tried again.
    """
    for _ in range(_TRIES):
        try:
            return parse()
        except SystemError as exc:
            failed = exc
    raise failed


def _parse(literal: bytes, offset: int) -> Header:
    try:
        # Python 2 wrote lengths as 30L.
        fields = _literal(re.sub(r"(?<=\d)L\b", "", literal.decode("utf-8")).strip())
        shape, fortran, descr = fields["shape"], fields["fortran_order"], fields["descr"]
        dtype = npy_format.descr_to_dtype(descr)
        well_formed = (
            len(fields) == 3
            and isinstance(fortran, bool)
            and isinstance(shape, tuple)
            # No array has more axes, nor a longer one; Python would not even print numbers of some thousand digits.
            and len(shape) <= _MAX_AXES
            and all(type(n) is int and 0 <= n <= _MAX_LENGTH for n in shape)
            and dtype.itemsize <= _MAX_LENGTH
        )
    except Exception as exc:  # a hostile literal can raise nearly anything, RecursionError and MemoryError too
        raise Refused("not-npy", "has a broken .npy header") from exc
    if not well_formed:
        raise Refused("not-npy", "has a broken .npy header")
    return Header(shape, dtype, fortran, offset)


def refuse_other(header: Header, size: int, spec: VolumeSpec) -> None:
    """Raise `Refused` when a file of `size` bytes with this header is no volume of `spec`."""
    refuse_unusable(header, size)
    refuse_other_form(header.shape, header.dtype.name, spec)


def refuse_other_form(shape: tuple[int, ...], dtype: str, spec: VolumeSpec) -> None:
    """Raise `Refused` when a volume of this shape and dtype is none of `spec`."""
    if dtype != spec.dtype:
        raise Refused("dtype-differs", f"is {dtype}, the dataset is {spec.dtype}")
    if shape != spec.shape:
        raise Refused("shape", f"is {_times(shape)}, the dataset is {_times(spec.shape)}")


def turn(header: Header, data: NDArray[np.uint8], row: NDArray[Any]) -> None:
    """Put a file's data into `row`, C order: one assignment turns the axes and swaps the bytes."""
    row.reshape(header.shape)[...] = data.view(header.dtype).reshape(
        header.shape, order="F" if header.fortran_order else "C"
    )


def finite_mask(spec: VolumeSpec) -> NDArray[np.bool_] | None:
    """The buffer that `refuse_not_finite` needs; None: all values of this dtype are finite."""
    return np.empty(math.prod(spec.shape), bool) if np.dtype(spec.dtype).kind == "f" else None


def refuse_not_finite(values: NDArray[Any], mask: NDArray[np.bool_]) -> None:
    """Raise `Refused` when a value is NaN or infinite; `mask` is a buffer of as many booleans."""
    np.isfinite(values, out=mask)
    if not mask.all():
        count = mask.size - int(np.count_nonzero(mask))
        raise Refused(
            "not-finite", f"holds {plural(count, 'values')} that {'is' if count == 1 else 'are'} NaN or infinite"
        )


def refuse_unusable(header: Header, size: int) -> None:
    """Raise `Refused` when no dataset could take the file, whatever its shape and dtype."""
    if header.dtype.hasobject:
        raise Refused("pickle", "holds Python objects, which are never unpickled")
    if header.dtype.name not in DTYPES:
        raise Refused("dtype", f"is {header.dtype.name}, which no volume can be")
    if not header.shape or 0 in header.shape:
        raise Refused("shape", f"has no voxels: its shape is {header.shape}")
    if header.file_bytes > _MAX_LENGTH:
        raise Refused("truncated", f"has {size} bytes, its header promises more than any file can hold")
    if size < header.file_bytes:
        raise Refused("truncated", f"has {size} bytes, its header promises {header.file_bytes}")
    if size > header.file_bytes:
        raise Refused("too-long", f"has {size} bytes, longer than the {header.file_bytes} its header says")


def _open(root: str, path: str) -> tuple[int, os.stat_result]:
    try:
        # Not blocking: a named pipe called x.npy would wait for its writer for ever.
        handle = os.open(f"{root}/{path}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as exc:
        # A listing spells bytes that are not UTF-8 as \xNN: such a name cannot be opened, nor be an id.
        if os.path.islink(f"{root}/{path}") and (link := why_unusable(f"{root}/{path}")) is not None:
            raise Refused("unreadable", f"is a link: {link.reason}") from exc
        if exc.errno == errno.ENOENT and "\\x" not in path:
            raise Refused("changed-during-run", "is gone since the folder was listed") from exc
        advice = "; names must be valid UTF-8" if exc.errno == errno.ENOENT else ""
        raise _unreadable(exc, "opened", advice) from exc
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise Refused("unreadable", "is not a regular file")
    return handle, found


def _unreadable(exc: OSError, what: str, advice: str = "") -> OSError | Refused:
    """The file's own fault, or the error itself: a process without handles or memory says nothing about the file."""
    if exc.errno in OUT_OF_RESOURCES or exc.errno == errno.ENOMEM:
        return exc
    return Refused("unreadable", f"cannot be {what}: {exc.strerror}{advice}")


def read_fully(handle: int, offset: int, target: NDArray[np.uint8]) -> None:
    """Fill `target` from `offset` on: one call reads at most 2 GiB, and a signal may cut it short."""
    view = target.data
    while len(view):
        count = os.preadv(handle, [view], offset)
        if count == 0:
            raise Refused("changed-during-run", "got shorter while it was read")
        offset, view = offset + count, view[count:]


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
