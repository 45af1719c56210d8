"""Whether the volumes of a table point the same way: to a model, left and right are mixed up where they do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeParquet
from nodes.volume_file.parts import read_parts

_COLUMN = "orientation"
_NAMED = 5


def said_of_several(found: Mapping[str, int], volumes: str = "volumes") -> str:
    """That so many `volumes` point each of these ways, and what it means."""
    ordered = sorted(found.items(), key=lambda way: -way[1])
    listed = ", ".join(f"{count:,} {way}" for way, count in ordered[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return (
        f"the axes of the {volumes} point several ways ({listed}{more}), so one side of a body is another in some of"
        " them"
    )


def warn_of_several(made: VolumeParquet, ctx: TaskContext) -> None:
    """Warn when axes point one way in some volumes and another way in others. Volumes that do not say are no matter."""
    found: Counter[str] = Counter()
    for part in read_parts(made).parts:
        file = Path(made.uri) / part.path
        column = pq.read_table(file, columns=[_COLUMN], partitioning=None, page_checksum_verification=True)[_COLUMN]
        for pair in column.value_counts().to_pylist():
            if pair["values"] is not None:
                found[pair["values"]] += pair["counts"]
    if len(found) > 1:
        ctx.warn(f"{said_of_several(found)}; orientation of TransformVolumes turns them alike, to RAS for example")
