"""MATLAB's `.mat` files: versions 4 to 7 by SciPy, and 7.3, which is HDF5, by h5py. One variable is the volume."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodes.conversion.formats import hdf5, source
from nodes.conversion.formats.arrays import chosen
from nodes.conversion.formats.interface import OpenVolume, VolumeHeader
from nodes.conversion.formats.streams import filler, refuse_impossible
from nodes.conversion.quarantine import Refused

_HDF5 = b"\x89HDF\r\n\x1a\n"
_HEADER = 512
"""Bytes of MATLAB's own header, before the HDF5 file."""
_CLASSES = {"double": "float64", "single": "float32", "logical": "uint8"} | {
    f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


@contextmanager
def open_matlab(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open the variable `dataset`, or the only one that is an array of numbers. Raises `Refused`."""
    with path.open("rb") as file:
        start = file.read(_HEADER + len(_HDF5))
    if not start:
        raise Refused("empty", "is empty")
    if start.startswith(_HDF5) or start.endswith(_HDF5):
        with hdf5.open_file(path) as opened:
            found = hdf5.find(opened, dataset, _is_variable)
            # HDF5 lists the axes of MATLAB's arrays, whose first changes fastest, from the last to the first.
            shape = tuple(found.shape[::-1])
            facts = source.stored(found.dtype, "h5py") if not found.dtype.hasobject else {}
            header = VolumeHeader(shape, hdf5.dtype_of(found), facts)
            yield OpenVolume(header, lambda out: hdf5.read_into(found, out.transpose()))
        return
    from scipy import io

    variables = {name: (shape, kind) for name, shape, kind in io.whosmat(str(path), appendmat=False)}
    name = chosen([n for n, (_, kind) in variables.items() if n == dataset or kind in _CLASSES], dataset)
    shape, kind = variables[name]
    if kind not in _CLASSES:
        raise Refused("dtype", f"is {kind}, which no volume can be")
    shape = tuple(int(n) for n in shape)
    promised = 1
    for length in shape:
        promised *= max(0, length)
    # Numbers may be stored in one byte each, whatever their class.
    refuse_impossible(promised, path.stat().st_size, compressed=True)

    def read() -> object:
        found = io.loadmat(str(path), appendmat=False, variable_names=[name])[name]
        if found.shape != shape or found.dtype.kind == "c":
            raise Refused("dtype", "holds complex numbers, which no volume can be")
        return found

    # MATLAB stores whole numbers in the smallest type; the variable's own is what it means.
    facts = source.stored(_CLASSES[kind], "scipy")
    yield OpenVolume(VolumeHeader(shape, _CLASSES[kind], facts), filler(read))  # type: ignore[arg-type]


def _is_variable(found: Any) -> bool:
    """Whether an array of a 7.3 file is a variable of three axes: texts, what lies in structures, and what MATLAB keeps
    for cells (`#refs#`), are arrays of the file, too. Without the axes a number beside a structure would be taken for
    the volume that the structure holds."""
    kind = found.attrs.get("MATLAB_class", b"double")
    name = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    return found.name.count("/") == 1 and name in _CLASSES and len(found.shape) > 2
