"""Patches as rows of a table: cut from volumes that are open, their voxels, place and geometry."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import DataError
from engine.text import plural
from nodes.conversion.formats import HASH, Reading, format_named
from nodes.conversion.formats.geometry import affine_in, text_of
from nodes.conversion.formats.interface import Axis, Box, VolumeHeader
from nodes.conversion.npy_files import finite_mask, refuse_not_finite
from nodes.conversion.part_writer import Layout, Row
from nodes.conversion.quarantine import Refused
from nodes.cutting.cubes import Cube
from nodes.cutting.tiles import TileCache, TiledVolume, open_tiled

_PLACE = re.compile(r"(?P<cube>.*)/x(?P<x>\d+)-y(?P<y>\d+)-z(?P<z>\d+)", re.DOTALL)
_IDLE = 2
"""Volumes that stay open without anybody who reads them: the next chunk often begins where another ended."""


def ids_of(name: str, positions: NDArray[np.int32]) -> pa.Array:
    """`survey/x00120-y00030-z00000` for each first voxel (n, 3): sorted as the numbers are, up to 99,999."""
    parts = [pa.scalar(f"{name}/x")]
    for axis, mark in ((0, "-y"), (1, "-z"), (2, "")):
        text = pa.array(positions[:, axis]).cast(pa.string())
        parts += [pc.utf8_lpad(text, 5, "0"), pa.scalar(mark)]
    return pc.binary_join_element_wise(*parts, pa.scalar(""))


@dataclass(frozen=True)
class Place:
    """What is known of a volume without its voxels: what its patches' geometry follows from."""

    columns: tuple[tuple[str, Any], ...] = ()
    axes: tuple[Axis, ...] = ()

    @classmethod
    def of(cls, header: VolumeHeader, **more: Any) -> Place:
        """With `more` columns that all patches of the volume have."""
        return cls((*header.columns.items(), *more.items()), header.axes)

    def at(self, position: Sequence[int]) -> Mapping[str, Any]:
        """The columns of the patch that begins there."""
        out = dict(self.columns)
        for axis, voxel in zip(self.axes, position, strict=False):
            out[axis.name] = axis.first + voxel * axis.step
        if (matrix := affine_in(out.get("affine"))) is not None:
            matrix[:, 3] += matrix[:, :3] @ np.array(position, np.float64)
            out["affine"] = text_of(matrix)
        return out


@dataclass(frozen=True)
class PatchSource:
    """Patches of `size` from the volumes `cubes` below `root`; see `part_writer.RowSource`.

    A row's key is its id, `ids_of`, and its stamp that of its volume. `places` has the geometry of each volume, and
    the last `carried` columns of the layout are the row's own.
    `tile_bytes` are those that all threads of a process keep of volumes in memory, `whole_bytes` those of volumes that
    have to be read whole. With `stop` a file that cannot be
    read ends the run; else its patches are refused.
    """

    root: str
    reading: Reading
    cubes: Mapping[str, Cube]
    places: Mapping[str, Place]
    size: tuple[int, int, int]
    edges: str
    no_data: float | None
    tile_bytes: int
    whole_bytes: int
    carried: int = 0
    stop: bool = True
    noun: str = "patches"

    def key(self) -> Sequence[str]:
        return ["patches", *self.reading[:2], self.edges, str(self.no_data)]

    def open(self, layout: Layout) -> PatchReader:
        return PatchReader(self, self.volumes, layout)

    @cached_property
    def volumes(self) -> OpenVolumes:
        """What the readers of this process share."""
        return OpenVolumes(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "volumes"}

    def reader_bytes(self, layout: Layout) -> int:
        """The tiles that a thread reads at a time: as they are in the file and as they become."""
        return 2 * layout.spec.volume_bytes + (8 << 20)


def columns_of(reading: Reading, *, hashes: bool = False) -> pa.Schema:
    """The columns of patches: `source` (the volume's name), `x`, `y`, `z` (the first voxel), the format's, and with
    `hashes` that of the volume's files."""
    known = () if reading.format == "npy" else format_named(reading.format).columns
    known = (*known, HASH) if hashes else known
    return pa.schema(
        [
            ("source", pa.string()),
            *((axis, pa.int32()) for axis in "xyz"),
            *((name, pa.type_for_alias(kind)) for name, kind in known),
        ]
    )


