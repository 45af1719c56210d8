"""The native loader: volumes from the table's own files, straight into the batch.

Where the files have the volume layout (uncompressed, PLAIN), a page index finds every volume and
each is read straight into its place in the batch: a global shuffle at the speed of memory. Files
that must be decoded, or lie elsewhere than on a local disk, are read by row groups instead
(`row_groups`), shuffled in windows.

Files are read (`scattered_reads`), not mapped into memory. Measured side by side it takes 1.07 times the
processor time of copying from a map, and it tells a file that was cut short, where touching a map ends
the process, and takes no page tables for 234 GB of files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.datasets import VolumeDelta, VolumeParquet, VolumeSpec
from engine.errors import DataError
from nodes.loaders.data_files import data_files
from nodes.loaders.file_rows import FileRows, join_rows, read_files
from nodes.loaders.interface import Source
from nodes.loaders.open_files import OpenFiles
from nodes.loaders.page_checks import checks_for, positions
from nodes.loaders.random_access import RandomAccessSource
from nodes.loaders.row_groups import RowGroupSource
from nodes.loaders.rows import RowNumbers
from nodes.loaders.scattered_reads import MOST, ScatteredReads

if TYPE_CHECKING:
    from nodes.loaders.page_index import PageIndex
    from nodes.loaders.rows import Rows

_LENGTH = 4
"""Bytes in front of a value that tell its length."""
_BESIDE_BYTES = 8 << 20
"""Volumes of other types are read in parts of at most this size, or one by one."""


def open_arrow(dataset: VolumeDelta | VolumeParquet, *, cores: int) -> Source:
    """Open a table: reads ids, labels and page headers.

    Raises `UnsupportedTable` or `DataError` for a table that would be read wrongly.
    """
    found = data_files(dataset)
    access = found.access
    files = list(read_files(found.paths, index_bytes=found.spec.volume_bytes, threads=max(2, cores), access=access))
    rows = join_rows(files, dataset.uri)
    indexes = [file.index for file in files if file.index is not None]
    if len(indexes) < len(files):
        decoded = next(file for file in files if file.index is None)
        name = Path(decoded.path).name
        reason = f"{name} must be decoded: {decoded.reason}" if access.mapped else decoded.reason
        return RowGroupSource(dataset.uri, found.spec, rows, files, reason, access=access, cores=cores)
    return PageIndexedSource(dataset.uri, found.spec, rows, files, indexes, cores=cores)


class PageIndexedSource(RandomAccessSource):
    """Volumes by their offsets: twelve bytes of memory a row."""

    name = "arrow"
    read_path = "mapped"

    def __init__(
        self,
        where: str,
        spec: VolumeSpec,
        rows: Rows,
        files: list[FileRows],
        indexes: list[PageIndex],
        *,
        cores: int,
    ) -> None:
        super().__init__(where, spec, rows, cores=cores)
        self._paths = [file.path for file in files]
        numbers, offsets = positions(indexes)
        self._file, self._offset = numbers[rows.stored], offsets[rows.stored]
        self._checks = checks_for(indexes)
        self._open = OpenFiles(self._paths)
        self._reads = ScatteredReads()

    def fill(self, rows: RowNumbers, out: NDArray[np.float32]) -> None:
        size, dtype = self.spec.volume_bytes, np.dtype(self.spec.dtype).newbyteorder("<")
        # float32 lands in place; anything else is read beside it and cast.
        direct = dtype == np.dtype("<f4") == np.dtype(np.float32)
        # By one call: no more than files that stay open for it.
        most = min(MOST, self._open.most)
        if not direct:
            most = max(1, min(most, _BESIDE_BYTES // size))
        volumes = out.reshape(len(rows), int(np.prod(self.spec.shape)))
        beside = np.empty((0 if direct else min(most, len(rows)), size), np.uint8)
        for start in range(0, len(rows), most):
            part = rows[start : start + most]
            into = volumes[start : start + most].view(np.uint8) if direct else beside[: len(part)]
            self._read(part, into)
            if not direct:
                with np.errstate(over="ignore"):
                    volumes[start : start + most] = into.view(dtype)

    def _read(self, rows: RowNumbers, out: NDArray[np.uint8]) -> None:
        """Put the bytes of up to `MOST` volumes into the rows of `out`."""
        numbers, size = self._file[rows].tolist(), self.spec.volume_bytes
        files = [self._open.descriptor(number) for number in numbers]
        lengths = np.zeros((len(rows), _LENGTH), np.uint8)
        counts = self._reads.read(files, self._offset[rows] - _LENGTH, lengths, out)
        wrong = (counts != size + _LENGTH) | (lengths.view("<u4")[:, 0] != size)
        if wrong.any():
            at = int(wrong.argmax())
            path, failed = self._paths[numbers[at]], -int(counts[at])
            if failed > 0:
                raise OSError(failed, os.strerror(failed), path)
            raise DataError(
                f"{path}: the volume {self.ids([int(rows[at])])[0]} is not {size:,} bytes long",
                hint="The file is damaged or was changed while it was read. Make the table again.",
            )
        if self._checks is not None and self._checks.pending:
            for row, number, file in zip(rows.tolist(), numbers, files, strict=True):
                self._check(row, number, file)

    def _check(self, row: int, number: int, file: int) -> None:
        assert self._checks is not None
        if not self._checks.is_right(int(self.rows.stored[row]), file):
            raise DataError(
                f"{self._paths[number]}: the page with the volume {self.ids([row])[0]} does not match its checksum",
                hint="The file is damaged. Make the table again, or restore the file from a copy.",
            )

    def close(self) -> None:
        super().close()
        self._reads.close()
        self._open.close()
