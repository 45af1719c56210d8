"""The manifest of a `VolumeParquet` dataset: which Parquet files belong to it.

A JSON file that is written once, aside, and appears by one atomic rename. Files in the folder that
no manifest names do not exist for any reader.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from engine.declare.datasets import VolumeParquet
from engine.errors import DataError
from engine.storage.files import write_whole


@dataclass(frozen=True, slots=True)
class Part:
    """One Parquet file. `path` lies below the dataset's `uri`; the minima and maxima are over its rows.

    With slots: there may be one for each of 650,000 volumes, and a pydantic model takes four times the memory.
    """

    path: str
    rows: int
    bytes: int
    mtime_ns: int
    labelled: int
    id_min: str
    id_max: str
    label_min: float | None = None
    label_max: float | None = None


class Parts(BaseModel):
    """All files of a dataset. `sources` is the Arrow file with the part of each source file.

    It and `quarantine` lie beside the manifest, and stand in the manifest by their names alone, so that all of it can
    be moved.
    """

    model_config = ConfigDict(frozen=True)

    format: int = 1
    parts: tuple[Part, ...]
    sources: str | None = None
    quarantine: str | None = None
    """Path of the CSV with the files that were refused and why."""


def read_parts(dataset: VolumeParquet) -> Parts:
    """The manifest, with whole paths. Raises `DataError` when it is damaged, `OSError` when it cannot be read."""
    try:
        path = Path(dataset.manifest)
        stored = Parts.model_validate_json(path.read_bytes())
    except ValidationError as exc:
        raise DataError(
            f"the list of Parquet files {dataset.manifest} is damaged",
            hint="Run the pipeline again: the list is then made anew.",
        ) from exc

    def beside(name: str | None) -> str | None:
        # Earlier versions stored the whole path.
        return None if name is None else str(path.with_name(Path(name).name))

    return stored.model_copy(update={"sources": beside(stored.sources), "quarantine": beside(stored.quarantine)})


def write_parts(parts: Parts, path: Path) -> None:
    """Publish the manifest at `path`: whole or not at all, and on disk, since its result is cached for good."""
    names = {
        name: text and Path(text).name for name, text in (("sources", parts.sources), ("quarantine", parts.quarantine))
    }
    write_whole(path, parts.model_copy(update=names).model_dump_json(indent=1), durable=True)
