"""The place that is probed, on a local file system or in an object store, read by the means of the data path.

Everything lies in a folder of the probe's own, `.voxelflow-probe/NAME` below the place, and goes with it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.errors import DataError, UsageError
from engine.storage import expanded, is_url, manifest
from engine.storage.files import flush
from engine.storage.io_errors import remedy
from engine.storage.objects import RemotePath
from engine.storage.page_cache import cached, forget
from nodes.loaders.arrow_loader import open_files
from nodes.loaders.data_files import LOCAL, DataFiles, RemoteFiles
from nodes.loaders.npy_loader import load_npy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.declare.datasets import VolumeSpec
    from nodes.loaders.interface import Source

OURS = ".voxelflow-probe"
ABANDONED_S = 3600.0
"""What another probe left here that began longer ago was killed, and its files are removed."""
_VOLUMES = ("**/*.npy",)
_REMOTE_STREAMS = 32
"""Objects in flight, as NumpyToParquet has them."""
_LOOK_S = 2.0
"""How long is looked for volumes in the place."""


_SHARE = re.compile(r"\\\\|//[^/]|(smb|cifs|nfs|afp)://|[\w.-]{2,}:/(?!/)", re.IGNORECASE)
"""How people write shares: `\\\\server\\share`, `//server/share`, `smb://server/share`, `server:/export`."""
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_MOUNT = "Mount the share, and name the folder under which this machine has it, such as /mnt/share."


@dataclass(frozen=True)
class VolumesThere:
    """The `.npy` files of a place, and their bytes; fewer than there are, where not all were counted."""

    count: int
    bytes: int
    all_counted: bool = True


class Target(ABC):
    """One place. `streams` reads are worth having in flight."""

    storage: str
    streams: int

    def __init__(self, place: str, name: str) -> None:
        self.place, self.name = place, name

    @contextmanager
    def opened(self) -> Iterator[None]:
        """While it lasts the probe's folder is there; nothing of it is left afterwards.

        What a killed probe of the same name left is removed first, and what others left an hour ago. Raises
        `UsageError` when nothing can be written to the folder, `DataError` when the store refuses.
        """
        try:
            self._begin()
        except OSError as exc:
            if exc.errno == errno.ENOSPC:
                raise
            raise UsageError(
                f"nothing can be written to {self.place}: {exc.strerror or exc}",
                hint=f"{remedy(exc)} A probe writes files of its own beside the folder and removes them.",
            ) from exc
        try:
            yield
        except BaseException:
            # What went wrong first is what the person must know.
            with suppress(OSError, DataError):
                self._remove()
            raise
        self._remove()

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _remove(self) -> None: ...

    def space(self) -> int | None:
        """Bytes that are free; None where that is not known."""
        return None

    @abstractmethod
    def volumes_there(self) -> VolumesThere:
        """The `.npy` files that lie in the place, as many as are found in a moment."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a file so that it stays."""

    @abstractmethod
    def read(self, name: str) -> None:
        """Read a whole small file."""

    @abstractmethod
    def read_range(self, name: str, start: int, length: int, *, at_random: bool = False) -> None:
        """Read bytes of a large file, which the system shall not read ahead `at_random`."""

    @abstractmethod
    def listed(self, folder: str) -> int:
        """List a folder with the sizes of its files; gives their number."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file."""

    @abstractmethod
    def table(self, sizes: Mapping[str, int], spec: VolumeSpec, cores: int) -> Source:
        """The files of a table opened by the loader of TrainResNet3D."""

    def forget(self, names: Iterable[str]) -> None:  # noqa: B027 - an object store has no cache here
        """Have the system drop what it has cached of the files."""

    def cache(self, names: Sequence[str]) -> Literal["cold", "warm", "unknown", "none"]:
        """Whether the system has any of the files in its cache."""
        return "none"


def target_at(place: str, name: str, cores: int) -> Target:
    """The target that a path or URL names. Raises `UsageError`."""
    if _SHARE.match(place) and is_url(place):
        raise UsageError(f"{place} is the address of a share, which only the system can mount", hint=_MOUNT)
    return RemoteTarget(place, name) if is_url(place) else LocalTarget(place, name, cores)


