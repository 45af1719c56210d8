"""`voxelflow.load`: batches of any dataset of volumes, for whatever framework takes NumPy arrays."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing
from os import PathLike
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from engine.cgroups import usable_cores
from engine.declare.datasets import Dataset, VolumeDelta
from engine.errors import DataError, UsageError, hints_as_notes
from engine.storage.find_place import place_at
from engine.storage.urls import is_url
from nodes.loaders import LoaderName, open_source
from nodes.loaders.interface import Batch, LoaderState, Reading, check_flag, check_whole
from nodes.loaders.row_groups import FASTER, RowGroupSource
from nodes.table.lease import hold_version
from nodes.table.log import LOG
from nodes.table.snapshot import local_folder, open_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from engine.declare.datasets import VolumeSpec
    from nodes.loaders.rows import RowNumbers


_LOG = logging.getLogger("voxelflow.load")


class LoadedVolumes:
    """Batches of volumes: going through it gives the rest of the current epoch, and then the next one.

    Each `Batch` has `volumes` (float32, n x shape), `labels` (float32, n) and `rows` (their numbers; see `ids`).
    Use it in a `with` block or `close` it: it holds threads and open files.
    """

    def __init__(self, dataset: Dataset, reading: Reading, *, loader: LoaderName, cores: int, verify: bool) -> None:
        selections = dataset.selections if isinstance(dataset, VolumeDelta) else ()
        with ExitStack() as opened:
            if isinstance(dataset, VolumeDelta) and not is_url(dataset.uri):
                opened.enter_context(hold_version(local_folder(dataset.uri), dataset.version))
            self.source = opened.enter_context(closing(open_source(loader, dataset, cores=cores, verify=verify)))
            if isinstance(self.source, RowGroupSource):
                _LOG.warning("%s; reading is several times slower. %s", self.source.reason, FASTER)
            self.loader = self.source.loader(self.source.rows_in(*selections), reading)
            self._opened = opened.pop_all()

    @property
    def spec(self) -> VolumeSpec:
        """Shape, stored type and class names of the volumes."""
        return self.source.spec

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self.loader.steps

    def __iter__(self) -> Iterator[Batch]:
        return self.loader.batches()

    def state(self) -> LoaderState:
        """What comes next: three numbers, worth keeping in a checkpoint."""
        return self.loader.state()

    def restore(self, state: LoaderState) -> None:
        """Go on at exactly that batch, also with another number of ranks. Raises `UsageError`."""
        self.loader.restore(state)

    def ids(self, rows: Sequence[int] | RowNumbers) -> list[str]:
        """The ids of a batch's rows."""
        return self.source.ids(rows)

    def tf_dataset(self) -> Any:
        """The same as a `tf.data.Dataset` of (volumes, labels). Raises `MissingPackage` without TensorFlow."""
        # By name: loaders are below the frameworks that read from them.
        return resolve_name("nodes.tensorflow_keras.batches:tf_dataset")(self.loader)

    def close(self) -> None:
        """End the threads, close the files and give back the lease."""
        self._opened.close()

    def __enter__(self) -> LoadedVolumes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load(
    data: Dataset | str | Path,
    batch_size: int,
    *,
    seed: int = 0,
    training: bool = True,
    rank: int = 0,
    ranks: int = 1,
    loader: LoaderName = "arrow",
    cores: int | None = None,
    verify: bool = True,
) -> LoadedVolumes:
    """Open volumes for reading in batches.

    `data` is a dataset (an output of a run), or the path or URL of a Delta table, whose newest version is taken.
    `batch_size` counts the rows of a global batch, of which this process gets part `rank` of `ranks`. Training shuffles
    all rows anew for each epoch and leaves out an incomplete last batch; otherwise all rows come once, in an order that
    is always the same for the same version of the table: in id order where it lies on a local disk in Voxelflow's
    layout, or is a folder of files, else as its rows are stored. `ids(batch.rows)` says which volume each is. Volumes
    without a label are left out. Until it is closed, OptimizeDelta's vacuum spares the version's files,
    unless this process may not write in the table's folder. With `verify` each volume is compared with its checksum
    whenever it is read, where its file has checksums (the loaders of tables). A table whose files must be decoded, as
    those that other programs write, is read several times slower: the logger `voxelflow.load` says so, and why.

    Raises `DataError` or `UnsupportedTable` for data that cannot be read rightly, `UsageError` for a value that a
    parameter cannot have, or a loader that does not read this kind of dataset.
    """
    with hints_as_notes():
        reading = Reading(batch_size, seed=seed, training=training, rank=rank, ranks=ranks)
        check_flag("verify", verify, hint="Give False to read volumes without comparing their checksums.")
        if cores is None:
            cores = usable_cores()
        check_whole("cores", cores, 1, hint="Leave it out to use all that there are.")
        if not isinstance(data, (Dataset, str, PathLike)):
            raise UsageError(
                f"data must be a dataset, a path or a URL, not of type {type(data).__name__}",
                hint='Give a Delta table, or an output of a run (`run.outputs["table"]["out"]`).',
                parameter="data",
            )
        dataset = data if isinstance(data, Dataset) else _newest(Path(data) if isinstance(data, PathLike) else data)
        return LoadedVolumes(dataset, reading, loader=loader, cores=cores, verify=verify)


def _newest(table: str | Path) -> VolumeDelta:
    uri = str(table) if is_url(table) else str(local_folder(table).absolute())
    try:
        return open_table(uri).reference(uri)
    except DataError as exc:
        if type(exc) is not DataError or next((place := place_at(uri)).names(LOG), None) is not None:
            raise
        from nodes.loaders.no_table import no_table

        raise no_table(place) from None
