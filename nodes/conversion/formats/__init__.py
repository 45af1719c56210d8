"""The formats of volumes that VolumeFolder takes: which files they are, and what reads them.

A format is a row of the table below. A package adds one with the entry point group `voxelflow.volume_formats`, whose
entries are `VolumeFormat`s:

    [project.entry-points."voxelflow.volume_formats"]
    mine = "my_package.mine:FORMAT"

It is found by its endings, and held to `voxelflow.FormatConformance`. One that cannot be loaded is left out, and is
among the problems that `voxelflow nodes`, `voxelflow validate` and the editor show. This module imports no reader: each
is imported when its first file is opened.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.declare.datasets import Transform
from engine.declare.parameters import FileKind
from engine.diagnostics.rules import NodesNotLoaded
from engine.errors import DataError, VoxelflowError
from engine.extras import require
from engine.storage import manifest
from nodes.conversion.source_hash import SOURCE_HASH

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from engine.diagnostics.rule import Diagnostic
    from nodes.conversion.formats.interface import CollectVolumes, OpenFile, StampVolume

ENTRY_POINTS = "voxelflow.volume_formats"


class Reading(NamedTuple):
    """How the volumes of a folder are read: by which format, and which array of each file ("": the only one).

    `transforms` are applied to what was read; before them a volume has up to `largest_bytes`, as far as is known. Of
    rows of a table (the format `ROWS`) `listing` is the path of their listing, which says which files they lie in.
    """

    format: str = "npy"
    dataset: str = ""
    transforms: tuple[Transform, ...] = ()
    listing: str = ""
    largest_bytes: int = 0

    def key(self) -> list[str]:
        """What enters the names of parts; nothing for `.npy`, whose parts have the names that they always had."""
        if self == NPY:
            return []
        done = [json.dumps([each.name, each.version, each.parameters]) for each in self.transforms]
        return [self.format, self.dataset, *done]

    @property
    def takes_whole(self) -> bool:
        """Whether volumes are read whole and only then put where they belong: they are transformed, or rows."""
        return bool(self.transforms) or self.format == ROWS

    def held_bytes(self, volume_bytes: int) -> int:
        """What a reader holds besides the volume that it gives, of `volume_bytes`."""
        if self == NPY:
            return 0
        # A library holds a volume as it is in the file and as it becomes; a step may make float64 of it.
        return (4 if self.transforms else 2) * max(volume_bytes, self.largest_bytes)


ROWS = "rows"
"""The format of volumes that are rows of a table; see `nodes.conversion.table_rows`."""
NPY = Reading()
OWN_NAMES = frozenset({NPY.format, ROWS, "auto"})
"""Names that no format of a package can take."""


@dataclass(frozen=True)
class VolumeFormat:
    """A format of volumes.

    `reader` names a function ("module:function"), an `interface.OpenFile`. Where not each listed file is a volume,
    `collect` and `stamp` name an `interface.CollectVolumes` and an `interface.StampVolume`. `modules` are what `import`
    calls the packages that reading needs. `columns` are what headers say besides, with Arrow's names of their types:
    columns of the table. `endings`, `folder_endings`, `companions` and `any_name` are those of `FileKind`; with
    `any_name`, `collect` looks into files and leaves out those of other formats.
    """

    name: str
    title: str
    reader: str
    endings: tuple[str, ...] = ()
    folder_endings: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    collect: str = ""
    stamp: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    any_name: bool = False

    @property
    def kind(self) -> FileKind:
        """Its files, as a folder's listing finds them."""
        needs_folder = bool(self.collect or self.folder_endings)
        return FileKind(
            self.name, self.endings, self.folder_endings, self.companions, needs_folder, any_name=self.any_name
        )

    @property
    def all_endings(self) -> tuple[str, ...]:
        """Endings of volumes, in small letters."""
        return (*self.endings, *self.folder_endings)

    def require(self) -> None:
        """Raise `MissingPackage` when what reads it is not installed."""
        require(f"reading {self.title}", *self.modules)

    def opener(self) -> OpenFile:
        """The function that opens one volume. Raises `MissingPackage`."""
        self.require()
        found: OpenFile = _function(self.reader)
        return found

    def collector(self) -> CollectVolumes | None:
        """The function that makes volumes of a listing's files; None: each file is one. Raises `MissingPackage`."""
        if not self.collect:
            return None
        self.require()
        found: CollectVolumes = _function(self.collect)
        return found

    def stamper(self) -> StampVolume:
        """The function that gives size and time of a volume as a listing has them."""
        if not self.stamp:
            return _stamp
        found: StampVolume = _function(self.stamp)
        return found


