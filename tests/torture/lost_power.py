"""A disk as a power cut leaves it, from the log of what was written, flushed and renamed (`io_faults.c`).

What was flushed is there. Of the rest anything may be: a file's later writes in part, block by block; a name that was
given, or the one before. Two kinds of disks are played: one with a journal, as ext4 and XFS have it (a flush takes all
earlier changes of names along, and what is lost of them are the last ones), and one that keeps of the names only what
the flush of a folder, or of a new file, asks for.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_RECORD = struct.Struct("<IIIIQqq")
_BLOCK = 4096
_LIVES_BESIDE = "-shm"
"""SQLite writes this one through a mapping, and makes it anew after a power cut."""


class Record(NamedTuple):
    """One entry of the log: `operation` is a letter (C create, W write, T size, F flush, A flush all, R rename, L link,
    U unlink, M and X make and remove a folder)."""

    operation: str
    inode: int
    offset: int
    path: str
    other: str
    data: bytes


def read_log(path: Path) -> Iterator[Record]:
    """The entries in the order in which they happened."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        operation, first, second, _, inode, offset, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        end = at + first
        name, other = data[at:end], data[end : end + second]
        at = end + second
        length = length if chr(operation) == "W" else 0
        yield Record(chr(operation), inode, offset, _clean(name), _clean(other), data[at : at + length])
        at += length


def _clean(name: bytes) -> str:
    return os.path.normpath(os.fsdecode(name)) if name else ""


