"""Volumes read whole, whatever their shape, and transformed before they are put where they belong.

`WholeVolumes` reads them from files of any format, from object storage, or from rows of a table, each with what is
known of it besides. `TransformingReader` applies a chain of transforms, and is a `volume_sources.Reader` as any other:
so what follows (conversion, training from files, viewing) does not know of transforms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.datasets import DTYPES, Transform, VolumeSpec
from engine.errors import DataError
from engine.storage import is_url
from nodes.conversion.columns import NO_COLUMNS
from nodes.conversion.formats import HASH, ROWS, Reading, format_named
from nodes.conversion.formats.geometry import affine_in, columns_of
from nodes.conversion.npy_files import (
    HASHED,
    HeaderSample,
    ListedFile,
    array_of,
    finite_mask,
    header_of,
    read_local_volume,
    refuse_not_finite,
    refuse_other_form,
    refuse_unusable,
    sha256,
)
from nodes.conversion.quarantine import Refused
from nodes.transforms.steps import (
    AFFINE,
    AFFINE_SPACE,
    SPACING,
    Form,
    Matrix,
    Step,
    Unfit,
    apply_steps,
    form_and_row_after,
    load_steps,
    moved_lines,
)

_FUNCTIONS_TRIED = 16
"""Volumes of a sample that are read to see what a function of one's own makes of them."""
Stamp = tuple[int, int]
"""Size and mtime_ns of a listing."""
Row = Mapping[str, Any]


class WholeVolumes(Protocol):
    """Reads volumes one by one; one for each thread. `columns` are what it knows of each besides, as `Reader` has."""

    @property
    def columns(self) -> pa.Schema: ...
    def expect(self, files: Iterable[ListedFile]) -> None: ...
    def header(self, path: str) -> tuple[Form, Row]:
        """Shape and dtype, and the values of `columns`. Raises `Refused`."""

    def read(self, path: str, stamp: Stamp | None) -> tuple[NDArray[Any], Row]:
        """The volume, and the values of `columns`; with a `stamp` only what was listed. Raises `Refused`."""


class _LocalNpy:
    def __init__(self, root: str, *, hashes: bool) -> None:
        self._root, self.columns, self._hashes = root, HASHED if hashes else NO_COLUMNS, hashes

    def expect(self, files: Iterable[ListedFile]) -> None:
        """The system reads ahead by itself."""

    def header(self, path: str) -> tuple[Form, Row]:
        found = header_of(self._root, path)
        return (found.shape, found.dtype.name), {}

    def read(self, path: str, stamp: Stamp | None) -> tuple[NDArray[Any], Row]:
        volume, parts = read_local_volume(self._root, path, stamp)
        return volume, {HASH[0]: sha256(*parts)} if self._hashes else {}


class _RemoteNpy:
    def __init__(self, root: str, largest_bytes: int, *, hashes: bool) -> None:
        from engine.storage.objects import RemotePath
        from nodes.conversion.remote_volumes import ReadAhead

        self._root, self._files = RemotePath.at(root), ReadAhead(root, largest_bytes)
        self.columns, self._hashes = HASHED if hashes else NO_COLUMNS, hashes

    def expect(self, files: Iterable[ListedFile]) -> None:
        self._files.expect(files)

    def header(self, path: str) -> tuple[Form, Row]:
        from nodes.conversion.remote_volumes import remote_header

        found = remote_header(self._root / path)
        return (found.shape, found.dtype.name), {}

    def read(self, path: str, stamp: Stamp | None) -> tuple[NDArray[Any], Row]:
        from nodes.conversion.remote_volumes import header_in

        data = self._files.fetch(path, stamp)
        header = header_in(data)
        refuse_unusable(header, len(data))
        return array_of(header, data[header.offset :]), {HASH[0]: sha256(data)} if self._hashes else {}


class _OfFormat:
    def __init__(self, root: str, reading: Reading, *, hashes: bool) -> None:
        from nodes.conversion.formats.reader import columns_of, volume_files

        self._root, self._reading, self._hashes = root, reading, hashes
        self._format = format_named(reading.format)
        self._files = volume_files(root, reading)
        self.columns = columns_of(self._format, hashes=hashes)

    def expect(self, files: Iterable[ListedFile]) -> None:
        self._files.expect(files)

    def header(self, path: str) -> tuple[Form, Row]:
        from nodes.conversion.formats.reader import header_of as format_header

        found = format_header(self._root, path, self._reading)
        return (found.shape, found.dtype), found.columns

    def read(self, path: str, stamp: Stamp | None) -> tuple[NDArray[Any], Row]:
        from nodes.conversion.formats.reader import read_with_header

        return read_with_header(self._files, path, self._reading, stamp, hashes=self._hashes)


def whole_volumes(source: str, reading: Reading, *, hashes: bool = False) -> WholeVolumes:
    """The volumes below `source`, as they are stored; with `hashes` files are hashed.

    Raises `MissingPackage`, `DataError`.
    """
    if reading.format == ROWS:
        from nodes.conversion.table_rows import TableRowReader

        return TableRowReader(source, reading.listing)
    if reading.format != "npy":
        return _OfFormat(source, reading, hashes=hashes)
    if is_url(source):
        return _RemoteNpy(source, reading.largest_bytes, hashes=hashes)
    return _LocalNpy(source, hashes=hashes)


