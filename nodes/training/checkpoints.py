"""Checkpoints: all that a training needs to go on exactly where it stood.

A checkpoint is one `.npz` file (NumPy arrays, no pickle) that appears whole or not at all: written
aside, flushed to the disk, renamed. The newest two are kept; when the newest is damaged after all,
the one before it is used.
"""

from __future__ import annotations

import json
import os
import socket
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nodes.durable_files import flush
from nodes.loaders.interface import LoaderState
from nodes.training.running_sums import NOTHING, Sums

Arrays = dict[str, NDArray[Any]]
"""Weights and optimizer variables by name."""

KEPT = 2
_META = "meta"


@dataclass(frozen=True)
class Checkpoint:
    """`state` tells the next batch; `sums` are those of the epoch so far, `history` the figures of finished epochs.

    `mean` and `variance` are the input normalisation that the weights were trained with.
    """

    state: LoaderState
    arrays: Arrays
    mean: tuple[float, ...]
    variance: tuple[float, ...]
    sums: Sums = NOTHING
    history: tuple[Mapping[str, float], ...] = ()


class Torn(Exception):
    """The file is no whole checkpoint, or one of another training."""


class Checkpoints:
    """The checkpoints of one training in `folder`.

    `identity` says what training they belong to: others are not taken up. `every_s` is the least time
    between two checkpoints within an epoch.
    """

    def __init__(
        self, folder: Path, identity: str, *, every_s: float, commit_point: Callable[[str], None] = lambda name: None
    ) -> None:
        self._folder, self._identity, self._every_s, self._commit_point = folder, identity, every_s, commit_point
        self._saved_at = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)

    def due(self) -> bool:
        return time.monotonic() - self._saved_at >= self._every_s

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write it, then drop all but the newest two."""
        path = self.path_of(checkpoint)
        # A worker on another machine may still be writing when its training is started anew.
        temporary = path.with_suffix(f".{socket.gethostname()}.{os.getpid()}.partial")
        with temporary.open("wb") as file:
            write(file, checkpoint, self._identity)
        self._commit_point("train:checkpoint-written")
        temporary.replace(path)
        flush([self._folder])
        self._commit_point("train:checkpoint-renamed")
        for old in self._paths()[KEPT:]:
            old.unlink()
        self._saved_at = time.monotonic()
        return path

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
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as exc:
        raise Torn(f"{path}: {exc}") from exc
