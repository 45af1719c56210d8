"""What a table holds, as an identity that stays the same when it is only compacted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.storage.find_place import place_at
from nodes.table.log import data_version
from nodes.table.snapshot import load_delta


def identity(path: str, params: Mapping[str, Any]) -> str:
    """The table's id, and the last version up to the parameter `version` (None: the newest) that changed its rows.

    Raises `VoxelflowError` when there is no such table.
    """
    place = place_at(path)
    table = load_delta(place, params.get("version"))
    return f"{table.metadata().id}-{data_version(place, table.version())}"
