"""What a loader is: one batch iterator over one order of the rows, and a state to go on from.

    source = open_source("arrow", table, cores=2)           # reads ids and labels, no volumes
    loader = source.loader(source.rows_in(selection), Reading(batch_size=32, seed=7))
    for batch in loader.batches():                           # the rest of the current epoch
        ...
        state = loader.state()                               # after this batch: what comes next

The laws (`nodes.testing.loader.LoaderConformance` tests them; `order_survives_rewrite` is promised by some):

* Rows are numbered by id. Global batch k of an epoch is `order[k*B : (k+1)*B]` of one order for each
  (seed, epoch); rank r of `ranks` gets slice r of every global batch, so all ranks do equal steps.
* Training leaves out the rows that do not fill a last batch; evaluation gives all rows, in an order that is always the
  same for the same version of the data: that of the ids, or, where `read_path` is "streamed", that in which they are
  stored. `Batch.rows` says which row each is.
* The state is (seed, epoch, step). A restored loader gives exactly the next batch, also when the number of ranks is
  another one now.
* Only rows with a label are given out; the others are counted (`Source.unlabelled`).
* A batch holds the bytes of the source, as float32.
* `Source.rows.columns` raises `DataError` for a column that the dataset lacks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError, UsageError

if TYPE_CHECKING:
    from engine.declare.datasets import Selection, VolumeSpec
    from nodes.loaders.rows import RowNumbers, Rows


def check_whole(name: str, value: object, least: int | None = None, most: int | None = None, *, hint: str) -> None:
    """Raise `UsageError` unless this parameter's value is a whole number, Python's or NumPy's, within these limits."""
    number = value if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else None
    if number is not None and (least is None or number >= least) and (most is None or number <= most):
        return
    limits = "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most}"
    raise UsageError(f"{name} must be a whole number{limits}, not {value!r}", hint=hint, parameter=name)


