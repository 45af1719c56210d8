"""What travels on a pipeline's edges: small typed references to data, never the data.

A reference is a frozen value that round-trips through JSON. It pins exactly what it means: a Delta
reference names a *version*, a Parquet reference a *manifest* of files, a selection an interval of
the hash of the volume's id. Reading the same reference twice gives the same rows.

Here are the built-in types; `engine.declare.dataset_type` says what makes a type, and reads references of any type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from engine.declare.appearance import Colour
from engine.declare.dataset_type import AnyDataset, Dataset, UnknownDataset, dataset_from_json, without_defaults
from engine.declare.dataset_type import Frozen as _Frozen
from engine.declare.figures import HEADLINES, JUDGING
from engine.declare.selection import Selection, id_digests, id_fraction
from engine.declare.volume_spec import DTYPES, FORMAT_VERSION, DTypeName, Transform, VolumeSpec, words_of
from engine.storage.files import size_problem
from engine.storage.io_errors import OUT_OF_RESOURCES
from engine.storage.workspace_paths import LocalPath

__all__ = [
    "BUILT_IN_TYPES",
    "DTYPES",
    "FORMAT_VERSION",
    "AnyDataset",
    "DTypeName",
    "Dataset",
    "Predictions",
    "Preview",
    "Report",
    "Selection",
    "TrainedModel",
    "Transform",
    "UnknownDataset",
    "VolumeDelta",
    "VolumeFiles",
    "VolumeParquet",
    "VolumeSpec",
    "dataset_from_json",
    "id_digests",
    "id_fraction",
    "words_of",
]


class _Volumes(Dataset):
    counted = "volumes"
    pictured = True
    lists_files = True

    count: int
    """Volumes in the dataset (before any selection)."""
    bytes: int
    """Bytes on disk."""
    spec: VolumeSpec | None = None

    def details(self) -> dict[str, Any]:
        out: dict[str, Any] = {"volumes": self.count, "bytes": self.bytes}
        if self.spec is not None:
            out["shape"] = "x".join(map(str, self.spec.shape))
            out["dtype"] = self.spec.dtype
            if self.spec.transforms:
                out["transforms"] = words_of(self.spec.transforms)
        return out

    def preview(self) -> Mapping[str, Any]:
        by: tuple[str, ...] = getattr(self, "grouped_by", ())
        return {**super().preview(), **({"grouped_by": by} if by else {})}

    def mlflow_profile(self) -> Mapping[str, Any]:
        classes = list(self.spec.classes) if self.spec is not None else []
        return self.details() | ({"classes": classes} if classes else {})


class _ListedVolumes(_Volumes):
    manifest: LocalPath
    grouped_by: tuple[str, ...] = ()
    """Columns of theirs that SplitDataset kept together in the table that they are part of: see `VolumeDelta`."""

    def places(self) -> tuple[str, ...]:
        return (self.uri, self.manifest)

    def mlflow_source(self) -> tuple[str, Mapping[str, Any]]:
        scheme, address = super().mlflow_source() or ("local", {})
        return scheme, {**address, "manifest": self.manifest}


class VolumeFiles(_ListedVolumes):
    """A folder of volumes, a file each, exactly those its manifest lists; or rows of a table, read one by one.

    `manifest` is the path of an Arrow IPC file with the columns `path: string` (below `uri`, POSIX,
    as the file system spells it), `size: int64` (bytes), `mtime_ns: int64` (see `engine.storage.manifest`). In other
    formats than `.npy` a path may be that of a folder or a series of files, and its time a fingerprint of theirs.
    Of a table's rows (the format `rows`) see `nodes.conversion.table_rows`.

    Whoever reads a volume applies `transforms` to it: `spec` is what the volumes are like afterwards.
    """

    colour = Colour("#8a63d2")

    format: str = "npy"
    """Of its files: npy, nifti, dicom ..."""
    dataset: str = ""
    """Which array of each file is the volume; "": the only one."""
    transforms: tuple[Transform, ...] = ()
    """The last of `spec.transforms`: those that the stored volumes do not have yet."""
    table_version: int | None = None
    """Of the Delta table whose rows these are."""
    largest_bytes: int = 0
    """Of a volume before its transforms, as far as a sample shows; 0: as large as afterwards."""

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_defaults(self, handler(self), ("transforms", "table_version", "largest_bytes", "grouped_by"))

    def pinned_version(self) -> int | None:
        return self.table_version

    def details(self) -> dict[str, Any]:
        return super().details() | ({} if self.format in ("npy", "rows") else {"format": self.format})

    def check(self) -> str:
        from engine.storage import manifest

        # An earlier version, which flushed no listing to the disk, leaves a torn one after a power cut.
        return "" if manifest.is_whole(self.manifest) else f"{self.manifest} is damaged"


class VolumeParquet(_ListedVolumes):
    """A set of Parquet files in the volume layout: those its manifest lists, all below `uri`.

    `manifest` is the path of the JSON file that lists them (`nodes.volume_file.parts`).
    `found = count + quarantined + left_out` always holds: those left out were not asked for. `labelled` volumes have a
    label.
    """

    title: ClassVar[str] = "Parquet files"

    colour = Colour("#2f8fd0")

    found: int
    quarantined: int = 0
    labelled: int = 0
    left_out: int = 0

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_defaults(self, handler(self), ("left_out", "grouped_by"))

    def details(self) -> dict[str, Any]:
        out = super().details() | {"found": self.found, "quarantined": self.quarantined, "labelled": self.labelled}
        return out | ({"left out": self.left_out} if self.left_out else {})

    def check(self) -> str:
        """One `stat` a file: 3,000 for 650,000 volumes of 360 kB.

        Raises `OSError` when there are no file handles left.
        """
        try:
            listed = _ListedParts.model_validate_json(Path(self.manifest).read_bytes())
        except (OSError, ValueError) as exc:
            if isinstance(exc, OSError) and exc.errno in OUT_OF_RESOURCES:
                raise
            return f"the list of its files, {self.manifest}, cannot be read: {exc}"
        for part in listed.parts:
            path = f"{self.uri}/{part.path}"
            if problem := size_problem(path, part.bytes):
                return f"{path} {problem}"
        return ""


@pydantic_dataclass(frozen=True, slots=True)
class _ListedPart:
    path: str
    bytes: int


class _ListedParts(BaseModel):
    """Of a manifest of Parquet files what `check` needs; `nodes.volume_file.parts` has all of it."""

    parts: tuple[_ListedPart, ...]


class VolumeDelta(_Volumes):
    """One version of a Delta table in the volume layout, or a selection of its rows.

    `data_version` is the last version up to `version` whose commit changed data (a compaction does
    not). A row belongs to the dataset when every selection holds it.
    """

    title: ClassVar[str] = "Delta table"

    colour = Colour("#12938a")
    shares_files = True

    version: int
    data_version: int
    files: int = 0
    """Active data files of this version."""
    labelled: int = 0
    selections: tuple[Selection, ...] = ()
    selected: int | None = None
    """Rows that the selections hold, where they were counted; None: their shares say how many these are about."""
    grouped_before: tuple[str, ...] = ()
    """Columns that the volumes were split by before they came into this table; see `grouped_by`."""

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_defaults(self, handler(self), ("selected", "grouped_before"))

    def select(self, *selections: Selection, selected: int | None = None) -> VolumeDelta:
        """The same version with further selections: the `selected` rows that all of them hold."""
        return self.model_copy(update={"selections": (*self.selections, *selections), "selected": selected})

    @property
    def share(self) -> float:
        """Which share of the table's rows the selections hold; an estimate where they were not counted."""
        if self.selected is not None and self.count:
            return self.selected / self.count
        return math.prod(each.share for each in self.selections)

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """Columns whose equal values are in one part, those of the first split that has some."""
        if self.grouped_before:
            return self.grouped_before
        split = (each for each in self.selections if each.by and not each.blocks and each.since is each.until is None)
        return next((each.by for each in split), ())

    def details(self) -> dict[str, Any]:
        out = super().details() | {"version": self.version, "files": self.files}
        if self.selections:
            # Which volumes these are takes a look at every id; how many they are on average does not.
            out["share"] = round(self.share, 6)
            if self.selected is not None:
                out["selected"] = self.selected
        return out

    def preview(self) -> Mapping[str, Any]:
        known = super().preview()
        if not self.selections:
            return known
        exactly = self.selected is not None
        selected = self.selected if self.selected is not None else round(self.count * self.share)
        return {**known, "selected": selected, "selected_exactly": exactly}

    def pinned_version(self) -> int:
        return self.version

    def mlflow_source(self) -> tuple[str, Mapping[str, Any]]:
        return "delta_table", {"path": self.uri, "delta_table_version": self.version}

    def mlflow_profile(self) -> Mapping[str, Any]:
        out = self.details() | {"labelled": self.labelled, "data_version": self.data_version}
        if self.selections:
            # The counts are the table's; which of its rows these are, the selections say.
            out["selections"] = [s.model_dump(mode="json") for s in self.selections]
        return {**out, **super().mlflow_profile()}


