"""Folders of volumes, and what the engine knows of them before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from npy_folders import look
from numpy.typing import NDArray

from engine.declare.check_context import CheckContext
from engine.declare.datasets import Preview
from nodes.volume_folder import volume_folder


def volumes(count: int, seed: int = 3) -> list[NDArray[Any]]:
    random = np.random.default_rng(seed)
    return [random.integers(0, 1_000, (4, 3, 2)).astype(np.int16) for _ in range(count)]


def looked_at(root: Path, base: Path, **params: Any) -> tuple[CheckContext, Preview]:
    """What the engine knows of the folder before a run."""
    out = CheckContext(params={"folder": str(root), **params}, paths={"folder": look(root, base, **params)})
    assert volume_folder.scan_hook is not None
    assert volume_folder.preview_hook is not None
    out.facts = volume_folder.scan_hook(out)
    return out, volume_folder.preview_hook(out)
