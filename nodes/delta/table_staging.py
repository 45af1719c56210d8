"""Where new files of a table are written before they join it: `_voxelflow/staging/` in the table's folder.

On the table's own file system, so that joining is a rename; out of sight of readers and of vacuum.
Names tell the content, so a task that runs again after a kill finds the files it had finished. A lock
per slot says that its owner lives: what a dead owner left may be cleared.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DataError
from engine.run_lock import ProcessLock
from engine.table_lock import INTERNALS
from nodes.delta.delta_table import TableFile, describe_file
from nodes.delta.parquet_rewrite import Recipe, RowSource, rewrite, rewritten_name
from nodes.durable_files import flush

_SLOTS = 64
_CONVERSION = "convert-"


class Staging:
    """One owner's folder of new files for the table at `root`. Get it from `open_staging`."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder
        # Flushing to disk takes as long as writing: one file is flushed while the next is written.
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._flushing: dict[str, Future[None]] = {}

    def rewrite(
        self, sources: Sequence[RowSource], recipe: Recipe, on_rows: Callable[[int], None]
    ) -> tuple[TableFile, ...]:
        """Write the sources' rows to new files, or find those finished before. Durable once `settle` returns."""
        found = self.find(sources, recipe)
        if found is not None:
            on_rows(sum(s.rows for s in sources))
            return found
        name = rewritten_name(sources, recipe)
        names = [p.name for p in rewrite(sources, recipe, self._folder, name, on_rows)]
        self._flush_later(name, names)
        return self._described(names, sources)

    def find(self, sources: Sequence[RowSource], recipe: Recipe) -> tuple[TableFile, ...] | None:
        """The new files with the sources' rows that were finished before, if they are here."""
        names = self._finished(rewritten_name(sources, recipe))
        return None if names is None else self._described(names, sources)

    def away(self, sources: Sequence[RowSource], recipe: Recipe) -> Away:
        """The same work for another process or machine, which hands over what it made to `take`."""
        return Away(tuple(sources), recipe, self._folder)

    def take(self, work: Away, made: Made) -> tuple[TableFile, ...]:
        """Let the files that somebody else made be files of this staging. Durable once `settle` returns."""
        for file in made.files:
            (made.folder / file.path).replace(self._folder / file.path)
        names = [f.path for f in made.files]
        self._flush_later(work.name, names)
        return made.files

    def settle(self, files: Sequence[TableFile] | None = None) -> None:
        """Wait until these files (by default all) are on the disk."""
        for name in list(self._flushing) if files is None else [f.path for f in files]:
            if (pending := self._flushing.pop(name, None)) is not None:
                pending.result()

    def join(self, files: Sequence[TableFile]) -> None:
        """Move files into the table's folder. The caller holds the table's lock; nothing counts before a commit."""
        self.settle(files)
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

    def _flush_later(self, name: str, names: list[str]) -> None:
        pending = self._flusher.submit(self._finish, name, names)
        self._flushing |= dict.fromkeys(names, pending)

    def _described(self, names: Sequence[str], sources: Sequence[RowSource]) -> tuple[TableFile, ...]:
        return _described([(self.where(n).parent, n) for n in names], sources)

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


@dataclass(frozen=True)
class Made:
    """Files that wait in a folder of their own to be taken."""

    folder: Path
    files: tuple[TableFile, ...]


@dataclass(frozen=True)
class Away:
    """One rewrite that is done elsewhere. It can be pickled, and called several times, also at once.

    Each call works in a folder of its own in the staging's: two machines that do the same work never meet, and
    what nobody takes is cleared with the staging.
    """

    sources: tuple[RowSource, ...]
    recipe: Recipe
    staging: Path

    @property
    def name(self) -> str:
        return rewritten_name(self.sources, self.recipe)

    @property
    def rows(self) -> int:
        return sum(s.rows for s in self.sources)

    def __call__(self) -> Made:
        """Write the rows, durable. Raises `DataError` when a source cannot be read."""
        folder = self.staging / secrets.token_hex(8)
        # Without parents: where the staging was cleared away the work is not wanted any more.
        folder.mkdir()
        made = rewrite(self.sources, self.recipe, folder, self.name, lambda _: None)
        flush([*made, folder])
        return Made(folder, _described([(folder, p.name) for p in made], self.sources))


def _described(names: Sequence[tuple[Path, str]], sources: Sequence[RowSource]) -> tuple[TableFile, ...]:
    made = tuple(describe_file(folder, name) for folder, name in names)
    if sum(f.rows for f in made) != sum(s.rows for s in sources):
        told = ", ".join(name for _, name in names)
        raise DataError(f"the new files {told} do not hold the rows they should", hint="Run it again.")
    return made


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


def open_conversion(root: Path, token: int) -> Path:
    """An empty folder in which the table at `root` is converted out of sight. The caller holds the table's lock."""
    clear_conversions(root)
    folder = root / INTERNALS / f"{_CONVERSION}{token}"
    folder.mkdir(parents=True)
    return folder


def left_by_conversions(root: Path) -> set[str]:
    """Names of the files that conversions which did not end had in their folders."""
    return {path.name for path in (root / INTERNALS).glob(f"{_CONVERSION}*/*")}


def clear_conversions(root: Path) -> None:
    """Delete what conversions left that were killed. The caller holds the table's lock, so nobody works there."""
    for folder in (root / INTERNALS).glob(f"{_CONVERSION}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _clear(folder: Path) -> int:
    if not folder.exists():
        return 0
    freed = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                freed += os.stat(os.path.join(at, name)).st_size
    # A task on another machine that nobody waits for may still be writing here: what it leaves goes the next time.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    return freed


def _parent(root: Path) -> Path:
    return root / INTERNALS / "staging"
