"""Local files: writing one so that it appears whole and survives a power cut; whether one still has its size.

A rename alone is not enough. The system may put the new name on the disk before the content; after a power cut the
file is then there and empty. So a durable write flushes the file, renames it, and flushes its folder, which contains
the name. Write durably what a later run trusts because it exists, or what a database row, a commit or another file
names. Caches that are checked when they are read, and notes on progress, need no flush.

Temporary files lie in the folder of the file that is made, with a leading dot and `.partial` at the end.
"""

from __future__ import annotations

import errno
import io
import math
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path

from engine.storage.io_errors import needing

PARTIAL = ".partial"
"""How temporary files end."""

_FEW = 32
_LONGEST = 200
"""Bytes of a name that a temporary name repeats; most file systems allow 255 in all."""
_NO_FLUSH = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Some network file systems cannot flush a folder, and say so: there is nothing more to do then."""
_OF_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""Errors that come without a file's name and are never about a file that is read."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_HERE, _REPLACE_NOTHING = -100, 1
"""Linux' AT_FDCWD and RENAME_NOREPLACE."""
GONE = "is gone"
DANGLING = "it is a link whose target is missing"
"""What git-annex and DVC leave for a file that was not fetched."""
DOCUMENT_BYTES = 64_000_000
"""The largest file that is read whole as a document or as settings: far more than a person or an editor writes."""
_SPECIAL = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def write_whole(path: Path, data: bytes | str, *, durable: bool) -> None:
    """Write the file, text as UTF-8. Whoever reads it meanwhile sees the old content or the new one.

    `durable`: once this returns, a power cut leaves the new content. Raises `OSError` with the file's name; the old
    content is then still there.
    """
    content = data.encode() if isinstance(data, str) else data
    with needing(len(content)), whole_file(path, durable=durable) as temporary:
        temporary.write_bytes(content)


def check_regular(path: Path, limit: int = DOCUMENT_BYTES) -> None:
    """Raise `OSError` unless a regular file of at most `limit` bytes is at `path`, or a link to one. Opens nothing:
    a named pipe would wait for its writer, and a device such as /dev/zero never ends."""
    try:
        found = os.stat(path)
    except FileNotFoundError as exc:
        if path.is_symlink():
            exc.strerror = DANGLING
        raise
    _check_regular(path, found, limit)


