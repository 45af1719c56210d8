"""SHA-256 of the files that patches are cut from: one more reading of each, which is remembered."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.declare.context import TaskContext
from engine.declare.progress import track
from engine.errors import DataError
from nodes.conversion.formats import Reading, stamper_of
from nodes.conversion.quarantine import Refused
from nodes.cutting.cubes import Cube
from nodes.cutting.tiles import TileCache, open_tiled, refuse_changed

LABEL = "hashing sources"
Hashed = Generator[tuple[Cube, str], None, None]


class StoredHashes:
    """The hashes that earlier runs of the same work have taken, a line for each volume and state of its files.

    Not flushed: a line that a kill or a power cut has cut short counts for nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = dict(self._lines())

    def get(self, cube: Cube) -> str | None:
        """The hash of the volume, "" for none that can be taken; None where it was not tried."""
        return self._known.get(_key(cube))

    def add(self, cube: Cube, found: str) -> None:
        self._known[_key(cube)] = found
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"\n{_key(cube)} {found}.")

    def _lines(self) -> Iterator[tuple[str, str]]:
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            key, _, found = line.partition(" ")
            # The full stop was written last.
            if found.endswith("."):
                yield key, found.removesuffix(".")


@dataclass(frozen=True)
class HashCube:
    """Gives the SHA-256 of a volume's files (`TiledVolume.sha256`), "" for none that can be taken.

    Raises `DataError` for a file that cannot be read, or has changed since it was listed.
    """

    root: str
    reading: Reading

    def __call__(self, cube: Cube) -> str:
        stamp = stamper_of(self.reading)
        try:
            with open_tiled(Path(self.root), cube.files, self.reading, TileCache(1 << 62)) as volume:
                found = volume.sha256() or ""
            for file in cube.files:
                place = Path(self.root) / file.path
                refuse_changed(place, file, stamp(place))
        except (OSError, Refused) as exc:
            raise DataError(
                f"{cube.name} cannot be hashed: {exc}",
                hint="Repair it, or wait until nothing writes to it, and run again; or set hash_sources to false.",
                parameter="hash_sources",
            ) from exc
        return found


class HashCubes(Protocol):
    """Gives each volume with its hash as it is known, in any order; closing the generator ends the work."""

    def __call__(self, cubes: Sequence[Cube], work: HashCube, ctx: TaskContext) -> Hashed: ...


def hash_in_threads(cubes: Sequence[Cube], work: HashCube, ctx: TaskContext) -> Hashed:
    """See `HashCubes`: as many at a time as the task has cores."""
    with ThreadPoolExecutor(max(1, ctx.resources.cores), thread_name_prefix="hash") as pool:
        waiting = pool.map(work, cubes)
        try:
            found = track(waiting, total=len(cubes), unit="volumes", label=LABEL)
            yield from zip(cubes, found, strict=True)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def source_hashes(
    root: str,
    cubes: Sequence[Cube],
    reading: Reading,
    stored: StoredHashes,
    ctx: TaskContext,
    take: HashCubes = hash_in_threads,
) -> Mapping[str, str | None]:
    """By name the hash of each volume; those that are not known yet are read. Raises what `HashCube` raises."""
    missing = [cube for cube in cubes if stored.get(cube) is None]
    with contextlib.closing(take(missing, HashCube(root, reading), ctx)) as taken:
        for cube, found in taken:
            stored.add(cube, found)
    return {cube.name: stored.get(cube) or None for cube in cubes}


def _key(cube: Cube) -> str:
    return f"{cube.stamp:016x}{cube.size:x}"
