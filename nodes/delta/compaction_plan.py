"""Which files of a table to write together. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nodes.delta.delta_table import TableFile


@dataclass(frozen=True)
class Bin:
    """Files to write together, in order. `odd` when one of them is not in the volume layout."""

    files: tuple[TableFile, ...]
    odd: bool = False

    @property
    def bytes(self) -> int:
        return sum(f.bytes for f in self.files)

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.files)


def plan_bins(files: Sequence[TableFile], target_bytes: int, min_fill: float, odd: Collection[str] = ()) -> list[Bin]:
    """Pack the files that are smaller than `min_fill` of the target, in their order, into bins up to the target.

    Files of a good size stay as they are. Files named in `odd` are written again whatever their size. A bin of a single
    file in good layout is left out: writing it again would gain nothing. So every bin leaves fewer
    files than it takes, or mends a layout, and planning again ends after a few rounds.
    """
    small = [f for f in files if f.path in odd or f.bytes < min_fill * target_bytes]
    bins: list[Bin] = []
    current: list[TableFile] = []
    size = 0
    for file in small:
        if current and size + file.bytes > target_bytes:
            bins.append(_bin(current, odd))
            current, size = [], 0
        current.append(file)
        size += file.bytes
    if current:
        bins.append(_bin(current, odd))
    return [b for b in bins if b.odd or len(b.files) > 1]


def _bin(files: list[TableFile], odd: Collection[str]) -> Bin:
    return Bin(tuple(files), any(f.path in odd for f in files))