def read_document(path: Path, limit: int = DOCUMENT_BYTES) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises `OSError`, at once, with the reason."""
    check_regular(path, limit)
    # Not blocking, and looked at again: another program may have put something else there meanwhile.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        _check_regular(path, os.fstat(file.fileno()), limit)
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(path, limit)
    return data


def read_document_text(path: Path) -> str:
    """The same as text in UTF-8, each line ending in a line feed alone. Raises `OSError`, `UnicodeDecodeError`."""
    return io.TextIOWrapper(io.BytesIO(read_document(path)), encoding="utf-8").read()


def _check_regular(path: Path, found: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _SPECIAL.get(stat.S_IFMT(found.st_mode), "something else")
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(number, f"it is {kind}, not a regular file", str(path))
    if found.st_size > limit:
        raise _too_large(path, limit)


def _too_large(path: Path, limit: int) -> OSError:
    return OSError(
        errno.EINVAL, f"it is larger than {limit // 1_000_000} MB, so it cannot be what is wanted", str(path)
    )


@contextmanager
def whole_file(path: Path, *, durable: bool, ending: str = PARTIAL) -> Iterator[Path]:
    """The same for content that is written piece by piece: yields the path to write to, where nothing is yet.

    The file appears when the block ends without an error. `ending` is for libraries that go by the end of the name.
    """
    temporary = temporary_beside(path, ending)
    try:
        yield temporary
        if durable:
            flush([temporary])
        os.replace(temporary, path)
        if durable:
            flush([path.parent])
    except OSError as exc:
        _name_file(exc, temporary, path)
        raise
    finally:
        # After success too: renaming a link of a file to another link of it does nothing, and leaves both.
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """The same, durably, for a file that never takes the place of another.

    Raises `FileExistsError` when one is there at the end of the block, another `OSError` when it cannot be written, or
    on a file system that has neither hard links nor a rename that replaces nothing.
    """
    temporary = temporary_beside(path)
    try:
        yield temporary
        flush([temporary])
        try:
            os.link(temporary, path)
        except OSError as exc:
            if exc.errno not in _NO_LINKS or not _rename_to_new(temporary, path):
                raise
    except OSError as exc:
        _name_file(exc, temporary, path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    flush([path.parent])


def _rename_to_new(source: Path, target: Path) -> bool:
    """Rename a file to a name that nothing has, as FAT and SMB shares can, which have no hard links; False where the
    system or the file system cannot.

    Raises `FileExistsError` when the name is taken, another `OSError` when it cannot be renamed.
    """
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(source), _HERE, os.fsencode(target), _REPLACE_NOTHING) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_LINKS | {errno.EINVAL}:
        return False
    raise OSError(number, os.strerror(number), str(target))


def temporary_beside(path: Path, ending: str = PARTIAL) -> Path:
    """A hidden name in the folder of `path` that no other call gives: not in this process, nor on another machine."""
    name = path.name if len(os.fsencode(path.name)) <= _LONGEST else ""
    return path.with_name(f".{name}.{os.urandom(4).hex()}{ending}")


def remove_partial(folder: Path, before: float = math.inf) -> None:
    """Remove the temporary files that killed writers left in a folder.

    Nobody may be writing there, or only files younger than `before` (seconds since the epoch).
    """
    for left_over in folder.glob(f"*{PARTIAL}"):
        with suppress(FileNotFoundError):
            if left_over.stat().st_mtime < before:
                left_over.unlink()


def flush(paths: Iterable[Path]) -> None:
    """Have the system write these files or folders to the disk, and wait for it. Raises `OSError` with the name.

    Folders matter too: they contain the files' names.
    """
    for path in paths:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        except OSError as exc:
            if exc.errno not in _NO_FLUSH:
                exc.filename = str(path)
                raise
        finally:
            os.close(handle)


def flush_many(paths: Iterable[Path]) -> None:
    """The same for many paths on one file system, which is then asked once instead of for each of them.

    Every fsync waits for the disk: 10,000 of them took 13 s beside other work, one syncfs 3 ms.
    """
    left = iter(paths)
    first = list(islice(left, _FEW + 1))
    import ctypes  # few need it, and every command imports this module

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if len(first) > _FEW else None
    if syncfs is None:
        flush(chain(first, left))
        return
    handle = os.open(first[0], os.O_RDONLY | os.O_CLOEXEC)
    try:
        if syncfs(handle):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(first[0]))
    finally:
        os.close(handle)


def _name_file(exc: OSError, temporary: Path, path: Path) -> None:
    """Let an error about the temporary file name the file that a person knows."""
    if exc.filename is None and exc.errno in _OF_WRITING:
        exc.filename = str(path)
    elif exc.filename is not None and os.fspath(exc.filename) == str(temporary):
        exc.filename = str(path)
        with suppress(AttributeError):
            del exc.filename2  # a rename's other name; None would be printed


def size_problem(path: str | os.PathLike[str], size: int) -> str:
    """ "" when a file of `size` bytes is at `path`, else what is wrong, to follow the file's name in a sentence."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return GONE
    except OSError as exc:
        return f"cannot be read: {exc.strerror or exc}"
    if not stat.S_ISREG(found.st_mode):
        return "is a folder, not a file" if stat.S_ISDIR(found.st_mode) else "is no regular file"
    return "" if found.st_size == size else other_size(found.st_size, size)


def other_size(found: int, wanted: int) -> str:
    """What is wrong with a file of `found` bytes that should have `wanted`, to follow its name in a sentence."""
    return f"has {found:,} byte{'s' if found != 1 else ''}, not {wanted:,}"
