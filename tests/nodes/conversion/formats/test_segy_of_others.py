"""SEG-Y files that others made, a real survey among them, read and cut as segyio reads them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import segyio
from cuts import cut, rows_of
from numpy.typing import NDArray

from nodes.conversion.formats import Reading
from nodes.conversion.formats.reader import header_of, read_volume
from nodes.conversion.quarantine import Refused

FILES = Path(__file__).parents[3] / "support" / "segy_files"
SEGY = Reading("segy")


def cube(name: str) -> NDArray[Any]:
    with segyio.open(FILES / name) as file:
        return segyio.tools.cube(file)


def test_a_real_survey_is_read_as_it_is() -> None:
    header = header_of(str(FILES), "f3.sgy", SEGY)
    assert (header.shape, header.dtype) == ((23, 18, 75), "int16")
    columns = header.columns
    assert (columns["inline"], columns["crossline"], columns["time"]) == (111, 875, 4.0)
    assert (columns["inline_step"], columns["crossline_step"], columns["time_step"]) == (1, 1, 4.0)
    assert header.remarks == ()
    assert np.array_equal(read_volume(str(FILES), "f3.sgy", SEGY), cube("f3.sgy"))
    # Where it lies: the headers' CDP coordinates of the last trace, in metres.
    with segyio.open(FILES / "f3.sgy") as file:
        last = file.header[file.tracecount - 1]
        scale = 1 / -last[71] if last[71] < 0 else last[71]
    affine = np.array(str(columns["affine"]).split(), float).reshape(4, 4)
    assert np.allclose((affine @ (22, 17, 0, 1))[:2], (last[181] * scale, last[185] * scale), atol=2)


def test_patches_of_a_real_survey_know_their_lines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(FILES / "f3.sgy", tmp_path / "in")
    out = cut(tmp_path / "in", tmp_path / "work", source={"format": "segy"}, size=(8, 8, 25), stride=(5, 5, 25))
    whole = cube("f3.sgy")
    assert out.count == 4 * 3 * 3
    for row in rows_of(out).values():
        x, y, z = row["x"], row["y"], row["z"]
        assert (row["inline"], row["crossline"], row["time"]) == (111 + x, 875 + y, 4 + 4.0 * z)
        assert np.array_equal(row["volume"][..., 0], whole[x : x + 8, y : y + 8, z : z + 25])


@pytest.mark.parametrize("name", ["small.sgy", "small-lsb.sgy", "acute-small.sgy"])
def test_files_of_segyios_scripts_are_read_as_they_are(name: str) -> None:
    header = header_of(str(FILES), name, SEGY)
    assert (header.shape, header.columns["inline"], header.columns["crossline"]) == ((5, 5, 50), 1, 20)
    assert np.array_equal(read_volume(str(FILES), name, SEGY), cube("small.sgy"))


def test_several_offsets_are_refused() -> None:
    with pytest.raises(Refused, match="several traces for one inline and crossline"):
        header_of(str(FILES), "small-ps.sgy", SEGY)
