"""The simple-storage baseline: every volume is read from its own `.npy` file with `np.load`.

It is here to be compared with: no conversion, no quarantine (a bad file stops the training with its
name), and as many opened files as volumes. Labels are found as NumpyToParquet finds them by default:
in `labels.csv` or `labels.parquet` in the folder, else from the names of its sub-folders.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine import manifest
from engine.datasets import VolumeFiles, VolumeSpec
from engine.errors import DataError
from nodes.conversion.labels import LabelRule, find_labels, label_file_in
from nodes.conversion.npy_files import sample_headers, spread
from nodes.delta.delta_table import local_folder
from nodes.loaders.interface import Source
from nodes.loaders.random_access import RandomAccessSource
from nodes.loaders.rows import RowNumbers, Rows

_MEND = "Remove it, or convert the folder: conversion sets bad files aside."


def open_npy(dataset: VolumeFiles, *, cores: int) -> Source:
    """Open a folder of `.npy` files: those its manifest lists. Raises `DataError`."""
    folder = local_folder(dataset.uri)
    names = manifest.read(dataset.manifest).column("path").combine_chunks()
    paths: list[str] = names.to_pylist()
    if not paths:
        raise DataError(f"{folder} holds no .npy files", hint="Choose the folder with the volumes.")
    ids = pc.utf8_normalize(names, form="NFC")
    labels = find_labels(ids, LabelRule(found=label_file_in(folder)))
    spec = dataset.spec or sample_headers(str(folder), [paths[i] for i in spread(len(paths))]).majority
    if spec is None:
        raise DataError(f"none of the files in {folder} can be read as a volume", hint="Are they .npy files?")
    spec = spec.model_copy(update={"classes": labels.classes})
    rows = Rows.by_id(ids, labels.values, dataset.uri)
    return NpySource(dataset.uri, spec, rows, [folder / path for path in paths], cores=cores)


class NpySource(RandomAccessSource):
    name = "npy"
    read_path = "one by one"

    def __init__(self, where: str, spec: VolumeSpec, rows: Rows, paths: list[Path], *, cores: int) -> None:
        super().__init__(where, spec, rows, cores=cores)
        self._paths = paths

    def fill(self, rows: RowNumbers, out: NDArray[np.float32]) -> None:
        for i, row in enumerate(rows):
            path = self._paths[self.rows.stored[row]]
            array = _load(path)
            if array.shape != self.spec.shape or array.dtype.newbyteorder("=").name != self.spec.dtype:
                raise DataError(
                    f"{path} is {array.shape} {array.dtype}, the other volumes are {self.spec.describe()}", hint=_MEND
                )
            with np.errstate(over="ignore"):
                out[i] = array


def _load(path: Path) -> NDArray[np.generic]:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as exc:
        raise DataError(f"{path} cannot be read: {exc}", hint=_MEND) from exc
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} is an archive of arrays, not one array", hint=_MEND)
    return array
