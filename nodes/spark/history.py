"""What was done to a table, as Delta's history tells it."""

from __future__ import annotations

from typing import Any

from engine.context import TaskContext
from engine.spark.failures import is_sparks
from nodes.delta.delta_table import local_folder
from nodes.spark.statements import delta_table, rows

SHOWN = 5
_FIGURES = ("numAddedFiles", "numRemovedFiles", "numOutputRows", "numDeletedRows", "numConvertedFiles")


def since(uri: str, version: int, ctx: TaskContext) -> list[str]:
    """One line a commit after `version`, the newest first, up to `SHOWN`. Empty when there is no history to read."""
    try:
        commits = rows(ctx, lambda: delta_table(ctx, local_folder(uri)).history(SHOWN), "reading the history")
    except Exception as exc:
        # It explains another event; that it cannot is no event.
        if not is_sparks(exc):
            raise
        return []
    return [_line(row) for row in commits if row["version"] > version]


def _line(row: Any) -> str:
    figures = row["operationMetrics"] or {}
    told = ", ".join(f"{name} {figures[name]}" for name in _FIGURES if name in figures)
    by = row["engineInfo"] or "an unknown program"
    return f"version {row['version']}: {row['operation']} by {by} at {row['timestamp']:%H:%M:%S}" + (
        f" ({told})" if told else ""
    )
