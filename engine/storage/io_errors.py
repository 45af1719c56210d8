"""What a failed read or write means to a person: which file, why, and what to do next.

Python, Arrow, delta-rs, SQLite and HDF5 report a full disk by exceptions of their own, some of them with the system's
error number only in the text. Here all become one sentence. Nothing here opens a file or writes a byte, so that it
works on a full disk and in a process that has no file handles left.
"""

from __future__ import annotations

import errno
import io
import os
import re
import resource
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeGuard

from engine.errors import Cancelled, DiskFull, FileError, VoxelflowError, with_causes
from engine.text import size

if TYPE_CHECKING:
    import sqlite3

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Of a disk without space, and of a user's share of one."""
OUT_OF_RESOURCES = FULL | {errno.EMFILE, errno.ENFILE}
"""Errors that are never a file's own fault: whatever a node concluded from one of them about its data is wrong."""
_NOT_OF_THE_BYTES = OUT_OF_RESOURCES | {errno.ENOMEM, errno.EACCES, errno.EPERM}
"""Errors that say nothing of what is stored. Taken for damage they have whole files set aside."""
_SERIOUS = OUT_OF_RESOURCES | {errno.EFBIG, errno.EROFS, errno.EIO}
"""Errors that count also when cleaning up after them has raised something else."""
NO_SPACE_TO_WRITE = FULL | {errno.EFBIG}
"""Errors that only writing has."""
_OF_WRITES = NO_SPACE_TO_WRITE | {errno.EROFS, errno.EIO}
_NEARLY_NOTHING = 1 << 20
"""With less free than this, SQLite or a log could not be written."""
_READONLY, _IOERR, _SQLITE_FULL, _CANTOPEN = 8, 10, 13, 14
"""Of SQLite (https://sqlite.org/rescode.html), whose module is not imported here: node types are loaded without it."""
_IOERR_SHMSIZE = 4874
"""The index of SQLite's log cannot grow: by SQLite's own list of codes the disk may be full."""
_SQLITE_PATH = 500
"""Bytes. SQLite opens no file whose path, with what it adds for a journal, is longer than 512."""
_OF_SQLITE = {_SQLITE_FULL: errno.ENOSPC, _IOERR: errno.EIO, _READONLY: errno.EROFS}
_NUMBERS = (r"\(os error (\d+)\)", r"(?i:\[errno (\d+)\])", r"\berrno = (\d+)")
_PHRASES = {os.strerror(number): number for number in OUT_OF_RESOURCES | {errno.EROFS}} | {
    "database or disk is full": errno.ENOSPC
}
_FILES = (r"filename = '(/[^']+)'", r"(?:file|dir|directory|at|to|from):? '?(/[^\s':]+)")
_NAMED = "_voxelflow_file"
_SIZED = "_voxelflow_bytes"
_AGAIN = "then `voxelflow runs resume` continues from what is done"


def explain(
    exc: BaseException, folders: Sequence[Path] = (), about_bytes: int | None = None, *, in_run: bool = True
) -> VoxelflowError | None:
    """The error in one sentence if it is about reading or writing files, else None.

    `folders` are those that the work writes to, for an error that names no file; `about_bytes` is the expected size of
    its output; without `in_run` there is no run to resume. An error of ours stays as it is (None), unless it only
    passed on that a disk is full or that there are no file handles left.
    """
    if isinstance(exc, (DiskFull, FileError, Cancelled)):
        return None
    number, cause = _number(exc)
    file = file_of(cause) or file_of(exc)
    folder = _folder(file, folders)
    if _is_of_sqlite(cause):
        number = _behind_sqlite(cause, number, file, folder)
    if number is None:
        return None
    text = getattr(cause, "strerror", None)
    if number == errno.EIO and isinstance(text, str) and os.strerror(number) not in text:
        found: VoxelflowError = FileError(f"{file}: {text}" if file else text, hint=_DAMAGED)  # its reader knows more
    else:
        found = _sentence(number, file, folder, _needed(about_bytes, getattr(cause, _SIZED, None)))
    found.hint = found.hint if in_run else found.hint.replace(_AGAIN, "then try again")
    return found


def remedy(error: BaseException) -> str:
    """What to do about an error whose own message says already what could not be read or written.

    It goes by the system's error number: free space, raise a limit, give access. The sentence is for someone who can
    repeat what they did; there need be no run to resume.
    """
    found = explain(error, in_run=False)
    return found.hint if found is not None else _ELSEWHERE.replace(_AGAIN, "then try again")


@contextmanager
def explained(*folders: Path, in_run: bool = True) -> Iterator[None]:
    """Raise what `explain` makes of an error, where it makes something of it."""
    try:
        yield
    except Exception as exc:
        if (found := explain(exc, folders, in_run=in_run)) is not None:
            raise found from exc
        raise


