"""The volume table: what a Parquet or Delta file of volumes looks like.

Columns `id: string`, `label: float32` (nullable), `volume: binary` (the array's C-order bytes,
little-endian), then the user's own. Shape, dtype, class names and the layout's version stand in the
schema metadata of every file and in the properties of a Delta table.

The volume column is required, PLAIN, uncompressed, without dictionary and statistics, in row groups
of 64 rows, each volume in a page of its own with its checksum (`pages`): then a reader can find any volume's bytes by
arithmetic, and read and check only those.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from engine.declare.datasets import FORMAT_VERSION, VolumeSpec
from engine.errors import UnsupportedTable, first_line

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 64
_FORMAT, _SHAPE, _DTYPE = "voxelflow.format", "voxelflow.shape", "voxelflow.dtype"


def schema(spec: VolumeSpec, columns: Iterable[pa.Field] = ()) -> pa.Schema:
    """The Arrow schema of a volume table with these further columns."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("label", pa.float32()),
            pa.field("volume", pa.binary(), nullable=False),
            *columns,
        ],
        metadata=properties(spec),
    )


def properties(spec: VolumeSpec) -> dict[str, str]:
    """The spec as schema metadata or Delta table properties."""
    out = {
        _FORMAT: str(FORMAT_VERSION),
        _SHAPE: json.dumps(list(spec.shape)),
        _DTYPE: spec.dtype,
        "voxelflow.classes": json.dumps(list(spec.classes), ensure_ascii=False),
    }
    if spec.transforms:
        done = [each.model_dump(mode="json") for each in spec.transforms]
        out["voxelflow.transforms"] = json.dumps(done, ensure_ascii=False)
    return out


def has_spec(metadata: Mapping[Any, Any] | None) -> bool:
    """Whether schema metadata or table properties say that there are volumes in this layout."""
    return any(_text(key) == _SHAPE for key in metadata or {})


def names_volumes(metadata: Mapping[Any, Any] | None) -> bool:
    """Whether schema metadata or table properties say anything of volumes, as they still do with one key damaged."""
    return any(_text(key) in (_FORMAT, _SHAPE, _DTYPE) for key in metadata or {})


def spec_of(metadata: Mapping[Any, Any] | None, where: str) -> VolumeSpec:
    """The spec in schema metadata or table properties.

    Raises `UnsupportedTable`, naming `where`, when it is missing, broken or of a newer format.
    """
    values = {_text(k): _text(v) for k, v in (metadata or {}).items()}
    if _SHAPE not in values:
        raise UnsupportedTable(
            f"{where} is not a volume table: its metadata has no {_SHAPE}",
            hint="Make it with NumpyToParquet, set voxelflow.shape and voxelflow.dtype, or convert it with"
            " ConvertTable.",
        )
    try:
        if (layout := int(values.get(_FORMAT, FORMAT_VERSION))) <= FORMAT_VERSION:
            return VolumeSpec(
                shape=tuple(json.loads(values[_SHAPE])),
                dtype=values[_DTYPE],
                classes=tuple(json.loads(values.get("voxelflow.classes", "[]"))),
                transforms=tuple(json.loads(values.get("voxelflow.transforms", "[]"))),
            )
    except (ValueError, KeyError, TypeError) as exc:
        raise UnsupportedTable(
            f"{where} has broken volume metadata: {_reason(exc)}", hint="Make the file again."
        ) from exc
    raise UnsupportedTable(
        f"{where} has volume layout {layout}, newer than this Voxelflow reads ({FORMAT_VERSION})",
        hint="Update Voxelflow.",
    )


def _reason(exc: Exception) -> str:
    """Why metadata are broken, in a line."""
    if isinstance(exc, KeyError):
        return f"{exc.args[0]} is missing"
    # The text of pydantic's own errors is several lines, the first of which says nothing.
    said = exc.errors()[0]["msg"] if isinstance(exc, ValidationError) else first_line(exc)
    return str(said).removeprefix("Value error, ")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def writer_options(compression: str = "none") -> dict[str, Any]:
    """Keyword arguments of `pyarrow.parquet.ParquetWriter` for the volume layout.

    `compression` "zstd" or "lz4" makes reading 3-10 times slower; it is for when storage cost matters.
    """
    return {
        "use_dictionary": False,
        "compression": compression.upper() if compression != "none" else "NONE",
        "column_encoding": {"id": "PLAIN", "label": "PLAIN", "volume": "PLAIN"},
        "write_statistics": ["id", "label"],
        "store_schema": True,
        "version": "2.6",
        "data_page_version": "1.0",
        "write_page_checksum": True,
    }
