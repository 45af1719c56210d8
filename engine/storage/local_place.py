"""A folder of the local file system as a `Place`: files go there by hard link, rename and copy."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.storage.files import flush_many, new_file, size_problem, whole_file
from engine.storage.hard_link import link_or_copy
from engine.storage.place import NewFile, Place, Stat, source_gone

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

    from engine.storage.reservation import Reservation


@dataclass(frozen=True)
class LocalPlace(Place):
    """A folder of the local file system. Files go there by hard link, rename and copy."""

    root: Path

    def __str__(self) -> str:
        return str(self.root)

    @property
    def local_folder(self) -> Path:
        return self.root

    @property
    def delta_rs_address(self) -> str:
        return str(self.root)

    def absolute(self) -> LocalPlace:
        return LocalPlace(self.root.expanduser().absolute())

    def resolved(self) -> LocalPlace:
        return LocalPlace(self.root.expanduser().resolve())

    def reservation(self, run: str, workspace: Path) -> Reservation | None:
        """None for a folder with other files in it: the node refuses it, or makes it a table in place, which only ever
        has these rows. Nothing is left in such a folder."""
        from engine.storage.reservation import lock_in

        return lock_in(self.root, f"run {run} of {workspace}")

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def names(self, below: str = "") -> Iterator[str]:
        try:
            yield from os.listdir(self.root / below)
        except (FileNotFoundError, NotADirectoryError):
            return

    def stat(self, name: str) -> Stat | None:
        try:
            found = os.stat(f"{self.root}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Stat(found.st_size if stat.S_ISREG(found.st_mode) else -1, found.st_mtime_ns)

    def sizes(self) -> Callable[[str], int | None]:
        def size(name: str) -> int | None:
            found = self.stat(name)
            return None if found is None else found.size

        return size

    def damaged(self, files: Iterable[tuple[str, int]]) -> Iterator[tuple[int, str]]:
        # Texts: with one file per volume, making each path an object takes longer than looking at the file (0.7 s).
        folder = f"{self.root}/"
        for number, (name, size) in enumerate(files):
            if problem := size_problem(folder + name, size):
                yield number, problem

    def read(self, name: str) -> Buffer:
        with (self.root / name).open("rb") as file:
            empty = not os.fstat(file.fileno()).st_size
            return b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def lines(self, name: str) -> Iterator[bytes]:
        file = (self.root / name).open("rb")

        def read() -> Iterator[bytes]:
            with file:
                yield from file

        lines = read()
        # Start the generator: closing it then closes the file even if no line was read.
        first = next(lines, None)
        return chain((first,), lines) if first is not None else iter(())

    def open(self, name: str, size: int) -> pa.NativeFile:
        import pyarrow as pa

        return pa.memory_map(f"{self.root}/{name}")

    def write(self, name: str, fill: Callable[[pa.NativeFile], None]) -> None:
        import pyarrow as pa

        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, durable=True) as temporary, pa.OSFile(str(temporary), "wb") as sink:
            fill(sink)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with new_file(path) as temporary:
                temporary.write_bytes(data)
        except FileExistsError:
            return False
        return True

    def put_all(
        self, files: Iterable[NewFile], mode: Literal["link", "copy"], check: Callable[[], None] = lambda: None
    ) -> Iterator[int]:
        for number, (source, name, _) in enumerate(files):
            try:
                link_or_copy(source, self.root / name, mode)
            except FileNotFoundError as exc:
                target = self.root / name
                if not source.exists():
                    raise source_gone(source) from exc
                target.parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(source, target, mode)
            yield number

    def fetch(self, files: Sequence[tuple[str, int]], target: Path) -> None:
        for name, size in files:
            if problem := size_problem(self.root / name, size):
                raise FileNotFoundError(f"{self.root / name} {problem}")
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(self.root / name, target / name, "copy")

    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def flush(self, names: Iterable[str] = ()) -> None:
        flush_many(chain((self.root / name for name in names), [self.root]))