_HERE = "nodes.conversion.formats"
SPACING = (("spacing_x", "float64"), ("spacing_y", "float64"), ("spacing_z", "float64"))
"""Millimetres a voxel."""
AFFINE = (("affine", "string"), ("affine_space", "string"))
"""Sixteen numbers with spaces between, row by row, and where they lead to: see `geometry`."""
GEOMETRY = (*SPACING, ("orientation", "string"), *AFFINE)
"""See `geometry.columns_of`."""
SURVEY = (
    ("inline", "int32"),
    ("crossline", "int32"),
    ("time", "float64"),
    ("inline_step", "int32"),
    ("crossline_step", "int32"),
    ("time_step", "float64"),
    *AFFINE,
)
"""Of the first voxel, and to the next one. The affine goes from voxels to CDP X, CDP Y and time."""
STORED = (("source_dtype", "string"), ("source_decoder", "string"))
SCALED = (("source_slope", "float64"), ("source_intercept", "float64"))
UNIT = (("source_unit", "string"),)
CHANNELS = (("source_channels", "string"),)
"""What files say of their values: see `source`."""
HASH = (SOURCE_HASH, "string")
"""The column that a conversion adds to those of any format, and where it is asked for to `.npy`."""
BUILT_IN = (
    VolumeFormat(
        "nifti",
        "NIfTI",
        f"{_HERE}.nifti:open_nifti",
        (".nii", ".nii.gz"),
        modules=("nibabel",),
        columns=(*GEOMETRY, *STORED, *SCALED, *CHANNELS),
    ),
    VolumeFormat(
        "dicom",
        "DICOM",
        f"{_HERE}.dicom:open_series",
        (".dcm", ".dicom", ".ima"),
        modules=("pydicom",),
        collect=f"{_HERE}.dicom:collect_series",
        stamp=f"{_HERE}.dicom:stamp_series",
        columns=(
            *GEOMETRY,
            ("modality", "string"),
            ("patient_id", "string"),
            ("study_uid", "string"),
            ("series_uid", "string"),
            *STORED,
            *SCALED,
            *UNIT,
            *CHANNELS,
        ),
        any_name=True,
    ),
    VolumeFormat(
        "nrrd",
        "NRRD",
        f"{_HERE}.nrrd:open_nrrd",
        (".nrrd", ".nhdr"),
        companions=(".raw", ".raw.gz", ".raw.bz2", ".dat"),
        modules=("nrrd",),
        collect=f"{_HERE}.nrrd:collect_nrrds",
        stamp=f"{_HERE}.nrrd:stamp_nrrd",
        columns=(*GEOMETRY, *STORED, *UNIT),
    ),
    VolumeFormat(
        "metaimage",
        "MetaImage",
        f"{_HERE}.metaimage:open_metaimage",
        (".mha", ".mhd"),
        companions=(".raw", ".zraw"),
        collect=f"{_HERE}.metaimage:collect_metaimages",
        stamp=f"{_HERE}.metaimage:stamp_metaimage",
        columns=(*GEOMETRY, *STORED),
    ),
    VolumeFormat(
        "tiff",
        "TIFF",
        f"{_HERE}.tiff:open_tiff",
        (".tif", ".tiff"),
        modules=("tifffile",),
        columns=(*SPACING, *STORED, *CHANNELS),
    ),
    VolumeFormat(
        "hdf5",
        "HDF5",
        f"{_HERE}.hdf5:open_hdf5",
        (".h5", ".hdf5", ".hdf", ".nxs"),
        modules=("h5py",),
        columns=(*STORED, *UNIT),
    ),
    VolumeFormat(
        "zarr",
        "Zarr",
        f"{_HERE}.zarr:open_zarr",
        folder_endings=(".zarr",),
        modules=("zarr",),
        columns=(*SPACING, *STORED, *UNIT, *CHANNELS),
    ),
    VolumeFormat(
        "segy",
        "SEG-Y",
        f"{_HERE}.segy:open_segy",
        (".sgy", ".segy"),
        modules=("segyio",),
        columns=(*SURVEY, *STORED),
    ),
    VolumeFormat(
        "matlab",
        "MATLAB",
        f"{_HERE}.matlab:open_matlab",
        (".mat",),
        modules=("scipy", "h5py"),
        columns=STORED,
    ),
    VolumeFormat("npz", ".npz", f"{_HERE}.npz:open_npz", (".npz",), columns=STORED),
)
"""Beside `.npy`, which `conversion.npy_files` reads on a faster way of its own."""


