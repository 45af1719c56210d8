"""The listing of a folder, local or in object storage: made once before a run, then never listed again.

A manifest is an Arrow IPC file with one row per file, sorted by path. It is read memory-mapped, so a
listing of 650,000 files costs its size on disk (about 40 bytes a file plus the path) and no more.
"""

from __future__ import annotations

import fnmatch
import hashlib
import mmap
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import DataError
from engine.storage import arrow_file
from engine.storage.files import whole_file
from engine.storage.io_errors import OUT_OF_RESOURCES, number_of
from engine.storage.links import Unfollowed, leads_around, why_unusable

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.storage.objects import RemotePath

_CHUNK = 50_000
NO_ENDING = "without an ending"
"""How such files are counted; see `count_endings`."""


class FileEntry(NamedTuple):
    """One file: `path` below the folder (POSIX), `size` in bytes, `mtime_ns` since the epoch."""

    path: str
    size: int
    mtime_ns: int


@dataclass
class LeftOut:
    """What a listing skips and a user may expect in it, hidden files and folders apart.

    `files` counts those with an ending of `endings`, and folders with one of `folder_endings` (all in small letters),
    of which `examples` has one each; `links` are those that were not followed, by their paths below the folder.
    """

    endings: tuple[str, ...] = ()
    folder_endings: tuple[str, ...] = ()
    files: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    links: dict[str, Unfollowed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._files, self._folders = _by_last_part(self.endings), _by_last_part(self.folder_endings)

    def add(self, path: str, *, is_folder: bool = False) -> None:
        """Count a file, or a folder, by its name."""
        lower = path.lower()
        # By what follows the last dot, which leaves one or two: a folder may have hundreds of thousands of files.
        for ending in (self._folders if is_folder else self._files).get(lower[lower.rfind(".") :], ()):
            if lower.endswith(ending):
                self.files[ending] += 1
                if self.files[ending] == 1:
                    self.examples[ending] = _as_text(path)
                return


def _by_last_part(endings: Iterable[str]) -> dict[str, list[str]]:
    """Endings by their last part, the longest first: .gz leads to .nii.gz."""
    out: dict[str, list[str]] = {}
    for ending in sorted(endings, key=len, reverse=True):
        out.setdefault(ending[ending.rfind(".") :], []).append(ending)
    return out


def list_folder(
    root: Path, patterns: tuple[str, ...], folders: tuple[str, ...] = (), left_out: LeftOut | None = None
) -> pa.Table:
    """All files below `root` that match one of the glob `patterns`, as a table sorted by path.

    `**/` matches any number of folders, none included. Hidden files and folders (a leading dot) and
    files that vanish meanwhile are left out. Links to files are followed. So are links to folders, once
    each, except to a folder that is listed already or that holds `root`: no file is listed twice. A link
    without a target, or a file that the system does not describe, is listed with 0 bytes, so that it is
    found when the files are read, and reported with its reason.

    A folder whose name ends with one of `folders` counts as one file: its size is that of all in it, its time a
    fingerprint of their names, sizes and times (`tree_stamp`). `left_out` counts what is skipped.
    Raises `OSError` when a folder cannot be read.
    """
    return table_of(_walk(os.fspath(root), _test_of(patterns), folders, left_out=left_out))


def count_endings(paths: Iterable[str], known: Iterable[str]) -> Counter[str]:
    """How many of the paths have which ending: one of `known`, the longest that fits, else what follows the last dot.

    Files without one count as `NO_ENDING`.
    """
    longest = sorted(set(known), key=len, reverse=True)
    found: Counter[str] = Counter()
    for path in paths:
        name = path.rsplit("/", 1)[-1].lower()
        ending = next((each for each in longest if name.endswith(each)), "") or os.path.splitext(name)[1]
        found[ending or NO_ENDING] += 1
    return found


def names_in(root: Path, folders: tuple[str, ...] = ()) -> Iterator[str]:
    """The path of each file below `root`, as `list_folder` finds them, in no order and without a look at the files."""
    return (entry.path for entry in _walk(os.fspath(root), lambda path, name: True, folders, sizes=False))


def tree_stamp(root: Path | str) -> tuple[int, int]:
    """Bytes of all files below a folder, and a fingerprint (63 bits) of their names, sizes and times.

    Hidden ones count, too; links are not followed. Raises `OSError`.
    """
    total, out = 0, hashlib.blake2b(digest_size=8)
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(f"{os.fspath(root)}/{prefix}") as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{prefix}{entry.name}/")
                    continue
                found = entry.stat(follow_symlinks=False)
                total += found.st_size
                out.update(os.fsencode(f"{prefix}{entry.name}\0{found.st_size}\0{found.st_mtime_ns}\0"))
    return total, int.from_bytes(out.digest(), "big") >> 1


def stamp_of(files: Iterable[FileEntry]) -> tuple[int, int]:
    """The same for a volume of several files: their bytes, and a fingerprint of their names, sizes and times."""
    total, out = 0, hashlib.blake2b(digest_size=8)
    for file in files:
        total += file.size
        out.update(f"{file.path}\0{file.size}\0{file.mtime_ns}\0".encode())
    return total, int.from_bytes(out.digest(), "big") >> 1


def list_remote(folder: RemotePath, patterns: tuple[str, ...], left_out: LeftOut | None = None) -> pa.Table:
    """All objects below `folder` that match one of `patterns`; see `list_folder`.

    One request for each thousand or so. Raises `DataError`.
    """

    def found() -> Iterator[FileEntry]:
        for item in folder.walk():
            if any(part.startswith(".") for part in item.path.split("/")):
                continue
            if any(matches(item.path, pattern) for pattern in patterns):
                yield FileEntry(item.path, item.size, item.mtime_ns)
            elif left_out is not None:
                left_out.add(item.path)

    return table_of(found())


def table_of(files: Iterable[FileEntry]) -> pa.Table:
    """The manifest's table of these files, sorted by path."""
    import pyarrow as pa

    schema = pa.schema([("path", pa.string()), ("size", pa.int64()), ("mtime_ns", pa.int64())])
    batches: list[pa.RecordBatch] = []
    rows: list[FileEntry] = []

    def flush() -> None:
        columns = zip(*rows, strict=True) if rows else ([], [], [])
        batches.append(
            pa.record_batch([pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema=schema)
        )
        rows.clear()

    for entry in files:
        rows.append(entry)
        if len(rows) >= _CHUNK:
            flush()
    flush()
    return pa.Table.from_batches(batches, schema).sort_by("path").combine_chunks()


def _test_of(patterns: tuple[str, ...]) -> Callable[[str, str], bool]:
    """`matches` for a path and its last part, with a short way for the commonest pattern: any file with some ending."""
    endings = tuple(p[4:] for p in patterns if p.startswith("**/*") and not set(p[4:]) & set("*?[/"))
    others = [p for p in patterns if not (p.startswith("**/*") and p[4:] in endings)]

    def test(path: str, name: str) -> bool:
        return name.endswith(endings) or any(matches(path, pattern) for pattern in others)

    return test


def _walk(
    root: str,
    wanted: Callable[[str, str], bool],
    whole: tuple[str, ...] = (),
    *,
    sizes: bool = True,
    left_out: LeftOut | None = None,
) -> Iterator[FileEntry]:
    """The folder itself first, then what its links lead to, in the order of their paths: always the same listing."""
    # By their paths without links: not every file system gives a folder a number of its own.
    listed: set[str] = set()
    top = os.path.realpath(root)
    links: list[tuple[str, str]] = []
    passed = LeftOut() if left_out is None else left_out
    yield from _walk_folder(top, "", wanted, listed, links, whole, sizes, passed)
    while links:
        batch = sorted(links)
        links.clear()
        for prefix, link in batch:
            folder = os.path.realpath(link)
            if not os.path.join(top, "").startswith(os.path.join(folder, "")):
                yield from _walk_folder(folder, prefix, wanted, listed, links, whole, sizes, passed)
            elif folder != top:
                passed.links[_as_text(prefix.rstrip("/"))] = leads_around(link)


def _walk_folder(
    folder: str,
    prefix: str,
    wanted: Callable[[str, str], bool],
    listed: set[str],
    links: list[tuple[str, str]],
    whole: tuple[str, ...],
    sizes: bool,
    left_out: LeftOut,
) -> Iterator[FileEntry]:
    if folder in listed:
        return
    listed.add(folder)
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if whole and entry.name.endswith(whole) and entry.is_dir():
                yield FileEntry(_as_text(prefix + entry.name), *(tree_stamp(entry.path) if sizes else (0, 0)))
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
                left_out.add(prefix + entry.name, is_folder=True)
                continue
            if entry.is_symlink() and os.path.isdir(entry.path):
                links.append((f"{prefix}{entry.name}/", entry.path))
                left_out.add(prefix + entry.name, is_folder=True)
                continue
            path = prefix + entry.name
            if not wanted(path, entry.name):
                # It may have led to a folder of what is wanted. By its ending it is not counted, too.
                if entry.is_symlink() and (unusable := why_unusable(entry.path)) is not None:
                    left_out.links[_as_text(path)] = unusable
                else:
                    left_out.add(path)
                continue
            size = mtime_ns = 0
            try:
                if sizes:
                    stat = entry.stat()
                    size, mtime_ns = stat.st_size, stat.st_mtime_ns
            except OSError as exc:
                if isinstance(exc, FileNotFoundError) and not entry.is_symlink():
                    continue  # it has vanished
            yield FileEntry(_as_text(path), size, mtime_ns)
    for name in folders:
        inner = f"{prefix}{name}/"
        yield from _walk_folder(os.path.join(folder, name), inner, wanted, listed, links, whole, sizes, left_out)


def _as_text(path: str) -> str:
    """The path as a listing spells it: what is not UTF-8 with \\xNN. So it will not open, and the converter
    quarantines it with that reason: it cannot be an id."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def matches(path: str, pattern: str) -> bool:
    """Whether a path below the folder fits the glob `pattern`; see `list_folder`."""
    if pattern.startswith("**/"):
        return matches(path.rsplit("/", 1)[-1], pattern[3:]) or fnmatch.fnmatchcase(path, pattern)
    return path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)


def digest(table: pa.Table) -> str:
    """Hash of names, sizes and modification times."""
    out = hashlib.blake2b(digest_size=16)
    for batch in table.to_batches(max_chunksize=_CHUNK):
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        # A chunk's text at once: a quarter of the time of one update per file.
        out.update("".join([f"{path}\0{size}\0{mtime_ns}\0" for path, size, mtime_ns in rows]).encode())
    return out.hexdigest()


def write(table: pa.Table, path: Path) -> None:
    """Write the manifest so that it appears whole or not at all, also after a power cut."""
    import pyarrow as pa

    with (
        whole_file(path, durable=True) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        arrow_file.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=_CHUNK)


def read(path: Path | str) -> pa.Table:
    """The manifest, memory-mapped.

    Raises `DataError` when any byte of it changed or it was cut short, `FileNotFoundError` when it is gone, another
    `OSError` where the machine is short of file handles or space, which says nothing of the manifest.
    """
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source:
            return arrow_file.read_table(source.read_buffer())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, pa.ArrowException) as exc:
        if number_of(exc) in OUT_OF_RESOURCES:
            raise
        raise DataError(
            f"the listing {path} is damaged: {exc}", hint="Run the pipeline again: the listing is then made anew."
        ) from exc


def is_whole(path: Path | str) -> bool:
    """Whether a manifest is there whose bytes are those that were written.

    Raises `OSError` as `read` does.
    """
    try:
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as data,
        ):
            if arrow_file.check(data):
                return True
        # Of an earlier version, or its checksum was overwritten.
        read(path)
        return True
    except (OSError, ValueError, DataError) as exc:  # a file of no bytes cannot be mapped
        if number_of(exc) in OUT_OF_RESOURCES:
            raise
        return False


def entries(table: pa.Table) -> Iterator[FileEntry]:
    """The rows one by one, a chunk in memory at a time; without further columns, such as those of a table's rows."""
    for batch in table.select(FileEntry._fields).to_batches(max_chunksize=_CHUNK):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield FileEntry(*row)


def total_bytes(table: pa.Table) -> int:
    """The sum of the files' sizes."""
    import pyarrow.compute as pc

    return int(pc.sum(table["size"]).as_py() or 0)


def compare(old: pa.Table, new: pa.Table) -> dict[str, int]:
    """How many files were gained, lost and changed. Both tables are sorted by path, so one walk does."""
    gained = lost = changed = 0
    before, after = entries(old), entries(new)
    a, b = next(before, None), next(after, None)
    while a is not None or b is not None:
        if b is None or (a is not None and a.path < b.path):
            lost += 1
            a = next(before, None)
        elif a is None or b.path < a.path:
            gained += 1
            b = next(after, None)
        else:
            changed += a != b
            a, b = next(before, None), next(after, None)
    return {"gained": gained, "lost": lost, "changed": changed}
