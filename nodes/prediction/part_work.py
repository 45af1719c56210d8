"""Reading and predicting the parts of a dataset, one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodes.loaders.interface import Reading
from nodes.loaders.rows import RowNumbers
from nodes.prediction.ledger import Ledger, Record
from nodes.prediction.model_card import ModelCard
from nodes.prediction.opened_rows import OpenedRows
from nodes.prediction.predictions_table import rows_table

Scores = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""What a model makes of a batch: see `Predictor.scores`."""


@dataclass(frozen=True)
class Division:
    """How rows are cut into parts: `rows` of them each, a whole number of batches, and the rest."""

    batch_size: int
    rows: int

    @classmethod
    def of(cls, batch_size: int, rows_per_part: int) -> Division:
        return cls(batch_size, -(-rows_per_part // batch_size) * batch_size)

    def parts(self, count: int) -> int:
        return -(-count // self.rows)

    def part(self, rows: RowNumbers, number: int) -> RowNumbers:
        return rows[number * self.rows : (number + 1) * self.rows]

    def size(self, count: int, number: int) -> int:
        return min(self.rows, count - number * self.rows)


@dataclass(frozen=True)
class PartWork:
    """Makes parts. Holds the scores of one part at a time, and the batches that the loader reads ahead."""

    opened: OpenedRows
    division: Division
    card: ModelCard
    digest: str
    ledger: Ledger
    scores: Scores
    commit_point: Callable[[str], None] = lambda name: None

    def __call__(self, numbers: Iterable[int], on_rows: Callable[[int], None]) -> None:
        """Make these parts, but those that are done; `on_rows` hears of every batch, and may raise to stop."""
        for number in numbers:
            if self.ledger.record(number) is None:
                self._part(number, on_rows)

    def _part(self, number: int, on_rows: Callable[[int], None]) -> None:
        source = self.opened.source
        rows = np.sort(self.division.part(self.opened.rows, number))
        scores = np.empty((len(rows), self.card.scores), np.float32)
        batch_s: list[float] = []
        batch_rows: list[int] = []
        began = asked = time.perf_counter()
        waiting = 0.0
        # In the order in which they are stored, for the sake of the disk.
        stored = self.division.part(self.opened.rows, number)
        loader = source.loader(stored, Reading(self.division.batch_size, training=False))
        for batch in loader.batches():
            got = time.perf_counter()
            waiting += got - asked
            scores[np.searchsorted(rows, batch.rows)] = self.scores(batch.volumes)
            asked = time.perf_counter()
            batch_s.append(asked - got)
            batch_rows.append(len(batch.rows))
            on_rows(len(batch.rows))
        labels = self.opened.labels[rows]
        table = rows_table(source.rows.ids.take(rows), scores, labels, self.card, self.digest)
        path = self.ledger.write_rows(number, table)
        self.commit_point("predict:part-written")
        found = path.stat()
        # By UTF-8 bytes, as the log's readers compare: the order of the row numbers.
        first, last = source.ids([int(rows[0]), int(rows[-1])])
        known = labels[~np.isnan(labels)]
        record = Record(
            number=number,
            file=path.name,
            rows=len(rows),
            bytes=found.st_size,
            mtime_ms=found.st_mtime_ns // 1_000_000,
            labelled=len(known),
            not_finite=int((~np.isfinite(scores).all(axis=1)).sum()),
            id_min=first,
            id_max=last,
            label_min=float(known.min()) if len(known) else None,
            label_max=float(known.max()) if len(known) else None,
            batch_s=batch_s,
            batch_rows=batch_rows,
            part_s=time.perf_counter() - began,
            waiting_s=waiting,
        )
        self.ledger.finish(record)
        self.commit_point("predict:part-done")
