"""The connection to `runs.db`, the workspace's SQLite file: transactions, and the paths and datasets in its texts.

Written by a run's supervisor only; read by any process. WAL mode lets readers watch a run live. The workspace must lie
on a local disk for that.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from engine.catalog import learn_dataset_types
from engine.declare.dataset_type import UnknownDataset, known_again, stored_dataset
from engine.declare.datasets import Dataset
from engine.storage.io_errors import naming
from engine.storage.workspace_paths import WorkspacePaths
from engine.store.schema import BUSY_S, bring_up_to_date, note_root, paths_of, refuse_damaged, transaction
from engine.workspace import Workspace

_NORMAL = "PRAGMA synchronous = NORMAL"
"""In WAL mode a power cut may then take the last transactions, never a part of one. Most are events and heartbeats,
many a second, of a run that ends with the machine. A result is written with FULL, which waits for the disk: if its row
were lost, its task would run again and find what it published, but not its scratch folder, which is deleted then."""


class Database:
    """The database of one workspace. One object may be used by several threads; each has a connection of its own.

    Raises `DamagedStore` when the database is damaged, `WorkspaceError` when it is of a newer Voxelflow, `DiskFull` or
    `FileError` when it cannot be written.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._local = threading.local()
        db = self._connection()
        with refuse_damaged(workspace):
            self.former_roots = note_root(db, workspace)
            """Where the workspace lay before, or the one that it was copied from."""
            self.paths = paths_of(db, workspace)
            """How paths inside the workspace are stored: this object takes and returns absolute ones."""

    def checkpoint(self) -> None:
        """Put all that was written into the database file itself, on the disk, and empty the file beside it.

        As far as that goes at once: readers who are at work keep a part for the next time.
        """
        db = self._connection()
        with suppress(sqlite3.Error):
            # By itself it would wait for readers as long as for a lock.
            db.execute("PRAGMA busy_timeout = 0")
            try:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                db.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")

    def problem(self) -> str:
        """What SQLite's own check of all pages and indexes finds first; "" when all is well. Reads the whole file."""
        with refuse_damaged(self.workspace):
            found = str(self._connection().execute("PRAGMA integrity_check(1)").fetchone()[0])
        return "" if found == "ok" else found.removeprefix("*** in database main ***").strip()

    def close(self) -> None:
        """Close this thread's connection."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is not None:
            found.close()
            self._local.connection = None

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            with naming(self.workspace.database):
                found = sqlite3.connect(self.workspace.database, timeout=BUSY_S, isolation_level=None)
                bring_up_to_date(found, self.workspace)
                found.row_factory = sqlite3.Row
                found.execute(_NORMAL)
            self._local.connection = found
        return found

    def read(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """The rows a query gives; none for a value that is not UTF-8 text. Raises `sqlite3.Error`."""
        with refuse_damaged(self.workspace):
            try:
                return self._connection().execute(sql, values).fetchall()
            except UnicodeEncodeError:  # no text that is stored is like it: an id that was typed
                return []

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction. Without `durable` a power cut may take it, together with all that came after it."""
        db = self._connection()
        with naming(self.workspace.database), refuse_damaged(self.workspace):
            if durable:
                db.execute("PRAGMA synchronous = FULL")
            try:
                with transaction(db):
                    yield db
            finally:
                if durable:
                    db.execute(_NORMAL)

    def datasets(self, text: str | None) -> dict[str, Dataset]:
        """Datasets by port, of the text that `datasets_json` makes; none of no text."""
        found = json.loads(text) if text else {}
        return self.known({port: stored_dataset(value, self.paths) for port, value in found.items()})

    def known(self, datasets: Mapping[str, Dataset]) -> dict[str, Dataset]:
        """The same, read with the types that packages and the workspace bring where that helps."""
        if any(isinstance(each, UnknownDataset) for each in datasets.values()):
            learn_dataset_types(self.workspace)
            return {port: known_again(each) for port, each in datasets.items()}
        return dict(datasets)


def datasets_json(datasets: Mapping[str, Dataset], paths: WorkspacePaths) -> str:
    """Datasets by port as stored: JSON, with paths inside the workspace relative to it."""
    return json.dumps({k: v.model_dump(mode="json", context=paths) for k, v in datasets.items()})


def new_id() -> str:
    """An id for a run or a sweep, "YYYYMMDD-HHMMSS-xxxxxx" in UTC. The end is random, and can be drawn twice."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + uuid.uuid4().hex[:6]
