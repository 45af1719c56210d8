"""DICOM: the files of a series are one volume, in the order of their positions. pydicom reads them.

A series is named by the file when it has only one, by its folder when that holds no other, else by folder and series
UID. Slices at the same position (phases, echoes) become channels. The frames of an enhanced file, each with a place and
a scale of its own, are slices like those of several files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.progress import track
from engine.storage import manifest
from engine.storage.manifest import FileEntry
from nodes.conversion.formats import source
from nodes.conversion.formats.dicom_decoders import decoder_of, packages_of
from nodes.conversion.formats.geometry import LPS, columns_of
from nodes.conversion.formats.interface import OpenVolume, VolumeHeader
from nodes.conversion.quarantine import Refused

ENDINGS = (".dcm", ".dicom", ".ima")
_DEFLATED = "1.2.840.10008.1.2.1.99"
_BIG_ENDIAN = "1.2.840.10008.1.2.2"
_UNSPECIFIED = "US"
"""The rescaled unit that says nothing."""
_GAP = 1.5
"""Times the usual step between slices that is one or more of them missing."""
_UNEVEN = 0.01
"""The share of a step by which another may differ, and by which a slice may lie beside the one before."""
_ROUNDING = 0.01
"""Millimetres that the rounding of positions may add to that; where slices are very thin, a quarter of the step."""
_TURNED = 1e-3
"""By how much numbers of a slice's directions may differ from the others' (unit vectors, rounded by scanners)."""
_TEXTS = (
    ("modality", "Modality"),
    ("patient_id", "PatientID"),
    ("study_uid", "StudyInstanceUID"),
    ("series_uid", "SeriesInstanceUID"),
)
_LONGEST_TEXT = 200
_GROUPS = (
    "PlanePositionSequence",
    "PlaneOrientationSequence",
    "PixelMeasuresSequence",
    "PixelValueTransformationSequence",
    "FrameContentSequence",
    "MREchoSequence",
)
"""The functional groups of an enhanced file that say where a frame lies, what its values mean, and which it is."""


def collect_series(root: Path, listing: pa.Table) -> pa.Table:
    """See `interface.CollectVolumes`. A file that is no DICOM file is a volume of its own, refused when it is read.

    Not by its name but by what is in it a file counts in a folder where none has an ending of `ENDINGS`: as an archive
    or a CD names them, IM000001. There what is of no series (its DICOMDIR) is no volume.
    """
    found: dict[tuple[str, str], list[FileEntry]] = {}
    rows: list[FileEntry] = []
    named = {_folder_of(entry) for entry in manifest.entries(listing) if entry.path.lower().endswith(ENDINGS)}
    for entry in track(manifest.entries(listing), unit="files", total=len(listing)):
        folder = _folder_of(entry)
        has_ending = entry.path.lower().endswith(ENDINGS)
        if folder in named and not has_ending:
            continue
        if uid := _series_uid(root / entry.path):
            found.setdefault((folder, uid), []).append(entry)
        elif has_ending:
            rows.append(entry)
    series_in = Counter(folder for folder, _ in found)
    for (folder, uid), series in found.items():
        if len(series) == 1:
            rows.append(series[0])
        else:
            path = folder if series_in[folder] == 1 and folder else f"{folder}/{uid}".lstrip("/")
            bare = [FileEntry(each.path.rpartition("/")[2], each.size, each.mtime_ns) for each in series]
            rows.append(FileEntry(path, *manifest.stamp_of(sorted(bare))))
    return manifest.table_of(rows)


def _folder_of(entry: FileEntry) -> str:
    return entry.path.rpartition("/")[0]


def stamp_series(path: Path) -> tuple[int, int]:
    """See `interface.StampVolume`."""
    if path.is_file():
        found = path.stat()
        return found.st_size, found.st_mtime_ns
    return manifest.stamp_of(_members(path))


def _members(path: Path) -> list[FileEntry]:
    """The files of a series that is named by its folder, or by folder and UID, sorted by name."""
    folder, uid = (path, "") if path.is_dir() else (path.parent, path.name)
    with os.scandir(folder) as found:
        there = [entry for entry in found if not entry.name.startswith(".") and not entry.is_dir()]
    named = [entry for entry in there if entry.name.lower().endswith(ENDINGS)]
    entries = []
    for entry in named or there:
        try:
            status = entry.stat()
        except FileNotFoundError:  # a link without a target is no slice
            continue
        entries.append(FileEntry(entry.name, status.st_size, status.st_mtime_ns))
    by_uid = _by_uid(str(folder), tuple(sorted(entries)))
    if uid:
        chosen = by_uid.get(uid, ())
    else:
        series = [names for key, names in by_uid.items() if key and len(names) > 1]
        if len(series) > 1:
            raise Refused("changed-during-run", "holds more than one series since the folder was listed")
        chosen = series[0] if series else ()
    if not chosen:
        raise FileNotFoundError(str(path))
    return list(chosen)


@lru_cache(maxsize=8)
def _by_uid(folder: str, entries: tuple[FileEntry, ...]) -> dict[str, tuple[FileEntry, ...]]:
    out: dict[str, list[FileEntry]] = {}
    for entry in entries:
        out.setdefault(_series_uid(Path(folder) / entry.path), []).append(entry)
    return {uid: tuple(names) for uid, names in out.items()}


def _series_uid(path: Path) -> str:
    """The UID of the file's series, "" for none."""
    try:
        header = _read(path, tags=["SeriesInstanceUID"])
        uid = str(header.get("SeriesInstanceUID", ""))
    except Exception:  # whatever is wrong with the file: reading it says so
        return ""
    return uid if uid and set(uid) <= set("0123456789.") else ""


