"""Which files make one volume: its channels and its labels, by their names."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from engine.errors import DataError
from engine.text import plural
from nodes.conversion.formats import formats
from nodes.cutting.cut_parameters import CutParameters, name_pattern

_NAMED = 3


class CubeFile(NamedTuple):
    """A listed file; `path` lies below the folder."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Cube:
    """One volume to cut: a file for each channel, or one that has them all, and the file with its labels, if any."""

    name: str
    files: tuple[CubeFile, ...]
    labels: CubeFile | None = None

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def stamp(self) -> int:
        """A fingerprint of its files, their times and sizes, as other volumes have a time."""
        text = "\0".join(f"{path}\0{size}\0{time}" for path, size, time in self.files)
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def find_cubes(listing: pa.Table, parameters: CutParameters) -> list[Cube]:
    """The volumes that the listed files make, in the order of their names.

    Raises `DataError` when no file has a name as the parameters say, or a volume lacks a channel that others have.
    """
    files = [CubeFile(*row.values()) for row in listing.select(["path", "size", "mtime_ns"]).to_pylist()]
    label_files, files = _label_files(files, parameters)
    if parameters.channels_from:
        cubes, names = _with_channels(files, parameters)
    else:
        cubes, names = {file.path: {"": file} for file in files}, ("",)
        if parameters.channels:
            raise DataError(
                "channels are named, and every file is a volume of its own",
                hint="Say in channels_from how files are named, as in {cube}_{channel}.sgy.",
                parameter="channels",
            )
    if not cubes:
        raise DataError(
            f"none of {plural(len(listing), 'files')} is a volume to cut: all are files of labels",
            hint="Check label_volume.",
            parameter="label_volume",
        )
    if short := {
        name: [c for c in names if c not in found] for name, found in cubes.items() if len(found) < len(names)
    }:
        first = "; ".join(f"{name} has no {', '.join(lacking)}" for name, lacking in list(short.items())[:_NAMED])
        raise DataError(
            f"of {plural(len(cubes), 'volumes')} {len(short)} do not have all channels: {first}",
            hint="Give all volumes the same channels, or name in channels those that all have.",
            parameter="channels_from",
        )
    known = sorted({".npy"}.union(*(each.endings for each in formats().values())), key=len, reverse=True)
    keys = {name: _label_key(name, known, parameters) for name in cubes}
    if "/" in parameters.label_volume.partition("{cube}")[0]:
        # Labels in a folder of their own, under the names that the volumes have in theirs: imagesTr/a, labelsTr/a.
        of_name = Counter(key.rpartition("/")[2] for key in keys.values())
        bare = {name: key.rpartition("/")[2] for name, key in keys.items() if key not in label_files}
        keys |= {name: key for name, key in bare.items() if of_name[key] == 1}
    out = []
    for name in sorted(cubes):
        label = label_files.get(keys[name], label_files.get(None))
        out.append(Cube(name, tuple(cubes[name][channel] for channel in names), label))
    return out


def left_out(listing: pa.Table, cubes: Iterable[Cube], parameters: CutParameters) -> list[str]:
    """The listed files that belong to no volume by their names, in their order: nothing is cut from them.

    Without those of channels that are not among the named ones, which are left out on purpose.
    """
    used = {file.path for cube in cubes for file in (*cube.files, cube.labels) if file is not None}
    found = [path for path in listing["path"].to_pylist() if path not in used]
    if not parameters.names_of_channels:
        return found
    any_channel = name_pattern(parameters.channels_from, "channels_from")
    labels = name_pattern(parameters.label_volume, "label_volume")
    return [path for path in found if labels.fullmatch(path) or not any_channel.fullmatch(path)]


def said_left_out(paths: Sequence[str]) -> str:
    """A sentence about files that belong to no volume."""
    more = " ..." if len(paths) > _NAMED else ""
    return f"{plural(len(paths), 'files')} of no volume, by their names: {', '.join(paths[:_NAMED])}{more}"


