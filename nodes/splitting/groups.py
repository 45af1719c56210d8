"""Columns that by their names say which volumes belong together."""

from __future__ import annotations

from collections.abc import Iterable

_GROUPS = frozenset(
    f"{who}{behind}"
    for who in ("patient", "subject", "participant", "person", "animal", "specimen", "survey", "well")
    for behind in ("", "_id", "id")
)


def group_column(columns: Iterable[str]) -> str:
    """The column that by its name says which volumes belong together; "" for none."""
    return next((name for name in columns if name.lower().replace("-", "_").replace(" ", "_") in _GROUPS), "")
