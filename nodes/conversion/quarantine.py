"""Why a source file is refused, in stable short codes, and the list of those that were.

A refused file is never an accident that stops a run by itself: it is counted, listed with its
reason, and `converted + quarantined = found` always holds.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.errors import DataError, TooManyBadFiles

REASONS = (
    "empty",
    "truncated",
    "too-long",
    "not-npy",
    "pickle",
    "dtype",
    "dtype-differs",
    "shape",
    "not-finite",
    "duplicate-id",
    "label-conflict",
    "label-missing",
    "unreadable",
    "changed-during-run",
)
"""The codes. empty: no bytes; truncated, too-long: not the bytes its header promises; not-npy: no
`.npy` header; pickle: an object array, which only unpickling could read; dtype: not a numeric type
of a volume; dtype-differs, shape: not those of the dataset; not-finite: a NaN or an infinity;
duplicate-id: the same name as another file after Unicode NFC; label-conflict: several different
labels; label-missing: none, where one was asked for; unreadable: the system does not give it;
changed-during-run: not the file that was listed."""

PASSING = frozenset({"unreadable", "changed-during-run"})
"""Reasons that may be gone at the next try although the listing stays the same."""

OF_THE_LISTING = frozenset({"duplicate-id", "label-conflict", "label-missing"})
"""Reasons found without opening the file; they are worked out afresh each time."""


class Refused(DataError):
    """One file cannot become a volume: `reason` is one of `REASONS`, the message a sentence without the name."""

    code = "refused"

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def write_quarantine(rows: Iterable[tuple[str, str, str]], path: Path) -> None:
    """Write `rows` of file, reason and sentence as CSV, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", newline="", encoding="utf-8") as sink:
        table = csv.writer(sink)
        table.writerow(["file", "reason", "problem"])
        table.writerows(rows)
    temporary.replace(path)


def too_many(
    counts: Mapping[str, int], first: Iterable[tuple[str, str]], *, limit: int, looked: int, found: int, listed: Path
) -> TooManyBadFiles:
    """The error that stops a conversion: `counts` by reason, the `first` files with their sentences."""
    bad = sum(counts.values())
    by_reason = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items(), key=lambda c: (-c[1], c[0])))
    examples = "; ".join(f"{name} {sentence}" for name, sentence in first)
    so_far = "" if looked >= found else f" among the first {looked} of {found}"
    files = "file" if bad == 1 else "files"
    return TooManyBadFiles(
        f"{bad} {files}{so_far} cannot be converted, {limit} allowed: {by_reason}. For example {examples}",
        hint=f"They are listed in {listed}. Mend or remove them, or allow more with max_bad_files;"
        " finished parts are not made again.",
        parameter="max_bad_files",
    )