def formats() -> Mapping[str, VolumeFormat]:
    """All formats but `.npy`, by name: built-in ones first, then those of installed packages."""
    return installed()[0]


def format_problems() -> Sequence[Diagnostic]:
    """Formats of installed packages that are left out, and why: a catalogue has them among its problems."""
    return installed()[1]


@lru_cache(maxsize=1)
def installed() -> tuple[Mapping[str, VolumeFormat], Sequence[Diagnostic]]:
    """What `formats` and `format_problems` give, read once in a process."""
    from importlib.metadata import entry_points

    out = {each.name: each for each in BUILT_IN}
    problems = []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            found = entry.load()
        except Exception as exc:  # a package of someone else may raise anything; its files are then of no known format
            text = exc.line() if isinstance(exc, VoxelflowError) else f"{type(exc).__name__}: {exc}"
            problems.append(_left_out(entry, f"could not be loaded: {text}"))
            continue
        if not isinstance(found, VolumeFormat):
            problems.append(_left_out(entry, f"is no VolumeFormat but a {type(found).__name__}"))
        elif found.name in out or found.name in OWN_NAMES:
            problems.append(_left_out(entry, f"is called {found.name!r}, as another format is"))
        else:
            out[found.name] = found
    return out, problems


def _left_out(entry: EntryPoint, why: str) -> Diagnostic:
    package = f" of the package {entry.dist.name}" if entry.dist else ""
    return NodesNotLoaded.found(
        f"the volume format {entry.name}{package} ({entry.value}) {why}",
        hint="Update, correct or remove the package; until then VolumeFolder does not know files of this format.",
    )


def format_named(name: str) -> VolumeFormat:
    """The format. Raises `DataError` when no installed package has it."""
    if found := formats().get(name):
        return found
    raise DataError(
        f"the volume format {name!r} is not known here",
        hint=f"Known are npy, {', '.join(formats())}; install the package that brings it.",
    )


def file_kinds() -> Iterable[FileKind]:
    """What a folder may hold besides `.npy` files; see `PathIn.kinds`."""
    return [each.kind for each in formats().values()]


def endings_of(reading: Reading) -> tuple[str, ...]:
    """Endings of the volumes' names, in small letters."""
    if reading.format == ROWS:
        return ()
    return (".npy",) if reading.format == "npy" else format_named(reading.format).all_endings


def every_ending() -> tuple[str, ...]:
    """The endings of all formats, in small letters."""
    return tuple(dict.fromkeys([".npy", *(e for each in formats().values() for e in each.all_endings)]))


def known_endings() -> str:
    """All endings in a row, for people: `.npy, .nii, .nii.gz`."""
    return ", ".join(every_ending())


def stamper_of(reading: Reading) -> StampVolume:
    """The function that gives size and time of a volume as a listing has them."""
    return _stamp if reading.format == "npy" else format_named(reading.format).stamper()


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        return manifest.tree_stamp(path)
    return found.st_size, found.st_mtime_ns


def _function(place: str) -> Any:
    from importlib import import_module

    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
