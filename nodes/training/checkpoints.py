"""Checkpoints: all that a training needs to continue exactly.

A checkpoint is one `.npz` file (NumPy arrays, no pickle) that appears whole or not at all: written
aside, flushed to the disk, renamed. The newest are kept (two by default); when the newest is
damaged after all, the one before it is used. The weights of the best epoch are a file of their own, `best-E.npz`,
which is kept as long as a checkpoint counts on it: it is written before the checkpoint of that epoch's end.
"""

from __future__ import annotations

import json
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ExecutionError
from engine.storage.files import remove_partial, whole_file
from engine.storage.hard_link import link_or_copy
from engine.storage.io_errors import FULL, OUT_OF_RESOURCES, file_of, no_space, number_of
from engine.text import size
from nodes.loaders.interface import LoaderState
from nodes.training.evaluation import Confusion, Roc
from nodes.training.history import Judge, best_epoch
from nodes.training.learner import NOTHING, WEIGHT, Arrays, Sums

KEPT = 2
_META = "meta"


@dataclass(frozen=True)
class Checkpoint:
    """`state` says which batch is next; `sums` are those of the epoch so far, `history` the figures of finished epochs.

    `mean` and `variance` are the input normalisation that the weights were trained with, `mixed_precision` is what was
    decided before the first step (None: not yet). `confusion` and `roc` are those of the last finished epoch's
    validation.
    """

    state: LoaderState
    arrays: Arrays
    mean: tuple[float, ...]
    variance: tuple[float, ...]
    sums: Sums = NOTHING
    history: tuple[Mapping[str, float], ...] = ()
    confusion: Confusion = ()
    roc: Roc = ()
    mixed_precision: bool | None = None

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


class Torn(Exception):
    """The file is no whole checkpoint, or one of another training, or nothing can go on from it."""


def is_dead(arrays: Arrays) -> bool:
    """Whether a weight is not finite: the model learns nothing any more, though its figures may look like any."""
    return not all(np.isfinite(array).all() for name, array in arrays.items() if name.startswith(WEIGHT))


