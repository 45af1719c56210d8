"""Volumes to cut, CutVolumes run on them without an engine, and what NumPy would cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from npy_folders import context, reasons, take
from numpy.typing import NDArray

from engine.declare.context import Resources
from engine.declare.datasets import Dataset, VolumeParquet
from engine.declare.events import Event, Message
from nodes.cut_volumes import cut_volumes
from nodes.volume_file.parts import read_parts


def cut(
    root: Path,
    base: Path,
    *,
    previous: Dataset | None = None,
    messages: list[str] | None = None,
    source: Mapping[str, Any] | None = None,
    memory_bytes: int = 1 << 30,
    **params: Any,
) -> VolumeParquet:
    """List `root` and run CutVolumes on it; what it reports goes to `messages`. `source` are VolumeFolder's."""
    files = take(root, base, **source or {})

    def hear(event: Event) -> None:
        if isinstance(event, Message) and messages is not None:
            messages.append(event.text)

    ctx = context(
        base,
        "cut",
        Path(files.manifest).parent.name.ljust(32, "0"),
        previous={"out": previous} if previous else {},
        emit=hear,
        resources=Resources(cores=2, memory_bytes=memory_bytes),
    )
    return cut_volumes(files, **params, ctx=ctx)


def rows_of(dataset: VolumeParquet) -> dict[str, dict[str, Any]]:
    """The rows by id, the volume as an array. Fails on a doubled id."""
    assert dataset.spec is not None
    out: dict[str, dict[str, Any]] = {}
    for part in read_parts(dataset).parts:
        for row in pq.read_table(Path(dataset.uri) / part.path, partitioning=None).to_pylist():
            assert row["id"] not in out, row["id"]
            dtype = np.dtype(dataset.spec.dtype).newbyteorder("<")
            out[row["id"]] = row | {"volume": np.frombuffer(row["volume"], dtype).reshape(dataset.spec.shape)}
    return out


def sliced(
    volume: NDArray[Any], size: tuple[int, ...], stride: tuple[int, ...], edges: str = "drop"
) -> Iterator[tuple[tuple[int, int, int], NDArray[Any]]]:
    """The patches as NumPy's slices and pads give them: first voxel and voxels, with an axis of channels."""
    volume = volume if volume.ndim == 4 else volume[..., None]
    starts = []
    for length, wide, step in zip(volume.shape, size, stride, strict=False):
        found = [0] if edges != "drop" else []
        if length >= wide:
            found = list(range(0, length - wide + 1, step))
            if edges != "drop" and found[-1] + wide < length and found[-1] + step < length:
                found.append(found[-1] + step)
        starts.append(found)
    for x in starts[0]:
        for y in starts[1]:
            for z in starts[2]:
                patch = volume[x : x + size[0], y : y + size[1], z : z + size[2]]
                beyond = [(0, wide - have) for wide, have in zip(size, patch.shape, strict=False)]
                yield (x, y, z), np.pad(patch, [*beyond, (0, 0)], mode="edge" if edges == "repeat" else "constant")


def parts(dataset: VolumeParquet) -> dict[str, int]:
    """The files of a dataset with the time at which they were made."""
    return {part.path: (Path(dataset.uri) / part.path).stat().st_mtime_ns for part in read_parts(dataset).parts}


def add_up(dataset: VolumeParquet) -> None:
    """Fail unless every patch that there was is in the dataset, quarantined with its reason, or left out."""
    assert dataset.found == dataset.count + dataset.quarantined + dataset.left_out
    assert dataset.quarantined == len(reasons(dataset))


def volume_of(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> NDArray[Any]:
    """Random values from 0 to 100."""
    return (100 * np.random.default_rng(seed).random(shape)).astype(dtype)
