"""A listing of volume files made into Parquet parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeFiles, VolumeParquet, VolumeSpec
from engine.errors import DataError
from engine.storage import manifest
from engine.text import plural
from nodes.conversion.columns import describe
from nodes.conversion.convert_parameters import ConvertParameters
from nodes.conversion.formats import NPY, Reading, endings_of
from nodes.conversion.label_values import nfc
from nodes.conversion.labels import label_rule
from nodes.conversion.make_parts import EXAMPLES, MakeChunks, Making, in_threads, make_parts, opened_store
from nodes.conversion.npy_files import spread
from nodes.conversion.orientations import warn_of_several
from nodes.conversion.part_writer import Layout, Row
from nodes.conversion.row_ledger import RowLedger
from nodes.conversion.table_rows import labels_of
from nodes.conversion.volume_sources import Reader, label_table, open_reader, reading_of, sample_headers
from nodes.transforms.function_file import refuse_untrusted
from nodes.volume_file.parameters import MB


@dataclass(frozen=True)
class FileRows:
    """Rows that are files below `uri`, a folder or a storage URL: the source of NumpyToParquet.

    A row's key is its path, its stamp the size in bytes and the modification time in ns. With `hashes` `.npy` files are
    hashed, as those of other formats always are.
    """

    uri: str
    reading: Reading = NPY
    noun: str = "files"
    hashes: bool = False

    def key(self) -> Sequence[str]:
        """Nothing for `.npy`, whose parts have the names that they always had."""
        return self.reading.key()

    def open(self, layout: Layout) -> FileReader:
        """Raises `MissingPackage`, and `DataError` for a format at a URL that is read from folders only."""
        return FileReader(self.reader(layout.spec, finite=layout.finite))

    def reader(self, spec: VolumeSpec, *, finite: bool) -> Reader:
        """A reader of the files. Raises as `open` does."""
        hashes = self.hashes or self.reading.format != "npy"
        return open_reader(self.uri, spec, finite=finite, reading=self.reading, hashes=hashes)

    def reader_bytes(self, layout: Layout) -> int:
        """None for `.npy` files, which are read into the buffer."""
        return self.reading.held_bytes(layout.spec.volume_bytes)


class FileReader:
    """Reads files as rows; see `part_writer.RowReader`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def expect(self, rows: Sequence[Row]) -> None:
        """Lets what is far away be fetched ahead."""
        self._reader.expect(map(_listed, rows))

    def fill(self, row: Row, volume: NDArray[np.uint8]) -> tuple[float | None, tuple[Any, ...]]:
        """The file's voxels; its label and columns are the row's, and those that its reader gives."""
        size, mtime_ns = row.stamp
        return row.label, row.columns + self._reader.read(row.key, int(size), int(mtime_ns), volume)


class _File(NamedTuple):
    path: str
    size: int
    mtime_ns: int


def _listed(row: Row) -> _File:
    size, mtime_ns = row.stamp
    return _File(row.key, int(size), int(mtime_ns))


def convert_files(
    files: VolumeFiles, parameters: ConvertParameters, ctx: TaskContext, make: MakeChunks = in_threads
) -> VolumeParquet:
    """Convert `files` and publish the result in `ctx.out`, with its parts in `ctx.shared`.

    `make` makes the chunks; all else is the same for each way of it.

    Raises `TooManyBadFiles` beyond `parameters.max_bad_files`, `DataError` when nothing can be converted.
    """
    refuse_untrusted(files.transforms, f"the chain of {files.uri}")
    listing = manifest.read(files.manifest)
    if not len(listing):
        raise DataError(f"there are no volumes in {files.uri}", hint="Choose the folder with the volumes.")
    paths = listing["path"].combine_chunks()
    ids = nfc(paths)
    spec = _spec(files, listing)
    finite = parameters.not_finite == "quarantine"
    reading = reading_of(files)
    source = FileRows(files.uri, reading, hashes=parameters.hash_sources)
    given = source.reader(spec, finite=finite).columns
    rule = label_rule(parameters, label_table(listing, files.uri, ctx.scratch), endings_of(reading))
    labels = labels_of(listing, ids, rule, given.names)
    if labels.rows_without_file:
        ctx.warn(
            f"{plural(labels.rows_without_file, 'rows')} of {labels.origin} without a file in {files.uri}, such as"
            f" {labels.row_without_file or 'one without a name'}"
        )
    if labels.chosen:
        ctx.info(labels.chosen)
    for remark in labels.remarks:
        ctx.warn(remark)
    for name, example in labels.commas.items():
        what = f"the column {name} stays text" if name else "the labels are taken for names of classes"
        ctx.warn(f"{labels.origin}: {what}, because its numbers have commas, such as {example}")
    columns = pa.schema([*labels.columns.schema, *given])
    if len(columns):
        ctx.info(f"columns: {describe(columns)}")
    layout = Layout(
        spec=spec.model_copy(update={"classes": labels.classes}),
        target_bytes=parameters.target_file_mb * MB,
        row_group_rows=parameters.row_group_rows,
        compression=parameters.compression,
        finite=finite,
        columns=columns,
    )
    ledger = RowLedger(paths, ids, listing.select(["size", "mtime_ns"]), labels.values, labels.columns)
    ledger.refuse_double_ids()
    ledger.refuse_by_label(labels.conflicts, missing=parameters.unlabelled == "quarantine")
    with opened_store(ctx) as store:
        making = Making(
            source, ledger, layout, store,
            threads=parameters.threads, most_refused=parameters.max_bad_files, limit_parameter="max_bad_files",
        )  # fmt: skip
        made = make_parts(making, ctx, make)
    if "orientation" in columns.names:
        warn_of_several(made, ctx)
    return made


def _spec(files: VolumeFiles, listing: pa.Table) -> VolumeSpec:
    """The dataset's shape and dtype: those of the reference, else those of most headers in a spread sample."""
    if files.spec is not None:
        return files.spec
    paths = listing["path"].take(spread(len(listing))).to_pylist()
    sample = sample_headers(files.uri, paths, reading_of(files))
    if sample.majority is not None:
        return sample.majority
    examples = "; ".join(f"{name} {refused.message}" for name, refused in sample.refused[:EXAMPLES])
    raise DataError(
        f"none of {sample.looked} sampled files in {files.uri} is a volume, for example {examples}",
        hint="Choose the folder with the volumes.",
    )
