"""What Spark and Delta are asked as part of a task, and settings of the session for the length of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from engine.context import TaskContext
from engine.errors import TableConflict
from engine.spark.failures import is_sparks, told
from engine.spark.progress import following


def sql(ctx: TaskContext, text: str, label: str) -> list[Any]:
    """The statement's rows; see `rows`."""
    return rows(ctx, lambda: ctx.spark.sql(text), label)


def rows(ctx: TaskContext, ask: Callable[[], DataFrame], label: str) -> list[Any]:
    """What Spark answers. Its jobs are the task's progress, called `label`, and end with it.

    Raises `TableConflict` when another writer was faster, else what Spark raises.
    """
    with following(ctx, label):
        try:
            return list(ask().collect())
        except Exception as exc:
            if is_sparks(exc) and "Concurrent" in str(exc):
                message = f"another program committed first: {told(exc).message}"
                raise TableConflict(message, hint="Run it again.") from exc
            raise


def delta_table(ctx: TaskContext, folder: Path) -> DeltaTable:
    """The table in a folder, as Delta's own Python sees it."""
    return DeltaTable.forPath(ctx.spark, str(folder))


@contextlib.contextmanager
def settings(ctx: TaskContext, values: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings. The tasks of a run take turns, so nobody else sees them."""
    conf = ctx.spark.conf
    before = {name: conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                conf.unset(name)
            else:
                conf.set(name, old)


def table_name(folder: Path, provider: str = "delta") -> str:
    """How SQL names the table in a folder."""
    path = str(folder).replace("`", "``")
    return f"{provider}.`{path}`"


def text_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
