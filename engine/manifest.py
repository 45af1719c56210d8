"""The listing of a folder: made once before a run, then never listed again.

A manifest is an Arrow IPC file with one row a file, sorted by path. It is read memory-mapped, so a
listing of 650,000 files costs its size on disk (about 40 bytes a file plus the path) and no more.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK = 50_000


class FileEntry(NamedTuple):
    """One file: `path` below the folder (POSIX), `size` in bytes, `mtime_ns` since the epoch."""

    path: str
    size: int
    mtime_ns: int


def list_folder(root: Path, patterns: tuple[str, ...]) -> pa.Table:
    """All files below `root` that match one of the glob `patterns`, as a table sorted by path.

    `**/` matches any number of folders, none included. Hidden files and folders (a leading dot) and
    files that vanish meanwhile are left out; links to files are followed, links to folders are not.
    Raises `OSError` when a folder cannot be read.
    """
    return table_of(_walk(os.fspath(root), "", _test_of(patterns)))


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


def _walk(folder: str, prefix: str, wanted: Callable[[str, str], bool]) -> Iterator[FileEntry]:
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
                continue
            path = prefix + entry.name
            if not wanted(path, entry.name):
                continue
            try:
                stat = entry.stat()
            except OSError:
                continue
            # A name that is not UTF-8 cannot be an id: spelled with \xNN it will not open, and
            # the converter quarantines it with that reason.
            text = path
            if not path.isascii():
                text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            yield FileEntry(text, stat.st_size, stat.st_mtime_ns)
    for name in folders:
        yield from _walk(os.path.join(folder, name), f"{prefix}{name}/", wanted)


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
        # A chunk's text at once: a quarter of the time of one update a file.
        out.update("".join([f"{path}\0{size}\0{mtime_ns}\0" for path, size, mtime_ns in rows]).encode())
    return out.hexdigest()


def write(table: pa.Table, path: Path) -> None:
    """Write the manifest so that it appears whole or not at all."""
    import pyarrow as pa

    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=_CHUNK)
    temporary.replace(path)


def read(path: Path | str) -> pa.Table:
    """The manifest, memory-mapped."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def entries(table: pa.Table) -> Iterator[FileEntry]:
    """The rows one by one, a chunk in memory at a time."""
    for batch in table.to_batches(max_chunksize=_CHUNK):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield FileEntry(*row)


def total_bytes(table: pa.Table) -> int:
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