@dataclass
class _File:
    """A file's content: what was flushed, what has been written since, and what programs see."""

    flushed: bytes = b""
    now: bytearray = field(default_factory=bytearray)
    since: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, data), or (size, None) for a new size."""
    mtime_ns: int = 0

    def write(self, at: int, data: bytes) -> None:
        _put(self.now, at, data)
        self.since.append((at, data))

    def resize(self, size: int) -> None:
        _resize(self.now, size)
        self.since.append((size, None))

    def flush(self) -> None:
        if self.since:
            self.flushed = bytes(self.now)
            self.since.clear()

    def left(self, dice: random.Random) -> bytes:
        """What a power cut leaves of it."""
        if not self.since:
            return self.flushed
        share = dice.choice((0.0, 0.0, 0.5, 0.9, 1.0))
        out = bytearray(self.flushed)
        for at, data in self.since:
            if data is None:
                if dice.random() < max(share, 0.5):
                    _resize(out, at)
                continue
            for begin in range(0, len(data), _BLOCK):
                if dice.random() < share:
                    _put(out, at + begin, data[begin : begin + _BLOCK])
        if dice.random() < 0.3 and len(out) < len(self.now):  # the size has come there, the content has not
            _resize(out, len(self.now))
        return bytes(out)


@dataclass(frozen=True)
class _Change:
    """A change of names: `to` is the file or "" for a folder; `place` the folder that must be flushed for it."""

    operation: str
    path: str
    other: str
    file: int | None
    place: str


class LostPower:
    """The disk below `root` while a log is played on it. `keeps_order`: it has a journal."""

    def __init__(self, root: Path, *, keeps_order: bool) -> None:
        self._root, self._keeps_order = str(root), keeps_order
        self._files: list[_File] = []
        self._by_inode: dict[int, int] = {}
        self._names: dict[str, int | None] = {}
        self._kept_names: dict[str, int | None] = {}
        self._pending: list[_Change] = []
        self._mtimes: Mapping[int, int] = {}

    def begin(self, mtimes: Mapping[int, int], inodes: Mapping[int, str]) -> None:
        """All that is at the root now is on the disk.

        `inodes` are the paths of its files by the numbers that the log has for them, `mtimes` the times of files.
        """
        self._mtimes = mtimes
        numbers: dict[int, int] = {}
        for folder, _, names in os.walk(self._root):
            self._names[folder] = None
            for name in names:
                path = Path(folder, name)
                found = path.lstat()
                if found.st_ino not in numbers:
                    content = path.read_bytes()
                    numbers[found.st_ino] = len(self._files)
                    self._files.append(_File(content, bytearray(content), mtime_ns=found.st_mtime_ns))
                self._names[str(path)] = numbers[found.st_ino]
        for inode, name in inodes.items():
            if (number := self._names.get(name)) is not None:
                self._by_inode[inode] = number
        self._kept_names = dict(self._names)

    def play(self, record: Record) -> None:
        """One entry of the log."""
        operation, path = record.operation, record.path
        if not (path + "/").startswith(self._root + "/") and operation != "A":
            return
        if operation == "C":
            if self._names.get(path) is not None and self._by_inode.get(record.inode) == self._names[path]:
                return  # two processes made it at once
            self._by_inode[record.inode] = len(self._files)
            self._files.append(_File(mtime_ns=self._mtimes.get(record.inode, 0)))
            self._change(_Change("C", path, "", len(self._files) - 1, os.path.dirname(path)))
        elif operation in "WT":
            found = self._file(record)
            if found is not None:
                found.write(record.offset, record.data) if operation == "W" else found.resize(record.offset)
        elif operation == "F":
            self._flush(record)
        elif operation == "A":
            self._keep_names(lambda _: True)
            for file in self._files:
                file.flush()
        elif operation in "RL":
            self._change(_Change(operation, path, record.other, self._names.get(path), os.path.dirname(record.other)))
        elif operation in "UMX":
            self._change(_Change(operation, path, "", None, os.path.dirname(path)))

    def names(self) -> dict[str, bytes]:
        """All files with their content as programs see them."""
        return {
            path: bytes(self._files[number].now)
            for path, number in self._names.items()
            if number is not None and not path.endswith(_LIVES_BESIDE)
        }

    def cut(self, dice: random.Random) -> None:
        """Cut the power now, and put what is left at the root."""
        names = dict(self._kept_names)
        if self._keeps_order:
            for change in self._pending[: dice.randint(0, len(self._pending))]:
                _apply(change, names)
        else:
            places: dict[str, int] = {}
            for change in self._pending:
                places[change.place] = places.get(change.place, 0) + 1
            left = {place: dice.choice((0, count, dice.randint(0, count))) for place, count in places.items()}
            for change in self._pending:
                left[change.place] -= 1
                if left[change.place] >= 0:
                    _apply(change, names)
        self._put_there(names, dice)

    # --- names ------------------------------------------------------------------------------------------------------

    def _change(self, change: _Change) -> None:
        if change.operation == "R" and change.file is None:  # a folder: what is in it goes along
            inside = change.path + "/"
            self._keep_names(lambda c: (c.path + "/").startswith(inside) or (c.other + "/").startswith(inside))
        _apply(change, self._names)
        self._pending.append(change)

    def _keep_names(self, wanted: Callable[[_Change], bool]) -> None:
        rest = []
        for change in self._pending:
            if wanted(change):
                _apply(change, self._kept_names)
            else:
                rest.append(change)
        self._pending = rest

    def _flush(self, record: Record) -> None:
        found = self._file(record)
        if self._keeps_order:
            self._keep_names(lambda _: True)
        elif found is not None:
            number = self._by_inode.get(record.inode)
            self._keep_names(lambda c: (c.operation == "C" and c.file == number) or self._leads_to(c, record.path))
        else:
            self._keep_names(lambda c: c.place == record.path or self._leads_to(c, record.path))
        if found is not None:
            found.flush()

    @staticmethod
    def _leads_to(change: _Change, path: str) -> bool:
        """It made a folder that the path lies in."""
        return change.operation == "M" and (path + "/").startswith(change.path + "/")

    def _file(self, record: Record) -> _File | None:
        number = self._by_inode.get(record.inode, self._names.get(record.path))
        return None if number is None else self._files[number]

    def _put_there(self, names: dict[str, int | None], dice: random.Random) -> None:
        shutil.rmtree(self._root, ignore_errors=True)
        Path(self._root).mkdir(parents=True)
        for path in sorted(p for p, number in names.items() if number is None):
            if os.path.isdir(os.path.dirname(path)):
                os.makedirs(path, exist_ok=True)
        made: dict[int, str] = {}
        for path, number in sorted((p, n) for p, n in names.items() if n is not None):
            if path.endswith(_LIVES_BESIDE) or not os.path.isdir(os.path.dirname(path)):
                continue
            if number in made:
                os.link(made[number], path)
                continue
            file = self._files[number]
            Path(path).write_bytes(file.left(dice))
            if file.mtime_ns:
                os.utime(path, ns=(file.mtime_ns, file.mtime_ns))
            made[number] = path


def _apply(change: _Change, names: dict[str, int | None]) -> None:
    operation, path, other = change.operation, change.path, change.other
    if operation == "M":
        names[path] = None
    elif operation == "C":
        names[path] = change.file
    elif operation == "L":
        names[other] = change.file
    elif operation in "UX":
        names.pop(path, None)
    elif change.file is not None:
        names.pop(path, None)
        names[other] = change.file
    else:
        inside = path + "/"
        for name in [n for n in names if n == path or n.startswith(inside)]:
            names[other + name[len(path) :]] = names.pop(name)


def _put(content: bytearray, at: int, data: bytes) -> None:
    if at > len(content):
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))
