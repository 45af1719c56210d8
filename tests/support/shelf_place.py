"""A `Place` as somebody else's package brings it for `shelf://`: neither a local folder nor an object store.

Its files lie below the folder that the environment variable `SHELF` names; only this module reads it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from voxelflow import NewFile, Place, StaleInput, Stat


@dataclass(frozen=True)
class ShelfPlace(Place):
    """Files on a shelf, by their address."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def _folder(self) -> Path:
        return folder_of(self.url)

    def path(self, name: str) -> str:
        return f"{self.url}/{name}"

    def names(self, below: str = "") -> Iterator[str]:
        folder = self._folder / below
        yield from sorted(os.listdir(folder)) if folder.is_dir() else ()

    def stat(self, name: str) -> Stat | None:
        path = self._folder / name
        return Stat((found := path.stat()).st_size, found.st_mtime_ns) if path.is_file() else None

    def sizes(self) -> Callable[[str], int | None]:
        return lambda name: None if (found := self.stat(name)) is None else found.size

    def damaged(self, files: Iterable[tuple[str, int]]) -> Iterator[tuple[int, str]]:
        for number, (name, wanted) in enumerate(files):
            if (size := self.sizes()(name)) is None:
                yield number, "is gone"
            elif size != wanted:
                yield number, f"has {size:,} bytes, not {wanted:,}"

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def lines(self, name: str) -> Iterator[bytes]:
        return iter(self.read(name).splitlines(keepends=True))

    def open(self, name: str, size: int) -> pa.NativeFile:
        return pa.BufferReader(self.read(name))

    def write(self, name: str, fill: Callable[[pa.NativeFile], None]) -> None:
        sink = pa.BufferOutputStream()
        fill(sink)
        self._put(name, sink.getvalue().to_pybytes(), os.replace)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        try:
            self._put(name, data, os.link)
        except FileExistsError:
            return False
        return True

    def put_all(
        self, files: Iterable[NewFile], mode: Literal["link", "copy"], check: Callable[[], None] = lambda: None
    ) -> Iterator[int]:
        for number, (source, name, size) in enumerate(files):
            check()
            if not source.exists():
                raise StaleInput(f"{source} is gone", hint="Run the node that made it again.")
            if self.sizes()(name) != size:
                self._put(name, source.read_bytes(), os.replace)
            yield number

    def fetch(self, files: Sequence[tuple[str, int]], target: Path) -> None:
        for name, size in files:
            data = self.read(name)
            if len(data) != size:
                raise FileNotFoundError(f"{self.path(name)} has {len(data)} bytes, not {size}")
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(data)

    def delete(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def _put(self, name: str, data: bytes, place: Callable[[Path, Path], None]) -> None:
        target = self._folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(os.environ["SHELF"]) / f".{secrets.token_hex(8)}"
        aside.write_bytes(data)
        try:
            place(aside, target)
        finally:
            aside.unlink(missing_ok=True)


def folder_of(url: str) -> Path:
    """Where the files of an address really lie."""
    return Path(os.environ["SHELF"]) / url.removeprefix("shelf://")


def refuse(url: str) -> Place:
    """A maker of places that does not work."""
    raise RuntimeError("the shelf is locked")


def none(url: str) -> str:
    """One that makes no place."""
    return url
