"""The manifest of a `VolumeParquet` dataset: which Parquet files belong to it.

A JSON file that is written once, aside, and appears by one atomic rename. Files in the folder that
no manifest names do not exist for any reader.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from pydantic.dataclasses import dataclass

from engine.datasets import VolumeParquet
from nodes.durable_files import flush


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
    """All files of a dataset. `sources` is the Arrow file that tells which source file is in which part."""

    model_config = ConfigDict(frozen=True)

    format: int = 1
    parts: tuple[Part, ...]
    sources: str | None = None
    quarantine: str | None = None
    """Path of the CSV with the files that were refused and why."""


def read_parts(dataset: VolumeParquet) -> Parts:
    return Parts.model_validate_json(Path(dataset.manifest).read_bytes())


def write_parts(parts: Parts, path: Path) -> None:
    """Publish the manifest at `path`: whole or not at all, and on disk, since its result is cached for good."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(parts.model_dump_json(indent=1))
    flush([temporary])
    temporary.replace(path)
    flush([path.parent])
