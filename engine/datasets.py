"""What travels on a pipeline's edges: small typed references to data, never the data.

A reference is a frozen value that round-trips through JSON. It pins exactly what it means: a Delta
reference names a *version*, a Parquet reference a *manifest* of files, a selection an interval of
the hash of the volume's id. Reading the same reference twice gives the same rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator

FORMAT_VERSION = 1
"""Version of the volume table layout, kept in schema metadata and table properties."""

DTYPES = frozenset(
    ["float16", "float32", "float64"] + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
"""NumPy dtype names a volume may have; bool, complex, strings, objects and records are refused."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class VolumeSpec(_Frozen):
    """What all volumes of a dataset have in common.

    `shape` is the array's shape, voxels first and channels last, e.g. (30, 30, 10, 10); `dtype` a
    NumPy name in `DTYPES` (stored little-endian, C order); `classes` the names of the labels
    0, 1, ... when they are known.
    """

    shape: tuple[int, ...]
    dtype: str
    classes: tuple[str, ...] = ()

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, value: str) -> str:
        if value not in DTYPES:
            raise ValueError(f"dtype {value} is not supported; use one of {', '.join(sorted(DTYPES))}")
        return value

    @property
    def volume_bytes(self) -> int:
        """Bytes of one volume."""
        size = int("".join(c for c in self.dtype if c.isdigit())) // 8
        for length in self.shape:
            size *= length
        return size

    def describe(self) -> str:
        return f"{'x'.join(map(str, self.shape))} {self.dtype}"


def id_fraction(volume_id: str, salt: str) -> float:
    """Where an id falls in [0, 1): the first 8 bytes of BLAKE2b(salt, id) as a fraction of 2**64.

    The same id and salt give the same fraction on every machine, so a split never moves a volume
    from one side to the other when volumes are added.
    """
    # 53 bits: what a float holds exactly, so that the result is always below 1.0.
    return (int.from_bytes(id_digests([volume_id.encode()], salt), "big") >> 11) / 2**53


def id_digests(ids: Iterable[bytes], salt: str) -> bytes:
    """What `id_fraction` is made of, for many ids in UTF-8: eight bytes for each, one behind the other."""
    key = _salt(salt)
    return b"".join([hashlib.blake2b(volume_id, digest_size=8, salt=key).digest() for volume_id in ids])


