"""Which of a model's transforms some data has gone through, and which it has not."""

from __future__ import annotations

import json
from collections.abc import Sequence

from engine.declare.datasets import Transform, words_of
from engine.declare.node_step import node_of
from engine.errors import DataError

_STAYING = frozenset(("channels", "clip", "clip-percentiles", "clip-measured", "normalise", "scale", "cast"))
"""Names of the steps that leave all voxels where they are."""


def remaining(wanted: Sequence[Transform], done: Sequence[Transform]) -> tuple[Transform, ...] | None:
    """The transforms of `wanted` after those that are `done`; None: the data went another way.

    Only what they do counts, and not the words for it.
    """
    before = _identities(done)
    if _identities(wanted)[: len(before)] != before:
        return None
    return tuple(wanted[len(before) :])


def refuse_whole_nodes(missing: Sequence[Transform], model: str, volumes: str) -> None:
    """Raise `DataError` when a node of somebody's own made the model's volumes, which nothing can do to others here.

    `missing` was not done to the volumes yet; `model` and `volumes` name both for people.
    """
    if not any(map(node_of, missing)):
        return
    raise DataError(
        f"{model} was trained on volumes that went through {nodes_in(missing)}, and {volumes} did not; a model cannot"
        " repeat what a node does, so nothing was predicted",
        hint=PREPARE,
    )


def nodes_in(transforms: Sequence[Transform]) -> str:
    """`the node Blur sigma=1.5`, or several."""
    named = [each.words for each in transforms if node_of(each)]
    return f"the node{'s' if len(named) > 1 else ''} {' and '.join(named)}"


PREPARE = (
    "Take the new files through the nodes that prepared the training's volumes, in a pipeline, and predict the table"
    " that comes out with BatchPredict. A table that was made before such nodes were noted is to be made again."
)


def went_another_way(wanted: Sequence[Transform], done: Sequence[Transform]) -> str:
    """What a person should know of data whose volumes were changed in another way than a model's."""
    ways = [way or "nothing" for way in told_apart(wanted, done)]
    return (
        f"the model's volumes went through {ways[0]}, these through {ways[1]}: they are predicted as they are, and the"
        " answers may be wrong"
    )


def told_apart(one: Sequence[Transform], other: Sequence[Transform], *, own_numbers: bool = False) -> tuple[str, str]:
    """The words of two chains that are not the `same_way`, with the difference where the words are equal."""
    first, second = words_of(one), words_of(other)
    if first != second:
        return first, second
    steps, others = (_identities(chain, own_numbers=own_numbers) for chain in (one, other))
    if [what for _, what in steps] != [what for _, what in others]:
        return first, f"{second} with other code or values"
    earlier = "made by an earlier version of Voxelflow"
    is_first = [version for version, _ in steps] < [version for version, _ in others]
    return (f"{first}, {earlier}", second) if is_first else (first, f"{second}, {earlier}")


def same_way(one: Sequence[Transform], other: Sequence[Transform], *, own_numbers: bool = False) -> bool:
    """Whether two chains do the same to volumes, each with the numbers of its own sources where these were measured.

    With `own_numbers` these must be equal too.
    """
    return _identities(one, own_numbers=own_numbers) == _identities(other, own_numbers=own_numbers)


def _identities(chain: Sequence[Transform], *, own_numbers: bool = False) -> list[tuple[int, object]]:
    """Of each step the version, and what it does: both are equal where it does the same after the steps before it."""
    out: list[tuple[int, object]] = []
    stayed = True
    for each in chain:
        version, values = each.version, each.parameters
        if each.name in ("scale", "clip-measured") and values.get("by_source") and not own_numbers:
            # Volumes of another source are changed by its own numbers: that is the same way.
            values = {name: value for name, value in values.items() if name not in ("sources", "offsets", "spreads")}
        if node_of(each):
            # Earlier versions kept a default as its author had written it, 1, where 1.0 was given: that is the same.
            values = {**values, "values": json.loads(values["values"])}
        if each.name == "function" and stayed:
            # Version 1 gave it the affine of before the chain. No step has moved the voxels: version 2 gives the same.
            version = max(version, 2)
        stayed = stayed and each.name in _STAYING
        out.append((version, (each.name, values)))
    return out