def _read(path: Path, *, pixels: bool = False, tags: Sequence[str] | None = None) -> Any:
    import pydicom
    from pydicom import config

    # Values that break the standard in small ways are common, and are not worth a warning for each file.
    config.settings.reading_validation_mode = config.IGNORE
    if not path.is_file():
        raise Refused("unreadable", "is not a regular file")
    with path.open("rb") as file:
        start = file.read(132)
        if not start:
            raise Refused("empty", "is empty")
        if start[128:] != b"DICM":
            raise Refused("format", "does not start like a DICOM file")
        file.seek(132)
        meta = pydicom.filereader.read_file_meta_info(str(path))
        if str(meta.get("TransferSyntaxUID", "")) == _DEFLATED:
            raise Refused("format", "is deflated as a whole, which is not read")
        file.seek(0)
        return pydicom.dcmread(file, stop_before_pixels=not pixels, specific_tags=list(tags) if tags else None)


@dataclass(frozen=True)
class _Slice:
    """One file: its header's facts that all files of a series must share, and where it lies."""

    path: Path
    shape: tuple[int, ...]
    stored: str
    slope: float
    intercept: float
    position: float | None
    """Millimetres along the normal of the slices."""
    order: tuple[float, ...]
    corner: tuple[float, ...]
    directions: tuple[float, ...]
    inverted: bool
    """Whether small values are white (MONOCHROME1). They are read as they are stored all the same."""
    decoder: str
    """What decompresses it; see `decoder_of`."""
    bits: int
    """Of each stored value, as many as it uses: slices of one series may have different numbers of them."""
    frame: int = 0
    """Which of the file's frames it is, where each is a slice of its own."""
    uid: str = ""
    """Of the image (SOPInstanceUID): no other has it but its copies."""


class _Frame:
    """The header of one frame of an enhanced file: what its functional groups say, else those of all, else the file."""

    def __init__(self, header: Any, number: int) -> None:
        self._header, self._own = header, dict[str, Any]()
        every = header.get("SharedFunctionalGroupsSequence") or [{}]
        each = header.get("PerFrameFunctionalGroupsSequence") or []
        for groups in (every[0], *each[number : number + 1]):
            for name in _GROUPS:
                for item in (groups.get(name) or [])[:1]:
                    self._own |= {element.keyword: element.value for element in item}

    def get(self, name: str, default: Any = None) -> Any:
        if name == "NumberOfFrames":
            return 1
        return self._own[name] if self._own.get(name) is not None else self._header.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self._own or name in self._header

    def __getattr__(self, name: str) -> Any:
        return getattr(self._header, name)


def _headers(header: Any) -> list[Any]:
    """The header of each slice in a file: of an enhanced file those of its frames. Raises `Refused`."""
    each = header.get("PerFrameFunctionalGroupsSequence")
    if each is None and header.get("SharedFunctionalGroupsSequence") is None:
        return [header]
    frames = int(header.get("NumberOfFrames") or 1)
    if each is not None and len(each) != frames:
        raise Refused("format", f"has {frames} frames, and describes {len(each)} of them")
    return [_Frame(header, number) for number in range(frames)]


