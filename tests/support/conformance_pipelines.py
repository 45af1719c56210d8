"""Pipelines in front of a node that is tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from building import box, pipeline
from volumes import write_volumes

from engine.document.pipeline import Node, Pipeline

SHAPE = (12, 12, 8, 2)


def converted(tmp_path: Path, *behind: Node, wires: str, count: int = 300, shape: tuple[int, ...] = SHAPE) -> Pipeline:
    """Volumes in Parquet parts (three hundred in several), and the nodes behind them."""
    write_volumes(tmp_path / "volumes", count, shape=shape)
    return pipeline(
        box("folder", "VolumeFolder", folder=str(tmp_path / "volumes")),
        box("convert", "NumpyToParquet", target_file_mb=1),
        *behind,
        wires=f"folder.out>convert.files {wires}",
    )


def in_a_table(tmp_path: Path, *behind: Node, wires: str, **volumes: Any) -> Pipeline:
    """The same in a Delta table, and the nodes behind it."""
    wires = f"convert.out>table.parquet {wires}"
    return converted(tmp_path, box("table", "ParquetToDelta"), *behind, wires=wires, **volumes)
