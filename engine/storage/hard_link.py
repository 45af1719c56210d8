"""Giving a file to another folder as a hard link, or as a copy where the file system has none."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Literal

from engine.storage.files import whole_file

CANNOT_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""Another device, a file system without hard links, or too many links: the bytes are copied instead."""
_COMPARED = 1 << 20
"""Bytes that are compared at a time."""


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
