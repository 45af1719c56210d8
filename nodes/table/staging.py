"""New files that are written before they join a table.

Of a local table they lie in `_voxelflow/staging/` in its folder: on its own file system, so that joining is a rename;
out of sight of readers and of vacuum. A lock per slot says that its owner lives: what a dead owner left may be cleared.
Of a table in an object store they are made in the task's scratch folder, from sources that are fetched there, and are
uploaded at once: a name that no commit has is out of sight too.

Names identify the content, so a task that runs again after a kill finds the files it had finished.

The way of a file of a local table, with the method of `Staging` or the function that takes it on. `NAME.json`, beside
the files of one rewrite, is the sign that they are finished:

    not there --rewrite, take--> written --settle--> finished --join--> in the table's folder --commit--> in the table
                                    |         (on the disk, NAME.json)        |
                                    |                    |                    `-- killed before the commit: no reader
                                    |                    |                        sees it; the next try finds it, else
                                    |                    |                        vacuum deletes it
                                    |                    `-- killed: `find` and `rewrite` of the next owner of the slot
                                    |                        take it as it is, if its size is right
                                    `-- killed: made again

    clear, clear_abandoned: all that has not joined is deleted
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.declare.context import TaskContext
from engine.errors import DataError
from engine.storage.files import flush, size_problem, write_whole
from engine.storage.local_place import LocalPlace
from engine.storage.place import NewFile, Place
from engine.storage.process_lock import ProcessLock
from engine.storage.table_lock import INTERNALS
from nodes.table.snapshot import TableFile, describe_file
from nodes.volume_file.id_bounds import (
    OTHER_FILE,
    WRONG_ENDS,
    WRONG_LABELS,
    footer_ends,
    have_same_labels,
    id_bounds,
    is_exactly,
    other_content,
)
from nodes.volume_file.rewrite import Recipe, RowSource, read_metadata, rewrite, rewritten_name, stored_ends

Ranges = tuple[tuple[int, int], ...]
"""Rows of a file: half-open ranges, sorted."""
_SLOTS = 64
_CONVERSION = "convert-"
_SOURCES = "sources-"


def _source(folder: Path, file: TableFile, rows: Ranges) -> RowSource:
    """Rows of a file. Another file of the same size would be copied without a word, and its rows be there twice.

    Its ids and labels are read only where its footer does not say that they are the log's. Ends within those of the
    log are as wrong: the new file would have them.
    """
    source = RowSource(folder / file.path, file.bytes, rows)
    by_footer = footer_ends(metadata := read_metadata(source.path, source.bytes))
    if by_footer is None or not is_exactly(by_footer, file):
        found = stored_ends(source.path)
        if problem := other_content(found, file):
            raise DataError(f"{source.path} {problem}", hint=OTHER_FILE)
        wrong = WRONG_ENDS if id_bounds(metadata) not in (None, found.ids) else ""
        if by_footer is not None and not wrong and not have_same_labels(by_footer, found):
            wrong = WRONG_LABELS
        if wrong:
            raise DataError(
                f"{source.path} is damaged: {wrong}",
                hint="`voxelflow verify` of the table lists all damage and says what to do.",
            )
    return source


class Staging:
    """One owner's folder of new files for a local table, `root`. Get it from `open_staging`."""

    threads: int | None = None
    """Rewrites at a time; None: as many as the machine has cores and memory for."""
    increment_bytes = 4_000_000_000
    """What a commit takes at least: more often would fill the log, more rarely costs more after a kill."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder
        # Flushing to disk takes as long as writing: one file is flushed while the next is written.
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._flushing: dict[str, Future[None]] = {}
        self.unchecked = 0
        """Volumes that were copied without a checksum to compare."""
        self._lock = threading.Lock()

    def sources(self, files: Sequence[tuple[TableFile, Ranges]]) -> list[RowSource]:
        """These rows of the table's files, where they can be read until `rewrite` returns.

        Raises `DataError` for a file that cannot be read, or holds other rows than the log says.
        """
        return [_source(self._root, file, rows) for file, rows in files]

    def rewrite(
        self, sources: Sequence[RowSource], recipe: Recipe, on_rows: Callable[[int], None]
    ) -> tuple[TableFile, ...]:
        """Write the sources' rows to new files, or find those finished before. Durable once `settle` returns."""
        found = self.find(sources, recipe)
        if found is not None:
            on_rows(sum(s.rows for s in sources))
            return found
        name = rewritten_name(sources, recipe)
        made = rewrite(sources, recipe, self._folder, name, on_rows)
        names = [p.name for p in made.paths]
        self._count_unchecked(made.unchecked)
        self._flush_later(name, names)
        return _described([(self.where(n).folder, n) for n in names], sources)

    def find(self, sources: Sequence[RowSource], recipe: Recipe) -> tuple[TableFile, ...] | None:
        """The new files with the sources' rows that were finished before, if they are here."""
        names = self._finished(rewritten_name(sources, recipe))
        return None if names is None else _described([(self.where(n).folder, n) for n in names], sources)

    def remote(self, sources: Sequence[RowSource], recipe: Recipe) -> RemoteRewrite:
        """The same work for another process or machine, which hands over what it made to `take`."""
        return RemoteRewrite(tuple(sources), recipe, self._folder)

    def take(self, work: RemoteRewrite, made: Made) -> tuple[TableFile, ...]:
        """Let the files that a `RemoteRewrite` made be files of this staging. Durable once `settle` returns."""
        for file in made.files:
            (made.folder / file.path).replace(self._folder / file.path)
        names = [f.path for f in made.files]
        self._flush_later(work.name, names)
        self._count_unchecked(made.unchecked)
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
            # One that is there already has the same rows by its name, and an old version may hold it; unless it is
            # damaged.
            if size_problem(target, file.bytes):
                staged.replace(target)
        flush([self._root])

    def clear(self) -> None:
        """Delete everything here: it has joined the table, or nobody needs it."""
        self.settle()
        _clear(self._folder)

    def close(self) -> None:
        """End the threads; the files stay."""
        self._flusher.shutdown(wait=True)

    def where(self, name: str) -> Place:
        """Where a new file is read until it has joined the table."""
        return LocalPlace(self._folder if (self._folder / name).exists() else self._root)

    def _count_unchecked(self, volumes: int) -> None:
        with self._lock:
            self.unchecked += volumes

    def _flush_later(self, name: str, names: list[str]) -> None:
        pending = self._flusher.submit(self._finish, name, names)
        self._flushing |= dict.fromkeys(names, pending)

    def _finish(self, name: str, names: list[str]) -> None:
        flush([*(self._folder / n for n in names), self._folder])
        # Not flushed: one that a power cut has cut short counts for nothing, and its files are made again.
        sizes = {n: (self._folder / n).stat().st_size for n in names}
        write_whole(self._folder / f"{name}.json", json.dumps(sizes), durable=False)

    def _finished(self, name: str) -> list[str] | None:
        try:
            sizes: dict[str, int] = dict(json.loads((self._folder / f"{name}.json").read_text()))
        except (OSError, ValueError):
            return None
        return None if any(size_problem(self.where(n).path(n), size) for n, size in sizes.items()) else list(sizes)