def channel_names(listing: Iterable[str], parameters: CutParameters) -> tuple[str, ...]:
    """The channels that the paths have, in their order; none where every file is a volume of its own."""
    if parameters.names_of_channels or not parameters.channels_from:
        return parameters.names_of_channels
    pattern = name_pattern(parameters.channels_from, "channels_from")
    return tuple(sorted({found["channel"] for path in listing if (found := pattern.fullmatch(path))}))


def _with_channels(
    files: Iterable[CubeFile], parameters: CutParameters
) -> tuple[dict[str, dict[str, CubeFile]], tuple[str, ...]]:
    listed = list(files)
    pattern = name_pattern(parameters.channels_from, "channels_from", parameters.names_of_channels)
    cubes: dict[str, dict[str, CubeFile]] = {}
    for file in listed:
        if found := pattern.fullmatch(file.path):
            known = cubes.setdefault(found["cube"], {})
            if other := known.setdefault(found["channel"], file) is not file and known[found["channel"]]:
                raise DataError(
                    f"{file.path} and {other.path} are both {found['channel']} of {found['cube']}",
                    hint="Write channels_from so that each name has a channel of its own.",
                    parameter="channels_from",
                )
    if not cubes:
        example = f", for example {listed[0].path}" if listed else ""
        raise DataError(
            f"no file is named like {parameters.channels_from}{example}",
            hint="Write {cube} for the part that the files of a volume share, and {channel} for the part that differs.",
            parameter="channels_from",
        )
    names = parameters.names_of_channels or tuple(sorted({name for found in cubes.values() for name in found}))
    return cubes, names


def _label_files(
    files: list[CubeFile], parameters: CutParameters
) -> tuple[Mapping[str | None, CubeFile], list[CubeFile]]:
    """Files with labels by the volume's name, None for all volumes; and the other files.

    Files of labels are no channels, also when labels come from elsewhere.
    """
    if not parameters.label_volume:
        if parameters.labels == "volume":
            raise DataError(
                "labels come from a volume, and nothing says which files are label volumes",
                hint="Name them as in {cube}_labels.nii.gz.",
                parameter="label_volume",
            )
        return {}, files
    pattern = name_pattern(parameters.label_volume, "label_volume")
    found: dict[str | None, CubeFile] = {}
    others = []
    for file in files:
        match = pattern.fullmatch(file.path)
        if match is None:
            others.append(file)
            continue
        key = match.groupdict().get("cube")
        if key in found:
            of = f"of {key}" if key else "for all volumes"
            raise DataError(
                f"{file.path} and {found[key].path} are both the labels {of}",
                hint="Write label_volume so that it names one of them.",
                parameter="label_volume",
            )
        found[key] = file
    if parameters.labels == "volume" and not found:
        example = f", for example {files[0].path}" if files else ""
        raise DataError(
            f"no file is named like {parameters.label_volume}{example}",
            hint="Put the label volumes into the same folder, in the same format as the volumes.",
            parameter="label_volume",
        )
    return found, others


def _label_key(name: str, endings: Sequence[str], parameters: CutParameters) -> str:
    """What {cube} stands for in the name of a volume's file of labels: its name, of a single file without ending.

    The ending is what the name of the label file ends with: brain.nii.gz has the labels brain_labels.nii.gz. Of a file
    with another one it is what follows the first dot; in a folder one of `endings`, those of known formats, since a
    folder of slices is a volume too, whose name may have dots.
    """
    if parameters.channels_from:
        return name
    ending = parameters.label_volume.rpartition("}")[2]
    for start in range(len(ending)):
        if ending[start] == "." and name.endswith(ending[start:]):
            return name[: len(name) - (len(ending) - start)]
    if "/" not in name:
        return name.partition(".")[0]
    known = next((each for each in endings if name.lower().endswith(each)), "")
    return name[: len(name) - len(known)]
