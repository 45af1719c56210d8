"""Pipelines for clusters: a folder of volumes through the storage nodes, and the table's rows to compare with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from waiting import wait_until

from engine.document.pipeline import Edge, Node, Pipeline
from engine.store.runs import RunStore

SHAPE = (32, 32, 4, 4)
"""64 kB a volume: 15 in a part of 1 MB."""


def folder_of(root: Path, count: int, first: int = 0) -> dict[str, bytes]:
    """A folder of volumes, all different, in two classes; their bytes by id."""
    root.mkdir()
    rng = np.random.default_rng(first)
    out: dict[str, bytes] = {}
    for number in range(first, first + count):
        volume = rng.random(SHAPE, np.float32)
        np.save(root / f"v{number:04d}.npy", volume)
        out[f"v{number:04d}.npy"] = volume.tobytes()
    lines = [f"{name},{number % 2}" for number, name in enumerate(out)]
    (root / "labels.csv").write_text("file,label\n" + "\n".join(lines) + "\n")
    return out


def etl(source: Path, *, table: str = "", optimize_mb: int = 3) -> Pipeline:
    return Pipeline(
        name=f"etl-{source.name}",
        nodes=[
            Node(id="volumes", type="VolumeFolder", params={"folder": str(source)}),
            Node(id="convert", type="NumpyToParquet", params={"target_file_mb": 1}),
            Node(id="table", type="ParquetToDelta", params={"table": table}),
            Node(id="optimize", type="OptimizeDelta", params={"target_file_mb": optimize_mb}),
        ],
        edges=[
            Edge.model_validate({"from": a, "to": b})
            for a, b in (
                ("volumes.out", "convert.files"),
                ("convert.out", "table.parquet"),
                ("table.out", "optimize.table"),
            )
        ],
    )


def rows(uri: str) -> dict[str, bytes]:
    """Bytes by id of the newest version. Fails on a doubled id."""
    from deltalake import DeltaTable

    found = DeltaTable(uri).to_pyarrow_table(columns=["id", "volume"])
    out = dict(zip(found["id"].to_pylist(), found["volume"].to_pylist(), strict=True))
    assert len(out) == found.num_rows
    return out


def soon(there: Callable[[], Any], what: str, store: RunStore, run_id: str, *, pause_s: float = 0.02) -> Any:
    """Wait for something to become true, as long as the run lives, looking every `pause_s` seconds."""

    def details() -> str:
        failures = [event for _, event in store.events(run_id, kinds=("failure",))]
        return f"never seen: {what}; the run is {store.run(run_id).state}: {failures}"

    def found() -> Any:
        was_active = store.run(run_id).active
        out = there()
        assert out or was_active, details()
        return out

    return wait_until(found, what, 500, details=details, pause_s=pause_s)


def sizes_below(folder: Path, suffix: str) -> list[int]:
    """In bytes, of files below a folder where others write: what goes while it is looked for is left out."""
    sizes = []
    # Not glob, which fails when a folder goes that it is about to list.
    for at, _, names in os.walk(folder):
        for name in names:
            if name.endswith(suffix):
                with suppress(FileNotFoundError):
                    sizes.append(os.stat(os.path.join(at, name)).st_size)
    return sizes