class TrainedModel(Dataset):
    """A folder with the framework's file (Keras' is `model.keras`), `history.json` and `model.json`, which has the
    input's spec, the classes and counts of parameters.

    `metrics` are those of the epoch whose weights it has, and what was measured with it at the end.
    """

    colour = Colour("#d0722a")

    spec: VolumeSpec
    metrics: dict[str, float] = {}
    parameters: int = 0
    bytes: int = 0

    def details(self) -> dict[str, Any]:
        # Four decimals, but of a loss of 0.00004 not none at all.
        figures = {k: round(v, 4) if abs(v) >= 1 else float(f"{v:.4g}") for k, v in self.metrics.items()}
        return _headline_first(figures, self.headline()) | {"parameters": self.parameters}

    def scores(self) -> Mapping[str, float]:
        return self.metrics

    def headline(self) -> tuple[str, float] | None:
        return next(((name, self.metrics[name]) for name in HEADLINES if name in self.metrics), None)

    def mlflow_source(self) -> None:
        return None


class Predictions(Dataset):
    """One version of a Delta table with a row for each volume: its id, its scores, its label, and what a model says.

    `classes` names the scores in their order, none of them for a regression. `labelled` rows have a label of
    their own. `model` is the SHA-256 of the model's file.
    """

    colour = Colour("#c2508f")
    counted = "volumes"
    lists_files = True

    count: int
    bytes: int
    version: int
    model: str
    files: int = 0
    labelled: int = 0
    classes: tuple[str, ...] = ()

    def details(self) -> dict[str, Any]:
        return {
            "volumes": self.count,
            "bytes": self.bytes,
            "labelled": self.labelled,
            "version": self.version,
            "files": self.files,
        }

    def mlflow_source(self) -> None:
        return None


