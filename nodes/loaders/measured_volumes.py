"""Some volumes of one source as they enter its statistics: measured in one process, added up in another.

A stretch of the order in which volumes are measured is a file, a row for each source in it. It has a checksum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.storage import arrow_file
from engine.storage.files import whole_file
from nodes.loaders.value_statistics import RANGES, Moments, counts_of, finite
from nodes.transforms.steps import Measured

_COLUMNS = pa.schema([("head", pa.string()), *((name, pa.large_binary()) for name in ("moments", "ranges", "counts"))])


@dataclass(frozen=True)
class Look:
    """What is known of one volume: why it is `refused`, or the moments of each channel, None without finite values."""

    refused: str = ""
    moments: tuple[Moments | None, ...] = ()
    whole: bool = False
    """Whether values are whole numbers."""
    size: int = 0
    """Values, those that are not finite included."""


def channels_of(volume: NDArray[Any], scale: Measured) -> int:
    """How many channels a volume is measured in: all together count as one, unless each is by itself."""
    return volume.shape[3] if scale.by_channel and volume.ndim == 4 else 1


@dataclass
class MeasuredVolumes:
    """Some volumes of one source, one after the other. In memory are the ranges of one at most, 8 MB a channel."""

    looks: list[Look] = field(default_factory=list)
    counts: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    """By the number of channels, of all volumes with so many: counts of each channel, for percentiles."""

    def add(self, volume: NDArray[Any], scale: Measured) -> None:
        """Measure a volume."""
        channels = channels_of(volume, scale)
        values, moments = volume.reshape(-1, channels), list[Moments | None]()
        for channel in range(channels):
            known = finite(values[:, channel])
            moments.append(Moments.of(known) if len(known) else None)
            if len(known) and scale.kind == "percentiles":
                counts = self.counts.setdefault(channels, np.zeros((channels, RANGES), np.int64))
                counts[channel] += counts_of(known)
        self.looks.append(Look("", tuple(moments), volume.dtype.kind in "iu", volume.size))

    def refuse(self, message: str) -> None:
        """Leave out a volume that cannot be read."""
        self.looks.append(Look(message))

    def cells(self) -> dict[str, Any]:
        """A row of the file: of counts only those that are not 0."""
        head = {
            "looks": [[look.refused, len(look.moments), look.whole, look.size] for look in self.looks],
            "counts": [[channels, [int(np.count_nonzero(each)) for each in all_]] for channels, all_ in self._sorted()],
        }
        moments = [each or (0, 0.0, 0.0, 0.0, 0.0) for look in self.looks for each in look.moments]
        ranges = [np.flatnonzero(each) for _, all_ in self._sorted() for each in all_]
        counts = [each[each > 0] for _, all_ in self._sorted() for each in all_]
        return {
            "head": json.dumps(head),
            "moments": np.array(moments, np.float64).tobytes(),
            "ranges": b"".join(each.astype(np.int32).tobytes() for each in ranges),
            "counts": b"".join(each.tobytes() for each in counts),
        }

    def _sorted(self) -> list[tuple[int, NDArray[np.int64]]]:
        return sorted(self.counts.items())

    @classmethod
    def of(cls, row: dict[str, Any]) -> MeasuredVolumes:
        """What `cells` gave. Raises `ValueError` or `KeyError` for something else."""
        head, out = json.loads(row["head"]), cls()
        moments = iter(np.frombuffer(row["moments"], np.float64).reshape(-1, len(Moments._fields)).tolist())
        for refused, channels, whole, size in head["looks"]:
            each = [next(moments) for _ in range(channels)]
            known = tuple(Moments(int(values), *rest) if values else None for values, *rest in each)
            out.looks.append(Look(refused, known, whole, size))
        ranges, counts = np.frombuffer(row["ranges"], np.int32), np.frombuffer(row["counts"], np.int64)
        at = 0
        for channels, lengths in head["counts"]:
            found = out.counts[channels] = np.zeros((channels, RANGES), np.int64)
            for channel, length in enumerate(lengths):
                found[channel, ranges[at : at + length]] = counts[at : at + length]
                at += length
        return out


def write_measured(path: Path, sources: Iterable[MeasuredVolumes]) -> None:
    """Write the file, at once or not at all."""
    with (
        whole_file(path, durable=False) as temporary,
        pa.OSFile(str(temporary), "wb") as file,
        arrow_file.new_file(file, _COLUMNS) as writer,
    ):
        for each in sources:
            writer.write_batch(pa.RecordBatch.from_pylist([each.cells()], _COLUMNS))


def read_measured(path: Path) -> Iterator[MeasuredVolumes]:
    """What the file says of each source in it. Raises `OSError`, and `ValueError` when a byte of it has changed."""
    with pa.OSFile(str(path)) as file:
        reader = arrow_file.open_file(file.read_buffer())
    for number in range(reader.num_record_batches):
        (row,) = reader.get_batch(number).to_pylist()
        yield MeasuredVolumes.of(row)


def is_whole(path: Path) -> bool:
    """Whether the file is there with all its bytes."""
    try:
        with pa.OSFile(str(path)) as file:
            return arrow_file.check(memoryview(file.read_buffer()))
    except (OSError, ValueError):
        return False
