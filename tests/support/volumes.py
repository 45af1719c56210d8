"""Labelled volumes for tests, and reading tables back through several readers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from building import box, pipeline

from engine.document.pipeline import Pipeline


def write_volumes(
    folder: Path,
    count: int,
    *,
    shape: tuple[int, ...] = (6, 6, 4, 2),
    dtype: str = "float32",
    classes: int = 2,
    first: int = 0,
) -> dict[str, np.ndarray]:
    """Write `count` volumes whose mean tells their class, with `labels.csv`. Gives them by id."""
    folder.mkdir(parents=True, exist_ok=True)
    out = {}
    for i in range(first, first + count):
        rng = np.random.default_rng(i)
        volume = rng.normal(size=shape) * 20 + 60 * (i % classes)
        volume = volume.astype(dtype)
        np.save(folder / f"{i:05d}.npy", volume)
        out[f"{i:05d}.npy"] = volume
    with (folder / "labels.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["file", "label"])
        writer.writerows((p.name, int(p.stem) % classes) for p in sorted(folder.glob("*.npy")))
    return out


def rows_by_pyarrow(uri: str, version: int | None = None) -> list[tuple[str, float | None, bytes]]:
    """All rows (id, label, bytes), sorted, through pyarrow's dataset reader."""
    from deltalake import DeltaTable

    table = DeltaTable(uri, version=version).to_pyarrow_dataset().to_table()
    return sorted(zip(*(table[c].to_pylist() for c in ("id", "label", "volume")), strict=True))


def rows_by_polars(uri: str, version: int | None = None) -> list[tuple[str, float | None, bytes]]:
    """The same through polars' own Parquet reader."""
    import polars

    frame = polars.scan_delta(uri, version=version).select("id", "label", "volume").collect()
    return sorted(frame.rows())


def expected_rows(volumes: dict[str, np.ndarray]) -> list[tuple[str, float, bytes]]:
    """The rows of a table of these volumes, with the labels that `write_volumes` gives them."""
    return sorted((name, float(int(Path(name).stem) % 2), volume.tobytes()) for name, volume in volumes.items())


def etl(source: Path | str, *, table: str = "", name: str = "etl", **options: Any) -> Pipeline:
    """From files to an optimised table; `options` are the converter's, but for `vacuum`."""
    vacuum = {"vacuum": True} if options.pop("vacuum", False) else {}
    return pipeline(
        box("folder", "VolumeFolder", folder=str(source)),
        box("convert", "NumpyToParquet", **{"target_file_mb": 1} | options),
        box("table", "ParquetToDelta", **{"table": table} if table else {}),
        box("optimize", "OptimizeDelta", target_file_mb=3, **vacuum),
        wires="folder.out>convert.files convert.out>table.parquet table.out>optimize.table",
        name=name,
    )
