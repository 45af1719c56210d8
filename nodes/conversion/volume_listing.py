"""The manifest of a `VolumeFiles` dataset: the volumes alone, and what is known of the label table beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import DataError
from nodes.conversion.labels import LABEL_FILES, label_file_in

LABEL_TABLES = b"voxelflow.label_tables"
"""Key in the manifest's schema metadata: JSON list of path, size and mtime_ns of the label tables."""


def volumes_of(listing: pa.Table) -> pa.Table:
    """The `.npy` files of a folder's listing; the label tables in it move to the schema metadata."""
    tables = listing.filter(pc.is_in(listing["path"], value_set=pa.array(LABEL_FILES)))
    volumes = listing.filter(pc.ends_with(listing["path"], ".npy"))
    return volumes.replace_schema_metadata({LABEL_TABLES: json.dumps(tables.to_pylist()).encode()})


def label_table_of(listing: pa.Table, folder: Path) -> Path | None:
    """The label table that belongs to the volumes, `labels.csv` before `labels.parquet`.

    A manifest made elsewhere knows of none; then the folder is looked into. Raises `DataError` when
    the table is not the one that was listed: the result would be kept under the wrong name.
    """
    metadata = listing.schema.metadata or {}
    if LABEL_TABLES not in metadata:
        return label_file_in(folder)
    tables = sorted(json.loads(metadata[LABEL_TABLES]), key=lambda t: LABEL_FILES.index(t["path"]))
    if not tables:
        return None
    path = folder / str(tables[0]["path"])
    try:
        found = path.stat()
    except OSError as exc:
        raise DataError(f"{path} cannot be read: {exc.strerror}", hint="Run the pipeline again.") from exc
    if (found.st_size, found.st_mtime_ns) != (tables[0]["size"], tables[0]["mtime_ns"]):
        raise DataError(f"{path} has changed since the folder was listed", hint="Run the pipeline again.")
    return path