class OpenVolumes:
    """The volumes that the threads of a process have open: each is opened once, and closed when nobody reads it."""

    def __init__(self, source: PatchSource) -> None:
        self._source = source
        self._cache = TileCache(source.tile_bytes, source.whole_bytes)
        self._lock = threading.Lock()
        self._open: dict[str, tuple[ExitStack, TiledVolume]] = {}
        self._users: dict[str, int] = {}

    def take(self, name: str) -> TiledVolume:
        """The volume, open until `give_back`. Raises `Refused`."""
        with self._lock:
            if name not in self._open:
                stack = ExitStack()
                cube = self._source.cubes[name]
                opened = open_tiled(Path(self._source.root), cube.files, self._source.reading, self._cache)
                self._open[name] = stack, stack.enter_context(opened)
            self._users[name] = self._users.get(name, 0) + 1
            return self._open[name][1]

    def give_back(self, name: str) -> None:
        """One of those who took it needs it no longer."""
        with self._lock:
            self._users[name] -= 1
            idle = [name for name in self._open if not self._users[name]]
            for name in idle[:-_IDLE]:
                self._open.pop(name)[0].close()

    def close(self) -> None:
        """Close those that nobody reads."""
        with self._lock:
            for name in [name for name in self._open if not self._users[name]]:
                self._open.pop(name)[0].close()


class PatchReader:
    """Cuts patches, one after the other; see `part_writer.RowReader`."""

    def __init__(self, source: PatchSource, volumes: OpenVolumes, layout: Layout) -> None:
        self._source, self._volumes, self._layout = source, volumes, layout
        self._dtype = np.dtype(layout.spec.dtype).newbyteorder("<")
        self._mask = finite_mask(layout.spec) if layout.finite else None
        self._names = layout.columns.names[4 : len(layout.columns) - source.carried]
        self._name = ""
        self._volume: TiledVolume | None = None

    def expect(self, rows: Sequence[Row]) -> None:
        """A new chunk begins: another thread may go on with the volume of the last one."""
        self._give_back()

    def fill(self, row: Row, volume: NDArray[np.uint8]) -> tuple[float | None, Sequence[Any]]:
        """Cut the patch. Raises `Refused`, and `DataError` for a file that cannot be read where that ends the run."""
        found = _PLACE.fullmatch(row.key)
        assert found is not None, row.key
        name, position = found["cube"], (int(found["x"]), int(found["y"]), int(found["z"]))
        values = volume.view(self._dtype).reshape(self._layout.spec.shape)
        try:
            self._cut(self._take(name), position, values)
        except Refused as refused:
            if self._source.stop:
                raise DataError(
                    f"{name} cannot be read: it {refused.message}",
                    hint="Repair or remove it, or set bad_volumes to leave it out. Finished parts are not made again.",
                    parameter="bad_volumes",
                ) from refused
            raise
        if self._source.no_data is not None and (missing := int(np.count_nonzero(values == self._source.no_data))):
            raise Refused("no-data", f"has {plural(missing, 'voxels')} without data ({self._source.no_data:g})")
        if self._mask is not None:
            refuse_not_finite(values.reshape(-1), self._mask)
        geometry = self._source.places[name].at(position)
        return row.label, (name, *position, *(geometry.get(column) for column in self._names), *row.columns)

    def _take(self, name: str) -> TiledVolume:
        if self._volume is None or name != self._name:
            self._give_back()
            self._volume = self._volumes.take(name)
            self._name = name
        return self._volume

    def _give_back(self) -> None:
        if self._volume is not None:
            self._volume = None
            self._volumes.give_back(self._name)

    def _cut(self, volume: TiledVolume, position: tuple[int, int, int], out: NDArray[Any]) -> None:
        ends = [
            min(first + length, most)
            for first, length, most in zip(position, self._source.size, volume.shape, strict=False)
        ]
        box = Box(position, (ends[0], ends[1], ends[2]))
        if box.shape != self._source.size and self._source.edges == "zeros":
            out[...] = 0
        volume.read(box, out[tuple(slice(0, length) for length in box.shape)])
        if self._source.edges == "zeros":
            return
        for axis, (length, size) in enumerate(zip(box.shape, self._source.size, strict=True)):
            if length < size:
                whole = np.moveaxis(out, axis, 0)
                # What is beyond on the later axes comes when it is their turn.
                whole[length:] = whole[length - 1]
