"""A node as a person writes it into `my_nodes`, with a field type of its own."""

from __future__ import annotations

from typing import Annotated

from engine.declare.context import TaskContext
from engine.declare.datasets import Report
from engine.declare.node import node
from engine.declare.parameters import Advanced, Pattern, Range, Step, Unit

Day = Annotated[str, Pattern(r"\d{4}-\d{2}-\d{2}", help="a date like 2026-01-31")]
Share = Annotated[float, Range(0, 100), Step(5), Unit("%")]


@node("SinceThen", version=1, category="Mine")
def since_then(
    *,
    day: Day = "2026-01-31",
    days: tuple[Day, ...] = (),
    until: Annotated[Day | None, Advanced()] = None,
    share: Share = 20.0,
    ctx: TaskContext,
) -> Report:
    """Take what is newer than a day.

    Args:
        day: the first one to be taken.
    """
    raise NotImplementedError
