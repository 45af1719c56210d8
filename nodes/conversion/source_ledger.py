"""What is known of every source file of a conversion: its label, its part, or why it was refused.

One row a file in Arrow and NumPy columns: measured with 650,000 files whose paths have 38 bytes, 120
bytes a file (75 MB); a refused file costs some 300 bytes more, for its sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine import manifest
from nodes.conversion.part_writer import SourceFile
from nodes.conversion.quarantine import OF_THE_LISTING, PASSING, REASONS

NO_PART = -1
_ACCEPTED = 0
_BATCH = 10_000


class SourceLedger:
    """The listing of a source folder with a verdict a file.

    `part` gives each file's part as a number (`NO_PART`: none yet); the caller says what the
    numbers mean. A file is *open* while it has neither a part nor a refusal.
    """

    def __init__(
        self, listing: pa.Table, paths: pa.StringArray, ids: pa.StringArray, labels: NDArray[np.float32]
    ) -> None:
        """`paths` are those of the `listing` in one piece, `ids` the same in NFC, `labels` NaN for none."""
        self.paths, self.ids, self.labels = paths, ids, labels
        self.sizes: NDArray[np.int64] = listing["size"].to_numpy()
        self.times: NDArray[np.int64] = listing["mtime_ns"].to_numpy()
        self.part = np.full(len(listing), NO_PART, np.int32)
        self._reason = np.full(len(listing), _ACCEPTED, np.uint8)
        self._sentences: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.part)

    def refuse(self, row: int, reason: str, sentence: str) -> None:
        self._reason[row] = REASONS.index(reason) + 1
        self._sentences[row] = sentence

    @property
    def refused(self) -> int:
        return len(self._sentences)

    def counts(self) -> Counter[str]:
        """Refused files by reason."""
        found = np.bincount(self._reason, minlength=len(REASONS) + 1)[1:]
        return Counter({reason: int(n) for reason, n in zip(REASONS, found, strict=True) if n})

    def quarantine(self) -> Iterator[tuple[str, str, str]]:
        """The refused files in the listing's order: path, reason, sentence."""
        for row in np.flatnonzero(self._reason).tolist():
            yield self.paths[row].as_py(), REASONS[self._reason[row] - 1], self._sentences[row]

    def open_rows(self) -> NDArray[np.int64]:
        """The files that still have neither part nor refusal, in the listing's order."""
        return np.flatnonzero((self.part == NO_PART) & (self._reason == _ACCEPTED))

    def files(self, rows: NDArray[np.int64]) -> list[SourceFile]:
        """The files of a chunk."""
        places = pa.array(rows)
        labels = [None if np.isnan(v) else float(v) for v in self.labels[rows]]
        return [
            SourceFile(*fields)
            for fields in zip(
                self.paths.take(places).to_pylist(),
                self.ids.take(places).to_pylist(),
                self.sizes[rows].tolist(),
                self.times[rows].tolist(),
                labels,
                strict=True,
            )
        ]

    def refuse_double_ids(self) -> None:
        """Of files whose names are the same in NFC the first of the listing stays."""
        if pc.all(pc.less(self.ids.slice(0, len(self) - 1), self.ids.slice(1))).as_py():
            # Sorted and all different, as a listing is: no need to remember every name.
            return
        first = pc.index_in(self.ids, value_set=self.ids).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(first != np.arange(len(self))).tolist():
            other = self.paths[int(first[row])].as_py()
            self.refuse(row, "duplicate-id", f"has the same name as {other!r} after Unicode normalisation (NFC)")

    def refuse_by_label(self, conflicts: NDArray[np.bool_], *, missing: bool) -> None:
        """Refuse files with several labels and, with `missing`, files without one."""
        for row in np.flatnonzero(conflicts & (self._reason == _ACCEPTED)).tolist():
            self.refuse(row, "label-conflict", "has several different labels")
        if missing:
            for row in np.flatnonzero(np.isnan(self.labels) & (self._reason == _ACCEPTED)).tolist():
                self.refuse(row, "label-missing", "has no label")

    def take_over(self, before: pa.Table, part_paths: Sequence[str]) -> NDArray[np.bool_]:
        """Go on from an earlier conversion of the same folder with the same spec and layout.

        `before` is its sources file, `part_paths` names its parts that still stand. A part is taken
        over when each of its files is still there with its size, time and label; a refused file
        keeps its refusal when it has not changed and the reason lies in the file. Afterwards `part`
        holds places in `part_paths`; the result says which of these were taken.
        """
        row: Any = pc.index_in(before["path"].combine_chunks(), value_set=self.paths)
        here: NDArray[np.int64] = pc.fill_null(row, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        same_file = (
            (here >= 0)
            & (self.sizes[here] == before["size"].to_numpy())
            & (self.times[here] == before["mtime_ns"].to_numpy())
        )
        labels = before["label"].to_numpy()
        same_label = (self.labels[here] == labels) | (np.isnan(self.labels[here]) & np.isnan(labels))
        still_good = same_file & same_label & (self._reason[here] == _ACCEPTED)
        part = _codes(before["part"], part_paths)
        lost = np.bincount(part[(part >= 0) & ~still_good], minlength=len(part_paths)) > 0
        taken = ~lost[part] & (part >= 0) if len(part_paths) else np.zeros(len(part), bool)
        self.part[here[taken]] = part[taken]
        self._take_over_refusals(before, here, same_file)
        return ~lost

    def _take_over_refusals(self, before: pa.Table, here: NDArray[np.int64], same_file: NDArray[np.bool_]) -> None:
        lasting = [r for r in REASONS if r not in PASSING | OF_THE_LISTING]
        codes = _codes(before["reason"], lasting)
        for row in np.flatnonzero((codes >= 0) & same_file).tolist():
            place = int(here[row])
            if self._reason[place] == _ACCEPTED:
                self.refuse(place, lasting[codes[row]], before["problem"][row].as_py())

    def write(self, part_paths: Sequence[str], path: Path) -> None:
        """Write the sources file: path, size, mtime_ns, label, part, reason and problem of every file."""
        count = len(self)
        sentences = (
            pa.array([self._sentences.get(i) for i in range(start, min(start + _BATCH, count))], pa.string())
            for start in range(0, count, _BATCH)
        )
        table = pa.table(
            {
                "path": self.paths,
                "size": self.sizes,
                "mtime_ns": self.times,
                "label": pa.array(self.labels, from_pandas=True),
                "part": _names(self.part, self.part == NO_PART, part_paths),
                "reason": _names(self._reason.astype(np.int32) - 1, self._reason == _ACCEPTED, REASONS),
                "problem": pa.chunked_array(list(sentences), pa.string()),
            }
        )
        manifest.write(table, path)


def _names(codes: NDArray[np.int32], none: NDArray[np.bool_], names: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=none), pa.array(names, pa.string()))


def _codes(column: pa.ChunkedArray, names: Sequence[str]) -> NDArray[np.int64]:
    """For each value of a dictionary column its place in `names`, -1 for null or another one."""
    values = column.combine_chunks()
    places = {name: place for place, name in enumerate(names)}
    # One more at the end, so that -1, which stands for null, finds -1.
    by_code = np.array([places.get(name, -1) for name in values.dictionary.to_pylist()] + [-1], np.int64)
    codes: NDArray[np.int32] = pc.fill_null(values.indices, -1).to_numpy(zero_copy_only=False)
    return by_code[codes]
