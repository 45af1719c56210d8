"""What `voxelflow.load` says of a place without a Delta table: what is there instead, and how it becomes a table."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from engine.errors import DataError
from nodes.conversion.formats import NPY, formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.storage.place import Place

_LOOKED_AT = 2_000
"""Names below the folder that are looked at, at most."""
_GIVE = 'Give the path or URL of a Delta table, or an output of a run (`run.outputs["table"]["out"]`)'
_PARQUET = "parquet"
_SCANS = frozenset({"nifti", "dicom", "nrrd", "metaimage"})
_SURVEYS = frozenset({"segy"})


def no_table(place: Place) -> DataError:
    """The error for a place where no Delta table is."""
    where = str(place)
    if place.local_folder is None:
        return DataError(f"there is no Delta table at {where}", hint=f"{_GIVE}.")
    if not os.path.lexists(place.local_folder):
        return DataError(
            f"there is no Delta table at {where}: nothing of this name is there",
            hint="Check the path, or run the node that makes the table again.",
        )
    is_folder = place.local_folder.is_dir()
    names = islice(_names_below(where), _LOOKED_AT) if is_folder else (place.local_folder.name,)
    found = Counter(filter(None, map(_format_of, names))).most_common(1)
    if not found:
        return DataError(f"{where} is no Delta table", hint=f"{_GIVE}.")
    most = found[0][0]
    kind = {_PARQUET: "Parquet", NPY.format: ".npy"}.get(most) or formats()[most].title
    is_there = f"a folder of {kind} files" if is_folder else f"a file ({kind})"
    folder = where if is_folder else str(place.local_folder.parent)
    return DataError(f"{where} is {is_there} and no Delta table", hint=f"{_GIVE}. {_how(most, folder)}")


def _names_below(folder: str) -> Iterator[str]:
    for _, folders, files in os.walk(folder):
        # A Zarr array is a folder; what is in it says nothing.
        yield from folders
        yield from files
        folders[:] = [each for each in folders if not each.startswith(".") and not _format_of(each)]


def _format_of(name: str) -> str:
    """The format of a volume by its file's name, `_PARQUET`, or "" for any other file."""
    small = name.lower()
    if small.startswith("."):
        return ""
    if small.endswith(".parquet"):
        return _PARQUET
    if small.endswith(".npy"):
        return NPY.format
    return next((each.name for each in formats().values() if small.endswith(each.all_endings)), "")


def _how(format_name: str, folder: str) -> str:
    """How files of this format become a table."""
    if format_name == _PARQUET:
        return (
            "To make a table of Parquet files, take a pipeline with ParquetFolder and ParquetToDelta; of those of other"
            " programs, with ConvertTable."
        )
    if format_name in _SURVEYS:
        return "To cut a survey into patches, start with `voxelflow new NAME --template seismic-facies`."
    run = f"`voxelflow run volumes-to-resnet --set data={shlex.quote(folder)} --to optimize`"
    makes = f"{run} makes a table of volumes of one shape"
    if format_name in _SCANS:
        return f"{makes}; for scans that differ start with `voxelflow new NAME --template mri-classifier`."
    return f"{makes}."
