"""Checkpoints: all that a training needs to go on exactly where it stood.

A checkpoint is one `.npz` file (NumPy arrays, no pickle) that appears whole or not at all: written
aside, flushed to the disk, renamed. The newest are kept (two of them unless told otherwise); when the newest is
damaged after all, the one before it is used. The weights of the best epoch are a file of their own, `best-E.npz`,
which is kept as long as a checkpoint counts on it: it is written before the checkpoint of that epoch's end.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import socket
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

from engine.errors import DiskFull, ExecutionError
from nodes.durable_files import flush, place
from nodes.loaders.interface import LoaderState
from nodes.training.history import Judge, best_epoch
from nodes.training.running_sums import NOTHING, Sums
from nodes.training.scores import Confusion

Arrays = dict[str, NDArray[Any]]
"""Weights and optimizer variables by name."""

KEPT = 2
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_META = "meta"


@dataclass(frozen=True)
class Checkpoint:
    """`state` tells the next batch; `sums` are those of the epoch so far, `history` the figures of finished epochs.

    `mean` and `variance` are the input normalisation that the weights were trained with, `mixed_precision` is what was
    decided before the first step (None: not yet). `confusion` is that of the last finished epoch's validation.
    """

    state: LoaderState
    arrays: Arrays
    mean: tuple[float, ...]
    variance: tuple[float, ...]
    sums: Sums = NOTHING
    history: tuple[Mapping[str, float], ...] = ()
    confusion: Confusion = ()
    mixed_precision: bool | None = None

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


class Torn(Exception):
    """The file is no whole checkpoint, or one of another training."""


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
        weights = {name: array for name, array in checkpoint.arrays.items() if name.startswith("weight-")}
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
        partial = self._folder / ".best.partial"
        partial.unlink(missing_ok=True)
        place(path, partial, "link")
        partial.replace(self.best_path(checkpoint))
        # Renaming one link of a file to another link of it does nothing, not even remove the first.
        partial.unlink(missing_ok=True)

    def standing(self) -> LoaderState | None:
        """Where the newest checkpoint stands, by its name; nothing is read. Its seed is not known."""
        for path in self._paths()[:1]:
            _, epoch, step = path.stem.split("-")
            return LoaderState(0, int(epoch), int(step))
        return None

    def path_of(self, checkpoint: Checkpoint) -> Path:
        state = checkpoint.state
        return self._folder / f"checkpoint-{state.epoch:06d}-{state.step:09d}.npz"

    def newest(self) -> Checkpoint | None:
        """The newest whole checkpoint; half-written ones are removed, damaged ones passed over."""
        for left_over in self._folder.glob("*.partial"):
            left_over.unlink()
        for path in self._paths():
            try:
                return read(path, self._identity)
            except Torn:
                continue
        return None

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("checkpoint-*.npz"), reverse=True)

    def _write(self, path: Path, checkpoint: Checkpoint, point: str) -> Path:
        # A worker on another machine may still be writing when its training is started anew.
        temporary = path.with_suffix(f".{socket.gethostname()}.{os.getpid()}.partial")
        standing = self.standing()
        after = f"epoch {standing.epoch}, step {standing.step}" if standing else "the beginning"
        try:
            with room_in(self._folder, f"a checkpoint of {checkpoint.bytes / 1e6:,.1f} MB", after):
                with temporary.open("wb") as file:
                    write(file, checkpoint, self._identity)
                self._commit_point(f"{point}-written")
                temporary.replace(path)
                flush([self._folder])
        except (OSError, DiskFull):
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        self._commit_point(f"{point}-renamed")
        return path


@contextmanager
def room_in(folder: Path, what: str = "the model", after: str = "the last epoch") -> Iterator[None]:
    """Raises `DiskFull` when the disk of `folder` is full; `after` is where the training stands then."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in _NO_ROOM:
            raise
        free = shutil.disk_usage(folder).free
        raise DiskFull(
            f"the disk of {folder} has no room for {what}: {free / 1e6:,.1f} MB are free",
            hint=f"Make room there; `voxelflow runs resume` then goes on after {after}.",
        ) from exc


def _epoch(path: Path) -> int:
    return int(path.stem.split("-")[1])


def write(file: IO[bytes], checkpoint: Checkpoint, identity: str) -> None:
    """Write the checkpoint to an open file and wait until it is on the disk."""
    meta = {
        "format": 1,
        "identity": identity,
        "state": asdict(checkpoint.state),
        "sums": asdict(checkpoint.sums),
        "history": [dict(figures) for figures in checkpoint.history],
        "mean": checkpoint.mean,
        "variance": checkpoint.variance,
        "confusion": checkpoint.confusion,
        "mixed_precision": checkpoint.mixed_precision,
    }
    text = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    np.savez(file, allow_pickle=False, **{_META: text}, **checkpoint.arrays)
    file.flush()
    os.fsync(file.fileno())


def read(path: Path, identity: str) -> Checkpoint:
    """Read and verify a checkpoint (each array carries a checksum). Raises `Torn`."""
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays: dict[str, NDArray[Any]] = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop(_META).tobytes())
        if meta["format"] != 1 or meta["identity"] != identity:
            raise Torn(f"{path} belongs to another training")
        return Checkpoint(
            state=LoaderState(**meta["state"]),
            arrays=arrays,
            mean=tuple(meta["mean"]),
            variance=tuple(meta["variance"]),
            sums=Sums(**meta["sums"]),
            history=tuple(meta["history"]),
            confusion=tuple(tuple(row) for row in meta["confusion"]),
            mixed_precision=meta["mixed_precision"],
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as exc:
        raise Torn(f"{path}: {exc}") from exc
