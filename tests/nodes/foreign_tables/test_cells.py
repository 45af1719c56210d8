"""The arrays in the cells of other programs' tables: whatever numpy can hold comes back, and nothing else."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from laws import examples
from numpy.typing import NDArray

from engine.declare.datasets import DTYPES
from nodes.conversion.quarantine import Refused
from nodes.foreign_tables.cells import decode


def npy(volume: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, volume)
    return out.getvalue()


def npz(*volumes: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, *volumes)
    return out.getvalue()


def lists(kind: pa.DataType, lengths: tuple[int, ...], fixed: bool) -> pa.DataType:
    for length in reversed(lengths):
        kind = pa.list_(kind, length) if fixed else pa.list_(kind)
    return kind


CELLS: dict[str, Callable[[NDArray[Any], pa.DataType], pa.Scalar]] = {
    "lists": lambda v, kind: pa.array([None, v.tolist()], lists(kind, v.shape, fixed=False))[1],
    "lists of fixed lengths": lambda v, kind: pa.array([None, v.tolist()], lists(kind, v.shape, fixed=True))[1],
    "flat": lambda v, kind: pa.array([[], v.ravel().tolist()], pa.large_list(kind))[1],
    "npy": lambda v, kind: pa.scalar(npy(v)),
    "fortran": lambda v, kind: pa.scalar(npy(np.asfortranarray(v))),
    "big-endian": lambda v, kind: pa.scalar(npy(v.astype(v.dtype.newbyteorder(">"))), pa.binary_view()),
    "npz": lambda v, kind: pa.scalar(npz(v), pa.large_binary()),
    "bytes": lambda v, kind: pa.scalar(v.tobytes(), pa.binary(v.nbytes)),
}


@settings(max_examples=examples(60), deadline=None)
@given(
    hnp.arrays(
        st.sampled_from(sorted(DTYPES - {"float16"})), hnp.array_shapes(min_dims=1, max_dims=4, max_side=4),
        elements=st.integers(0, 100),
    ),
    st.sampled_from(sorted(CELLS)),
)  # fmt: skip
def test_any_array_comes_back(volume: NDArray[Any], how: str) -> None:
    shape, dtype = (volume.shape, "") if how == "flat" else (volume.shape, volume.dtype.name)
    found = decode(CELLS[how](volume, pa.from_numpy_dtype(volume.dtype)), shape, dtype)
    assert found.dtype.newbyteorder("=") == volume.dtype
    assert np.array_equal(found, volume)


@pytest.mark.parametrize(
    ("cell", "reason", "sentence"),
    [
        (pa.scalar(None, pa.binary()), "empty", "has no volume"),
        (pa.array([[[1], [2, 3]]])[0], "shape", "different lengths"),
        (pa.array([[[1], None]])[0], "shape", "different lengths"),
        (pa.array([[[]]], pa.list_(pa.list_(pa.int8())))[0], "shape", "no voxels"),
        (pa.array([[1.5, None]])[0], "not-finite", "no value in 1 place$"),
        (pa.scalar(npz(np.ones(2), np.ones(2))), "format", "several arrays"),
        (pa.scalar(npz(np.ones(2))[:-9]), "format", "cannot be unpacked"),
        (pa.scalar(npy(np.ones(2, bool))), "dtype", "bool"),
        (pa.scalar(npy(np.ones(2)) + b"x"), "too-long", "longer than"),
    ],
)
def test_what_is_no_array_has_a_reason(cell: pa.Scalar, reason: str, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence) as caught:
        decode(cell)
    assert caught.value.reason == reason


def test_a_conversion_never_wraps() -> None:
    cell = pa.array([[1, 300]], pa.list_(pa.int64()))[0]
    assert decode(cell, dtype="int16").tolist() == [1, 300]
    assert decode(cell, dtype="uint16").tolist() == [1, 300]
    for values, dtype, sentence in (
        ([1, 300], "int8", "values that int8 cannot hold"),
        ([1.5], "uint8", "not stored as uint8"),
        ([-1], "uint64", "values that uint64 cannot hold"),
        ([1e300], "float32", "too large for float32"),
    ):
        with pytest.raises(Refused, match=sentence):
            decode(pa.array([values])[0], dtype=dtype)
    assert np.isnan(decode(pa.array([[np.nan]])[0], dtype="float32")).all()
