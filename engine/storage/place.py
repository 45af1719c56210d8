"""A `Place` is a folder of files, on a local file system or in an object store, with what a table needs of it.

`place_at` gives the one that a path or URL names; for a scheme of its own an installed package makes it, by an entry
point of the group `voxelflow.places`. All implementations keep the laws of `nodes.testing.place`:

* A file appears under its name whole or not at all, and is durable once the call returns (`put_all`: once `flush`
  does).
* `put_if_absent` succeeds for exactly one of several callers. On it rests every decision between writers that share
  no lock; locally there is a lock too (`engine.storage.table_lock`).
* Names are relative, with slashes. What begins with `_` or `.` is hidden from readers of tables.

Callers do not check the class of a place but ask what it supports: `local_folder`, `delta_rs_address` and so on.
A kind that answers none of these has tables all the same: without hard links, locks and reservations.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from engine.errors import StaleInput, UsageError, VoxelflowError
from engine.storage.files import GONE, flush_many, new_file, other_size, size_problem, whole_file
from engine.storage.objects import RemotePath, redact, storage_error
from engine.storage.schemes import SCHEMES, installed_places
from engine.storage.urls import is_url, parse_url

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import pyarrow as pa
    from typing_extensions import Buffer

    from engine.storage.reservation import Reservation

CANNOT_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""Another device, a file system without hard links, or too many links: the bytes are copied instead."""
UPLOADS = 4
"""Files that are uploaded at a time, each in pieces of 8 MB, four of them under way: 128 MB of memory."""
FETCHES = 16
_FEW = 32
_POLL_S = 0.5
_COMPARED = 1 << 20
"""Bytes that are compared at a time."""
_SYNC_FILE_RANGE_WRITE = 2


class NewFile(NamedTuple):
    """A local file of `size` bytes and the name that it gets in a place."""

    source: Path
    name: str
    size: int


class Stat(NamedTuple):
    """A file's size in bytes and its modification time (in an object store: when it was written)."""

    size: int
    mtime_ns: int


