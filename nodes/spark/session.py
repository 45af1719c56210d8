"""What a task asks of Spark and Delta: statements, settings for a block, results of tasks, a table's history."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from engine.declare.context import TaskContext
from engine.declare.progress import Meter
from engine.errors import DataError, TableConflict
from engine.failpoints import failpoint
from engine.spark.failures import damaged_file, is_spark_error, spark_error
from engine.spark.progress import following
from engine.spark.spread import spread
from nodes.table.snapshot import local_folder

T = TypeVar("T")
R = TypeVar("R")
_SHOWN = 5
_FIGURES = ("numAddedFiles", "numRemovedFiles", "numOutputRows", "numDeletedRows", "numConvertedFiles")


def sql(ctx: TaskContext, text: str, label: str) -> list[Any]:
    """The statement's rows; see `rows`."""
    return rows(ctx, lambda: ctx.spark.sql(text), label)


def rows(ctx: TaskContext, ask: Callable[[], DataFrame], label: str) -> list[Any]:
    """What Spark answers. Its jobs are the task's progress, called `label`, and end with it.

    Raises `TableConflict` when another writer was faster, `DataError` for a damaged file, else what Spark raises.
    """
    with following(ctx, label):
        try:
            return list(ask().collect())
        except Exception as exc:
            if is_spark_error(exc) and "Concurrent" in str(exc):
                message = f"another program committed first: {spark_error(exc).message}"
                raise TableConflict(message, hint="Run it again.") from exc
            if is_spark_error(exc) and (file := damaged_file(exc)):
                raise DataError(
                    f"{file} is damaged: a page does not match its checksum",
                    hint="`voxelflow verify` of the table lists all damage and says what to do.",
                ) from exc
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


def results(
    ctx: TaskContext, items: Sequence[T], work: Callable[[T], R], *, meter: Meter, amount: Callable[[T], int]
) -> Generator[tuple[int, R], None, None]:
    """`engine.spark.spread`, as a generator to close: an error in its reader's loop ends the job at once."""
    spreading = spread(ctx, items, work, meter=meter, amount=amount)
    with contextlib.closing(cast("Generator[tuple[int, R], None, None]", spreading)) as found:
        yield from found


def executor_point(name: str) -> None:
    """A commit point passed on an executor, whose kill must not matter: `executor:NAME` among the failpoints."""
    failpoint(f"executor:{name}")


def since(uri: str, version: int, ctx: TaskContext) -> list[str]:
    """One line a commit after `version`, the newest first, up to five. Empty when there is no history to read."""
    try:
        commits = rows(ctx, lambda: delta_table(ctx, local_folder(uri)).history(_SHOWN), "reading the history")
    except Exception as exc:
        # It explains another event; that it cannot is no event.
        if not is_spark_error(exc):
            raise
        return []
    return [_line(row) for row in commits if row["version"] > version]


def _line(row: Any) -> str:
    figures = row["operationMetrics"] or {}
    shown = ", ".join(f"{name} {figures[name]}" for name in _FIGURES if name in figures)
    by = row["engineInfo"] or "an unknown program"
    return f"version {row['version']}: {row['operation']} by {by} at {row['timestamp']:%H:%M:%S}" + (
        f" ({shown})" if shown else ""
    )
