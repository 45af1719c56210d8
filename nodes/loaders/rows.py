"""The rows of an opened dataset without their volumes: ids, labels, where each is stored, and the shuffled order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.declare.datasets import Selection
from engine.errors import DataError
from nodes.table.selection import fractions as fractions_of
from nodes.table.selection import held, no_column

RowNumbers = NDArray[np.int64]
"""Positions in the id order of all rows of the source."""
_CHUNK = 50_000
ReadColumns = Callable[[Sequence[str]], pa.Table]


@dataclass(frozen=True)
class Rows:
    """All rows in the order of their ids (by UTF-8 bytes), about 30 bytes a row plus the id.

    `labels` is float32, NaN where there is none; `stored` the row's position in the dataset's own
    order of files and rows.
    """

    ids: pa.Array
    labels: NDArray[np.float32]
    stored: RowNumbers
    read_columns: ReadColumns | None = field(default=None, repr=False, compare=False)
    """Reads further columns in the stored order; None where there are none."""
    _kept: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def by_id(
        cls, ids: pa.Array, labels: NDArray[np.float32], where: str, read_columns: ReadColumns | None = None
    ) -> Rows:
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
        return cls(ids, np.ascontiguousarray(labels[stored], np.float32), stored, read_columns)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def unlabelled(self) -> int:
        """How many rows have no label."""
        return int(np.isnan(self.labels).sum())

    def chosen(self, selections: Sequence[Selection]) -> RowNumbers:
        """Numbers of the labelled rows that every selection holds."""
        rows = self.selected(selections)
        return rows[~np.isnan(self.labels[rows])]

    def selected(self, selections: Sequence[Selection]) -> RowNumbers:
        """Numbers of the rows that every selection holds, with a label or without.

        Raises `DataError` when a selection goes by a column that the dataset lacks.
        """
        keep = np.ones(len(self), bool)
        for selection in selections:
            if selection.by_id:
                fractions = self._fractions(selection.salt)
                keep &= ((selection.low <= fractions) & (fractions < selection.high)) != selection.outside
            else:
                keep &= held([selection], self.columns(selection.columns))
        return np.flatnonzero(keep).astype(np.int64)

    def columns(self, names: Sequence[str]) -> dict[str, pa.Array]:
        """Columns of all rows, in the rows' order. Raises `DataError` for one that the dataset lacks."""
        out = {"id": self.ids, "label": pa.array(self.labels, from_pandas=True)}
        if others := [name for name in names if name not in out]:
            if self.read_columns is None:
                raise no_column(others[0])
            table = self.read_columns(others)
            out |= {name: table.column(name).combine_chunks().take(pa.array(self.stored)) for name in others}
        return out

    def _fractions(self, salt: str) -> NDArray[np.float64]:
        """`id_fraction` of every id; kept, because the rows to train on and those held back have the same salt."""
        if salt not in self._kept:
            self._kept[salt] = fractions_of(self.ids, salt)
        return self._kept[salt]

    def ids_of(self, rows: Sequence[int] | RowNumbers) -> list[str]:
        """The ids of some rows, in their order."""
        texts: list[str] = self.ids.take(pa.array(rows, pa.int64())).to_pylist()
        return texts

    def identity(self) -> str:
        """Hash of ids and labels in order."""
        out = hashlib.blake2b(self.labels.tobytes(), digest_size=16)
        for start in range(0, len(self.ids), _CHUNK):
            out.update("\0".join(self.ids.slice(start, _CHUNK).to_pylist()).encode())
        return out.hexdigest()


def shuffled(count: int, *key: int) -> RowNumbers:
    """A permutation of 0 ... count - 1 that depends on `key` alone, e.g. (seed, epoch): the same on every machine.

    It is the sorting order of a bit generator's raw stream. NumPy keeps raw streams fixed for good, but not what its
    `permutation` makes of them (NEP 19), so a run that is resumed after an upgrade still has its order.
    """
    # Seeds may be negative in a document; entropy may not.
    generator = np.random.Philox(np.random.SeedSequence([part % 2**64 for part in key]))
    # A 64-bit draw repeats once in 10^8 epochs of 650,000 rows; the stable sort settles that too.
    return np.argsort(generator.random_raw(count), kind="stable")