class Report(Dataset):
    """A document for people (`uri` is an HTML, Markdown, CSV or JSON file) with its key figures."""

    colour = Colour("#7a8699")
    is_file = True

    figures: dict[str, float | int | str] = {}

    def details(self) -> dict[str, Any]:
        return _headline_first(dict(self.figures), self.headline())

    def scores(self) -> Mapping[str, float]:
        # Of the counts among its figures the highest is not the best.
        return {
            name: float(value)
            for name, value in self.figures.items()
            if name in JUDGING
            and isinstance(value, (int, float))
            and not isinstance(value, bool)
            and math.isfinite(value)
        }

    def headline(self) -> tuple[str, float] | None:
        found = ((name, self.figures.get(name)) for name in HEADLINES)
        return next(((name, value) for name, value in found if isinstance(value, (int, float))), None)

    def mlflow_source(self) -> None:
        return None


def _headline_first(figures: dict[str, Any], headline: tuple[str, float] | None) -> dict[str, Any]:
    """The figures, the one that says most before all others: what is short of space shows the first."""
    return figures if headline is None else {headline[0]: figures[headline[0]]} | figures


BUILT_IN_TYPES: tuple[type[Dataset], ...] = (
    VolumeFiles, VolumeParquet, VolumeDelta, TrainedModel, Predictions, Report,
)  # fmt: skip


class Preview(_Frozen):
    """What is known of a dataset before it exists: what a `preview` hook returns, and what it gets of its inputs.

    Shown on the wire and the card, used by the checks of the nodes downstream. None means not known yet: say what is
    certain, and leave out the rest.

    Attributes:
        kind: the dataset type's name, "VolumeParquet".
        uri: path or URL where it will lie, where that is known.
        count: volumes or rows, before any selection.
        selected: those of `count` that a part of a table is expected to hold; None: all of them.
        selected_exactly: whether `selected` was counted; else it is expected, and may be some more or less.
        bytes: bytes on disk.
        spec: shape, dtype and class names of the volumes.
        labelled: volumes with a label.
        sample: paths of a few files below `uri`, for a scan further down the pipeline.
        refused: files that are known to be no volumes of `spec`: at least so many will be left out.
        labels: some of the different labels that there are, those first that can be no classes.
        labels_complete: whether `labels` are all that there are.
        columns: what is known of each volume besides its id and label, by name.
        sources: volumes that these are patches of; None: not known, or they are none.
        grouped_by: columns whose equal values are in one part of a table, as SplitDataset keeps them.
        groups_lost: the same, where the volumes do not have these columns any more.
        orientations: where the axes of the sampled volumes point to (RAS), and how many of them each; {}: none says.
        figures: further figures, by name, for a person to see.
        does: what the node does with its parameters, in a few words for its card: "crop 64x64x48, z-score".
        dataset: the data itself, where it is there before any run: it can be looked at already.
    """

    kind: str
    uri: str | None = None
    count: int | None = None
    selected: int | None = None
    selected_exactly: bool = False
    bytes: int | None = None
    spec: VolumeSpec | None = None
    labelled: int | None = None
    sample: tuple[str, ...] = ()
    refused: int = 0
    labels: tuple[float, ...] = ()
    labels_complete: bool = False
    columns: tuple[str, ...] | None = None
    sources: int | None = None
    grouped_by: tuple[str, ...] = ()
    groups_lost: tuple[str, ...] = ()
    orientations: dict[str, int] = {}
    figures: dict[str, float | int | str] = {}
    does: str = ""
    dataset: SerializeAsAny[AnyDataset] | None = None

    @classmethod
    def of(cls, dataset: Dataset) -> Preview:
        """The preview of a dataset that exists: nothing is unknown."""
        return cls(kind=dataset.kind, uri=dataset.uri, **dataset.preview())

    @property
    def held(self) -> int | None:
        """Volumes or rows that the selections leave, about where `selected_exactly` is not set."""
        return self.count if self.selected is None else self.selected

    @property
    def labelled_held(self) -> int | None:
        """Those of them with a label: their share is taken for that of the whole table."""
        if self.labelled is None or self.selected is None or not self.count:
            return self.labelled
        return round(self.labelled * self.selected / self.count)
