"""Where new files of a table are written before they join it: `_voxelflow/staging/` in the table's folder.

On the table's own file system, so that joining is a rename; out of sight of readers and of vacuum.
Names tell the content, so a task that runs again after a kill finds the files it had finished. A lock
per slot says that its owner lives: what a dead owner left may be cleared.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from engine.errors import DataError
from engine.run_lock import ProcessLock
from engine.table_lock import INTERNALS
from nodes.delta.delta_table import TableFile, describe_file
from nodes.delta.parquet_rewrite import Recipe, RowSource, rewrite, rewritten_name
from nodes.durable_files import flush

_SLOTS = 64


class Staging:
    """One owner's folder of new files for the table at `root`. Get it from `open_staging`."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder
        # Flushing to disk takes as long as writing: one file is flushed while the next is written.
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._flushing: list[Future[None]] = []

    def rewrite(
        self, sources: Sequence[RowSource], recipe: Recipe, on_rows: Callable[[int], None]
    ) -> tuple[TableFile, ...]:
        """Write the sources' rows to new files, or find those finished before. Durable once `settle` returns."""
        name = rewritten_name(sources, recipe)
        names = self._finished(name)
        if names is None:
            names = [p.name for p in rewrite(sources, recipe, self._folder, name, on_rows)]
            self._flushing.append(self._flusher.submit(self._finish, name, names))
        else:
            on_rows(sum(s.rows for s in sources))
        made = tuple(describe_file(self.where(n).parent, n) for n in names)
        if sum(f.rows for f in made) != sum(s.rows for s in sources):
            raise DataError(f"the new files {', '.join(names)} do not hold the rows they should", hint="Run it again.")
        return made

    def settle(self) -> None:
        """Wait until every file is on the disk."""
        for pending in self._flushing:
            pending.result()
        self._flushing.clear()

    def join(self, files: Sequence[TableFile]) -> None:
        """Move files into the table's folder. The caller holds the table's lock; nothing counts before a commit."""
        self.settle()
        for file in files:
            staged, target = self._folder / file.path, self._root / file.path
            # One that stands there already has the same rows by its name, and an old version may hold it.
            if not target.exists():
                staged.replace(target)
        flush([self._root])

    def clear(self) -> None:
        """Delete everything here: it has joined the table, or nobody needs it."""
        self.settle()
        _clear(self._folder)

    def close(self) -> None:
        self._flusher.shutdown(wait=True)

    def where(self, name: str) -> Path:
        staged = self._folder / name
        return staged if staged.exists() else self._root / name

    def _finish(self, name: str, names: list[str]) -> None:
        flush([*(self._folder / n for n in names), self._folder])
        temporary = self._folder / f".{name}.json.{os.getpid()}"
        temporary.write_text(json.dumps(names))
        temporary.replace(self._folder / f"{name}.json")

    def _finished(self, name: str) -> list[str] | None:
        try:
            names: list[str] = json.loads((self._folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        return names if all(self.where(n).exists() for n in names) else None


@contextmanager
def open_staging(root: Path) -> Iterator[Staging]:
    """A staging folder of one's own, perhaps with what a killed task had finished there.

    Raises `DataError` when the folder's file system gives no locks.
    """
    slots = (ProcessLock(_parent(root) / f"{slot}.lock") for slot in range(_SLOTS))
    lock = next((s for s in slots if s.acquire()), None)
    if lock is None:
        raise DataError(
            f"no place to write new files of the table {root}: file locks do not work there",
            hint="Put the table on a file system with locks.",
        )
    folder = lock.path.with_suffix("")
    folder.mkdir(exist_ok=True)
    staging = Staging(root, folder)
    try:
        yield staging
    finally:
        staging.close()
        lock.release()


def clear_abandoned(root: Path) -> int:
    """Delete what dead owners left; gives the bytes freed."""
    freed = 0
    # The lock files stay: deleting one while another process opens it would give two owners.
    for path in _parent(root).glob("*.lock"):
        lock = ProcessLock(path)
        if lock.acquire():
            freed += _clear(path.with_suffix(""))
            lock.release()
    return freed


def _clear(folder: Path) -> int:
    if not folder.exists():
        return 0
    freed = sum(p.stat().st_size for p in folder.iterdir())
    shutil.rmtree(folder)
    folder.mkdir()
    return freed


def _parent(root: Path) -> Path:
    return root / INTERNALS / "staging"
