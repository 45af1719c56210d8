"""All files of a folder in one ZIP, made while it is sent: what is in memory is a part of one file."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

PART_BYTES = 1 << 20


def files_in(folder: Path) -> list[Path]:
    """The regular files of a folder at any depth, by name. Links are left out: they may lead anywhere.

    Raises `OSError` when the folder cannot be read.
    """
    found: list[Path] = []

    def refuse(error: OSError) -> None:
        raise error

    for at, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        found += [path for name in sorted(names) if stat.S_ISREG((path := Path(at, name)).lstat().st_mode)]
    return found


def zipped(folder: Path, files: list[Path]) -> Iterator[bytes]:
    """A ZIP of files of `folder`, under a folder of its name, in parts. Not compressed: weights hardly shrink.

    Raises `OSError` when a file cannot be read, so that no whole archive lacks one.
    """
    out = _Out()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for path in files:
            # Not waiting and no link: another program may have put something else there since it was listed.
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
            with open(handle, "rb") as source:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise OSError(f"{path} is no file any more")
                entry = zipfile.ZipInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
                entry.external_attr = 0o644 << 16
                # Its size follows its content (a data descriptor): it is read once, and may be larger than 4 GB.
                with archive.open(entry, "w", force_zip64=True) as target:
                    while part := source.read(PART_BYTES):
                        target.write(part)
                        yield out.taken()
            yield out.taken()
    yield out.taken()


class _Out(io.RawIOBase):
    """Takes what an archive writes, in order, and gives it away."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = bytes(data)  # type: ignore[call-overload]
        self._kept += part
        self._written += len(part)
        return len(part)

    def tell(self) -> int:
        return self._written

    def taken(self) -> bytes:
        """What was written since the last time."""
        out, self._kept = bytes(self._kept), bytearray()
        return out
