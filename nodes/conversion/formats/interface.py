"""What a format of volumes is made of: functions, and what they give.

    @contextmanager
    def open_mine(path: Path, dataset: str) -> Iterator[OpenVolume]:
        with MyFile(path) as file:
            header = VolumeHeader(file.shape, file.dtype.name, {"spacing_x": file.dx})
            yield OpenVolume(header, lambda out: file.read_into(out))

Axes are X, Y, Z, then channels. The header is read without the data, and no size that it claims is believed: `fill`
is called only when shape and dtype are those of the dataset, so what it takes is bounded by one volume of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from numpy.typing import NDArray


class Axis(NamedTuple):
    """How a file itself counts along an axis: its voxel n is at `first + n * step`. `name` is one of its columns."""

    name: str
    first: float
    step: float


class Box(NamedTuple):
    """The voxels from `start` on, before `stop`, along X, Y and Z."""

    start: tuple[int, int, int]
    stop: tuple[int, int, int]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Voxels along each axis."""
        return (self.stop[0] - self.start[0], self.stop[1] - self.start[1], self.stop[2] - self.start[2])

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """To take it out of an array."""
        return (
            slice(self.start[0], self.stop[0]),
            slice(self.start[1], self.stop[1]),
            slice(self.start[2], self.stop[2]),
        )


@dataclass(frozen=True)
class VolumeHeader:
    """What is known of a volume without its data.

    `shape` is X, Y, Z, then channels; `dtype` a NumPy name. `columns` are further facts, kept with the volume in the
    table: numbers and short texts by name, those that the format declares, such as those of `geometry.columns_of`.
    `remarks` say what is odd and can be read all the same, and `summary` what there is, to compare with what is
    expected: each goes on from the file's name.

    `axes` say how the file counts along X, Y and Z (inlines, milliseconds), where it does not count voxels: what is cut
    from the volume has columns of its own place.
    """

    shape: tuple[int, ...]
    dtype: str
    columns: Mapping[str, float | int | str] = field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    remarks: tuple[str, ...] = ()
    summary: str = ""


@dataclass(frozen=True)
class OpenVolume:
    """An open file. `fill` puts the volume into an array of the header's shape and dtype, C order, little-endian.

    `read_box` puts a box of it into an array of the box's shape and the volume's channels, and reads little more:
    for what is larger than memory. None where the format has to be read whole. `blocks` are the lengths along X, Y and
    Z of the pieces that are read together, where there are such; `last_is_slow` says that the file has one Z after
    another, so that a slab of a few Z is what is read best. Each may be called by several threads at a time. `files`
    are those that the volume is made of, where it is not the one at the path, or all below it.

    Both may raise anything that says what is wrong with the file, best `Refused`.
    """

    header: VolumeHeader
    fill: Callable[[NDArray[Any]], None]
    read_box: Callable[[Box, NDArray[Any]], None] | None = None
    blocks: tuple[int, int, int] = (1, 1, 1)
    last_is_slow: bool = False
    files: tuple[Path, ...] = ()


class OpenFile(Protocol):
    """Opens the volume at `path`; `dataset` names the array in the file, "" for the only one. Raises as `fill` does."""

    def __call__(self, path: Path, dataset: str) -> AbstractContextManager[OpenVolume]: ...


class CollectVolumes(Protocol):
    """Makes volumes of listed files, where a volume has several: a table of path, size and mtime_ns, sorted by path.

    `path` is what `OpenFile` is later given, below `root`; size and mtime_ns are those of `stamp`.
    """

    def __call__(self, root: Path, listing: pa.Table) -> pa.Table: ...


class StampVolume(Protocol):
    """Size and mtime_ns of the volume at `path` now: those that a listing has for it. Raises `OSError`."""

    def __call__(self, path: Path) -> tuple[int, int]: ...
