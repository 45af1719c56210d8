"""Node types of a person's own, to export without the built-in ones."""

from __future__ import annotations

import pytest

from engine.catalog import Catalog, build_catalog
from engine.workspace import Workspace, trust

MINE = '''
from typing import Annotated, NamedTuple

from voxelflow import PathIn, Range, Report, TaskContext, node


class Halves(NamedTuple):
    left: Report
    right: Report


@node("Words", version=1, category="Mine", anywhere="writes a line")
def words(
    *,
    text: str = "one",
    times: Annotated[int, Range(1, 9)] = 1,
    share: Annotated[float, Range(0, 1)] = 0.5,
    seed: int = 0,
    shape: tuple[int, ...] = (2, 3),
    loud: bool = False,
    source: Annotated[str, PathIn("file")] = "",
    ctx: TaskContext,
) -> Halves:
    """Write words."""
    out = []
    for side in ("left", "right"):
        path = ctx.out / f"{side}.txt"
        path.write_text(f"{side} {text!r} {times} {share} {seed} {shape} {loud} {ctx.seed}\\n")
        out.append(Report(uri=str(path)))
    return Halves(*out)


@node("Join", version=1, category="Mine")
def join(one: Report, other: Report | None = None, *, ctx: TaskContext) -> Report:
    """Join reports."""
    from pathlib import Path

    path = ctx.out / "joined.txt"
    path.write_text("".join(Path(r.uri).read_text() for r in (one, other) if r))
    return Report(uri=str(path))


@join.on("spark")
def _(one: Report, other: Report | None = None, *, ctx: TaskContext) -> Report:
    raise AssertionError("not in these tests")
'''


@pytest.fixture
def mine(workspace: Workspace) -> Catalog:
    """A catalogue with the nodes above, in a file of the workspace."""
    (workspace.my_nodes / "mine.py").write_text(MINE)
    trust(workspace)
    return build_catalog((), workspace)