def steps_of(transforms: Iterable[Transform]) -> tuple[Step, ...]:
    """The steps of a chain. Raises `DataError` when one is not known here."""
    try:
        return load_steps([{"name": t.name, "version": t.version, "parameters": t.parameters} for t in transforms])
    except (Unfit, TypeError) as exc:
        raise DataError(f"the volumes' chain cannot be read: it {exc}", hint="Update Voxelflow.") from exc


class TransformedVolumes:
    """The volumes of `whole` after a chain of transforms."""

    def __init__(self, whole: WholeVolumes, transforms: Iterable[Transform]) -> None:
        self.whole, self.steps = whole, steps_of(transforms)
        self.columns = whole.columns

    @classmethod
    def at(cls, source: str, reading: Reading, *, hashes: bool = False) -> TransformedVolumes:
        return cls(whole_volumes(source, reading, hashes=hashes), reading.transforms)

    def then(self, step: Step) -> TransformedVolumes:
        """The same volumes after one more step."""
        out = copy(self)
        out.steps = (*self.steps, step)
        return out

    def form(self, path: str) -> tuple[Form, Row, int]:
        """Shape and dtype after the chain, what is known of the volume there, and its bytes before the chain.

        Raises `Refused`.
        """
        (shape, dtype), row = self.whole.header(path)
        size = VolumeSpec(shape=shape, dtype=dtype).volume_bytes
        try:
            found = form_and_row_after(self.steps, shape, dtype, {"id": path, **row})
        except Unfit as exc:
            raise Refused("transform", str(exc)) from exc
        if found is None:
            volume, known = self.read(path, None)
            found = (volume.shape, volume.dtype.name), dict(known)
        return *found, size

    def read(self, path: str, stamp: Stamp | None) -> tuple[NDArray[Any], Row]:
        """The volume, C order and little-endian, and what is known of it, its place in space brought up to date.

        Raises `Refused`.
        """
        volume, row = self.whole.read(path, stamp)
        try:
            out, matrix = apply_steps(self.steps, volume, {"id": path, **row})
        except Unfit as exc:
            raise Refused("transform", str(exc)) from exc
        except MemoryError as exc:
            raise Refused("transform", "takes more memory to transform than there is") from exc
        if out.dtype.name not in DTYPES:
            raise Refused("dtype", f"became {out.dtype.name}, which no volume can be")
        return out, moved(row, matrix)


class TransformingReader:
    """Reads volumes and transforms them into rows of a buffer; see `volume_sources.Reader`."""

    def __init__(self, source: str, spec: VolumeSpec, *, finite: bool, reading: Reading, hashes: bool = False) -> None:
        self._volumes, self._spec = TransformedVolumes.at(source, reading, hashes=hashes), spec
        self.columns = self._volumes.columns
        self._dtype = np.dtype(spec.dtype).newbyteorder("<")
        self._mask = finite_mask(spec) if finite else None

    def expect(self, files: Iterable[ListedFile]) -> None:
        self._volumes.whole.expect(files)

    def read(self, path: str, size: int, mtime_ns: int, row: NDArray[np.uint8]) -> tuple[Any, ...]:
        volume, known = self._volumes.read(path, (size, mtime_ns))
        refuse_other_form(volume.shape, volume.dtype.name, self._spec)
        values = row.view(self._dtype)
        values[:] = volume.reshape(-1)
        if self._mask is not None:
            refuse_not_finite(values, self._mask)
        return tuple(known.get(name) for name in self.columns.names)


def sample_whole(source: str, paths: Iterable[str], reading: Reading, most_bytes: int | None = None) -> HeaderSample:
    """See `volume_sources.sample_headers`: what the volumes are like after the chain."""
    from nodes.conversion.formats.reader import affordable

    volumes, sample = TransformedVolumes.at(source, reading), HeaderSample()
    # What a function makes is known only when it has run.
    runs = any(step.name == "function" for step in volumes.steps)
    for path in affordable(source, paths, reading, most_bytes):
        if runs and sample.looked >= _FUNCTIONS_TRIED:
            break
        sample.looked += 1
        try:
            form, known, size = volumes.form(path)
        except Refused as refused:
            sample.refused.append((path, refused))
        else:
            sample.specs[form] += 1
            sample.add_orientation(known)
            sample.largest_bytes = max(sample.largest_bytes, size)
    return sample


def moved(row: Row, matrix: Matrix | None) -> Row:
    """What is known of a volume's place in space after its voxels have moved: by `matrix`, from new voxels to old ones.

    None: it is not known any more.
    """
    if matrix is not None and np.array_equal(matrix, np.eye(4)):
        return row
    counted = moved_lines(row, matrix)
    names = [name for name in (*SPACING, "orientation", AFFINE, AFFINE_SPACE) if row.get(name) is not None]
    if not names and not counted:
        return row
    out = dict(row) | dict.fromkeys(names) | counted
    if matrix is None:
        return out
    found: dict[str, Any] = {}
    known = affine_in(row.get(AFFINE))
    if known is not None:
        found = columns_of(known @ matrix) | {AFFINE_SPACE: row.get(AFFINE_SPACE)}
    elif set(SPACING) <= set(names):
        affine = np.eye(4)
        affine[:3, :3] = np.diag([float(row[name]) for name in SPACING])
        # Where axes point to, and the first voxel lies, is not known; how far apart voxels are is.
        found = {name: value for name, value in columns_of(affine @ matrix).items() if name in SPACING}
    out.update({name: found.get(name) for name in names})
    return out