class LocalTarget(Target):
    """A folder of a mounted file system."""

    storage = "local"

    def __init__(self, place: str, name: str, cores: int) -> None:
        self._root = expanded(place).absolute()
        # What is kept of it is read in other working directories.
        super().__init__(str(self._root), name)
        self.streams = min(4, max(2, cores))
        _check_folder(self._root, place)
        self._folder = self._root / OURS / name
        self._handles: dict[tuple[str, bool], int] = {}
        self._lock = threading.Lock()

    def _begin(self) -> None:
        if self._folder.parent.is_dir():
            for found in self._folder.parent.iterdir():
                with suppress(FileNotFoundError):  # another probe that ends now
                    if found == self._folder or found.stat().st_mtime < time.time() - ABANDONED_S:
                        shutil.rmtree(found)
        self._folder.mkdir(parents=True)

    def _remove(self) -> None:
        while self._handles:
            os.close(self._handles.popitem()[1])
        shutil.rmtree(self._folder)
        with suppress(OSError):  # another probe is at work there
            self._folder.parent.rmdir()

    def space(self) -> int:
        return shutil.disk_usage(self._root).free

    def volumes_there(self) -> VolumesThere:
        def sizes() -> Iterator[int | None]:
            for folder, below, names in os.walk(self._root):
                below[:] = [name for name in below if not name.startswith(".")]
                for name in names:
                    bytes_there = None
                    if _is_volume(name):
                        with suppress(OSError):
                            bytes_there = os.stat(os.path.join(folder, name)).st_size
                    yield bytes_there

        return _counted(sizes())

    def write(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        flush([path])

    def read(self, name: str) -> None:
        load_npy(self._folder / name)

    def read_range(self, name: str, start: int, length: int, *, at_random: bool = False) -> None:
        # Large files stay open, as the loader keeps them.
        with self._lock:
            handle = self._handles.get((name, at_random))
            if handle is None:
                handle = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
                self._handles[name, at_random] = handle
                if at_random and hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(handle, length, start)

    def listed(self, folder: str) -> int:
        try:
            return len(manifest.list_folder(self._folder / folder, _VOLUMES))
        except FileNotFoundError:  # so slow a disk that nothing was written in the time for it
            return 0

    def delete(self, name: str) -> None:
        (self._folder / name).unlink()

    def table(self, sizes: Mapping[str, int], spec: VolumeSpec, cores: int) -> Source:
        return open_files(DataFiles(tuple(str(self._folder / name) for name in sizes), spec, LOCAL), self.place, cores)

    def forget(self, names: Iterable[str]) -> None:
        # What is written is flushed.
        forget(self._folder / name for name in names)

    def cache(self, names: Sequence[str]) -> Literal["cold", "warm", "unknown"]:
        return cached(self._folder / name for name in names)


class RemoteTarget(Target):
    """A folder of an object store."""

    streams = _REMOTE_STREAMS

    def __init__(self, place: str, name: str) -> None:
        super().__init__(place, name)
        self._root = RemotePath.at(place)
        self.storage = self._root.url.scheme
        self._folder = self._root / OURS / name

    def _begin(self) -> None:
        ours = self._root / OURS
        for found in list(ours.walk()):
            if found.path.startswith(f"{self.name}/") or found.mtime_ns < (time.time() - ABANDONED_S) * 1e9:
                (ours / found.path).unlink(missing_ok=True)
        self.write("begin", b"")

    def _remove(self) -> None:
        with ThreadPoolExecutor(self.streams, thread_name_prefix="probe") as pool:
            for _ in pool.map(lambda found: (self._folder / found.path).unlink(missing_ok=True), self._folder.walk()):
                pass

    def volumes_there(self) -> VolumesThere:
        return _counted(found.size if _is_volume(found.path) else None for found in self._root.walk())

    def write(self, name: str, data: bytes) -> None:
        (self._folder / name).write_bytes(data)

    def read(self, name: str) -> None:
        (self._folder / name).read()

    def read_range(self, name: str, start: int, length: int, *, at_random: bool = False) -> None:
        (self._folder / name).read_range(start, start + length)

    def listed(self, folder: str) -> int:
        return len(manifest.list_remote(self._folder / folder, _VOLUMES))

    def delete(self, name: str) -> None:
        (self._folder / name).unlink()

    def table(self, sizes: Mapping[str, int], spec: VolumeSpec, cores: int) -> Source:
        by_url = {str(self._folder / name): size for name, size in sizes.items()}
        return open_files(DataFiles(tuple(by_url), spec, RemoteFiles(by_url, cached=False)), self.place, cores)


def _check_folder(path: Path, place: str) -> None:
    """Raise `UsageError` when there is no such folder, or it cannot be looked at."""
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        hint = "Name a folder, or az://container/folder."
        if place.startswith("file:"):
            hint = "Write the path alone, without file: before it."
        elif _SHARE.match(place):
            hint = _MOUNT
        elif _DRIVE.match(place):
            hint = f"Write the path that this system has for the drive, such as /mnt/{place[0].lower()}/folder."
        raise UsageError(f"there is no folder {place}", hint=hint) from None
    except OSError as exc:
        raise UsageError(f"{place} cannot be looked at: {exc.strerror or exc}", hint=remedy(exc)) from exc
    if not is_folder:
        raise UsageError(f"{place} is a file, not a folder", hint="Name the folder that it lies in.")


def _is_volume(path: str) -> bool:
    return path.lower().endswith(".npy") and not any(part.startswith(".") for part in path.split("/"))


def _counted(sizes: Iterator[int | None]) -> VolumesThere:
    """`sizes` are those of all files that lie there, None of one that is no volume: it takes its time, too."""
    count, total, until = 0, 0, time.monotonic() + _LOOK_S
    for size in sizes:
        if size is not None:
            count, total = count + 1, total + size
        if time.monotonic() > until:
            return VolumesThere(count, total, all_counted=False)
    return VolumesThere(count, total)