def check_flag(name: str, value: object, *, hint: str) -> None:
    """Raise `UsageError` unless this parameter's value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise UsageError(f"{name} must be True or False, not {value!r}", hint=hint, parameter=name)


@dataclass(frozen=True)
class LoaderState:
    """Where a loader is: the next batch is global batch `step` of `epoch`, both counted from 0."""

    seed: int
    epoch: int = 0
    step: int = 0


@dataclass(frozen=True)
class Reading:
    """How rows are handed out.

    `batch_size` counts the rows of a *global* batch, over all ranks. `steps` limits an epoch to that
    many batches (0: all). `training` shuffles and keeps whole batches only; otherwise rows come once, to the last, in
    an order that is always the same.
    """

    batch_size: int
    seed: int = 0
    training: bool = True
    steps: int = 0
    rank: int = 0
    ranks: int = 1

    def __post_init__(self) -> None:
        check_whole("batch_size", self.batch_size, 1, hint="Give the rows of a batch over all ranks, such as 32.")
        check_whole("seed", self.seed, hint="Give any whole number; each has another order of the rows.")
        check_flag("training", self.training, hint="Give False for all rows once, in an order that is always the same.")
        check_whole("steps", self.steps, 0, hint="Give the batches of an epoch at most, or 0 for all.")
        check_whole("ranks", self.ranks, 1, hint="Give how many processes share each batch.")
        check_whole("rank", self.rank, 0, self.ranks - 1, hint="Number the processes from 0 to ranks - 1.")
        if self.training and self.batch_size < self.ranks:
            raise UsageError(
                f"a batch of {self.batch_size} rows cannot be shared by {self.ranks} workers",
                hint=f"Choose a batch size of at least {self.ranks}.",
                parameter="batch_size",
            )


@dataclass(frozen=True)
class Batch:
    """One rank's part of a global batch of n rows.

    `volumes` is float32 (n, *shape), `labels` float32 (n,), `rows` int64 (n,): the rows' numbers by id, in whatever
    order they come. The arrays belong to the receiver of the batch; no loader writes to them again.
    """

    volumes: NDArray[np.float32]
    labels: NDArray[np.float32]
    rows: RowNumbers


class Loader(ABC):
    """Hands out the batches of the chosen rows. Made by `Source.loader`."""

    def __init__(self, source: Source, chosen: RowNumbers, reading: Reading) -> None:
        self.source, self.reading = source, reading
        self.chosen = np.ascontiguousarray(chosen, np.int64)
        whole, rest = divmod(len(self.chosen), reading.batch_size)
        steps = whole if reading.training else whole + bool(rest)
        if steps == 0:
            raise DataError(
                f"{source.where}: {len(self.chosen):,} labelled volumes do not fill one batch of {reading.batch_size}",
                hint="Choose a smaller batch size, or give more labelled volumes.",
            )
        self.steps = min(steps, reading.steps or steps)
        """Global batches in an epoch."""
        self._state = LoaderState(reading.seed)

    def __len__(self) -> int:
        """Rows to choose from in an epoch."""
        return len(self.chosen)

    def state(self) -> LoaderState:
        """What comes next. `step == steps` once the last batch of an epoch was handed out."""
        return self._state

    def restore(self, state: LoaderState) -> None:
        """Go on from there. Raises `UsageError` when the epoch has fewer steps."""
        if not 0 <= state.step <= self.steps:
            raise UsageError(
                f"{state} lies outside an epoch of {self.steps} steps",
                hint="Give a state of this loader.",
            )
        self._state = state

    def batches(self) -> Generator[Batch]:
        """The rest of the current epoch; the loader is then at the start of the next one.

        The state moves on just before a batch is handed out. Close the iterator (or let go of it) to
        stop the reading ahead.
        """
        seed, epoch, first = self._state.seed, self._state.epoch, self._state.step
        for step, batch in enumerate(self._read(seed, epoch, first), first):
            self._state = LoaderState(seed, epoch, step + 1)
            yield batch
        self._state = LoaderState(seed, epoch + 1)

    @abstractmethod
    def _read(self, seed: int, epoch: int, first: int) -> Iterator[Batch]:
        """The batches first, first + 1, ..., steps - 1 of an epoch, read ahead in the background."""

    def slice(self, global_batch: RowNumbers) -> RowNumbers:
        """This rank's part of a global batch."""
        rank, ranks, n = self.reading.rank, self.reading.ranks, len(global_batch)
        return global_batch[n * rank // ranks : n * (rank + 1) // ranks]


ReadPath = Literal["mapped", "streamed", "one by one"]
"""mapped: each volume from its known place in a large file, in any order; streamed: by whole row groups, which are
decoded and shuffled in windows; one by one: each from a file of its own."""


class Source(ABC):
    """A dataset opened for reading: what its rows are, and loaders over some of them."""

    name: ClassVar[str]
    """The value of the node's `loader` parameter."""
    read_path: ClassVar[ReadPath]
    """How volumes come into a batch."""
    order_survives_rewrite: ClassVar[bool]
    """Whether the order depends on the ids alone: compacting the table into other files then changes nothing."""

    def __init__(self, where: str, spec: VolumeSpec, rows: Rows) -> None:
        self.where, self.spec, self.rows = where, spec, rows

    @property
    @abstractmethod
    def order_identity(self) -> str:
        """Hash of all that fixes the order of rows: a state is valid only where it is the same."""

    @property
    def unlabelled(self) -> int:
        """Rows left out because they have no label."""
        return self.rows.unlabelled

    def rows_in(self, *selections: Selection) -> RowNumbers:
        """The labelled rows that every selection holds (with none: all of them)."""
        return self.rows.chosen(selections)

    def relabel(self, labels: NDArray[np.float32], classes: tuple[str, ...]) -> None:
        """Let the rows have these labels, which number these classes, from here on.

        To be called before any loader is made, and after `rows_in`: selections go by the labels that are stored.
        """
        self.rows = replace(self.rows, labels=labels)
        self.spec = self.spec.model_copy(update={"classes": classes})

    def ids(self, rows: Sequence[int] | RowNumbers) -> list[str]:
        """The ids of some rows."""
        return self.rows.ids_of(rows)

    @abstractmethod
    def loader(self, chosen: RowNumbers, reading: Reading) -> Loader:
        """A loader over `chosen`. Raises `DataError` when they do not fill one batch."""

    def close(self) -> None:  # noqa: B027 - not every source holds something open
        """End threads and let go of open files. No loader of this source may be used afterwards."""
