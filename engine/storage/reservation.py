"""A table reserved by one run, so that two runs write to it one after the other.

The lock of `table_lock` covers one commit, or one fill. A run that fills a table and then compacts it does so in two
tasks; a run that came between them would find its table with other rows. So a run reserves the table from the first of
these tasks to the last, and others wait. Readers and vacuum do not ask. Nothing is lost where a reservation fails (a
store without conditional writes, a lease that ran out while its holder slept): each commit is still made against
exactly the version that it was planned for.

    local          TABLE/_voxelflow/reserved        an `flock`, which the kernel frees when its holder dies
    object store   TABLE/_voxelflow/reserved.json   a lease: its holder writes it again every few seconds, each time
                                                    only if it is still the version that it wrote last

A lease has run out when whoever waits has seen it unchanged for as long as it says, by his own clock: no two machines'
clocks are compared. Its next holder replaces it on the same condition, so two never get it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from engine.errors import VoxelflowError, WorkspaceError
from engine.storage.objects import ObjectVersion, RemotePath
from engine.storage.process_lock import ProcessLock
from engine.storage.table_lock import INTERNALS

LEASE_S = 30.0
"""How long a lease counts without being written again; longer than a store's usual hiccups."""
RENEW_S = 8.0
LOOK_S = 1.0
"""Between two looks of one that waits for a lease."""


class Reservation(ABC):
    """One run's wish to write to one table. Get it from `Place.reservation`."""

    @abstractmethod
    def take(self) -> bool:
        """Try once, without waiting for anything; True when held. To be asked again until it is."""

    @abstractmethod
    def holder(self) -> str:
        """Who has it now, as that run has called itself; "" when that is not known."""

    @abstractmethod
    def release(self) -> None:
        """Give it back, or stop wishing for it. Nothing follows but `wait`."""

    def wait(self, timeout_s: float) -> None:  # noqa: B027 - the kernel's locks are free at once
        """After `release`: until others can have it, or for `timeout_s`."""


def lock_in(folder: Path, run: str) -> Reservation | None:
    """The reservation of the table in a local folder, by a lock. None for a folder with other files in it."""
    return _Lock(folder / INTERNALS / "reserved", run) if _is_reservable(folder) else None


def lease_in(folder: RemotePath, run: str) -> Reservation:
    """The reservation of the table in a folder of an object store, by a lease."""
    return _Lease(folder / INTERNALS / "reserved.json", run)


def _is_reservable(root: Path) -> bool:
    try:
        if any((root / name).is_dir() for name in ("_delta_log", INTERNALS)):
            return True
        with os.scandir(root) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except OSError:
        return False


class _Lock(Reservation):
    def __init__(self, path: Path, run: str) -> None:
        self._lock, self._run = ProcessLock(path), run
        self._is_held = False

    def take(self) -> bool:
        try:
            if not self._lock.acquire():
                return False
        except (OSError, WorkspaceError):
            return True  # the node reports what is wrong with the folder
        self._is_held = True
        with contextlib.suppress(OSError):  # a full disk
            self._lock.note(self._run)
        return True

    def holder(self) -> str:
        return self._lock.noted()

    def release(self) -> None:
        if self._is_held:
            with contextlib.suppress(OSError):
                self._lock.note("")
        self._is_held = False
        self._lock.release()


class _Lease(Reservation):
    """A thread asks and renews: a store may take minutes to answer, and the run's process must not wait for it."""

    def __init__(self, path: RemotePath, run: str) -> None:
        self._path, self._run, self._nonce = path, run, secrets.token_hex(8)
        self._version: ObjectVersion | None = None
        self._count = 0
        self._held, self._over = threading.Event(), threading.Event()
        self._other = ""
        self._seen: tuple[ObjectVersion, float] | None = None
        self._thread: threading.Thread | None = None

    def take(self) -> bool:
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep, name="reservation", daemon=True)
            self._thread.start()
        return self._held.is_set()

    def holder(self) -> str:
        return self._other

    def release(self) -> None:
        self._over.set()

    def wait(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _keep(self) -> None:
        while not self._over.is_set():
            try:
                mine = self._renew() if self._version is not None else self._ask()
            except (VoxelflowError, OSError):
                # The task will meet the same error and report it, or the store answers again.
                mine = True
            if mine:
                self._held.set()
            self._over.wait(RENEW_S if self._held.is_set() else LOOK_S)
        if self._version is not None:
            with contextlib.suppress(VoxelflowError, OSError):
                self._path.write_if(self._text(seconds=0), self._version)

    def _ask(self) -> bool:
        try:
            text, version = self._path.read_version()
        except FileNotFoundError:
            self._version = self._path.write_if(self._text(), None)
            return self._version is not None
        found = _record(text)
        if self._seen is None or self._seen[0] != version:
            self._seen = version, time.monotonic()
        if found["nonce"] == self._nonce:  # a request that was answered too late had been carried out
            self._version = version
        elif time.monotonic() - self._seen[1] >= found["seconds"]:
            self._version = self._path.write_if(self._text(), version)
        else:
            self._other = found["run"]
        return self._version is not None

    def _renew(self) -> bool:
        # None: somebody else has it, since this process slept for longer than the lease. The task goes on, as its
        # commits are safe without; from now on the lease is asked for again.
        self._version = self._path.write_if(self._text(), self._version)
        return self._version is not None or self._ask()

    def _text(self, seconds: float | None = None) -> bytes:
        self._count += 1  # no two versions have the same bytes
        counts_for = LEASE_S if seconds is None else seconds
        record = {"run": self._run, "nonce": self._nonce, "seconds": counts_for, "count": self._count}
        return json.dumps(record).encode()


def _record(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
        return {"run": str(found["run"]), "nonce": str(found["nonce"]), "seconds": float(found["seconds"])}
    except (ValueError, KeyError, TypeError):
        return {"run": "", "nonce": "", "seconds": LEASE_S}
