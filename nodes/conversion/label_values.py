"""Labels as they are written, as numbers: texts become 0, 1, ... in sorted order, and their names are the classes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.conversion.commas import number_with_comma

MAX_CLASSES = 10_000
"""More different texts than this are not class names: the wrong column was taken."""
_BATCH = 50_000
_LABELS_NAMED = 20


def label_values(column: pa.Array) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Numbers as they are, NaN for none, and texts as classes 0, 1, ... in sorted order, with their names.

    Raises `DataError` when a cell has several labels.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = pc.cast(column, kind.value_type), kind.value_type
    if pa.types.is_boolean(kind):
        column, kind = pc.cast(column, pa.int8()), pa.int8()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False), ()
    values, classes = encode(pc.cast(column, pa.string()), numbers=True)
    _refuse_several(classes)
    return values, classes


def _refuse_several(classes: Sequence[str]) -> None:
    """Raise `DataError` for a cell such as grey;left: as a class of its own it would be beside both of its labels.

    A comma may be a part of a name: it separates where one of its sides is another cell's label.
    """
    known = set() if number_with_comma(classes) else set(classes)
    for name in classes:
        parts = [part.strip() for part in name.split(",")]
        if re.search("[;|]", name) or (len(parts) > 1 and not known.isdisjoint(parts)):
            raise DataError(
                f"the label {name!r} is several in one, and a volume has one label",
                hint="Choose one for each volume, or give each kind of label a column and train a model for each. The"
                " name of a single class is written without ; and |.",
                parameter="label_column",
            )


def encode(texts: pa.StringArray, *, numbers: bool) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Labels as float64 (NaN: none) and the class names.

    With `numbers`, texts that are all numbers stay numbers, without class names: NaN is no label, and
    an infinity is for the caller to refuse. Otherwise, or when none of them is finite, the texts are
    classes, sorted, by value when all are whole numbers.
    """
    texts = nfc(pc.utf8_trim_whitespace(texts))
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    if numbers and (values := _as_numbers(texts)) is not None:
        return values, ()
    names = [n for n in pc.unique(texts).to_pylist() if n is not None]
    if len(names) > MAX_CLASSES:
        raise DataError(
            f"there are {len(names)} different labels, such as {names[0]!r}; at most {MAX_CLASSES} can be classes",
            hint="Check the label column, the folder level or the pattern.",
        )
    whole = all(n.isdecimal() for n in names)
    classes = tuple(sorted(names, key=lambda n: (int(n), n) if whole else (0, n)))
    codes = pc.index_in(texts, value_set=pa.array(classes, pa.string()))
    return pc.cast(codes, pa.float64()).to_numpy(zero_copy_only=False), classes


def different(labels: NDArray[np.float32]) -> list[float]:
    """Some of the different labels, those first that can be no classes."""
    found = np.unique(labels[~np.isnan(labels)])
    odd = (found < 0) | (found != np.rint(found))
    values: list[float] = np.concatenate([found[odd], found[~odd]])[:_LABELS_NAMED].tolist()
    return values


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
    # One "inf" among numbers is a mistake, and must not turn the numbers into classes; "nan" alone may be a name.
    return out if not present.any() or bool(np.isfinite(out[present]).any()) else None
