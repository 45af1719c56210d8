"""Volumes that are transformed when they are read: those of a folder, and the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.declare.datasets import Transform, VolumeDelta, VolumeFiles, VolumeParquet
from engine.declare.progress import track
from engine.errors import DataError
from engine.storage import manifest
from engine.text import plural
from nodes.conversion.formats import ROWS
from nodes.conversion.npy_files import spread
from nodes.conversion.table_rows import TableFile, columns_in, rows_listing
from nodes.conversion.volume_sources import reading_of
from nodes.conversion.whole_volumes import sample_whole
from nodes.loaders.data_files import data_files, open_checked, reading, refuse_other, small_columns
from nodes.loaders.joined_columns import joined
from nodes.table.ledger import is_content_named, is_given_once
from nodes.table.selection import held
from nodes.table.snapshot import open_table
from nodes.volume_file.parts import read_parts


def with_transforms(files: VolumeFiles, transforms: Sequence[Transform]) -> VolumeFiles:
    """The same volumes with these transforms appended to those they have; a reader applies all.

    Shape and dtype are those of most volumes of a spread sample. Raises `DataError` when none of it can be transformed.
    """
    done = files.spec.transforms if files.spec is not None else files.transforms
    out = files.model_copy(update={"transforms": (*files.transforms, *transforms)})
    listing = manifest.read(files.manifest)
    paths = listing["path"].take(spread(len(listing))).to_pylist()
    sample = sample_whole(files.uri, paths, reading_of(out))
    if sample.majority is None:
        examples = "; ".join(f"{name} {refused.message}" for name, refused in sample.refused[:3])
        raise DataError(
            f"none of {sample.looked} sampled volumes of {files.uri} can be transformed, for example {examples}",
            hint="Change the transforms, or the volumes that are wired to them.",
        )
    classes = files.spec.classes if files.spec is not None else ()
    spec = sample.majority.model_copy(update={"classes": classes, "transforms": (*done, *transforms)})
    return out.model_copy(update={"spec": spec, "largest_bytes": sample.largest_bytes})


def rows_as_files(dataset: VolumeDelta | VolumeParquet, listing: Path) -> VolumeFiles:
    """The rows that the dataset holds; their listing is written to `listing`. They remember the groups of a split.

    Raises what `data_files` raises, and `DataError` when a row has no id, or a selection goes by a column that the
    table lacks.
    """
    found = data_files(dataset)
    sizes = _sizes(dataset)
    tables: list[pa.Table] = []
    counts: list[int] = []
    each = zip(found.paths, found.said, strict=True)
    for path, said in track(each, unit="files", total=len(found.paths), label="reading ids"):
        with reading(path), found.access.open(path) as opened, open_checked(opened) as file:
            names = [name for name in file.schema_arrow.names if name != "volume"]
            tables.append(small_columns(file, names, opened))
            refuse_other(path, opened, tables[-1], said)
        counts.append(len(tables[-1]))
    columns = joined(tables, f"the files of {dataset.uri}")
    if missing := columns["id"].null_count:
        raise DataError(
            f"{plural(missing, 'rows')} of {dataset.uri} {'has' if missing == 1 else 'have'} no id",
            hint="Give every row an id of its own.",
        )
    keep = np.ones(len(columns), bool)
    if isinstance(dataset, VolumeDelta) and dataset.selections:
        keep = held(dataset.selections, {name: columns.column(name) for name in columns.column_names})
    if not keep.any():
        raise DataError(f"{dataset.uri} has no volumes to transform", hint="Check the selection that it comes from.")
    table = rows_listing(sizes, counts, columns, keep, found.spec)
    manifest.write(table, listing)
    return VolumeFiles(
        uri=dataset.uri,
        manifest=str(listing),
        count=len(table),
        bytes=dataset.bytes,
        spec=found.spec,
        format=ROWS,
        table_version=dataset.version if isinstance(dataset, VolumeDelta) else None,
        grouped_by=kept_groups(dataset.grouped_by, columns_in(table).column_names),
    )


def kept_groups(by: Sequence[str], columns: Iterable[str]) -> tuple[str, ...]:
    """The columns `by` that parts of a split were kept together by, as long as rows still have all of them."""
    return tuple(by) if {*by} <= {"id", "label", *columns} else ()


def _sizes(dataset: VolumeDelta | VolumeParquet) -> list[TableFile]:
    """The files of `data_files`, in its order, by their paths below the table's folder."""
    if isinstance(dataset, VolumeDelta):
        files = open_table(dataset.uri, dataset.version).files
        return [_file(file.path, file.bytes, file.mtime_ms * 1_000_000, is_given_once) for file in files]
    # A name that follows from the content is never given to other content, whenever the file was made.
    parts = read_parts(dataset).parts
    return [_file(part.path, part.bytes, part.mtime_ns, is_content_named) for part in parts if part.rows]


def _file(path: str, size: int, mtime_ns: int, is_safe: Callable[[str], bool]) -> TableFile:
    """Without its time where the name alone says what the file holds."""
    return TableFile(path, size, 0 if is_safe(path.rpartition("/")[2]) else mtime_ns)
