"""What the engine finds out of a table or folder before a run, and ParquetFolder's volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npy_folders import context

from engine.declare.check_context import CheckContext
from engine.declare.datasets import VolumeParquet
from engine.declare.node_type import NodeType
from engine.observe.paths import find_path
from nodes.parquet_folder import parquet_folder


def looked_at(node: NodeType[Any, Any], base: Path, **params: Any) -> CheckContext:
    """What the engine finds out before a run; the preview is the input `made`."""
    (parameter,) = (p for p in node.parameters if p.path_in is not None)
    assert parameter.path_in is not None
    values = {p.name: p.default for p in node.parameters if not p.required} | params
    base.mkdir(exist_ok=True)
    found = find_path(params[parameter.name], parameter.path_in, base, params=values)
    look = CheckContext(params=values, paths={parameter.name: found})
    assert node.scan_hook is not None
    assert node.preview_hook is not None
    look.facts = node.scan_hook(look)
    look.inputs = {"made": node.preview_hook(look)}
    return look


def take_parquet(folder: Path, base: Path, **params: Any) -> VolumeParquet:
    found = looked_at(parquet_folder, base, folder=str(folder), **params).paths["folder"]
    ctx = context(base, "it", found.digest, inputs_found={"folder": Path(found.manifest)})
    return parquet_folder(folder=str(folder), **params, ctx=ctx)
