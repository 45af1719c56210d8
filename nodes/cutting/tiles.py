"""Reading volumes that may be larger than memory: in tiles, each read once while the patches that need it are cut.

Patches that are cut one after the other lie beside each other (`PatchGrid.positions`), so most of their voxels are
in tiles that are in memory already. Tiles of all volumes share one bound.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import text
from nodes.conversion.formats import Reading, stamper_of
from nodes.conversion.formats.interface import Box, OpenVolume
from nodes.conversion.formats.reader import guarded, opened, title_of
from nodes.conversion.formats.source import sha256_of
from nodes.conversion.quarantine import Refused
from nodes.cutting.cubes import CubeFile
from nodes.cutting.same_place import refuse_elsewhere

_THICK, _WIDE = 16, 64
"""Voxels of a tile along the axis that is slowest in the file, and along Y; along the third it is whole."""
_Key = tuple[str, int, int, int]


class TooLarge(Refused):
    """A volume has to be read whole, and is larger than the memory for it."""


class TileCache:
    """Tiles of several volumes, at most `most_bytes` of them but for those being read. For several threads.

    Volumes that have to be read whole are one tile each; of these there may be `whole_bytes`, or else `most_bytes`.
    """

    def __init__(self, most_bytes: int, whole_bytes: int = 0) -> None:
        self._tiled, self._whole = most_bytes, max(most_bytes, whole_bytes)
        self._most = most_bytes
        self._tiles: OrderedDict[_Key, NDArray[Any]] = OrderedDict()
        self._coming: dict[_Key, Future[NDArray[Any]]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def whole_bytes(self) -> int:
        """How large a volume may be that has to be read whole: two of them are there where one follows the other."""
        return self._whole // 2

    def get(self, key: _Key, volume: TiledVolume) -> NDArray[Any]:
        """The tile, from memory or read now. Raises what reading it raises, in each thread that waits for it."""
        with self._lock:
            if (tile := self._tiles.get(key)) is not None:
                self._tiles.move_to_end(key)
                return tile
            mine = key not in self._coming
            coming = self._coming.setdefault(key, Future())
        if mine:
            try:
                tile = volume.read_tile(key)
            except BaseException as exc:
                with self._lock:
                    del self._coming[key]
                coming.set_exception(exc)
            else:
                with self._lock:
                    self._most = self._tiled if volume.in_tiles else self._whole
                    self._tiles[key] = tile
                    self._bytes += tile.nbytes
                    del self._coming[key]
                    while self._bytes > self._most and len(self._tiles) > 1:
                        self._bytes -= self._tiles.popitem(last=False)[1].nbytes
                coming.set_result(tile)
        return coming.result()


class TiledVolume:
    """One volume of several open files, its channels side by side; use `open_tiled`.

    `shape` is X, Y, Z and channels, `dtype` little-endian.
    """

    def __init__(
        self, root: Path, files: Sequence[CubeFile], reading: Reading, volumes: Sequence[OpenVolume], cache: TileCache
    ) -> None:
        self._root, self._files, self._volumes, self._cache = root, files, volumes, cache
        self._stamp, self._title = stamper_of(reading), title_of(reading)
        headers = [volume.header for volume in volumes]
        self.channels = [math.prod(header.shape[3:]) for header in headers]
        x, y, z = (*headers[0].shape[:3], 1, 1)[:3]
        self.shape = (x, y, z, sum(self.channels))
        self.dtype = np.result_type(*(np.dtype(header.dtype) for header in headers)).newbyteorder("<")
        self.last_is_slow = all(volume.last_is_slow for volume in volumes)
        self._tile = self._tile_shape()
        self._name = "\0".join(f"{root}/{file.path}" for file in files)

    @property
    def in_tiles(self) -> bool:
        """Whether it can be read in tiles; else it is read whole."""
        return all(volume.read_box is not None for volume in self._volumes)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole volume."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def tile_bytes(self) -> int:
        """Bytes of one tile."""
        return math.prod(self._tile) * self.shape[3] * self.dtype.itemsize

    def sha256(self) -> str | None:
        """Of the file that it lies in, as a conversion of whole files gives it. Of several channels that of the lines
        which `sha256sum` prints of their files, by their paths below the root. Raises `OSError`."""
        places = [self._root / file.path for file in self._files]
        if len(places) == 1:
            return sha256_of(places[0], self._volumes[0].files)
        files = [each for place, volume in zip(places, self._volumes, strict=True) for each in volume.files or (place,)]
        return sha256_of(self._root, files)

    def _tile_shape(self) -> tuple[int, int, int]:
        x, y, z = self.shape[:3]
        if not self.in_tiles:
            return x, y, z
        blocks = [max(volume.blocks[axis] for volume in self._volumes) for axis in range(3)]
        thin = min(x, _up(_THICK, blocks[0])), min(y, _up(_WIDE, blocks[1])), z
        return (x, thin[1], min(z, _up(_THICK, blocks[2]))) if self.last_is_slow else thin

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """Put a box into `out`, an array of its shape and the channels. Raises `Refused`."""
        ranges = [
            range(first // length, (last - 1) // length + 1)
            for first, last, length in zip(box.start, box.stop, self._tile, strict=True)
        ]
        for i in ranges[0]:
            for j in ranges[1]:
                for k in ranges[2]:
                    tile = self._cache.get((self._name, i, j, k), self)
                    there, here = [], []
                    for first, last, length, number in zip(box.start, box.stop, self._tile, (i, j, k), strict=True):
                        begin = max(first, number * length)
                        end = min(last, (number + 1) * length)
                        there.append(slice(begin - number * length, end - number * length))
                        here.append(slice(begin - first, end - first))
                    out[tuple(here)] = tile[tuple(there)]

    def read_tile(self, key: _Key) -> NDArray[Any]:
        """Read the tile from the files. Raises `Refused`, also when a file has changed since it was listed."""
        x, y, z = (number * length for number, length in zip(key[1:], self._tile, strict=True))
        ends = [min(first + n, most) for first, n, most in zip((x, y, z), self._tile, self.shape, strict=False)]
        box = Box((x, y, z), (ends[0], ends[1], ends[2]))
        tile = np.empty((*box.shape, self.shape[3]), self.dtype)
        channel = 0
        for file, volume, count in zip(self._files, self._volumes, self.channels, strict=True):
            place = self._root / file.path
            refuse_changed(place, file, self._stamp(place))
            target = tile[..., channel : channel + count]
            dtype = np.dtype(volume.header.dtype).newbyteorder("<")
            found = np.empty((*box.shape, *volume.header.shape[3:]), dtype)
            guarded(place, self._title, partial(_read, volume, box, found))
            target[...] = found.reshape(target.shape)
            refuse_changed(place, file, self._stamp(place))
            channel += count
        return tile


@contextmanager
def open_tiled(root: Path, files: Sequence[CubeFile], reading: Reading, cache: TileCache) -> Iterator[TiledVolume]:
    """Open the files of one volume. Raises `Refused` when they do not fit together, or are too large to be read whole.

    What a reader raises over a damaged file becomes `Refused`, too.
    """
    with ExitStack() as stack:
        volumes = [stack.enter_context(opened(root / file.path, reading)) for file in files]
        for file, volume in zip(files[1:], volumes[1:], strict=True):
            if volume.header.shape[:3] != volumes[0].header.shape[:3]:
                raise Refused(
                    "shape",
                    f"is {_times(volume.header.shape[:3])} voxels, {files[0].path} is"
                    f" {_times(volumes[0].header.shape[:3])}: the channels of a volume have one shape",
                )
            refuse_elsewhere(volumes[0].header, volume.header, file.path)
        found = TiledVolume(root, files, reading, volumes, cache)
        if not found.in_tiles and found.nbytes > cache.whole_bytes:
            raise TooLarge(
                "unreadable",
                f"has {text.size(found.nbytes)} when it is unpacked, and its format has to be read whole; there is"
                f" memory for {text.size(cache.whole_bytes)}. Store it uncompressed, or as Zarr",
            )
        yield found


def _read(volume: OpenVolume, box: Box, out: NDArray[Any]) -> None:
    if volume.read_box is None:
        volume.fill(out.reshape(volume.header.shape))
    else:
        volume.read_box(box, out)


def refuse_changed(place: Path, file: CubeFile, found: tuple[int, int]) -> None:
    """Raise `Refused` when the file is not the one that was listed."""
    if found != (file.size, file.mtime_ns):
        raise Refused("changed-during-run", f"{place.name} has changed since the folder was listed")


def _up(length: int, block: int) -> int:
    """The next multiple of `block`."""
    return -(-length // block) * block


def _times(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
