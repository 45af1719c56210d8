"""Batches from a stream: for sources that can only read many rows at a time, one after the other.

The stream is cut into windows of whole batches, and each window is shuffled in memory. A window's
shuffle depends on (seed, epoch, number of the window) alone, so reading can start at any window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.loaders.interface import Batch, Loader
from nodes.loaders.read_ahead import read_ahead
from nodes.loaders.rows import RowNumbers, shuffled

WINDOW_BYTES = 128 << 20
"""Size of a window as float32, when that holds a batch. Three of them are in memory at a time. It is
a constant, not a share of the machine's memory, because the order of the rows depends on it."""


@dataclass(frozen=True)
class Chunk:
    """Rows that come together: their numbers and their stored bytes, uint8 (len(rows), volume bytes)."""

    rows: RowNumbers
    data: NDArray[np.uint8]


def window_rows(loader: Loader) -> int:
    """Rows in a window: whole batches, so that no batch lies across two windows."""
    batch = loader.reading.batch_size
    batch_bytes = 4 * batch * int(np.prod(loader.source.spec.shape))
    return batch * max(1, WINDOW_BYTES // batch_bytes)


def batches_from(
    loader: Loader, chunks: Iterator[Chunk], *, begins_at: int, seed: int, epoch: int, first: int
) -> Iterator[Batch]:
    """The batches of `loader` from step `first` on.

    `chunks` holds the chosen rows in stream order, from row `begins_at` of the stream on, which
    must not lie past the window that holds the first batch.
    """
    for step, window in read_ahead(_windows(loader, chunks, begins_at, seed, epoch, first), 1):
        for number, batch in enumerate(window, step):
            if first <= number < loader.steps:
                yield batch


def _windows(
    loader: Loader, chunks: Iterator[Chunk], begins_at: int, seed: int, epoch: int, first: int
) -> Iterator[tuple[int, list[Batch]]]:
    """(step of its first batch, its batches) for each window that holds a batch that is wanted."""
    size = loader.reading.batch_size
    length = window_rows(loader)
    stream = _Stream(loader.source.where, chunks, begins_at)
    used = min(len(loader), loader.steps * size)
    for number in range(first * size // length, -(-used // length)):
        start = number * length
        count = min(length, len(loader) - start)
        order = shuffled(count, seed, epoch, number) if loader.reading.training else np.arange(count)
        yield start // size, _window(loader, stream, start, order)


def _window(loader: Loader, stream: _Stream, start: int, order: RowNumbers) -> list[Batch]:
    """Read one window: row i of it is row `start + order[i]` of the stream."""
    spec, size = loader.source.spec, loader.reading.batch_size
    mine = [loader.slice(order[at : at + size]) for at in range(0, len(order), size)]
    wanted = np.concatenate(mine)
    # slot[i]: where the window's i-th row in stream order goes; -1 for another rank's rows.
    slot = np.full(len(order), -1, np.int64)
    slot[wanted] = np.arange(len(wanted))
    volumes = np.empty((len(wanted), *spec.shape), np.float32)
    dtype = np.dtype(spec.dtype).newbyteorder("<")
    # float32 is copied as it lies, also from where it is not aligned; anything else is cast.
    plain = dtype == np.dtype("=f4")
    places = volumes.reshape(len(wanted), int(np.prod(spec.shape))).view(np.uint8 if plain else np.float32)
    rows = np.empty(len(wanted), np.int64)
    for at, chunk in stream.take(start, len(order)):
        slots = slot[at - start : at - start + len(chunk.rows)]
        here = slots >= 0
        data = chunk.data if here.all() else chunk.data[here]
        with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, which training reports
            places[slots[here]] = data if plain else data.view(dtype)
        rows[slots[here]] = chunk.rows[here]
    labels = loader.source.rows.labels[rows]
    ends = np.cumsum([len(part) for part in mine])
    return [
        Batch(volumes[end - len(part) : end], labels[end - len(part) : end], rows[end - len(part) : end])
        for part, end in zip(mine, ends, strict=True)
    ]


class _Stream:
    """The chunks, cut where windows end."""

    def __init__(self, where: str, chunks: Iterator[Chunk], begins_at: int) -> None:
        self._where, self._chunks, self._at = where, chunks, begins_at
        self._rest: Chunk | None = None

    def take(self, start: int, count: int) -> Iterator[tuple[int, Chunk]]:
        """Chunks with rows start ... start + count - 1 of the stream, each with the number of its first."""
        while self._at < start + count:
            chunk = self._rest or next(self._chunks, None)
            if chunk is None:
                raise DataError(
                    f"{self._where} ended after {self._at:,} volumes, too early",
                    hint="Something changed its files while they were read. Run again.",
                )
            end = start + count - self._at
            chunk, rest = _cut(chunk, end)
            self._rest = rest if len(rest.rows) else None
            at, self._at = self._at, self._at + len(chunk.rows)
            if self._at > start:
                skip = max(0, start - at)
                yield at + skip, _cut(chunk, skip)[1]


def _cut(chunk: Chunk, at: int) -> tuple[Chunk, Chunk]:
    return Chunk(chunk.rows[:at], chunk.data[:at]), Chunk(chunk.rows[at:], chunk.data[at:])