class _RemoteStaging(Staging):
    """New files for a table in no local folder; `folder` is in the task's scratch folder, which survives a kill.

    On disk are `threads` rewrites at a time, each once as its sources and once as what becomes of them.
    """

    threads = 2
    increment_bytes = 1_500_000_000

    def __init__(self, place: Place, folder: Path) -> None:
        super().__init__(folder, folder)
        self._place = place

    def sources(self, files: Sequence[tuple[TableFile, Ranges]]) -> list[RowSource]:
        # A folder of their own: several threads fetch at a time.
        folder = self._folder / f"{_SOURCES}{secrets.token_hex(8)}"
        try:
            self._place.fetch([(file.path, file.bytes) for file, _ in files], folder)
        except FileNotFoundError as exc:
            raise DataError(str(exc), hint="Make the table again.") from exc
        return [_source(folder, file, rows) for file, rows in files]

    def rewrite(
        self, sources: Sequence[RowSource], recipe: Recipe, on_rows: Callable[[int], None]
    ) -> tuple[TableFile, ...]:
        try:
            if (found := self.find(sources, recipe)) is not None:
                on_rows(sum(s.rows for s in sources))
                return found
            name = rewritten_name(sources, recipe)
            paths, unchecked = rewrite(sources, recipe, self._folder, name, on_rows)
            self._count_unchecked(unchecked)
            made = _described([(self._folder, path.name) for path in paths], sources)
            for _ in self._place.put_all([NewFile(self._folder / f.path, f.path, f.bytes) for f in made], "copy"):
                pass
            write_whole(self._folder / f"{name}.json", json.dumps([asdict(f) for f in made]), durable=False)
            for path in paths:
                path.unlink()
            return made
        finally:
            for folder in {next(p for p in s.path.parents if p.parent == self._folder) for s in sources}:
                shutil.rmtree(folder, ignore_errors=True)

    def find(self, sources: Sequence[RowSource], recipe: Recipe) -> tuple[TableFile, ...] | None:
        try:
            note = json.loads((self._folder / f"{rewritten_name(sources, recipe)}.json").read_text())
            made = tuple(TableFile(**fields) for fields in note)
        except (OSError, ValueError, TypeError):
            return None
        there = all(found is not None and found.size == f.bytes for f in made for found in [self._place.stat(f.path)])
        return made if there else None

    def join(self, files: Sequence[TableFile]) -> None:
        """They are where they belong."""

    def where(self, name: str) -> Place:
        return self._place


