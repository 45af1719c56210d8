"""What Spark tasks give back, in a form that ends the Spark job when it is let go of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar, cast

from engine.context import TaskContext
from engine.failpoints import failpoint
from engine.progress import Meter
from engine.spark.spread import spread

T = TypeVar("T")
R = TypeVar("R")


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
