"""Tables to be split by their columns, and what is in the parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from delta_tables import SPEC, context, dataset_of, shards

from engine.declare.datasets import VolumeDelta
from nodes.loaders import open_source
from nodes.parquet_to_delta import parquet_to_delta
from nodes.split_dataset import Split
from nodes.volume_file.layout import schema, writer_options
from nodes.volume_file.parts import read_parts

ROWS = 400


def table_of(folder: Path, columns: dict[str, Any], labels: list[float | None] | None = None) -> VolumeDelta:
    """A table of `ROWS` volumes with these columns, in two files."""
    plain = shards(folder / "p", ROWS // 2, ROWS // 2)
    extra = pa.table(columns)
    parts = []
    for number, part in enumerate(read_parts(plain).parts):
        path = Path(plain.uri) / part.path
        rows = pq.read_table(path)
        own = slice(number * ROWS // 2, (number + 1) * ROWS // 2)
        if labels is not None:
            rows = rows.set_column(1, "label", pa.array(labels[own], pa.float32()))
            there = [label for label in labels[own] if label is not None]
            part = replace(part, labelled=len(there), label_min=min(there), label_max=max(there))
        for name in columns:
            rows = rows.append_column(name, extra[name][own.start : own.stop])
        with pq.ParquetWriter(path, schema(SPEC, extra.schema), **writer_options()) as writer:
            writer.write_table(rows.cast(schema(SPEC, extra.schema)))
        parts.append(replace(part, bytes=path.stat().st_size))
    return parquet_to_delta(dataset_of(folder / "p", parts), ctx=context(folder))


def members(part: VolumeDelta) -> set[str]:
    """The volumes that a loader finds in the part, with a label or without."""
    source = open_source("arrow", part, cores=1)
    try:
        return set(source.ids(source.rows.selected(part.selections)))
    finally:
        source.close()


def parts_of(split: Split) -> list[set[str]]:
    return [members(part) for part in split]
