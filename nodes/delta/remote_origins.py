"""Which files a compacted file of a table in object storage was made of, down to those that ParquetToDelta uploaded.

A small object beside the log, `_voxelflow/origins/NAME.json`, written before the commit that adds the file. The
file's name tells its content, so what stands there is true of it for good, whoever wrote it and however often.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from engine.storage.objects import RemotePath
from engine.table_lock import INTERNALS


def origins_of(root: RemotePath, name: str) -> tuple[str, ...] | None:
    """The names of the files that were uploaded; None when nobody knows."""
    try:
        return tuple(map(str, json.loads(_place(root, name).read_bytes())))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_origins(root: RemotePath, name: str, origins: Sequence[str]) -> None:
    _place(root, name).write_bytes(json.dumps(list(origins)).encode())


def _place(root: RemotePath, name: str) -> RemotePath:
    return root / INTERNALS / "origins" / f"{name}.json"