class Place(ABC):
    """A folder of files; see the module. `str(place)` is its path or URL."""

    @property
    def local_folder(self) -> Path | None:
        """The folder of the local file system that has these files, under their names; None where there is none.

        With one come hard links, renames, the lock of `engine.storage.table_lock`, and programs that know paths alone.
        Without one writers share no lock: each commit is made by `put_if_absent`.
        """
        return None

    @property
    def folder(self) -> Path:
        """`local_folder`. Raises `UsageError` where there is none."""
        if (found := self.local_folder) is not None:
            return found
        raise UsageError(
            f"the table {self} does not lie in a local folder",
            hint="Give a local folder, or copy the table to one.",
        )

    @property
    def delta_rs_address(self) -> str | None:
        """By which delta-rs opens a table here; None where it cannot, and reads a local copy of the log."""
        return None

    def absolute(self) -> Place:
        """The same place by an absolute address, independent of the current directory and the user."""
        return self

    def resolved(self) -> Place:
        """The same place by the one address that it has in this process, links followed."""
        return self

    def reservation(self, run: str, workspace: Path) -> Reservation | None:
        """The reservation of a table here for the run `run` of `workspace`; None where there is nothing to reserve.

        Without one other runs may write meanwhile: no row is lost or doubled, but tasks may have to plan anew.
        """
        return None

    def error_of(self, exc: OSError) -> Exception:
        """What to raise for an error of delta-rs with this place; `exc` itself where nothing in it is secret."""
        return exc

    @abstractmethod
    def path(self, name: str) -> str:
        """The path or URL by which other programs know the file."""

    @abstractmethod
    def names(self, below: str = "") -> Iterator[str]:
        """Names of the files and folders that lie directly in the folder `below`; none when there is no such folder."""

    @abstractmethod
    def stat(self, name: str) -> Stat | None:
        """The file's size and time; None when there is none. A folder, or what else is no file, has the size -1."""

    @abstractmethod
    def sizes(self) -> Callable[[str], int | None]:
        """A function that gives the bytes of a file by its name, None when there is none.

        Take one for many questions: an object store is listed once, at the first; a local folder is never listed.
        """

    @abstractmethod
    def damaged(self, files: Iterable[tuple[str, int]]) -> Iterator[tuple[int, str]]:
        """Of files with their sizes in bytes those that are gone or differ: position, and what is wrong.

        No byte is read. Measured: 0.27 s for 100,000 local files; an object store is listed once.
        """

    @abstractmethod
    def read(self, name: str) -> Buffer:
        """All bytes of a file; a local one is mapped, not copied. Raises `FileNotFoundError`."""

    @abstractmethod
    def lines(self, name: str) -> Iterator[bytes]:
        """The lines of a file with their ends; a local one is read as they are asked for.

        Raises `FileNotFoundError` at once, not at the first line.
        """

    @abstractmethod
    def open(self, name: str, size: int) -> pa.NativeFile:
        """A file of `size` bytes for random access by Arrow. Raises `FileNotFoundError`."""

    @abstractmethod
    def write(self, name: str, fill: Callable[[pa.NativeFile], None]) -> None:
        """Write a file, or replace it, with what `fill` writes to an output stream."""

    @abstractmethod
    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file if there is none of this name; False, and nothing changed, if there is."""

    @abstractmethod
    def put_all(
        self, files: Iterable[NewFile], mode: Literal["link", "copy"], check: Callable[[], None] = lambda: None
    ) -> Iterator[int]:
        """Put local files here whole; gives the position of each as it is there, in any order.

        What is there with the same size already is taken for the file wanted; another one is replaced. Locally a file
        becomes a hard link (`mode` "link", where the file system has them) or a copy with its modification time;
        in an object store several are uploaded at a time, and `check` is called every half second, for errors that
        end it. Raises `StaleInput` when a source is gone or, where its bytes are sent, has another size.
        """

    @abstractmethod
    def fetch(self, files: Sequence[tuple[str, int]], target: Path) -> None:
        """Copy files with their sizes below the local folder `target`.

        Raises `FileNotFoundError` when one is gone, or has another size.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file; nothing happens when there is none."""

    def flush(self, names: Iterable[str] = ()) -> None:  # noqa: B027 - what an object store answered for is durable
        """Have files that `put_all` put here, and the place itself, durable."""


@dataclass(frozen=True)
class LocalPlace(Place):
    """A folder of the local file system. Files go there by hard link, rename and copy."""

    root: Path

    def __str__(self) -> str:
        return str(self.root)

    @property
    def local_folder(self) -> Path:
        return self.root

    @property
    def delta_rs_address(self) -> str:
        return str(self.root)

    def absolute(self) -> LocalPlace:
        return LocalPlace(self.root.expanduser().absolute())

    def resolved(self) -> LocalPlace:
        return LocalPlace(self.root.expanduser().resolve())

    def reservation(self, run: str, workspace: Path) -> Reservation | None:
        """None for a folder with other files in it: the node refuses it, or makes it a table in place, which only ever
        has these rows. Nothing is left in such a folder."""
        from engine.storage.reservation import lock_in

        return lock_in(self.root, f"run {run} of {workspace}")

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def names(self, below: str = "") -> Iterator[str]:
        try:
            yield from os.listdir(self.root / below)
        except (FileNotFoundError, NotADirectoryError):
            return

    def stat(self, name: str) -> Stat | None:
        try:
            found = os.stat(f"{self.root}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Stat(found.st_size if stat.S_ISREG(found.st_mode) else -1, found.st_mtime_ns)

    def sizes(self) -> Callable[[str], int | None]:
        def size(name: str) -> int | None:
            found = self.stat(name)
            return None if found is None else found.size

        return size

    def damaged(self, files: Iterable[tuple[str, int]]) -> Iterator[tuple[int, str]]:
        # Texts: with one file per volume, making each path an object takes longer than looking at the file (0.7 s).
        folder = f"{self.root}/"
        for number, (name, size) in enumerate(files):
            if problem := size_problem(folder + name, size):
                yield number, problem

    def read(self, name: str) -> Buffer:
        with (self.root / name).open("rb") as file:
            empty = not os.fstat(file.fileno()).st_size
            return b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def lines(self, name: str) -> Iterator[bytes]:
        file = (self.root / name).open("rb")

        def read() -> Iterator[bytes]:
            with file:
                yield from file

        lines = read()
        # Start the generator: closing it then closes the file even if no line was read.
        first = next(lines, None)
        return chain((first,), lines) if first is not None else iter(())

    def open(self, name: str, size: int) -> pa.NativeFile:
        import pyarrow as pa

        return pa.memory_map(f"{self.root}/{name}")

    def write(self, name: str, fill: Callable[[pa.NativeFile], None]) -> None:
        import pyarrow as pa

        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, durable=True) as temporary, pa.OSFile(str(temporary), "wb") as sink:
            fill(sink)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with new_file(path) as temporary:
                temporary.write_bytes(data)
        except FileExistsError:
            return False
        return True

    def put_all(
        self, files: Iterable[NewFile], mode: Literal["link", "copy"], check: Callable[[], None] = lambda: None
    ) -> Iterator[int]:
        for number, (source, name, _) in enumerate(files):
            try:
                link_or_copy(source, self.root / name, mode)
            except FileNotFoundError as exc:
                target = self.root / name
                if not source.exists():
                    raise _gone(source) from exc
                target.parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(source, target, mode)
            yield number

    def fetch(self, files: Sequence[tuple[str, int]], target: Path) -> None:
        for name, size in files:
            if problem := size_problem(self.root / name, size):
                raise FileNotFoundError(f"{self.root / name} {problem}")
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(self.root / name, target / name, "copy")

    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def flush(self, names: Iterable[str] = ()) -> None:
        flush_many(chain((self.root / name for name in names), [self.root]))


@dataclass(frozen=True)
class RemotePlace(Place):
    """A folder in an object store. What was written is durable; there are no locks, so writers use put-if-absent."""

    root: RemotePath

    def __str__(self) -> str:
        return str(self.root)

    @property
    def delta_rs_address(self) -> str:
        return str(self.root)

    def reservation(self, run: str, workspace: Path) -> Reservation:
        from engine.storage.reservation import lease_in

        # Not the workspace: the path of somebody's folder is nothing that a shared table should contain.
        return lease_in(self.root, f"run {run}")

    def error_of(self, exc: OSError) -> Exception:
        return storage_error(self.root.url, exc)

    def path(self, name: str) -> str:
        return str(self.root / name)

    def names(self, below: str = "") -> Iterator[str]:
        last = ""
        for found in (self.root / below if below else self.root).walk():
            name = found.path.partition("/")[0]
            if name != last:
                yield name
            last = name

    def stat(self, name: str) -> Stat | None:
        try:
            found = (self.root / name).stat()
        except FileNotFoundError:
            return None
        return Stat(found.size, found.mtime_ns)

    def sizes(self) -> Callable[[str], int | None]:
        @cache
        def listed() -> dict[str, int]:
            return {found.path: found.size for found in self.root.walk()}

        return lambda name: listed().get(name)

    def damaged(self, files: Iterable[tuple[str, int]]) -> Iterator[tuple[int, str]]:
        sizes = self.sizes()
        for number, (name, wanted) in enumerate(files):
            if (size := sizes(name)) != wanted:
                yield number, GONE if size is None else other_size(size, wanted)

    def read(self, name: str) -> Buffer:
        return (self.root / name).read()[0]

    def lines(self, name: str) -> Iterator[bytes]:
        return iter(bytes(self.read(name)).splitlines(keepends=True))

    def open(self, name: str, size: int) -> pa.NativeFile:
        import pyarrow as pa

        from engine.storage.ranged_file import RangedFile

        return pa.PythonFile(RangedFile(self.root / name, size), mode="r")

    def write(self, name: str, fill: Callable[[pa.NativeFile], None]) -> None:
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        fill(sink)
        (self.root / name).write_bytes(sink.getvalue().to_pybytes())

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return (self.root / name).create(data)

    def put_all(
        self, files: Iterable[NewFile], mode: Literal["link", "copy"], check: Callable[[], None] = lambda: None
    ) -> Iterator[int]:
        files = list(files)

        def one(name: str) -> int | None:
            found = self.stat(name)
            return None if found is None else found.size

        # One listing for many, which may list many others; else a question for each.
        sizes = self.sizes() if len(files) > _FEW else one

        def upload(number: int) -> int:
            source, name, size = files[number]
            try:
                if (found := source.stat().st_size) != size:
                    raise StaleInput(
                        f"{source} is not the file it was: {found} bytes, not {size}", hint="Run it again."
                    )
                if sizes(name) != size:
                    (self.root / name).upload(source)
            except FileNotFoundError as exc:
                raise _gone(source) from exc
            return number

        waiting = iter(range(len(files)))
        with ThreadPoolExecutor(UPLOADS, thread_name_prefix="upload") as pool:
            under_way: set[Future[int]] = {pool.submit(upload, number) for number in islice(waiting, UPLOADS)}
            try:
                while under_way:
                    done, under_way = wait(under_way, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                    check()
                    for future in done:
                        yield future.result()
                        under_way |= {pool.submit(upload, number) for number in islice(waiting, 1)}
            finally:
                pool.shutdown(cancel_futures=True)

    def fetch(self, files: Sequence[tuple[str, int]], target: Path) -> None:
        def fetch(file: tuple[str, int]) -> None:
            name, size = file
            data, found = (self.root / name).read()
            if found.size != size:
                raise FileNotFoundError(f"{self.path(name)} {other_size(found.size, size)}")
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(data)

        with ThreadPoolExecutor(FETCHES, thread_name_prefix="fetch") as pool:
            try:
                for _ in pool.map(fetch, files):
                    pass
            finally:
                pool.shutdown(cancel_futures=True)

    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)


def place_at(where: str | Path | RemotePath | Place) -> Place:
    """The place that a path, a `file://` URI or a storage URL names.

    Raises `UsageError` for other URLs, and where the package that has the scheme cannot make a place of it.
    """
    if isinstance(where, Place):
        return where
    if isinstance(where, RemotePath):
        return RemotePlace(where)
    if is_url(where):
        url = parse_url(str(where))
        entry = None if url.scheme in SCHEMES else installed_places(url.scheme)
        return RemotePlace(RemotePath(url)) if entry is None else _made_by(entry, str(url))
    parts = urlsplit(str(where))
    return LocalPlace(Path(unquote(parts.path) if parts.scheme == "file" else where))


def _made_by(entry: EntryPoint, url: str) -> Place:
    """The place that an installed package makes of a URL. Raises `UsageError` where it cannot."""
    try:
        found = entry.load()(url)
    except VoxelflowError:
        raise
    except Exception as exc:  # a package of someone else may raise anything
        why = redact(f"{type(exc).__name__}: {exc}")
    else:
        if isinstance(found, Place):
            return found
        why = f"it gave no Place but a {type(found).__name__}"
    package = f"the package {entry.dist.name}" if entry.dist else entry.value
    raise UsageError(
        f"{package} cannot open {url}: {why}", hint="Update, correct or remove the package, or use another place."
    )


def link_or_copy(source: Path, target: Path, mode: Literal["link", "copy"]) -> bool:
    """Make `target` a hard link to `source`, or a copy of it; it appears whole or not at all.

    Returns True when bytes were copied. A link that the file system refuses becomes a copy. A file at `target` with
    the same content stays, and any file does when `source` is gone; another one is replaced. Its size proves nothing:
    after a power cut a copy that was not flushed may have its size and hold zeros.
    """
    if _stays(target, source):
        return False
    if mode == "link":
        try:
            if os.path.lexists(target):
                with whole_file(target, durable=False) as temporary:
                    os.link(source, temporary)
            else:
                os.link(source, target)
            return False
        except OSError as exc:
            if exc.errno not in CANNOT_LINK:
                raise
    # Not flushed here: many files are flushed together, before a commit names them.
    with whole_file(target, durable=False) as temporary:
        # The modification time is kept: it is in the table's log.
        shutil.copy2(source, temporary)
    return True


def start_writing(handle: int, offset: int, length: int) -> None:
    """Have the system begin to write these bytes of an open file to the disk, without waiting; a hint, no promise.

    The disk then works while the file grows, instead of when `flush` waits for it: measured with files of 78 MB,
    three quarters of that wait are saved.
    """
    if (call := _sync_file_range()) is not None:
        call(handle, offset, length, _SYNC_FILE_RANGE_WRITE)


def will_read(path: Path) -> None:
    """Have the system begin to read the file from the disk, without waiting; a hint, no promise."""
    if not hasattr(os, "posix_fadvise"):
        return
    with contextlib.suppress(OSError):  # the reader will report what is wrong
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(handle)


@cache
def _sync_file_range() -> Callable[..., int] | None:
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call


def _gone(source: Path) -> StaleInput:
    return StaleInput(f"{source} is gone", hint="Run the node that made it again.")


def _stays(target: Path, source: Path) -> bool:
    """Whether a file is at `target` that is `source`, or has its content, or whose source is gone."""
    try:
        there = target.stat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(there.st_mode):
        return False
    try:
        wanted = source.stat()
    except FileNotFoundError:
        return True
    if os.path.samestat(there, wanted):
        return True
    if there.st_size != wanted.st_size:
        return False
    with source.open("rb") as one, target.open("rb") as other:
        while data := one.read(_COMPARED):
            if other.read(_COMPARED) != data:
                return False
    return True
