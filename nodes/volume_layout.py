"""The volume table: what a Parquet or Delta file of volumes looks like.

Columns `id: string`, `label: float32` (nullable), `volume: binary` (the array's C-order bytes,
little-endian), then the user's own. Shape, dtype, class names and the layout's version stand in the
schema metadata of every file and in the properties of a Delta table.

The volume column is required, PLAIN, uncompressed, without dictionary and statistics, in row groups
of 64 rows: then a reader can find any volume's bytes by arithmetic and read only those.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.datasets import FORMAT_VERSION, VolumeSpec
from engine.errors import UnsupportedTable

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 64
TARGET_FILE_BYTES = 78_000_000
"""650,000 volumes of 360 kB make 3,000 files of 78 MB: the layout of the reference whitepaper."""


def schema(spec: VolumeSpec) -> pa.Schema:
    """The Arrow schema of a volume table."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("label", pa.float32()),
            pa.field("volume", pa.binary(), nullable=False),
        ],
        metadata=properties(spec),
    )


def properties(spec: VolumeSpec) -> dict[str, str]:
    """The spec as schema metadata or Delta table properties."""
    return {
        "voxelflow.format": str(FORMAT_VERSION),
        "voxelflow.shape": json.dumps(list(spec.shape)),
        "voxelflow.dtype": spec.dtype,
        "voxelflow.classes": json.dumps(list(spec.classes), ensure_ascii=False),
    }


def spec_of(metadata: Mapping[Any, Any] | None, where: str) -> VolumeSpec:
    """The spec in schema metadata or table properties.

    Raises `UnsupportedTable`, naming `where`, when it is missing, broken or of a newer format.
    """
    values = {_text(k): _text(v) for k, v in (metadata or {}).items()}
    if "voxelflow.shape" not in values:
        raise UnsupportedTable(
            f"{where} is not a volume table: its metadata has no voxelflow.shape",
            hint="Make it with NumpyToParquet, or set voxelflow.shape and voxelflow.dtype.",
        )
    if int(values.get("voxelflow.format", FORMAT_VERSION)) > FORMAT_VERSION:
        raise UnsupportedTable(
            f"{where} has volume layout {values['voxelflow.format']}, newer than this Voxelflow reads"
            f" ({FORMAT_VERSION})",
            hint="Update Voxelflow.",
        )
    try:
        return VolumeSpec(
            shape=tuple(json.loads(values["voxelflow.shape"])),
            dtype=values["voxelflow.dtype"],
            classes=tuple(json.loads(values.get("voxelflow.classes", "[]"))),
        )
    except (ValueError, KeyError, TypeError) as exc:
        raise UnsupportedTable(f"{where} has broken volume metadata: {exc}") from exc


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def writer_options(compression: str = "none") -> dict[str, Any]:
    """Keyword arguments of `pyarrow.parquet.ParquetWriter` for the volume layout.

    `compression` "zstd" or "lz4" is for those who pay for storage: it costs 3-10 times in reading speed.
    """
    return {
        "use_dictionary": False,
        "compression": compression.upper() if compression != "none" else "NONE",
        "column_encoding": {"id": "PLAIN", "label": "PLAIN", "volume": "PLAIN"},
        "write_statistics": ["id", "label"],
        "store_schema": True,
        "version": "2.6",
        "data_page_version": "1.0",
    }