@contextmanager
def naming(path: Path | str, only: Collection[int] | None = None) -> Iterator[None]:
    """Note the file in errors that do not name one: those of `os.write`, of Arrow's writers, of SQLite.

    With `only`, in errors of these numbers: where one call reads one file and writes another.
    """
    try:
        yield
    except Exception as exc:
        if not isinstance(exc, VoxelflowError) and (only is None or number_of(exc) in only) and file_of(exc) is None:
            # Not `filename`: an `OSError` without a number would then no longer show its text.
            with suppress(AttributeError, TypeError):
                setattr(exc, _NAMED, str(path))
        raise


@contextmanager
def needing(count: int) -> Iterator[None]:
    """Note in the error of a full disk how many bytes the file was to have, as far as no deeper block has noted it."""
    try:
        yield
    except Exception as exc:
        if number_of(exc) in FULL and not hasattr(exc, _SIZED):
            with suppress(AttributeError, TypeError):
                setattr(exc, _SIZED, count)
        raise


def number_of(exc: BaseException) -> int | None:
    """The system's error number behind the error; None when there is none."""
    return _number(exc)[0]


def raise_if_not_damage(exc: Exception) -> None:
    """Raise an error again that says nothing of the stored bytes: handles or memory ran out, or access is not given."""
    if number_of(exc) in _NOT_OF_THE_BYTES:
        raise exc


def file_of(exc: BaseException) -> str | None:
    """The file that the error is about, as far as it can be known."""
    for name in (getattr(exc, attribute, None) for attribute in ("filename2", "filename", _NAMED)):
        if isinstance(name, (str, bytes, os.PathLike)) and name:
            return os.fsdecode(name)
    if isinstance(exc, VoxelflowError):
        return None
    for pattern in _FILES:
        if found := re.search(pattern, str(exc)):
            return found[1].rstrip(".,;")
    return _open_file(exc.__traceback__) if _own_number(exc) in _OF_WRITES else None


def full_disk(*folders: Path) -> DiskFull | None:
    """An error for the first of the folders that has next to nothing free now, else None."""
    for folder in folders:
        free = _free(folder)
        if free is not None and free < _NEARLY_NOTHING:
            return _no_space(None, folder)
    return None


# --- which error it is ------------------------------------------------------------------------


def _number(exc: BaseException) -> tuple[int | None, BaseException]:
    """The error number, and the exception of the chain that has it."""
    wanted = OUT_OF_RESOURCES if isinstance(exc, VoxelflowError) else _SERIOUS
    for link in with_causes(exc):
        if (number := _own_number(link)) in wanted:
            return number, link
    return (None if isinstance(exc, VoxelflowError) else _own_number(exc)), exc


def _own_number(exc: BaseException) -> int | None:
    if isinstance(exc, VoxelflowError):
        return None  # its text may quote anything
    if _is_of_sqlite(exc):
        code = getattr(exc, "sqlite_errorcode", None)  # the lowest byte is the kind of error
        return _OF_SQLITE.get(code & 0xFF) if code is not None else _phrase(str(exc))
    if isinstance(exc, OSError) and exc.errno is not None:
        # The numbers of `ssl` and of the name service mean something else.
        return exc.errno if type(exc).__module__ not in ("ssl", "socket") else None
    if isinstance(exc, (MemoryError, KeyboardInterrupt, SystemExit)):
        return None
    text = str(exc)
    for pattern in _NUMBERS:
        if (found := re.search(pattern, text)) and int(found[1]) in {errno.ENOSPC, *_SENTENCES}:
            return int(found[1])
    return _phrase(text)


def _phrase(text: str) -> int | None:
    return next((number for phrase, number in _PHRASES.items() if phrase in text), None)


def _is_of_sqlite(exc: BaseException) -> TypeGuard[sqlite3.Error]:
    return type(exc).__module__ == "sqlite3"


def _behind_sqlite(exc: sqlite3.Error, number: int | None, file: str | None, folder: Path | None) -> int | None:
    """The likely number behind SQLite's "disk I/O error", "unable to open database file" and "attempt to write a
    readonly database", which hide it."""
    code = getattr(exc, "sqlite_errorcode", None) or 0
    if folder is None:
        return number
    if code & 0xFF == _READONLY and file is not None:
        return _behind_read_only(Path(file), folder, code, number)
    if code & 0xFF not in (_IOERR, _CANTOPEN):
        return number
    if code == _IOERR_SHMSIZE:
        return errno.ENOSPC
    if (_free(folder) or 0) < _NEARLY_NOTHING:
        return errno.ENOSPC
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as refused:
        return refused.errno
    if code & 0xFF != _CANTOPEN:
        return number
    if not os.access(folder, os.W_OK | os.X_OK):
        return errno.EACCES
    return errno.EMFILE if file is not None and _can_be_opened(file) else number