class Checkpoints:
    """The checkpoints of one training in `folder`.

    `identity` says what training they belong to: others are not taken up. `every_s` is the least time
    between two checkpoints within an epoch; with `every_steps` there is one after each so many steps as well. `kept`
    is how many stay, `best_by` the figure by which they judge epochs.
    """

    def __init__(
        self,
        folder: Path,
        identity: str,
        *,
        every_s: float,
        every_steps: int = 0,
        kept: int = KEPT,
        best_by: Judge = "val_loss",
        commit_point: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._folder, self._identity, self._commit_point = folder, identity, commit_point
        self._every_s, self._every_steps, self._kept, self._best_by = every_s, every_steps, kept, best_by
        self._saved_at = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)

    def due(self, steps: int) -> bool:
        """Whether one is to be saved now, `steps` steps after the very first."""
        if self._every_steps and steps % self._every_steps == 0:
            return True
        return time.monotonic() - self._saved_at >= self._every_s

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write it, then drop the older ones. Raises `DiskFull`; then all that was there still is."""
        path = self._write(self.path_of(checkpoint), checkpoint, "train:checkpoint")
        for other in self._paths():
            # A later one was passed over because it was damaged: this training has taken its place.
            if other.name > path.name:
                other.unlink()
        kept, old = self._paths()[: self._kept], self._paths()[self._kept :]
        for other in old:
            other.unlink()
        wanted = {best_epoch(checkpoint.history[: _epoch(other)], self._best_by) for other in kept}
        for other in self._folder.glob("best-*.npz"):
            if _epoch(other) not in wanted:
                other.unlink()
        self._saved_at = time.monotonic()
        return path

    def save_best(self, checkpoint: Checkpoint) -> None:
        """Write the weights of the best epoch so far; to be followed by `save`. Raises `DiskFull`."""
        weights = {name: array for name, array in checkpoint.arrays.items() if name.startswith(WEIGHT)}
        self._write(self.best_path(checkpoint), replace(checkpoint, arrays=weights), "train:best")

    def best(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """The best epoch in the history of `checkpoint`, its weights alone; None when no epoch can be judged.

        Raises `ExecutionError` when its file is damaged.
        """
        path = self.best_path(checkpoint)
        if not _epoch(path):
            return None
        try:
            return read(path, self._identity)
        except Torn as exc:
            raise ExecutionError(
                f"the weights of the best epoch cannot be read ({exc})",
                hint="Set keep to last, or run the node afresh (`voxelflow run --from`).",
                parameter="keep",
            ) from exc

    def best_path(self, checkpoint: Checkpoint) -> Path:
        """The file of the best epoch in its history."""
        return self._folder / f"best-{best_epoch(checkpoint.history, self._best_by):06d}.npz"

    def take_over_best(self, path: Path, checkpoint: Checkpoint) -> None:
        """Go on from the best epoch of a finished training, whose last checkpoint is `checkpoint`. Raises `Torn`."""
        read(path, self._identity)
        self._take(path, self.best_path(checkpoint))

    def take_over(self, path: Path, checkpoint: Checkpoint) -> None:
        """Let the file of a finished training, which holds `checkpoint`, be the newest checkpoint."""
        self._take(path, self.path_of(checkpoint))

    def _take(self, path: Path, name: Path) -> None:
        with whole_file(name, durable=True) as temporary:
            link_or_copy(path, temporary, "link")

    def position(self) -> LoaderState | None:
        """Where the newest checkpoint continues, by its name; nothing is read. Its seed is not known."""
        for path in self._paths()[:1]:
            _, epoch, step = path.stem.split("-")
            return LoaderState(0, int(epoch), int(step))
        return None

    def path_of(self, checkpoint: Checkpoint) -> Path:
        state = checkpoint.state
        return self._folder / f"checkpoint-{state.epoch:06d}-{state.step:09d}.npz"

    def newest(self, warn: Callable[[str], None] = lambda text: None) -> Checkpoint | None:
        """The newest whole checkpoint; half-written ones are removed.

        Damaged ones are passed over: `warn` gets the file, why, and what the training goes on from.
        """
        remove_partial(self._folder)
        passed_over: list[Torn] = []
        found: Checkpoint | None = None
        for path in self._paths():
            try:
                found = read(path, self._identity)
                break
            except Torn as exc:
                passed_over.append(exc)
        after = f"epoch {found.state.epoch}, step {found.state.step}" if found else "an earlier result or the beginning"
        for torn in passed_over:
            warn(f"a checkpoint cannot be used ({torn}): training goes on from {after} and repeats what lies between")
        return found

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("checkpoint-*.npz"), reverse=True)

    def _write(self, path: Path, checkpoint: Checkpoint, point: str) -> Path:
        at = self.position()
        after = f"epoch {at.epoch}, step {at.step}" if at else "the beginning"
        with (
            space_in(self._folder, f"a checkpoint of {size(checkpoint.bytes)}", after),
            whole_file(path, durable=True) as temporary,
        ):
            with temporary.open("wb") as file:
                write(file, checkpoint, self._identity)
            self._commit_point(f"{point}-written")
        self._commit_point(f"{point}-renamed")
        return path


@contextmanager
def space_in(folder: Path, what: str = "the model", after: str = "the last epoch") -> Iterator[None]:
    """Raises `DiskFull` when the disk of `folder` is full; `after` is where the training then continues."""
    try:
        yield
    except Exception as exc:  # HDF5, TensorFlow and zipfile have errors of their own for it
        if number_of(exc) not in FULL:
            raise
        hint = f"Free space there; `voxelflow runs resume` then continues after {after}."
        raise no_space(folder, what, hint, file_of(exc)) from exc


def _epoch(path: Path) -> int:
    return int(path.stem.split("-")[1])


def write(file: IO[bytes], checkpoint: Checkpoint, identity: str) -> None:
    """Write the checkpoint to an open file."""
    meta = {
        "format": 1,
        "identity": identity,
        "state": asdict(checkpoint.state),
        "sums": asdict(checkpoint.sums),
        "history": [dict(figures) for figures in checkpoint.history],
        "mean": checkpoint.mean,
        "variance": checkpoint.variance,
        "confusion": checkpoint.confusion,
        "roc": checkpoint.roc,
        "mixed_precision": checkpoint.mixed_precision,
    }
    text = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    np.savez(file, allow_pickle=False, **{_META: text}, **checkpoint.arrays)


def read(path: Path, identity: str) -> Checkpoint:
    """Read and verify a checkpoint (each array carries a checksum, weights are finite). Raises `Torn`."""
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays: dict[str, NDArray[Any]] = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop(_META).tobytes())
        if meta["format"] != 1 or meta["identity"] != identity:
            raise Torn(f"{path} belongs to another training")
        if is_dead(arrays):  # those of earlier releases may be
            raise Torn(f"{path} holds weights that are not finite")
        return Checkpoint(
            state=LoaderState(**meta["state"]),
            arrays=arrays,
            mean=tuple(meta["mean"]),
            variance=tuple(meta["variance"]),
            sums=Sums(**meta["sums"]),
            history=tuple(meta["history"]),
            confusion=tuple(tuple(row) for row in meta["confusion"]),
            roc=tuple(tuple(curve) for curve in meta.get("roc", ())),  # not in those of earlier releases
            mixed_precision=meta["mixed_precision"],
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as exc:
        if number_of(exc) in OUT_OF_RESOURCES:
            raise  # nothing is wrong with the file
        raise Torn(f"{path}: {exc}") from exc
