"""Parquet files of a folder before any run: there is a listing of them, and nothing yet says what is in them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.declare.datasets import VolumeParquet, VolumeSpec
from engine.errors import DataError, UnsupportedTable
from engine.storage import manifest
from engine.storage.files import check_regular
from engine.text import plural
from nodes.conversion.npy_files import spread
from nodes.inspection.column_figures import shown_columns
from nodes.loaders.data_files import LOCAL
from nodes.viewing.volume_rows import TableFile, TableRows
from nodes.volume_file.layout import has_spec, spec_of

_OPENED = 128
"""Files whose footers are read before the first thumbnail is shown: a tenth of a second for so many."""


def is_listing(dataset: VolumeParquet) -> bool:
    """Whether its manifest is the listing of a folder, and not yet what a run writes."""
    return manifest.is_whole(dataset.manifest)


class ListedRows(TableRows):
    """Rows of the files of a listing, or of a sample of them; how many each has, its footer says.

    Files that the run will refuse are left out, and counted in the note. Raises `DataError` when none is left.
    """

    def __init__(self, dataset: VolumeParquet) -> None:
        spec = dataset.spec
        if spec is None:
            raise DataError(f"nothing says the shape of the volumes in {dataset.uri}", hint="Give shape and dtype.")
        listing = manifest.read(dataset.manifest)
        names = [str(listing["path"][at]) for at in spread(listing.num_rows, _OPENED)]
        self._listed, self._opened = listing.num_rows, len(names)
        with ThreadPoolExecutor(LOCAL.streams) as pool:
            found = list(pool.map(lambda name: _looked_into(Path(dataset.uri), name, spec), names))
        whole = [each for each in found if each is not None]
        self._refused = len(found) - len(whole)
        files = [file for file, _ in whole if file.rows]
        if not files:
            raise DataError(f"the Parquet files in {dataset.uri} have no volumes", hint="Choose another folder.")
        super().__init__(files, spec, LOCAL, columns=[f.name for f in shown_columns(whole[0][1])])

    @property
    def all_counted(self) -> bool:
        """Whether every file of the listing was looked into, so that `count` is that of all volumes."""
        return self._listed == self._opened and not self._refused

    @property
    def note(self) -> str:
        said = []
        if self._opened < self._listed:
            said.append(
                f"a sample: {self._opened:,} of {plural(self._listed, 'files')}, the run looks into all of them"
            )
        if self._refused:
            said.append(f"{plural(self._refused, 'files')} cannot be read as such volumes, the run says why")
        return "; ".join(said)


def _looked_into(folder: Path, name: str, spec: VolumeSpec) -> tuple[TableFile, pa.Schema] | None:
    """A file with its rows and columns; None: it holds no volumes of `spec`."""
    path = folder / name
    try:
        check_regular(path, sys.maxsize)
        footer = pq.read_metadata(path)
        columns = footer.schema.to_arrow_schema()
        if not {"id", "volume"} <= set(columns.names):
            return None
        if has_spec(columns.metadata) and spec_of(columns.metadata, name).volume_bytes != spec.volume_bytes:
            return None
    except (OSError, pa.ArrowException, UnsupportedTable):
        return None
    return TableFile(str(path), footer.num_rows, name), columns
