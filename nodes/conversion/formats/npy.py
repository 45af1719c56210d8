"""`.npy` files as the other formats are opened: for boxes of a volume that is larger than memory.

Whole volumes are read by `conversion.npy_files`, which is faster for many small ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.conversion import npy_files
from nodes.conversion.formats.interface import Box, OpenVolume, VolumeHeader


@contextmanager
def open_npy(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open a `.npy` file. Raises `Refused`."""
    header = npy_files.header_of(str(path.parent), path.name)
    order = "F" if header.fortran_order else "C"
    whole: NDArray[Any] = np.memmap(path, header.dtype, "r", header.offset, header.shape, order=order)  # type: ignore[call-overload]

    def fill(out: NDArray[Any]) -> None:
        out[...] = whole

    def read_box(box: Box, out: NDArray[Any]) -> None:
        out[...] = whole[box.slices]

    boxes = read_box if len(header.shape) in (3, 4) else None
    yield OpenVolume(VolumeHeader(header.shape, header.dtype.name), fill, boxes, last_is_slow=header.fortran_order)
