"""A small pipeline, exported files run as people run them, and what those have made."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import forked_programs

from engine.export.done import Done

SHAPE = [4, 3, 2, 2]
NODES: list[dict[str, Any]] = [
    {"id": "make", "type": "SyntheticVolumes", "params": {"count": "${count}", "shape": SHAPE, "classes": 3}},
    {"id": "convert", "type": "NumpyToParquet", "params": {"target_file_mb": 1, "row_group_rows": 16}},
    {"id": "table", "type": "ParquetToDelta"},
    {"id": "optimize", "type": "OptimizeDelta", "params": {"target_file_mb": 1}},
    {"id": "split", "type": "SplitDataset", "params": {"validation": 0.3}},
    {"id": "look", "type": "InspectDataset", "params": {"sample": 20}},
]
WIRES = {
    "make.out": "convert.files",
    "convert.out": "table.parquet",
    "table.out": "optimize.table",
    "optimize.out": "split.table",
    "split.train": "look.dataset",
}


def save(folder: Path, *, until: str = "look") -> Path:
    """The pipeline up to one of its nodes."""
    kept = [n["id"] for n in NODES][: [n["id"] for n in NODES].index(until) + 1]
    path = folder / "etl.json"
    document = {
        "schema_version": 1,
        "name": "etl",
        "parameters": {"count": {"value": 60}},
        "nodes": [n for n in NODES if n["id"] in kept],
        "edges": [{"from": a, "to": b} for a, b in WIRES.items() if b.split(".")[0] in kept],
    }
    path.write_text(json.dumps(document))
    return path


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=580,
        env={**os.environ, "PYTHONWARNINGS": "default", **environment},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def run_file(name: str, *arguments: str, folder: Path) -> str:
    """The same of an exported file, forked from a process with our imports."""
    code = f"import runpy, sys; sys.argv = {[name, *arguments]!r}; runpy.run_path({name!r}, run_name='__main__')"
    done = forked_programs.run(code, timeout=580, cwd=folder)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def rows(uri: str) -> dict[str, tuple[float | None, bytes]]:
    """Label and bytes by id. Fails on a doubled id."""
    from deltalake import DeltaTable

    table = DeltaTable(uri).to_pyarrow_table()
    out = {
        i: (label, volume)
        for i, label, volume in zip(*(table[c].to_pylist() for c in ("id", "label", "volume")), strict=True)
    }
    assert len(out) == table.num_rows
    return out


def made(folder: Path, step: str) -> Any:
    """What a step of an exported file made last."""
    return [r for r in Done(folder / "done.json").all() if r.node == step][-1].outputs["out"]
