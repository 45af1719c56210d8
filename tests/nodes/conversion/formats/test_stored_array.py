"""Boxes of an array in a file, against NumPy's slices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import examples

from nodes.conversion.formats.stored_array import stored_array
from nodes.conversion.quarantine import Refused


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[slice, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=5)))
    given = shape[: draw(st.integers(0, len(shape)))]
    firsts = [draw(st.integers(0, length - 1)) for length in given]
    return shape, tuple(slice(a, draw(st.integers(a + 1, length))) for a, length in zip(firsts, given, strict=True))


@pytest.mark.slow
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(case=boxes(), fortran=st.booleans(), dtype=st.sampled_from(["<u2", ">f4", "|i1"]), offset=st.integers(0, 9))
def test_a_box_is_what_numpy_slices(
    case: tuple[tuple[int, ...], tuple[slice, ...]], fortran: bool, dtype: str, offset: int, tmp_path: Path
) -> None:
    shape, slices = case
    volume = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    path = tmp_path / "volume"
    path.write_bytes(bytes(offset) + volume.tobytes("F" if fortran else "C") + b"more")
    with stored_array(path, np.dtype(dtype), offset, shape, fortran=fortran) as stored:
        wanted = volume[slices]
        assert np.array_equal(stored.read(slices), wanted)
        for order in ("C", "F"):
            out = np.full(wanted.shape, 99, "f8" if order == "F" else dtype, order=order)
            stored.read_into(out, slices)
            assert np.array_equal(out, wanted)


def test_a_file_that_ends_before_says_so(tmp_path: Path) -> None:
    path = tmp_path / "volume"
    path.write_bytes(bytes(100))
    with stored_array(path, np.dtype("u1"), 10, (10, 10)) as stored, pytest.raises(Refused, match="got shorter"):
        stored.read((slice(8, 10),))
