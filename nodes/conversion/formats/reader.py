"""Reading volumes by the functions of their format; whatever fails becomes a reason in the quarantine."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.datasets import DTYPES, VolumeSpec
from engine.errors import MissingPackage
from engine.storage import is_url
from engine.storage.io_errors import OUT_OF_RESOURCES
from engine.storage.links import why_unusable
from nodes.conversion.formats import HASH, ROWS, Reading, VolumeFormat, format_named
from nodes.conversion.formats.geometry import oblique
from nodes.conversion.formats.interface import OpenVolume, StampVolume, VolumeHeader
from nodes.conversion.formats.npy import open_npy
from nodes.conversion.formats.source import sha256_of
from nodes.conversion.npy_files import HeaderSample, ListedFile, finite_mask, refuse_not_finite, refuse_other_form
from nodes.conversion.quarantine import Refused

T = TypeVar("T")
_MAX_AXES = 32
_MAX_LENGTH = 2**63 - 1
_MAX_SENTENCE = 200
_SLICES = 3
"""Files of one slice with numbers in their names that look like parts of one volume."""
_NUMBERED = re.compile(r"(.*?)\d+\.[^/\d][^/]*$")
"""What the path of a file says before the number at the end of its name."""


class VolumeFiles(Protocol):
    """Where the files of volumes are: a folder, or object storage (`remote_volumes.LocalCopies`)."""

    def expect(self, files: Iterable[ListedFile]) -> None:
        """Announce the files that will be read next, in their order."""

    def at(self, path: str, stamp: tuple[int, int] | None) -> AbstractContextManager[Path]:
        """The volume as a local file, or folder; `stamp` has size and mtime_ns of the listing. Raises `Refused`."""

    def refuse_changed(self, place: Path, stamp: tuple[int, int] | None) -> None:
        """Raise `Refused` when what `at` gave is not what was listed."""


class _Folder:
    """Files of a local folder; see `VolumeFiles`."""

    def __init__(self, root: str, stamper: StampVolume) -> None:
        self._root, self._stamp = Path(root), stamper

    def expect(self, files: Iterable[ListedFile]) -> None:
        """Nothing is gained by knowing."""

    @contextmanager
    def at(self, path: str, stamp: tuple[int, int] | None) -> Iterator[Path]:
        yield self._root / path

    def refuse_changed(self, place: Path, stamp: tuple[int, int] | None) -> None:
        if stamp is not None and self._stamp(place) != stamp:
            raise Refused("changed-during-run", "has changed since the folder was listed")


def volume_files(root: str, reading: Reading, volume_bytes: int = 0) -> VolumeFiles:
    """The files below a folder or a storage URL, whose volumes have about so many bytes."""
    if not is_url(root):
        return _Folder(root, format_named(reading.format).stamper())
    from nodes.conversion.remote_volumes import LocalCopies

    return LocalCopies(root, max(volume_bytes, reading.largest_bytes))


class FormatReader:
    """Reads files of one format and `spec` into rows of a buffer; see `npy_files.VolumeReader`.

    With `hashes` the column `source_sha256` is among its columns: see `source.sha256_of`.
    """

    def __init__(self, root: str, reading: Reading, spec: VolumeSpec, *, finite: bool, hashes: bool = False) -> None:
        self._files, self._dataset, self._spec = volume_files(root, reading, spec.volume_bytes), reading.dataset, spec
        self._format = format_named(reading.format)
        self._open = self._format.opener()
        self.columns, self._hashes = columns_of(self._format, hashes=hashes), hashes
        self._dtype = np.dtype(spec.dtype).newbyteorder("<")
        self._mask = finite_mask(spec) if finite else None

    def expect(self, files: Iterable[ListedFile]) -> None:
        """Announce the files that will be read next, in their order."""
        self._files.expect(files)

    def read(self, path: str, size: int, mtime_ns: int, row: NDArray[np.uint8]) -> tuple[object, ...]:
        """Fill `row` with the volume at `path`. Gives the values of `columns`, None for none. Raises `Refused`."""
        values = row.view(self._dtype).reshape(self._spec.shape)
        stamp = size, mtime_ns
        with self._files.at(path, stamp) as place:

            def work() -> Mapping[str, Any]:
                self._files.refuse_changed(place, stamp)
                with self._open(place, self._dataset) as volume:
                    refuse_unusable(volume.header)
                    refuse_other_form(volume.header.shape, volume.header.dtype, self._spec)
                    volume.fill(values)
                found = _facts(volume, place, values.nbytes, hashes=self._hashes)
                self._files.refuse_changed(place, stamp)
                return found

            known = guarded(place, self._format.title, work)
        if self._mask is not None:
            refuse_not_finite(values.reshape(-1), self._mask)
        return tuple(known.get(name) for name in self.columns.names)


def columns_of(found: VolumeFormat, *, hashes: bool) -> pa.Schema:
    """The columns that a reader of the format gives."""
    named = (*found.columns, *((HASH,) if hashes else ()))
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in named])


def _facts(volume: OpenVolume, place: Path, volume_bytes: int, *, hashes: bool) -> Mapping[str, Any]:
    """What is known of a volume that was read: its header's columns, and its files' hash."""
    if not hashes:
        return volume.header.columns
    return {**volume.header.columns, HASH[0]: sha256_of(place, volume.files, volume_bytes)}


def read_volume(root: str, path: str, reading: Reading) -> NDArray[Any]:
    """One volume, whatever its shape. Raises `Refused`, `MissingPackage`."""
    return read_with_header(volume_files(root, reading), path, reading, None)[0]


def read_with_header(
    files: VolumeFiles, path: str, reading: Reading, stamp: tuple[int, int] | None, *, hashes: bool = False
) -> tuple[NDArray[Any], Mapping[str, Any]]:
    """One volume, whatever its shape, and what is known of it (`FormatReader`); `stamp` is that of the listing.

    Raises `Refused`, `MissingPackage`.
    """
    found = format_named(reading.format)
    opener = found.opener()
    with files.at(path, stamp) as place:

        def work() -> tuple[NDArray[Any], Mapping[str, Any]]:
            files.refuse_changed(place, stamp)
            with opener(place, reading.dataset) as volume:
                refuse_unusable(volume.header)
                out = np.empty(volume.header.shape, np.dtype(volume.header.dtype).newbyteorder("<"))
                volume.fill(out)
            found = _facts(volume, place, out.nbytes, hashes=hashes)
            files.refuse_changed(place, stamp)
            return out, found

        return guarded(place, found.title, work)


def header_of(root: str, path: str, reading: Reading) -> VolumeHeader:
    """The header of a file that can be a volume. Raises `Refused`, `MissingPackage`."""
    if reading.format == "npy":
        with opened(Path(root) / path, reading) as volume:
            return volume.header
    with volume_files(root, reading).at(path, None) as place, opened(place, reading) as volume:
        return volume.header


@contextmanager
def opened(place: Path, reading: Reading) -> Iterator[OpenVolume]:
    """A file that can be a volume, open, `.npy` too. Raises `Refused`, `MissingPackage`; reading it raises anything."""
    opener = open_npy if reading.format == "npy" else format_named(reading.format).opener()
    title = title_of(reading)
    with ExitStack() as stack:
        volume = guarded(place, title, lambda: stack.enter_context(opener(place, reading.dataset)))
        refuse_unusable(volume.header)
        yield volume


def title_of(reading: Reading) -> str:
    """What people call the format."""
    return ".npy" if reading.format == "npy" else format_named(reading.format).title


def affordable(root: str, paths: Iterable[str], reading: Reading, most_bytes: int | None) -> Iterable[str]:
    """The files of a sample that can be looked at; see `volume_sources.sample_headers`."""
    if not is_url(root) or reading.format in ("npy", ROWS):
        return paths
    from nodes.conversion.remote_volumes import affordable_copies

    return affordable_copies(root, paths, most_bytes)


def sample_format_headers(
    root: str, paths: Iterable[str], reading: Reading, most_bytes: int | None = None
) -> HeaderSample:
    """See `volume_sources.sample_headers`."""
    sample, paths = HeaderSample(), list(paths)
    for path in affordable(root, paths, reading, most_bytes):
        sample.looked += 1
        try:
            header = header_of(root, path, reading)
        except Refused as refused:
            sample.refused.append((path, refused))
        else:
            sample.specs[header.shape, header.dtype] += 1
            sample.add_orientation(header.columns)
            sample.remarks += [f"{path} {remark}" for remark in (*header.remarks, *oblique(header.columns))]
            if header.summary:
                sample.summaries.append(f"{path} {header.summary}")
    if not format_named(reading.format).collect and (remark := _slices(paths, sample)):
        sample.remarks.insert(0, remark)
    return sample


def _slices(paths: Sequence[str], sample: HeaderSample) -> str:
    """What to say of sampled files that look like the slices of a volume, exported one by one; "" of others."""
    flat = sum(sample.specs.values()) >= _SLICES and all(len(s) > 2 and s[2] == 1 for s, _ in sample.specs)
    numbered = Counter(match[1] for path in paths if (match := _NUMBERED.match(path)))
    name, count = max(numbered.items(), key=lambda found: found[1], default=("", 0))
    if not flat or count < _SLICES:
        return ""
    first = next(path for path in paths if (match := _NUMBERED.match(path)) and match[1] == name)
    return (
        f"{first} and others of its folder, numbered alike, have one slice each: every file is a volume of depth 1, and"
        " slices are not put together. Store those of a volume in one file, as a stack"
    )


def refuse_unusable(header: VolumeHeader) -> None:
    """Raise `Refused` when no dataset could take the volume, whatever its shape and dtype."""
    if header.dtype == "object":
        raise Refused("pickle", "holds Python objects, which are never unpickled")
    if header.dtype not in DTYPES:
        raise Refused("dtype", f"is {header.dtype}, which no volume can be")
    shape, total = header.shape, 1
    if not shape or len(shape) > _MAX_AXES or any(n <= 0 for n in shape):
        raise Refused("shape", f"has no voxels: its shape is {shape}")
    for length in shape:
        total *= length
        if total > _MAX_LENGTH:
            raise Refused("truncated", "its header promises more than any file can hold")


def guarded(place: Path, title: str, work: Callable[[], T]) -> T:
    """What `work` gives; what a library raises over a file becomes the file's reason."""
    try:
        if not os.path.isdir(place) and os.path.exists(place) and not os.path.isfile(place):
            raise Refused("unreadable", "is not a regular file")
        return work()
    except (Refused, MissingPackage):
        raise
    except FileNotFoundError as exc:
        if place.is_symlink() and (link := why_unusable(str(place))) is not None:
            raise Refused("unreadable", f"is a link: {link.reason}") from exc
        raise Refused("changed-during-run", "is gone since the folder was listed") from exc
    except MemoryError as exc:
        raise Refused("unreadable", "takes more memory to read than there is") from exc
    except OSError as exc:
        # A process without handles says nothing about the file. Libraries raise OSError without a number for content.
        if exc.errno in OUT_OF_RESOURCES:
            raise
        if exc.errno is not None and exc.strerror:
            raise Refused("unreadable", f"cannot be read: {exc.strerror}") from exc
        raise Refused("format", _sentence(title, exc, place)) from exc
    except Exception as exc:  # a hostile file can make a library raise nearly anything
        raise Refused("format", _sentence(title, exc, place)) from exc


def _sentence(title: str, exc: BaseException, place: Path) -> str:
    # The file has been named; of one in object storage `place` is a copy that is gone when this is read.
    said = str(exc).replace(f"{place.parent}{os.sep}", "")
    said = " ".join(said.split()) or type(exc).__name__
    return f"cannot be read as {title}: {said[:_MAX_SENTENCE]}"