@dataclass(frozen=True)
class Made:
    """Files that wait in a folder of their own to be taken."""

    folder: Path
    files: tuple[TableFile, ...]
    unchecked: int = 0
    """Volumes in them that had no checksum to compare."""


@dataclass(frozen=True)
class RemoteRewrite:
    """One rewrite for another process or machine. It can be pickled, and called several times, also at once.

    Each call works in a folder of its own in the staging's: two machines that do the same work never meet, and
    what nobody takes is cleared with the staging.
    """

    sources: tuple[RowSource, ...]
    recipe: Recipe
    staging: Path

    @property
    def name(self) -> str:
        """How the new files' names begin."""
        return rewritten_name(self.sources, self.recipe)

    @property
    def rows(self) -> int:
        """How many rows are written."""
        return sum(s.rows for s in self.sources)

    def __call__(self) -> Made:
        """Write the rows, durable. Raises `DataError` when a source cannot be read."""
        folder = self.staging / secrets.token_hex(8)
        # Without parents: where the staging was cleared away the work is not wanted any more.
        folder.mkdir()
        made, unchecked = rewrite(self.sources, self.recipe, folder, self.name, lambda _: None)
        flush([*made, folder])
        return Made(folder, _described([(folder, p.name) for p in made], self.sources), unchecked)


def _described(names: Sequence[tuple[Path, str]], sources: Sequence[RowSource]) -> tuple[TableFile, ...]:
    made = tuple(describe_file(folder, name) for folder, name in names)
    if sum(f.rows for f in made) != sum(s.rows for s in sources):
        files = ", ".join(name for _, name in names)
        raise DataError(f"the new files {files} do not hold the rows they should", hint="Run it again.")
    return made


@contextmanager
def open_staging(place: Place, ctx: TaskContext) -> Iterator[Staging]:
    """A staging folder for one owner, perhaps with what a killed task had finished there.

    Raises `DataError` when the folder's file system gives no locks.
    """
    root = place.local_folder
    if root is None:
        folder = ctx.scratch / "staging"
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{_SOURCES}*"):
            shutil.rmtree(left, ignore_errors=True)
        remote = _RemoteStaging(place, folder)
        try:
            yield remote
        finally:
            remote.close()
            with contextlib.suppress(OSError):  # what a task that failed has finished stays for the next
                folder.rmdir()
        return
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