def _can_be_opened(file: str) -> bool:
    """Whether the database's file can be opened for writing, and its journal beside it: what was missing when SQLite
    tried was a file handle.

    It is not opened: closing it would drop the locks that SQLite holds for other connections of this process
    (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    if len(os.fsencode(file)) > _SQLITE_PATH or not os.path.isfile(file) or not os.access(file, os.R_OK | os.W_OK):
        return False
    return all(os.path.isfile(side) or not os.path.lexists(side) for side in (f"{file}-journal", f"{file}-wal"))


def _behind_read_only(file: Path, folder: Path, code: int, number: int | None) -> int | None:
    """A file that SQLite cannot open for writing it opens for reading, and complains with the first change.

    Of the codes with more in them than `_READONLY` one says that the folder may not be written to.
    """
    with suppress(OSError):
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return errno.EROFS
    if file.is_absolute() and os.access(folder, os.X_OK) and not os.path.exists(file):
        return errno.ENOENT
    if not os.access(file, os.W_OK) or not os.access(folder, os.W_OK | os.X_OK):
        return errno.EACCES
    if code != _READONLY:
        return number
    # It may be written: what was missing for a moment was a file handle.
    return errno.EMFILE


def _open_file(traceback: TracebackType | None) -> str | None:
    """The file that was being written: the innermost one that a function on the way of the error had open.

    An error of `file.write` does not name the file, and by now the file is closed; but its object still has the name.
    """
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    for frame in reversed(frames):
        for value in frame.f_locals.values():
            name = None
            if isinstance(value, io.IOBase):
                mode = str(getattr(value, "mode", ""))
                name = getattr(value, "name", None) if set("wax+") & set(mode) else None
            elif isinstance(value, zipfile.ZipFile):
                name = value.filename
            elif type(value).__module__.startswith("pyarrow."):
                name = getattr(value, "where", None)  # of a ParquetWriter
                name = str(name) if isinstance(name, Path) else name
            if isinstance(name, (str, bytes)):
                return os.fsdecode(name)
    return None


# --- where ------------------------------------------------------------------------------------


def _folder(file: str | None, folders: Sequence[Path]) -> Path | None:
    """The folder of the file; without a file, that of `folders` which has the least space."""
    if file is not None and os.path.isabs(file):
        return _existing(Path(file).parent)
    known = [(free, folder) for folder in map(_existing, folders) if (free := _free(folder)) is not None]
    return min(known)[1] if known else None


def _existing(folder: Path) -> Path:
    return next((place for place in (folder, *folder.parents) if place.exists()), folder)


def _free(folder: Path) -> int | None:
    """Bytes that this user may still write there."""
    with suppress(OSError):
        found = os.statvfs(_existing(folder))
        return found.f_bavail * found.f_frsize
    return None


def _has_no_inodes(folder: Path) -> bool:
    with suppress(OSError):
        found = os.statvfs(folder)
        return bool(found.f_files) and found.f_favail == 0
    return False


# --- the sentences ----------------------------------------------------------------------------


def no_space(folder: Path, what: str, hint: str, file: str | None = None) -> DiskFull:
    """The error of a full disk for work that knows what it was about to write: `what` is "a checkpoint of 1.0 MB"."""
    return _no_space(file, folder, "", what, hint)


def _needed(about_bytes: int | None, own_bytes: int | None) -> str:
    """How much space is missing: for all that the node makes where that is known, else for the file."""
    if about_bytes:
        return f"about {size(about_bytes)} needed for the node's output"
    return f"{size(own_bytes)} needed for it" if own_bytes else ""


def _no_space(file: str | None, folder: Path | None, needed: str = "", what: str = "", hint: str = "") -> DiskFull:
    where = str(folder) if folder is not None else "a disk that was written to"
    said = [f"{_beside(file, folder)} could not be written"] if file else []
    if folder is not None and _has_no_inodes(folder):
        said.append("the file system takes no further files (it has no free inodes)")
    else:
        if what:
            said.append(f"{what} does not fit")
        if needed:
            said.append(needed)
        if folder is not None and (free := _free(folder)) is not None:
            said.append(f"{size(free)} free now")
    message = f"no space left on {where}" + (f": {', '.join(said)}" if said else "")
    return DiskFull(message, hint=hint or f"Free space there (`voxelflow clean` shows what can go), {_AGAIN}.")


def _sentence(number: int, file: str | None, folder: Path | None, needed: str) -> VoxelflowError:
    """The error of this number with its names and figures."""
    if number == errno.ENOSPC:
        return _no_space(file, folder, needed)
    if number not in _SENTENCES:
        text = os.strerror(number)
        return FileError(f"{file}: {text}" if file else text, hint=_REMEDIES.get(number, _ELSEWHERE))
    kind, message, hint = _SENTENCES[number]
    files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    largest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    values = {
        "file": file or "a file",
        "file_or_folder": file or folder or "a file",
        "folder": folder or "a disk that was written to",
        "not_written": f": {_beside(file, folder)} could not be written" if file else "",
        "needed": f", {needed}" if needed else "",
        "to_open": f" to open {file}" if file else "",
        "files": files,
        "raise_files": _raise_files(files, most_files),
        "size": "its file system allows" if largest == resource.RLIM_INFINITY else f"{size(largest)} (`ulimit -f`)",
        "user": _user() if number in (errno.EACCES, errno.EPERM) else "",
        "again": _AGAIN,
    }
    return kind(message.format_map(values), hint=hint.format_map(values))


def _raise_files(now: int, most: int) -> str:
    """How to be allowed more open files than `now`: `most` without an administrator."""
    wanted = max(4096, 4 * now)
    if most == now:
        return (
            f"Have an administrator raise the hard limit of open files, which is {most},"
            f" and enter `ulimit -n {wanted}` in the shell that starts Voxelflow"
        )
    if most == resource.RLIM_INFINITY or most > wanted:
        most = wanted
    return f"Raise the limit in the shell that starts Voxelflow, as in `ulimit -n {most}`"


def _beside(file: str, folder: Path | None) -> str:
    """The name alone where the sentence names the folder already: paths of results are long."""
    return Path(file).name if Path(file).parent == folder else file


def _user() -> str:
    import getpass

    with suppress(KeyError, OSError, ImportError):  # an account without a name, as in many containers
        return getpass.getuser()
    return str(os.getuid())


_MOVED = f"Check the path and that its disk is mounted, {_AGAIN}."
_BUSY = f"Wait until the drive or the program that holds the file answers, {_AGAIN}."
_ELSEWHERE = f"Check that the file and its folder can be used from here, {_AGAIN}."
_DAMAGED = f"Look at the system's log for errors of the disk or the network drive and repair it, {_AGAIN}."
_REMEDIES: Mapping[int, str] = {
    errno.ENOENT: _MOVED,
    errno.ENOTDIR: _MOVED,
    errno.ESTALE: _MOVED,
    errno.ENODEV: _MOVED,
    errno.ENXIO: _MOVED,
    errno.EISDIR: "Give the path of a file, not of a folder.",
    errno.EEXIST: "Move away what lies there, or choose another name.",
    errno.ENOTEMPTY: "Move away what lies there, or choose another name.",
    errno.ENAMETOOLONG: "Choose a shorter name, or a folder with a shorter path.",
    errno.ELOOP: "Repair the symbolic links of this path, which lead in a circle.",
    errno.EXDEV: "Choose a folder on the same disk.",
    errno.EBUSY: _BUSY,
    errno.ETXTBSY: _BUSY,
    errno.ETIMEDOUT: _BUSY,
    errno.EAGAIN: _BUSY,
    errno.ENOLCK: "Choose a folder on a file system with locks.",
}
"""What to do about errors whose message is the system's own."""
_NO_PERMISSION = (
    FileError,
    "no permission to use {file_or_folder}",
    "Give the user {user} access to it and to its folder, or choose another place.",
)
_SENTENCES: Mapping[int, tuple[type[DiskFull | FileError], str, str]] = {
    errno.EDQUOT: (
        DiskFull,
        "the disk quota on {folder} is used up{not_written}{needed}",
        "Free space there or ask for a larger quota, {again}.",
    ),
    errno.EMFILE: (
        FileError,
        "too many open files{to_open}: a process may have {files} open (`ulimit -n`)",
        "{raise_files}, {again}.",
    ),
    errno.ENFILE: (
        FileError,
        "too many open files{to_open}: the whole machine has reached its limit (fs.file-max)",
        "End programs that hold files open or raise the limit (`sysctl fs.file-max`), {again}.",
    ),
    errno.EFBIG: (
        FileError,
        "{file} cannot grow larger than {size}",
        "Raise the limit in the shell that starts Voxelflow or use another disk, {again}.",
    ),
    errno.EROFS: (
        FileError,
        "{folder} is read-only{not_written}",
        "Mount it for writing (a disk turns read-only after errors: see the system's log), or choose another"
        " workspace or storage root.",
    ),
    errno.EACCES: _NO_PERMISSION,
    errno.EPERM: _NO_PERMISSION,
    errno.EIO: (
        FileError,
        "the disk failed to read or write {file_or_folder} (input/output error)",
        _DAMAGED,
    ),
}
