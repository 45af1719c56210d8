"""The chunks of a conversion: one chunk of source files a part, and what it takes to make them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.context import TaskContext
from engine.progress import Meter
from nodes.conversion.part_writer import Layout, Outcome, PartStore, SourceFile
from nodes.conversion.source_ledger import SourceLedger


@dataclass(frozen=True)
class Chunks:
    """`rows` are the files of each chunk as rows of the ledger, `source` the folder they lie in.

    `threads` is how many the person asked for, 0 for as many as there are cores.
    """

    source: str
    rows: Sequence[NDArray[np.int64]]
    ledger: SourceLedger
    store: PartStore
    layout: Layout
    threads: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def files(self, number: int) -> list[SourceFile]:
        return self.ledger.files(self.rows[number])


ConvertChunks = Callable[[Chunks, TaskContext, Meter], Generator[tuple[int, Outcome], None, None]]
"""Who converts: gives (number, outcome) of each chunk as it is done, in any order, and moves the meter on.

Closing the generator stops the work.
"""
