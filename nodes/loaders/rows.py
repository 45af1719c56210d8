"""The rows of an opened dataset without their volumes: ids, labels, and where each row is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.datasets import Selection, id_digests
from engine.errors import DataError

RowNumbers = NDArray[np.int64]
"""Positions in the id order of all rows of the source."""
_CHUNK = 50_000


@dataclass(frozen=True)
class Rows:
    """All rows in the order of their ids (by UTF-8 bytes), about 30 bytes a row plus the id.

    `labels` is float32, NaN where there is none; `stored` the row's position in the dataset's own
    order of files and rows.
    """

    ids: pa.Array
    labels: NDArray[np.float32]
    stored: RowNumbers
    _kept: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def by_id(cls, ids: pa.Array, labels: NDArray[np.float32], where: str) -> Rows:
        """Number rows by id. Raises `DataError` when an id is missing or comes twice."""
        if ids.null_count:
            raise DataError(f"{where}: {ids.null_count:,} rows have no id", hint="Give every row an id of its own.")
        order = pc.sort_indices(ids)
        ids = ids.take(order)
        if len(ids) > 1:
            twice = pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1))
            if pc.any(twice).as_py():
                first = ids[pc.index(twice, True).as_py()].as_py()
                raise DataError(
                    f"{where}: {pc.sum(twice).as_py():,} ids come more than once, the first is {first}",
                    hint="A volume's id must be its own. Remove the doubled rows, or make the table again.",
                )
        stored = order.to_numpy().astype(np.int64)
        return cls(ids, np.ascontiguousarray(labels[stored], np.float32), stored)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def unlabelled(self) -> int:
        return int(np.isnan(self.labels).sum())

    def chosen(self, selections: Sequence[Selection]) -> RowNumbers:
        """Numbers of the labelled rows that every selection holds."""
        rows = self.selected(selections)
        return rows[~np.isnan(self.labels[rows])]

    def selected(self, selections: Sequence[Selection]) -> RowNumbers:
        """Numbers of the rows that every selection holds, with a label or without."""
        keep = np.ones(len(self), bool)
        for selection in selections:
            fractions = self._fractions(selection.salt)
            keep &= (selection.low <= fractions) & (fractions < selection.high)
        return np.flatnonzero(keep).astype(np.int64)

    def _fractions(self, salt: str) -> NDArray[np.float64]:
        """`id_fraction` of every id; kept, because the rows to train on and those held back have the same salt."""
        if salt not in self._kept:
            ids = self.ids.cast(pa.binary())
            chunks = (ids.slice(start, _CHUNK).to_pylist() for start in range(0, len(ids), _CHUNK))
            digests = b"".join(id_digests(chunk, salt) for chunk in chunks)
            self._kept[salt] = (np.frombuffer(digests, ">u8").astype(np.uint64) >> np.uint64(11)) / 2**53
        return self._kept[salt]

    def ids_of(self, rows: Sequence[int] | RowNumbers) -> list[str]:
        texts: list[str] = self.ids.take(pa.array(rows, pa.int64())).to_pylist()
        return texts

    def identity(self) -> str:
        """Hash of ids and labels in order."""
        out = hashlib.blake2b(self.labels.tobytes(), digest_size=16)
        for start in range(0, len(self.ids), _CHUNK):
            out.update("\0".join(self.ids.slice(start, _CHUNK).to_pylist()).encode())
        return out.hexdigest()
