"""The array in one cell of a table: nested lists, the bytes of a `.npy` or `.npz` file, or an array's own bytes.

Petastorm's NdarrayCodec writes the bytes of a `.npy` file, its CompressedNdarrayCodec those of an `.npz` file with one
array. Both are recognised by their first bytes: petastorm's schema, a pickle in `_common_metadata`, is never loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.declare.datasets import DTYPES, VolumeSpec
from engine.text import plural
from nodes.conversion.formats.npz import open_archive
from nodes.conversion.npy_files import MAGIC, array_of, parse_header, refuse_unusable
from nodes.conversion.quarantine import Refused

_ZIP = b"PK\x03\x04"
_MAX_SENTENCE = 200
_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
)


def can_hold_arrays(kind: pa.DataType) -> bool:
    """Whether cells of this type can be arrays: bytes, or lists of numbers, however deep."""
    if is_bytes(kind):
        return True
    return is_list(kind) and (pa.types.is_integer(number_type(kind)) or pa.types.is_floating(number_type(kind)))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether the type is one of bytes."""
    return any(test(kind) for test in _BYTES)


def is_list(kind: pa.DataType) -> bool:
    """Whether the type is one of lists."""
    return any(test(kind) for test in _LISTS)


def number_type(kind: pa.DataType) -> pa.DataType:
    """What the innermost lists of a type hold."""
    while is_list(kind):
        kind = kind.value_type
    return kind


def decode(cell: pa.Scalar, shape: tuple[int, ...] = (), dtype: str = "") -> NDArray[Any]:
    """The cell's array, of any byte order and memory layout.

    With `shape` the values of a cell are read in that shape, in C order, if there are as many. With `dtype` they are
    converted, which may round floats and never wraps a number. Raises `Refused`.
    """
    if not cell.is_valid:
        raise Refused("empty", "has no volume")
    values = _of_list(cell) if is_list(cell.type) else _of_bytes(cell.as_buffer(), shape, dtype)
    if values.dtype.name not in DTYPES:
        raise Refused("dtype", f"holds {values.dtype.name}, which no volume can be")
    if values.size == 0 or values.ndim == 0:
        raise Refused("shape", f"has no voxels: its shape is {values.shape}")
    if shape and values.shape != shape:
        if values.size != math.prod(shape):
            raise Refused("shape", f"is {_times(values.shape)}, not {_times(shape)}")
        values = values.reshape(shape)
    if dtype and values.dtype.name != dtype:
        values = _converted(values, dtype)
    return values


def _converted(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    # Spark has no unsigned numbers: whole numbers are compared one by one.
    whole = values.dtype.kind in "iu" and np.dtype(dtype).kind in "iu"
    if not whole and not np.can_cast(values.dtype, np.dtype(dtype), "same_kind"):
        raise Refused("dtype-differs", f"holds {values.dtype.name}, which is not stored as {dtype}")
    with np.errstate(over="ignore"):
        stored = values.astype(dtype)
    if stored.dtype.kind in "iu" and (stored != values).any():
        raise Refused("dtype-differs", f"holds values that {dtype} cannot hold")
    if stored.dtype.kind == "f" and (np.isinf(stored) & np.isfinite(values)).any():
        raise Refused("dtype-differs", f"holds values that are too large for {dtype}")
    return stored


def _of_bytes(data: pa.Buffer, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    # Arrow's buffers are of signed bytes, which are compared as numbers.
    view = memoryview(data).cast("B")
    if view[: len(MAGIC)] == MAGIC:
        header = parse_header(lambda length, offset: bytes(view[offset : offset + length]), len(view))
        refuse_unusable(header, len(view))
        return array_of(header, np.frombuffer(view, np.uint8)[header.offset :])
    if view[: len(_ZIP)] == _ZIP:
        return _of_archive(data)
    if not shape or not dtype:
        raise Refused("format", "holds bytes of neither .npy nor .npz, and shape and dtype are not given")
    wanted = VolumeSpec(shape=shape, dtype=dtype)
    if len(view) != wanted.volume_bytes:
        reason = "truncated" if len(view) < wanted.volume_bytes else "too-long"
        raise Refused(reason, f"has {plural(len(view), 'bytes')}, {wanted.describe()} has {wanted.volume_bytes:,}")
    return np.frombuffer(view, np.dtype(dtype).newbyteorder("<")).reshape(shape)


def _of_archive(data: pa.Buffer) -> NDArray[Any]:
    try:
        with open_archive(pa.BufferReader(data), "") as volume:
            out = np.empty(volume.header.shape, volume.header.dtype)
            volume.fill(out)
            return out
    except Refused:
        raise
    except Exception as exc:  # a hostile archive can make zipfile raise nearly anything
        said = " ".join(str(exc).split()) or type(exc).__name__
        raise Refused("format", f"cannot be unpacked: {said[:_MAX_SENTENCE]}") from exc


def _of_list(cell: pa.Scalar) -> NDArray[Any]:
    values: pa.Array = cell.values
    shape = [len(values)]
    while is_list(values.type):
        lengths = pc.list_value_length(values).unique()
        if values.null_count or len(lengths) > 1:
            raise Refused("shape", "is a list whose parts have different lengths, or are missing")
        shape.append(lengths[0].as_py() if len(lengths) else 0)
        values = values.flatten()
    if values.null_count:
        raise Refused("not-finite", f"has no value in {plural(values.null_count, 'places')}")
    out: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(shape)
    return out


def _times(shape: Sequence[int]) -> str:
    """`30x30x10x2`."""
    return "x".join(map(str, shape))
