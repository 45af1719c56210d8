"""The simple-storage baseline: every volume is read from its own `.npy` file, or object, with `np.load`.

Files of other formats are read one by one as well, each by its format's reader.

It is here to be compared with: no conversion, no quarantine (a bad file stops the training with its
name), and as many opened files, or requests, as volumes. Labels are found as NumpyToParquet finds them by default:
in `labels.csv` or `labels.parquet` in the folder, else from the names of its sub-folders.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.declare.datasets import VolumeFiles, VolumeSpec
from engine.errors import DataError
from engine.storage import is_url, manifest
from nodes.conversion.formats import NPY, Reading, endings_of
from nodes.conversion.labels import LabelRule
from nodes.conversion.npy_files import retried, spread
from nodes.conversion.quarantine import Refused
from nodes.conversion.table_rows import columns_in, is_rows, labels_of
from nodes.conversion.volume_sources import label_file_at, reading_of, refuse_url, sample_headers
from nodes.conversion.whole_volumes import TransformedVolumes
from nodes.loaders.interface import Source
from nodes.loaders.random_access import RandomAccessSource
from nodes.loaders.rows import ReadColumns, RowNumbers, Rows
from nodes.table.selection import no_column
from nodes.table.snapshot import local_folder
from nodes.transforms.function_file import refuse_untrusted

if TYPE_CHECKING:
    from engine.storage.objects import RemotePath

_MEND = "Remove it, or convert the folder: conversion sets bad files aside."


def open_npy(dataset: VolumeFiles, *, cores: int) -> Source:
    """Open a folder of `.npy` files, here or in object storage: those its manifest lists. Raises `DataError`."""
    reading = reading_of(dataset)
    if reading != NPY:
        refuse_url(dataset.uri, reading)
    folder = _folder(dataset.uri)
    refuse_untrusted(dataset.transforms, f"the chain of {dataset.uri}")
    listing = manifest.read(dataset.manifest)
    names = listing.column("path").combine_chunks()
    paths: list[str] = names.to_pylist()
    if not paths:
        raise DataError(f"{folder} holds no volumes", hint="Choose the folder with the volumes.")
    ids = pc.utf8_normalize(names, form="NFC")
    with label_file_at(str(folder)) as table:
        labels = labels_of(listing, ids, LabelRule(found=table, endings=endings_of(reading)))
    spec = dataset.spec or sample_headers(str(folder), [paths[i] for i in spread(len(paths))], reading).majority
    if spec is None:
        raise DataError(f"none of the files in {folder} can be read as a volume", hint="Choose a folder of .npy files.")
    spec = spec.model_copy(update={"classes": labels.classes})
    rows = Rows.by_id(ids, labels.values, dataset.uri, _columns_of(listing) if is_rows(listing) else None)
    return NpySource(dataset.uri, spec, rows, folder, listing, reading, cores=cores)


def _columns_of(listing: pa.Table) -> ReadColumns:
    """Reads columns of a table's rows. Raises `DataError` for one that they lack."""
    columns = columns_in(listing)

    def read(names: Sequence[str]) -> pa.Table:
        if missing := next((name for name in names if name not in columns.column_names), ""):
            raise no_column(missing)
        return columns.select(names)

    return read


def _folder(uri: str) -> Path | RemotePath:
    if not is_url(uri):
        return local_folder(uri)
    from engine.storage.objects import RemotePath

    return RemotePath.at(uri)


class NpySource(RandomAccessSource):
    """Volumes from a file each, or rows of a table, transformed where the dataset says so."""

    name = "npy"
    read_path = "one by one"

    def __init__(
        self,
        where: str,
        spec: VolumeSpec,
        rows: Rows,
        folder: Path | RemotePath,
        listing: pa.Table,
        reading: Reading = NPY,
        *,
        cores: int,
    ) -> None:
        super().__init__(where, spec, rows, cores=cores)
        self._folder, self._reading = folder, reading
        self._paths: list[str] = listing["path"].to_pylist()
        self._places = listing.select(["size", "mtime_ns"]) if is_rows(listing) else None
        self._own = threading.local()

    def fill(self, rows: RowNumbers, out: NDArray[np.float32]) -> None:
        for i, row in enumerate(rows):
            place = int(self.rows.stored[row])
            name = self._paths[place]
            path = self._folder / name
            array = load_npy(path) if self._reading == NPY else self._load(name, place)
            if array.shape != self.spec.shape or array.dtype.newbyteorder("=").name != self.spec.dtype:
                raise DataError(
                    f"{path} is {array.shape} {array.dtype}, the other volumes are {self.spec.describe()}", hint=_MEND
                )
            with np.errstate(over="ignore"):
                out[i] = array

    def _load(self, name: str, place: int) -> NDArray[np.generic]:
        """A volume that takes more than `np.load`. Raises `DataError` with its name when it cannot be read."""
        volumes: TransformedVolumes | None = getattr(self._own, "volumes", None)
        if volumes is None:
            volumes = self._own.volumes = TransformedVolumes.at(str(self._folder), self._reading)
        stamp = None
        if self._places is not None:
            stamp = self._places["size"][place].as_py(), self._places["mtime_ns"][place].as_py()
        try:
            return volumes.read(name, stamp)[0]
        except Refused as exc:
            raise DataError(f"{self._folder}/{name} {exc.message}", hint=_MEND) from exc


def load_npy(path: Path | RemotePath) -> NDArray[np.generic]:
    """The array in a `.npy` file or object. Raises `DataError` with its name when it cannot be read."""
    try:
        if isinstance(path, Path):
            array = retried(lambda: np.load(path, allow_pickle=False))
        else:
            data = path.read_bytes()
            array = retried(lambda: np.load(io.BytesIO(data), allow_pickle=False))
    except (OSError, ValueError, EOFError) as exc:
        raise DataError(f"{path} cannot be read: {exc}", hint=_MEND) from exc
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} is an archive of arrays, not one array", hint=_MEND)
    return array
