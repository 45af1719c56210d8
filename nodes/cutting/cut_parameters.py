"""The parameters of CutVolumes and their check: importing this imports neither NumPy nor Arrow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from engine.declare.parameters import Added, Advanced, PathIn, Policy, Range, Unit
from engine.errors import DataError
from engine.text import plural
from nodes.volume_file.layout import ROW_GROUP_ROWS
from nodes.volume_file.parameters import TARGET_FILE_MB, Compression, RowGroupRows, TargetFileMB, Threads

if TYPE_CHECKING:
    import regex

UNLABELLED = "unlabelled"
"""What `keep` calls patches without a label."""
_CUBE, _CHANNEL = "{cube}", "{channel}"
_SECONDS_A_NAME = 1.0
LabelKind = Literal["none", "volume", "horizon", "polygon"]


@dataclass(frozen=True)
class CutParameters:
    """The parameters of CutVolumes.

    Attributes:
        size: voxels of a patch along X, Y and Z. For a seismic volume these are inlines, crosslines and samples.
        stride: voxels from one patch to the next along X, Y and Z; 0 for the patch's size, so that none overlap.
        channels_from: how the files of one volume are named, where each is a channel: {cube}_{channel}.sgy or
            {cube}/{channel}.sgy. Empty: every file is a volume of its own. A * stands for any text.
        channels: which channels, in this order, for example amplitude, phase, frequency. Empty takes all that there
            are, in the order of their names.
        labels: where labels come from. A volume of labels; a horizon (above or below it); polygons (inside or outside);
            or nothing.
        label_volume: how the files with labels are named, for example {cube}_labels.nii.gz, or
            labelsTr/{cube}.nii.gz in a folder of their own; they are no channels.
            Without {cube} one file is for all volumes.
        label_rule: which label of a label volume a patch gets. The value at its centre; that of most of its voxels; or
            the one other than 0 with a large enough share of them, else 0.
        label_share: least share of a patch's voxels for the rule share.
        class_names: names of the labels 0, 1, 2 ... in a label volume, for example shale, sand, salt.
        label_file: horizon or polygon, as text with a point in a line. A horizon has x y z. Polygons have x y, or x y z
            with one depth for each polygon, and a blank line between two.
        positions: what x, y and z count in the label file. Voxels, from 0; lines, as the source counts them (inline,
            crossline, time); or world (the coordinates of a survey, or millimetres).
        within: samples around a horizon that are a class of their own, or around a polygon's depth that it holds for.
        keep: share of the patches to keep for each class, for example outside=0.1, unlabelled=0. The others are all
            kept. Which ones follows from the seed and a patch's place.
        seed: another seed keeps other patches.
        edges: what becomes of patches that reach over the volume's end. Leave them out, fill with zeros, or repeat the
            last voxel.
        no_data: voxels of this value hold no data, for example -999.25: patches with such a voxel are quarantined.
        not_finite: what to do with patches that hold a NaN (a missing trace) or an infinity.
        columns_file: CSV or Parquet table of what is known of each volume. A column file (or path, id, name) names the
            volume, with or without its ending; all others (patient, age, site ...) become columns of its patches, by
            which SplitDataset can keep a patient together. Their types are found as NumpyToParquet finds them.
        hash_sources: add the column source_sha256, by which a patch's volume is known wherever its file lies. Each
            file is read once more before it is cut, and not again while it stays as it is.
        bad_volumes: stop at a volume that cannot be read, or leave it out; it is listed with the patches that were
            quarantined.
        threads: threads that cut side by side; 0 takes the machine's cores. On Spark its tasks decide.
    """

    size: Annotated[tuple[int, ...], Range(1, 4096), Unit("voxels")] = (32, 32, 32)
    stride: Annotated[tuple[int, ...], Range(0, 100_000), Unit("voxels")] = (0, 0, 0)
    channels_from: str = ""
    channels: str = ""
    labels: LabelKind = "none"
    label_volume: str = ""
    label_rule: Literal["centre", "majority", "share"] = "centre"
    label_share: Annotated[float, Range(0, 1)] = 0.5
    class_names: str = ""
    label_file: Annotated[str | None, PathIn("file")] = None
    positions: Literal["voxels", "lines", "world"] = "voxels"
    within: Annotated[float, Range(0), Unit("samples")] = 0.0
    keep: str = ""
    seed: Annotated[int, Range(0)] = 0
    edges: Literal["drop", "zeros", "repeat"] = "drop"
    no_data: Annotated[float | None, Advanced()] = None
    not_finite: Annotated[Literal["quarantine", "keep"], Advanced()] = "quarantine"
    columns_file: Annotated[str | None, PathIn("file"), Added()] = None
    hash_sources: Annotated[bool, Advanced(), Added()] = False
    bad_volumes: Annotated[Literal["stop", "leave out"], Policy()] = "stop"
    target_file_mb: TargetFileMB = TARGET_FILE_MB
    compression: Compression = "none"
    row_group_rows: RowGroupRows = ROW_GROUP_ROWS
    threads: Threads = 0

    @property
    def names_of_channels(self) -> tuple[str, ...]:
        """The names in `channels`."""
        return _list(self.channels)

    @property
    def names_of_classes(self) -> tuple[str, ...]:
        """The names in `class_names`."""
        return _list(self.class_names)


class Steps(NamedTuple):
    """The size of patches and the way from one to the next, along X, Y and Z."""

    size: tuple[int, int, int]
    stride: tuple[int, int, int]


def steps_of(size: tuple[int, ...], stride: tuple[int, ...]) -> Steps:
    """The parameters `size` and `stride` as three numbers each. Raises `DataError`."""
    for name, given in (("size", size), ("stride", stride)):
        if len(given) != 3:
            raise DataError(
                f"{name} has {plural(len(given), 'numbers')}, not three",
                hint="Give the voxels along X, Y and Z, as in 32, 32, 32.",
                parameter=name,
            )
    x, y, z = (step or length for step, length in zip(stride, size, strict=True))
    return Steps((size[0], size[1], size[2]), (x, y, z))


def keep_rates(text: str, classes: tuple[str, ...] = ()) -> dict[str, float]:
    """The parameter `keep`: the share for each class that it names. Raises `DataError`.

    `classes` are those that there can be; empty when any number may be one.
    """
    out: dict[str, float] = {}
    for each in _list(text):
        name, sign, share = (part.strip() for part in each.rpartition("="))
        try:
            rate = float(share)
        except ValueError:
            rate = -1.0
        if not (sign and name and 0 <= rate <= 1):
            raise DataError(
                f"{each!r} does not say what share of a class to keep",
                hint="Write class=share with a share from 0 to 1, as in outside=0.1, inside=1.",
                parameter="keep",
            )
        if classes and name not in (*classes, UNLABELLED):
            raise DataError(
                f"there is no class {name!r} to keep a share of",
                hint=f"Choose of {', '.join((*classes, UNLABELLED))}.",
                parameter="keep",
            )
        out[name] = rate
    return out


@dataclass(frozen=True)
class NamePattern:
    """A regular expression for paths below the folder, made of the `text` of a `parameter`."""

    text: str
    parameter: str
    expression: regex.Pattern[str]

    def fullmatch(self, path: str) -> regex.Match[str] | None:
        """The match of the whole path. Raises `DataError` when it takes too long: many `*` can take years."""
        try:
            return self.expression.fullmatch(path, timeout=_SECONDS_A_NAME)
        except TimeoutError:
            raise DataError(
                f"{self.text!r} takes too long on names such as {path!r}",
                hint="Use fewer *.",
                parameter=self.parameter,
            ) from None


def name_pattern(text: str, parameter: str, channels: tuple[str, ...] = ()) -> NamePattern:
    """The parameter `channels_from` or `label_volume` as a regular expression for a path below the folder.

    {cube} and {channel} become groups of these names, and `*` any text without a slash; `channels` are the only ones
    where they are given. Raises `DataError`.
    """
    import regex

    wanted = (_CUBE, _CHANNEL) if parameter == "channels_from" else ()
    found = re.findall(r"\{[^}]*\}?", text)
    unknown = [each for each in found if each not in (_CUBE, _CHANNEL)]
    missing = [each for each in wanted if each not in found]
    twice = [each for each in (_CUBE, _CHANNEL) if found.count(each) > 1]
    if unknown or missing or twice or (parameter == "label_volume" and _CHANNEL in found):
        allowed = "{cube} and {channel}, each once" if wanted else "{cube}, once, or nothing in braces"
        raise DataError(
            f"{text!r} does not say how files are named: it needs {allowed}",
            hint="Write for example {cube}_{channel}.sgy." if wanted else "Write for example {cube}_labels.nii.gz.",
            parameter=parameter,
        )
    one_channel = "|".join(re.escape(name) for name in sorted(channels, key=len, reverse=True)) or "[^/]+?"
    parts = re.split(r"(\{cube\}|\{channel\}|\*)", text)
    # Among named channels the longest is meant, so the cube's name is as short as can be.
    groups = {
        _CUBE: "(?P<cube>.+?)" if channels else "(?P<cube>.+)",
        _CHANNEL: f"(?P<channel>{one_channel})",
        "*": "[^/]*",
    }
    expression = "".join(groups.get(part) or re.escape(part) for part in parts)
    return NamePattern(text, parameter, regex.compile(expression, regex.VERSION0))


def _list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))
