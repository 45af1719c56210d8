"""A `Place` is a folder of files, on a local file system or in an object store, with what a table needs of it.

`find_place` gives the one that a path or URL names: a `LocalPlace`, a `RemotePlace`, or for a scheme of its own what an
installed package makes, by an entry point of the group `voxelflow.places`. All keep the laws of `nodes.testing.place`:

* A file appears under its name whole or not at all, and is durable once the call returns (`put_all`: once `flush`
  does).
* `put_if_absent` succeeds for exactly one of several callers. On it rests every decision between writers that share
  no lock; locally there is a lock too (`engine.storage.table_lock`).
* Names are relative, with slashes. What begins with `_` or `.` is hidden from readers of tables.

Callers do not check the class of a place but ask what it supports: `local_folder`, `delta_rs_address` and so on.
A kind that answers none of these has tables all the same: without hard links, locks and reservations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from engine.errors import StaleInput, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

    from engine.storage.reservation import Reservation


class NewFile(NamedTuple):
    """A local file of `size` bytes and the name that it gets in a place."""

    source: Path
    name: str
    size: int


class Stat(NamedTuple):
    """A file's size in bytes and its modification time (in an object store: when it was written)."""

    size: int
    mtime_ns: int


class Place(ABC):
    """A folder of files; see the module. `str(place)` is its path or URL."""

    @property
    def local_folder(self) -> Path | None:
        """The folder of the local file system that has these files, under their names; None where there is none.

        With one come hard links, renames, the lock of `engine.storage.table_lock`, and programs that know paths alone.
        Without one writers share no lock: each commit is made by `put_if_absent`.
        """
        return None

    @property
    def folder(self) -> Path:
        """`local_folder`. Raises `UsageError` where there is none."""
        if (found := self.local_folder) is not None:
            return found
        raise UsageError(
            f"the table {self} does not lie in a local folder",
            hint="Give a local folder, or copy the table to one.",
        )

    @property
    def delta_rs_address(self) -> str | None:
        """By which delta-rs opens a table here; None where it cannot, and reads a local copy of the log."""
        return None

    def absolute(self) -> Place:
        """The same place by an absolute address, independent of the current directory and the user."""
        return self

    def resolved(self) -> Place:
        """The same place by the one address that it has in this process, links followed."""
        return self

    def reservation(self, run: str, workspace: Path) -> Reservation | None:
        """The reservation of a table here for the run `run` of `workspace`; None where there is nothing to reserve.

        Without one other runs may write meanwhile: no row is lost or doubled, but tasks may have to plan anew.
        """
        return None

    def error_of(self, exc: OSError) -> Exception:
        """What to raise for an error of delta-rs with this place; `exc` itself where nothing in it is secret."""
        return exc

    @abstractmethod
    def path(self, name: str) -> str:
        """The path or URL by which other programs know the file."""

    @abstractmethod
    def names(self, below: str = "") -> Iterator[str]:
        """Names of the files and folders that lie directly in the folder `below`; none when there is no such folder."""

    def files(self, below: str = "") -> Iterator[tuple[str, int]]:
        """The files in the folder `below` and in its folders: name and bytes of each, in any order."""
        for name in self.names(below):
            path = f"{below}/{name}" if below else name
            found = self.stat(path)
            if found is not None and found.size >= 0:
                yield path, found.size
            else:
                yield from self.files(path)

    @abstractmethod
    def stat(self, name: str) -> Stat | None:
        """The file's size and time; None when there is none. A folder, or what else is no file, has the size -1."""

    @abstractmethod
    def sizes(self) -> Callable[[str], int | None]:
        """A function that gives the bytes of a file by its name, None when there is none.

        Take one for many questions: an object store is listed once, at the first; a local folder is never listed.
        """

    @abstractmethod
    def damaged(self, files: Iterable[tuple[str, int]]) -> Iterator[tuple[int, str]]:
        """Of files with their sizes in bytes those that are gone or differ: position, and what is wrong.

        No byte is read. Measured: 0.27 s for 100,000 local files; an object store is listed once.
        """

    @abstractmethod
    def read(self, name: str) -> Buffer:
        """All bytes of a file; a local one is mapped, not copied. Raises `FileNotFoundError`."""

    @abstractmethod
    def lines(self, name: str) -> Iterator[bytes]:
        """The lines of a file with their ends; a local one is read as they are asked for.

        Raises `FileNotFoundError` at once, not at the first line.
        """

    @abstractmethod
    def open(self, name: str, size: int) -> pa.NativeFile:
        """A file of `size` bytes for random access by Arrow. Raises `FileNotFoundError`."""

    @abstractmethod
    def write(self, name: str, fill: Callable[[pa.NativeFile], None]) -> None:
        """Write a file, or replace it, with what `fill` writes to an output stream."""

    @abstractmethod
    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file if there is none of this name; False, and nothing changed, if there is."""

    @abstractmethod
    def put_all(
        self, files: Iterable[NewFile], mode: Literal["link", "copy"], check: Callable[[], None] = lambda: None
    ) -> Iterator[int]:
        """Put local files here whole; gives the position of each as it is there, in any order.

        What is there with the same size already is taken for the file wanted; another one is replaced. Locally a file
        becomes a hard link (`mode` "link", where the file system has them) or a copy with its modification time;
        in an object store several are uploaded at a time, and `check` is called every half second, for errors that
        end it. Raises `StaleInput` when a source is gone or, where its bytes are sent, has another size.
        """

    @abstractmethod
    def fetch(self, files: Sequence[tuple[str, int]], target: Path) -> None:
        """Copy files with their sizes below the local folder `target`.

        Raises `FileNotFoundError` when one is gone, or has another size.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file; nothing happens when there is none."""

    def flush(self, names: Iterable[str] = ()) -> None:  # noqa: B027 - what an object store answered for is durable
        """Have files that `put_all` put here, and the place itself, durable."""


def source_gone(source: Path) -> StaleInput:
    """The error of `put_all` for a local file that is gone."""
    return StaleInput(f"{source} is gone", hint="Run the node that made it again.")
