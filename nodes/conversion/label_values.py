"""The values of labels: texts into class numbers, numbers as a table keeps them, names in Unicode NFC."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import DataError

MAX_CLASSES = 10_000
"""More different texts than this are not class names: the wrong column was taken."""
_BATCH = 50_000


@dataclass(frozen=True)
class Labels:
    """One label a file, in the files' order.

    `values` is float32 with NaN for "no label"; `conflicts` marks files that were given several
    different labels; `classes` names the values 0, 1, ... when the labels are texts.
    `rows_without_file` counts rows of the label table that name no file. `told_by` says in words
    where the labels came from.
    """

    values: NDArray[np.float32]
    conflicts: NDArray[np.bool_]
    classes: tuple[str, ...] = ()
    rows_without_file: int = 0
    told_by: str = "none"


def encode(texts: pa.StringArray, *, numbers: bool) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Labels as float64 (NaN: none) and the class names.

    With `numbers`, texts that are all finite numbers stay numbers, without class names. Otherwise
    the classes are sorted, by value when all are whole numbers.
    """
    texts = nfc(pc.utf8_trim_whitespace(texts))
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    if numbers and (values := _as_numbers(texts)) is not None:
        return values, ()
    names = [n for n in pc.unique(texts).to_pylist() if n is not None]
    if len(names) > MAX_CLASSES:
        raise DataError(
            f"there are {len(names)} different labels, such as {names[0]!r}; at most {MAX_CLASSES} can be classes",
            hint="Is this the right label column, folder level or pattern?",
        )
    whole = all(n.isdecimal() for n in names)
    classes = tuple(sorted(names, key=lambda n: (int(n), n) if whole else (0, n)))
    codes = pc.index_in(texts, value_set=pa.array(classes, pa.string()))
    return pc.cast(codes, pa.float64()).to_numpy(zero_copy_only=False), classes


def to_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The values as the table keeps them. Raises `DataError` when a whole number would become another."""
    with np.errstate(over="ignore"):
        out = values.astype(np.float32)
    lost = np.isfinite(values) & (~np.isfinite(out) | ((values == np.rint(values)) & (out != values)))
    if lost.any():
        example = values[lost][0]
        raise DataError(
            f"label {example:.0f} is not exact in 32 bits",
            hint="Use smaller numbers, or texts such as class names.",
        )
    return out


def nfc(texts: pa.StringArray) -> pa.StringArray:
    """The texts in Unicode NFC; the same array when all are ASCII, as paths nearly always are.

    Python's own tables do it: `utf8_normalize` of pyarrow 25 gives NFD when asked for NFC.
    """
    if pc.all(pc.string_is_ascii(texts)).as_py():
        return texts
    batches = [
        pa.array([None if t is None else unicodedata.normalize("NFC", t) for t in part], pa.string())
        for part in in_batches(texts)
    ]
    return pa.chunked_array(batches, pa.string()).combine_chunks()


def in_batches(texts: pa.StringArray) -> Iterator[list[str | None]]:
    """The texts as Python objects, never many at once."""
    for start in range(0, len(texts), _BATCH):
        yield texts.slice(start, _BATCH).to_pylist()


def _as_numbers(texts: pa.StringArray) -> NDArray[np.float64] | None:
    try:
        values = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return None
    out: NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    present = pc.is_valid(texts).to_numpy(zero_copy_only=False)
    return out if bool(np.isfinite(out[present]).all()) else None
