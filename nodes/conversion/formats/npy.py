"""`.npy` files as the other formats are opened: for boxes of a volume that is larger than memory.

Whole volumes are read by `conversion.npy_files`, which is faster for many small ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nodes.conversion import npy_files
from nodes.conversion.formats.interface import Box, OpenVolume, VolumeHeader
from nodes.conversion.formats.stored_array import stored_array


@contextmanager
def open_npy(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open a `.npy` file. Raises `Refused`."""
    header = npy_files.header_of(str(path.parent), path.name)
    fortran = header.fortran_order
    with stored_array(path, header.dtype, header.offset, header.shape, fortran=fortran) as stored:

        def read_box(box: Box, out: NDArray[Any]) -> None:
            stored.read_into(out, box.slices)

        boxes = read_box if len(header.shape) in (3, 4) else None
        yield OpenVolume(VolumeHeader(header.shape, header.dtype.name), stored.read_into, boxes, last_is_slow=fortran)