@contextmanager
def open_series(path: Path, dataset: str) -> Iterator[OpenVolume]:
    """Open a series, named as `collect_series` does. Raises `Refused`."""
    if path.is_file():
        paths = [path]
    else:
        folder = path if path.is_dir() else path.parent
        paths = [folder / entry.path for entry in _members(path)]
    first: Any = None
    slices = []
    for each in paths:
        for number, header in enumerate(_headers(_read(each))):
            if first is None:
                first = header
                normal = _normal(header)
            slices.append(_slice(each, header, normal, number))
    _refuse_turned(slices)
    _refuse_copies(slices)
    phases = _sort(slices)
    one = slices[0]
    if len({each.inverted for each in slices}) > 1:
        raise Refused("format", "has slices in which small values are black and others in which they are white")
    for other in slices:
        if (other.shape, other.stored) != (one.shape, one.stored):
            raise Refused("format", f"has slices of {one.shape} {one.stored} and of {other.shape} {other.stored}")
    frames, columns, rows, samples = one.shape
    depth = frames if len(slices) == 1 else len(slices) // phases
    if len(paths) > 1 and (frames > 1 or len(slices) > len(paths)):
        raise Refused("format", "is a series of several files of several frames each")
    channels = samples * phases
    shape = (columns, rows, depth, channels) if channels > 1 else (columns, rows, depth)
    kind = _kind(slices)
    facts = _columns(first, slices, depth, phases) | _stored(first, slices, channels)

    def fill(out: NDArray[Any]) -> None:
        target = out.reshape(columns, rows, depth, phases, samples)
        stored: tuple[Path, NDArray[Any]] | None = None
        for number, each in enumerate(slices):
            if stored is None or stored[0] != each.path:
                stored = each.path, _pixels(each)
            found = _rescaled(stored[1][each.frame : each.frame + frames], each, kind)
            if len(slices) == 1:
                target[:, :, :, 0, :] = found.transpose(2, 1, 0, 3)
            else:
                target[:, :, number // phases, number % phases, :] = found[0].transpose(1, 0, 2)

    yield OpenVolume(VolumeHeader(shape, kind, facts), fill, files=tuple(paths))


def _normal(header: Any) -> NDArray[np.float64] | None:
    directions = header.get("ImageOrientationPatient")
    if directions is None or len(directions) != 6:
        return None
    values = np.array([float(v) for v in directions])
    normal: NDArray[np.float64] = np.cross(values[:3], values[3:])
    # Directions are rounded numbers: their product is not quite of length 1.
    return normal / (np.linalg.norm(normal) or 1.0)


def _slice(path: Path, header: Any, normal: NDArray[np.float64] | None, frame: int) -> _Slice:
    if "Rows" not in header or "Columns" not in header:
        raise Refused("format", f"holds no image (modality {header.get('Modality', 'unknown')})")
    if str(header.get("PhotometricInterpretation", "")).startswith("PALETTE"):
        raise Refused("format", "has colours from a palette, which are not read")
    frames = int(header.get("NumberOfFrames") or 1)
    bits = int(header.get("BitsAllocated") or 0)
    stored = {32: "float32", 64: "float64"}.get(bits, "") if "FloatPixelData" in header else ""
    stored = stored or ("uint8" if bits == 1 else f"{'' if header.get('PixelRepresentation') else 'u'}int{bits}")
    position = header.get("ImagePositionPatient")
    at = None
    if normal is not None and position is not None and len(position) == 3:
        at = float(np.dot(normal, [float(v) for v in position]))
    names = ("TemporalPositionIdentifier", "AcquisitionNumber", "InstanceNumber")
    if isinstance(header, _Frame):
        names = ("TemporalPositionIndex", "EffectiveEchoTime", "FrameAcquisitionNumber")
    order = [*(header.get(name) for name in names), frame]
    return _Slice(
        path,
        (frames, int(header.Columns), int(header.Rows), int(header.get("SamplesPerPixel") or 1)),
        stored,
        float(header.get("RescaleSlope") or 1.0),
        float(header.get("RescaleIntercept") or 0.0),
        at,
        tuple(float(value) if value is not None else -1.0 for value in order),
        tuple(float(v) for v in position) if at is not None else (),
        tuple(float(v) for v in header.get("ImageOrientationPatient") or ()),
        header.get("PhotometricInterpretation") == "MONOCHROME1",
        decoder_of(path, header),
        min(int(header.get("BitsStored") or bits or 16), bits or 16),
        frame,
        str(header.get("SOPInstanceUID") or ""),
    )


def _refuse_turned(slices: list[_Slice]) -> None:
    """Raise `Refused` when a slice lies in another direction than most: a localizer that was put into the series."""
    rounded = Counter(tuple(round(v, 2) for v in each.directions) for each in slices)
    most = rounded.most_common(1)[0][0]
    usual = next(each.directions for each in slices if tuple(round(v, 2) for v in each.directions) == most)
    for each in slices:
        if len(each.directions) != len(usual) or not np.allclose(each.directions, usual, rtol=0, atol=_TURNED):
            raise Refused(
                "format", f"has {each.path.name} in another direction than the other slices: a localizer? Move it away"
            )


def _refuse_copies(slices: list[_Slice]) -> None:
    """Raise `Refused` when a slice is there twice: of a whole series, its copies would be channels."""
    seen: dict[tuple[Any, ...], _Slice] = {}
    for each in slices:
        # Anonymised files may all have one UID: then numbers and positions decide.
        other = seen.setdefault((each.uid, each.corner, each.order), each)
        if each.uid and other is not each:
            raise Refused("format", f"has {other.path.name} and {each.path.name}, copies of one slice: remove one")


def _sort(slices: list[_Slice]) -> int:
    """Sort by position, then by time; how many slices each position has. Raises `Refused` when slices are missing."""
    if len(slices) == 1:
        return 1
    without = sum(each.position is None for each in slices)
    if 0 < without < len(slices):
        raise Refused("format", f"has {without} of {len(slices)} slices without a position")
    if without:
        slices.sort(key=lambda each: each.order[::-1])
        if len({each.order for each in slices}) < len(slices):
            raise Refused("format", "has slices without a position or a number of their own")
        return 1
    slices.sort(key=lambda each: (round(each.position or 0.0, 3), each.order, each.path.name))
    counts = Counter(round(each.position or 0.0, 3) for each in slices)
    if len(set(counts.values())) > 1:
        raise Refused("format", f"has from {min(counts.values())} to {max(counts.values())} slices at one position")
    phases = next(iter(counts.values()))
    # Not the rounded positions: with very thin slices that would be an error of its own.
    steps = np.diff([each.position or 0.0 for each in slices[::phases]])
    if not len(steps):
        return phases
    usual = float(np.sort(steps)[(len(steps) - 1) // 2])
    if steps.max() > _GAP * usual:
        raise Refused("format", f"misses slices: they are {steps.min():.3g} to {steps.max():.3g} mm apart")
    allowed = _UNEVEN * usual + min(_ROUNDING, usual / 4)
    if np.abs(steps - usual).max() > allowed:
        raise Refused("format", f"has slices at unequal distances: {steps.min():.4g} to {steps.max():.4g} mm")
    _refuse_tilted(slices, allowed)
    return phases


def _refuse_tilted(slices: list[_Slice], allowed: float) -> None:
    """Raise `Refused` when slices are not right above each other (a tilted gantry): their voxels make no box."""
    moves = np.diff([each.corner for each in slices], axis=0)
    along = np.diff([each.position or 0.0 for each in slices])
    beside = np.sqrt(np.maximum((moves**2).sum(axis=1) - along**2, 0))
    worst = int(beside.argmax())
    if beside[worst] > allowed:
        raise Refused(
            "format",
            f"has {slices[worst + 1].path.name} {beside[worst]:.3g} mm beside the slice before it, not right above it:"
            " the gantry was tilted, or the patient moved; resample the series into a box",
        )


def _kind(slices: list[_Slice]) -> str:
    """The smallest type that holds all values after their rescaling."""
    one = slices[0]
    if one.stored.startswith("float") or all((each.slope, each.intercept) == (1.0, 0.0) for each in slices):
        return one.stored
    if not all(each.slope.is_integer() and each.intercept.is_integer() for each in slices):
        return "float32"
    signed = not one.stored.startswith("u")
    ends = [end * each.slope + each.intercept for each in slices for end in _ends(each.bits, signed=signed)]
    for kind in ("int16", "int32"):
        if np.iinfo(kind).min <= min(ends) and max(ends) <= np.iinfo(kind).max:
            return kind
    return "float32"


def _ends(bits: int, *, signed: bool) -> tuple[int, int]:
    """The least and the greatest whole number of so many bits."""
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def _pixels(each: _Slice) -> NDArray[Any]:
    """The voxels of the slice's file as they are stored: frames, rows, columns, samples."""
    _, columns, rows, samples = each.shape
    header = _read(each.path, pixels=True)
    frames = int(header.get("NumberOfFrames") or 1)
    header.pixel_array_options(decoding_plugin=each.decoder)
    found = np.asarray(header.pixel_array)
    promised = frames * rows * columns * samples
    if found.size != promised:
        raise Refused("truncated", f"has {found.size} voxels, its header promises {promised}")
    return found.reshape(frames, rows, columns, samples)


def _rescaled(found: NDArray[Any], each: _Slice, kind: str) -> NDArray[Any]:
    """Stored voxels as what they mean. Raises `Refused` for values that `kind` does not hold: they would wrap."""
    is_scaled = (each.slope, each.intercept) != (1.0, 0.0)
    scaled = found * np.float64(each.slope) + each.intercept if is_scaled else found
    if kind.startswith("float") or scaled.dtype == kind:
        return scaled
    low, high, ends = float(scaled.min()), float(scaled.max()), np.iinfo(kind)
    if low < ends.min or high > ends.max:
        raise Refused(
            "format",
            f"has values from {low:g} to {high:g} in {each.path.name}, beyond the {each.bits} bits that its header says"
            " (BitsStored)",
        )
    return np.rint(scaled) if scaled.dtype.kind == "f" else scaled


def _stored(header: Any, slices: list[_Slice], channels: int) -> dict[str, float | int | str]:
    """The columns of the source: see `source`."""
    big = str(header.file_meta.get("TransferSyntaxUID", "")) == _BIG_ENDIAN
    out = source.stored(
        np.dtype(slices[0].stored).newbyteorder(">" if big else "<"), *packages_of(each.decoder for each in slices)
    )
    if len({(each.slope, each.intercept) for each in slices}) == 1:
        out |= source.scaled(slices[0].slope, slices[0].intercept)
    kind = str(header.get("RescaleType") or "")
    out |= source.unit(str(header.get("Units") or "") if kind in ("", _UNSPECIFIED) else kind)
    if str(header.get("PhotometricInterpretation", "")).startswith(("RGB", "YBR")):
        out |= source.channels(["red", "green", "blue"], channels)
    return out


def _step_of_frames(header: Any, depth: int, normal: NDArray[np.float64]) -> float:
    """Millimetres from one frame to the next, along `normal`, of a file that says where its frames lie beside each
    other, as one of doses does; 0 for any other, NaN for frames at unequal distances."""
    try:
        places = np.atleast_1d(np.array(header.get("GridFrameOffsetVector", []), np.float64))
    except (TypeError, ValueError):  # no numbers: the voxels are fine
        return 0.0
    if depth < 2 or len(places) != depth:
        return 0.0
    steps = np.diff(places)
    step = float(steps.mean())
    if np.abs(steps - step).max() > _UNEVEN * abs(step) + min(_ROUNDING, abs(step) / 4):
        return float("nan")
    # From the first frame on; where that is not at 0, along the patient's axis from the feet to the head.
    return step if places[0] == 0 else step * float(np.sign(normal[2]))


def _columns(header: Any, slices: list[_Slice], depth: int, phases: int) -> dict[str, float | int | str]:
    out: dict[str, float | int | str] = {}
    directions = header.get("ImageOrientationPatient")
    spacing = header.get("PixelSpacing")
    normal = _normal(header)
    if normal is not None and spacing is not None and len(spacing) == 2:
        corner = slices[0].corner  # of the first one after sorting
        rows, columns = float(spacing[0]), float(spacing[1])
        step = _step_of_frames(header, depth, normal)
        step = step or float(header.get("SpacingBetweenSlices") or header.get("SliceThickness") or 0.0)
        at = [each.position for each in slices[::phases]]
        if len(at) > 1 and at[0] is not None and at[-1] is not None:
            step = (at[-1] - at[0]) / (len(at) - 1)
        values = [float(v) for v in directions]
        affine = np.eye(4)
        affine[:3, 0] = np.array(values[:3]) * columns
        affine[:3, 1] = np.array(values[3:]) * rows
        affine[:3, 2] = normal * (step or 1.0)
        if len(corner) == 3:
            affine[:3, 3] = [float(v) for v in corner]
        out |= columns_of(LPS @ affine)
    for name, tag in _TEXTS:
        if (value := header.get(tag)) not in (None, ""):
            out[name] = str(value)[:_LONGEST_TEXT]
    return out
