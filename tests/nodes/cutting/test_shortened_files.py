"""A file that gets shorter while patches are cut from it: the run ends and names it, and nothing is published."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest
import segyio
import tifffile
from cuts import cut
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.cutting import tiles

Write = Callable[[Path, NDArray[Any]], object]
WRITERS: dict[str, Write] = {
    "a.npy": np.save,
    "fortran.npy": lambda path, volume: np.save(path, np.asfortranarray(volume)),
    "a.nii": lambda path, volume: nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), path),
    "a.tif": lambda path, volume: tifffile.imwrite(path, volume.transpose(), photometric="minisblack"),
    "a.sgy": lambda path, volume: segyio.tools.from_array3D(str(path), volume, format=5),
    "a.h5": lambda path, volume: h5py.File(path, "w").create_dataset("a", data=volume).file.close(),
}
_CUT_SHORT_AT = 2
"""Which reading of a tile finds the file shorter: after its time and size were compared."""


def _cut(root: Path, base: Path, place: Path, answer: Connection) -> None:
    """What CutVolumes says; in a process of its own, which a file that is mapped would end."""
    read, count = tiles._read, 0

    def shorten_first(*arguments: Any) -> None:
        nonlocal count
        count += 1
        if count == _CUT_SHORT_AT:
            os.truncate(place, 20_000)
        read(*arguments)

    tiles._read = shorten_first
    try:
        cut(root, base, size=(8, 8, 8), threads=1)
    except DataError as exc:
        answer.send(exc.message)
    else:
        answer.send("no error")


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_the_run_ends_with_the_files_name(name: str, tmp_path: Path) -> None:
    root, base = tmp_path / "in", tmp_path / "work"
    root.mkdir()
    volume = np.random.default_rng(0).standard_normal((64, 64, 64)).astype(np.float32)
    WRITERS[name](root / name, volume)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_cut, args=(root, base, root / name, there))
    process.start()
    there.close()
    process.join()
    assert process.exitcode == 0
    assert here.recv().startswith(f"{name} cannot be read: it ")
    assert not list(base.rglob("*.parquet"))
