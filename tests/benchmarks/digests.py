"""One digest of many volumes, whatever their order: the sum of a hash of each (number, bytes)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import numpy as np


class Digest:
    """Add volumes by their id (`0000012.npy`) or number; equal text means equal sets of volumes."""

    def __init__(self) -> None:
        self._sum, self._count = 0, 0

    def add(self, row: Any, volume: Any) -> None:
        """`volume` is the array, or its bytes."""
        data = np.ascontiguousarray(volume).view(np.uint8).data if isinstance(volume, np.ndarray) else volume
        found = hashlib.blake2b(number_of(row).to_bytes(8, "little"), digest_size=16)
        found.update(data)
        self._sum = (self._sum + int.from_bytes(found.digest(), "little")) % 2**128
        self._count += 1

    def add_all(self, rows: Iterable[Any], volumes: Iterable[Any]) -> None:
        for row, volume in zip(rows, volumes, strict=True):
            self.add(row, volume)

    @property
    def text(self) -> str:
        return f"{self._count} volumes {self._sum:032x}"


def number_of(row: Any) -> int:
    """The number of a volume, from itself or from its id."""
    if isinstance(row, bytes):
        row = row.decode()
    return int(PurePosixPath(row).stem) if isinstance(row, str) else int(row)


def of_table(uri: str, version: int | None = None) -> str:
    """The digest of a Delta table's rows, read by pyarrow."""
    from deltalake import DeltaTable

    found = Digest()
    dataset = DeltaTable(uri, version=version).to_pyarrow_dataset()
    for batch in dataset.to_batches(columns=["id", "volume"], batch_size=64, fragment_readahead=1):
        found.add_all(batch["id"].to_pylist(), (value.as_buffer() for value in batch["volume"]))
    return found.text
