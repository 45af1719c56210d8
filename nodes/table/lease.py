"""Leases: a reader says which version of a table it is reading, and vacuum keeps that version's files.

A lease is an empty file `TABLE/_voxelflow/leases/VERSION-HEX` under a `flock` that its holder keeps: it
ends with its holder, however that dies, and what a dead one left is cleared by the next vacuum. A gate
beside the leases is locked shared while a lease is taken and exclusively while files are deleted, so that no
lease begins in the middle of a vacuum without its knowledge.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import Cancelled, WorkspaceError
from engine.storage.process_lock import ProcessLock
from engine.storage.table_lock import INTERNALS, POLL_S


def _never() -> bool:
    return False


@contextmanager
def hold_version(root: Path, version: int, is_cancelled: Callable[[], bool] = _never) -> Iterator[bool]:
    """Keep the files of `version` of the table at `root` from vacuum while the block runs.

    Gives False, and keeps nothing, where this process may not write in the table's folder or the folder has no
    locks. Take it before the version is opened: what a vacuum had deleted earlier shows then. Waits while a vacuum
    is under way; raises `Cancelled` when `is_cancelled` says so meanwhile.
    """
    lease: ProcessLock | None = None
    try:
        # Only a table gets leases: a wrong path must not become a folder.
        if (root / "_delta_log").is_dir():
            lease = _take(root, version, is_cancelled)
    except (OSError, WorkspaceError):
        lease = None
    try:
        yield lease is not None
    finally:
        if lease is not None:
            # The name goes first: a vacuum that sees it free deletes it by itself.
            with contextlib.suppress(OSError):
                lease.path.unlink(missing_ok=True)
            lease.release()


@contextmanager
def no_new_leases(root: Path, is_cancelled: Callable[[], bool] = _never) -> Iterator[set[int]]:
    """The versions that living readers hold. While the block runs nobody takes a lease.

    For deleting files. Raises `Cancelled` when `is_cancelled` says so while it waits for a reader that is
    just taking its lease.
    """
    gate = _gate(root)
    _acquire(gate, shared=False, is_cancelled=is_cancelled)
    try:
        yield set(_living(_folder(root)))
    finally:
        gate.release()


def _take(root: Path, version: int, is_cancelled: Callable[[], bool]) -> ProcessLock:
    gate = _gate(root)
    _acquire(gate, shared=True, is_cancelled=is_cancelled)
    try:
        lease = ProcessLock(_folder(root) / f"{version}-{secrets.token_hex(8)}")
        # Nobody else knows the name, and looking through the folder needs the gate.
        if not lease.acquire():
            raise WorkspaceError(f"{lease.path} is locked by another process", hint="Wait until it is done.")
        return lease
    finally:
        gate.release()


def _living(folder: Path) -> Iterator[int]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        version, _, rest = name.partition("-")
        if not (version.isdigit() and rest):
            continue
        probe = ProcessLock(folder / name)
        if probe.acquire():
            (folder / name).unlink(missing_ok=True)
            probe.release()
        else:
            yield int(version)


def _acquire(lock: ProcessLock, *, shared: bool, is_cancelled: Callable[[], bool]) -> None:
    while not lock.acquire(shared=shared):
        if is_cancelled():
            raise Cancelled(f"cancelled while waiting for {lock.path}")
        time.sleep(POLL_S)


def _gate(root: Path) -> ProcessLock:
    return ProcessLock(_folder(root) / "gate")


def _folder(root: Path) -> Path:
    return root / INTERNALS / "leases"