def _salt(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class Selection(_Frozen):
    """The volumes whose `id_fraction(id, salt)` lies in [low, high)."""

    salt: str
    low: Annotated[float, Field(ge=0, le=1)]
    high: Annotated[float, Field(ge=0, le=1)]

    @model_validator(mode="after")
    def _ordered(self) -> Selection:
        if self.low > self.high:
            raise ValueError("a selection's low end lies above its high end")
        return self

    def holds(self, volume_id: str) -> bool:
        return self.low <= id_fraction(volume_id, self.salt) < self.high


class Dataset(_Frozen):
    """Base of the references. `uri` is a local path or a storage URL."""

    kind: str
    uri: str

    def details(self) -> dict[str, Any]:
        """The figures worth showing a person: counts, bytes, shape."""
        return {}


class _Volumes(Dataset):
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
        return out


class VolumeFiles(_Volumes):
    """A folder of `.npy` files, exactly those its manifest lists.

    `manifest` is the path of an Arrow IPC file with the columns `path: string` (below `uri`, POSIX,
    as the file system spells it), `size: int64` (bytes), `mtime_ns: int64` (see `engine.manifest`).
    """

    kind: Literal["VolumeFiles"] = "VolumeFiles"
    manifest: str


class VolumeParquet(_Volumes):
    """A set of Parquet files in the volume layout: those its manifest lists, all below `uri`.

    `found = count + quarantined` always holds. `labelled` volumes have a label.
    """

    kind: Literal["VolumeParquet"] = "VolumeParquet"
    manifest: str
    """Path of the JSON file that lists the Parquet files (`nodes.volume_parts`)."""
    found: int
    quarantined: int = 0
    labelled: int = 0

    def details(self) -> dict[str, Any]:
        return super().details() | {
            "found": self.found,
            "quarantined": self.quarantined,
            "labelled": self.labelled,
        }


class VolumeDelta(_Volumes):
    """One version of a Delta table in the volume layout, or a selection of its rows.

    `data_version` is the last version up to `version` whose commit changed data (a compaction does
    not). A row belongs to the dataset when every selection holds it.
    """

    kind: Literal["VolumeDelta"] = "VolumeDelta"
    version: int
    data_version: int
    files: int = 0
    """Active data files of this version."""
    labelled: int = 0
    selections: tuple[Selection, ...] = ()

    def select(self, selection: Selection) -> VolumeDelta:
        return self.model_copy(update={"selections": (*self.selections, selection)})

    def details(self) -> dict[str, Any]:
        out = super().details() | {"version": self.version, "files": self.files}
        if self.selections:
            # Which volumes these are takes a look at every id; how many they are on average does not.
            out["share"] = round(math.prod(each.high - each.low for each in self.selections), 6)
        return out


class TrainedModel(Dataset):
    """A folder with `model.keras`, `model.json` (input spec, classes, parameter counts), `history.json`.

    `metrics` are those of the epoch whose weights it has, and what was measured with it at the end.
    """

    kind: Literal["TrainedModel"] = "TrainedModel"
    spec: VolumeSpec
    metrics: dict[str, float] = {}
    parameters: int = 0
    bytes: int = 0

    def details(self) -> dict[str, Any]:
        return {"parameters": self.parameters, **{k: round(v, 4) for k, v in self.metrics.items()}}


class Predictions(Dataset):
    """One version of a Delta table with a row a volume: its id, its scores, its label, and what a model says it is.

    `classes` names the scores in their order, none of them for a regression. `labelled` rows have a label of
    their own. `model` is the SHA-256 of the model's file.
    """

    kind: Literal["Predictions"] = "Predictions"
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


class Report(Dataset):
    """A document for people (`uri` is an HTML, Markdown, CSV or JSON file) with its key figures."""

    kind: Literal["Report"] = "Report"
    figures: dict[str, float | int | str] = {}

    def details(self) -> dict[str, Any]:
        return dict(self.figures)


AnyDataset = Annotated[
    VolumeFiles | VolumeParquet | VolumeDelta | TrainedModel | Predictions | Report,
    Field(discriminator="kind"),
]
DATASET_KINDS: dict[str, type[Dataset]] = {
    c.__name__: c for c in (VolumeFiles, VolumeParquet, VolumeDelta, TrainedModel, Predictions, Report)
}
_ADAPTER: TypeAdapter[Any] = TypeAdapter(AnyDataset)


def dataset_from_json(value: Any) -> Dataset:
    """The reference in a JSON object or text. Raises `pydantic.ValidationError` on anything else."""
    out = _ADAPTER.validate_json(value) if isinstance(value, (str, bytes)) else _ADAPTER.validate_python(value)
    assert isinstance(out, Dataset)
    return out


class Preview(_Frozen):
    """What is known of a dataset before it exists. `None` means not known yet."""

    kind: str
    uri: str | None = None
    count: int | None = None
    bytes: int | None = None
    spec: VolumeSpec | None = None
    labelled: int | None = None
    sample: tuple[str, ...] = ()
    """Paths of a few files below `uri`, for a scan further down the pipeline."""

    @classmethod
    def of(cls, dataset: Dataset) -> Preview:
        """The preview of a dataset that exists: nothing is unknown."""
        return cls(
            kind=dataset.kind,
            uri=dataset.uri,
            count=getattr(dataset, "count", None),
            bytes=getattr(dataset, "bytes", None),
            spec=getattr(dataset, "spec", None),
            labelled=getattr(dataset, "labelled", None),
        )
