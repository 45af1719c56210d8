"""Tables as other programs write them, and what ConvertTable makes of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from npy_folders import context, parts_of, rows
from numpy.typing import NDArray

from engine.declare.check_context import CheckContext
from engine.declare.context import Resources
from engine.declare.datasets import VolumeParquet
from engine.declare.events import Event, Message
from engine.observe.paths import find_path
from nodes.convert_table import convert_table

SHAPE = (4, 3, 2)
Volumes = dict[str, NDArray[np.float32]]
Encode = Callable[[NDArray[Any]], Any]


def some(count: int, first: int = 0, shape: tuple[int, ...] = SHAPE) -> Volumes:
    random = np.random.default_rng(first)
    return {f"p{n:03d}": random.normal(size=shape).astype("float32") for n in range(first, first + count)}


def nested(kind: pa.DataType, axes: int = 3) -> pa.DataType:
    for _ in range(axes):
        kind = pa.list_(kind)
    return kind


LISTS = nested(pa.float32())


def table_of(volumes: Volumes, encode: Encode = np.ndarray.tolist, kind: pa.DataType = LISTS) -> pa.Table:
    """Volumes as another program has them: under other names, with text labels and a column of its own."""
    count = len(volumes)
    return pa.table(
        {
            "name": list(volumes),
            "class": ["salt" if n % 2 else "fault" for n in range(count - 1)] + [None],
            "well": pa.array([n // 4 for n in range(count)], pa.int32()),
            "image": pa.array([encode(v) for v in volumes.values()], kind),
        }
    )


def by_petastorm(codec: str) -> Encode:
    """What petastorm's own codec makes of an array."""

    def encode(volume: NDArray[Any]) -> bytes:
        importlib.import_module("nodes.loaders.petastorm_bridge")  # lets petastorm be imported
        from petastorm import codecs
        from petastorm.unischema import UnischemaField

        made = getattr(codecs, codec)()
        return bytes(made.encode(UnischemaField("volume", volume.dtype.type, volume.shape, made, False), volume))

    return encode


def look(base: Path, table: str | Path, **params: Any) -> CheckContext:
    """What the engine finds out before a run; the preview is the input `made`."""
    (wanted,) = (p.path_in for p in convert_table.parameters if p.path_in is not None)
    values = {p.name: p.default for p in convert_table.parameters if not p.required} | params | {"table": str(table)}
    found = CheckContext(params=values, paths={"table": find_path(str(table), wanted, base, params=values)})
    assert convert_table.scan_hook is not None
    assert convert_table.preview_hook is not None
    found.facts = convert_table.scan_hook(found)
    found.inputs = {"made": convert_table.preview_hook(found)}
    return found


def run(
    base: Path, table: str | Path, number: int = 1, previous: VolumeParquet | None = None, cores: int = 2, **params: Any
) -> tuple[VolumeParquet, list[str]]:
    """The result, and what was reported on the way."""
    said: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Message):
            said.append(event.text)

    before = {"out": previous} if previous else {}
    ctx = context(base, "it", f"{number:016d}", previous=before, emit=hear, resources=Resources(cores=cores))
    return convert_table(table=str(table), **params, ctx=ctx), said


def bytes_in(out: VolumeParquet) -> dict[str, bytes]:
    return {name: data for name, (_, data) in rows(out).items()}


def as_bytes(volumes: Volumes) -> dict[str, bytes]:
    return {name: volume.tobytes() for name, volume in volumes.items()}


def stored_columns(out: VolumeParquet) -> dict[str, dict[str, Any]]:
    """Each row's values by its id."""
    stored = pa.concat_tables([pq.read_table(Path(out.uri) / p.path) for p in parts_of(out).parts])
    return {row.pop("id"): row for row in stored.drop_columns("volume").to_pylist()}
