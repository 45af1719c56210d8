"""Why a source file is refused, in stable short codes, and the list of those that were.

A refused file is never an accident that stops a run by itself: it is counted, listed with its
reason, and `converted + quarantined = found` always holds.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.errors import DataError, TooManyBadFiles
from engine.storage.files import whole_file
from engine.text import plural

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
    "format",
    "no-data",
    "transform",
    "elsewhere",
)
"""The codes. empty: no bytes; truncated, too-long: not the bytes its header promises; not-npy: no
`.npy` header; pickle: an object array, which only unpickling could read; dtype: not a numeric type
of a volume; dtype-differs, shape: not those of the dataset; not-finite: a NaN or an infinity;
duplicate-id: the same name as another file after Unicode NFC; label-conflict: several different
labels; label-missing: none, where one was asked for; unreadable: the system does not give it;
changed-during-run: not the file that was listed; format: not a file of its format, or a damaged one, or one that its
reader does not take; no-data: a patch with voxels that stand for no data; transform: one that TransformVolumes cannot
change as it was asked to; elsewhere: its labels or channels lie in another place."""

ADVICE: Mapping[str, str] = {
    "empty": "Write or copy files of no bytes again.",
    "truncated": "Copy files that were cut short again, and see whether the disk was full.",
    "too-long": "Rewrite files that go on after their volume: something was added to them.",
    "not-npy": "Save arrays with numpy.save; what is no array is better kept in another folder.",
    "pickle": "Save arrays of Python objects with a type of numbers: numpy.save(path, array.astype('float32')).",
    "dtype": "Save the voxels as numbers: float16 to float64, or whole numbers of 8 to 64 bits.",
    "shape": "Save arrays that have voxels: every axis is 1 long or more.",
    "unreadable": "Let this account read the files, and fetch those that are only links so far.",
    "changed-during-run": "Wait until nothing writes into the folder.",
    "format": "Do what the reason says; open one in the program that wrote it to see whether it is whole.",
    "transform": "Change the step that does not fit.",
}
"""What to do about files that were refused while they were looked at, by reason."""

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
    with whole_file(path, durable=True) as temporary, temporary.open("w", newline="", encoding="utf-8") as sink:
        table = csv.writer(sink)
        table.writerow(["file", "reason", "problem"])
        table.writerows(rows)


def too_many(
    counts: Mapping[str, int],
    first: Iterable[tuple[str, str]],
    *,
    limit: int,
    looked: int,
    found: int,
    listed: Path,
    noun: str = "files",
    parameter: str = "",
) -> TooManyBadFiles:
    """The error that stops a conversion: `counts` by reason, the `first` refused rows with their sentences.

    `noun` is what the rows are, `parameter` the one that allows more of them.
    """
    bad = sum(counts.values())
    by_reason = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items(), key=lambda c: (-c[1], c[0])))
    examples = "; ".join(f"{name} {sentence}" for name, sentence in first)
    so_far = "" if looked >= found else f" among the first {looked} of {found}"
    allow = f", or allow more with {parameter}" if parameter else ""
    return TooManyBadFiles(
        f"{plural(bad, noun)}{so_far} cannot be converted, {limit} allowed: {by_reason}. For example {examples}",
        hint=f"They are listed in {listed}. Correct or remove them{allow}; finished parts are not made again.",
        parameter=parameter or None,
    )
