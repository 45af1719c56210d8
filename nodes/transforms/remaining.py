"""Which of a model's transforms some data has gone through, and which it has not."""

from __future__ import annotations

from collections.abc import Sequence

from engine.declare.datasets import Transform, words_of


def remaining(wanted: Sequence[Transform], done: Sequence[Transform]) -> tuple[Transform, ...] | None:
    """The transforms of `wanted` behind those that are `done`; None: the data went another way.

    Only what they do counts, and not the words for it.
    """
    before = [_identity(each) for each in done]
    if [_identity(each) for each in wanted[: len(before)]] != before:
        return None
    return tuple(wanted[len(before) :])


def went_another_way(wanted: Sequence[Transform], done: Sequence[Transform]) -> str:
    """What a person should know of data whose volumes were changed in another way than a model's."""
    ways = [words_of(each) or "nothing" for each in (wanted, done)]
    return (
        f"the model's volumes went through {ways[0]}, these through {ways[1]}: they are predicted as they are, and the"
        " answers may be wrong"
    )


def _identity(each: Transform) -> tuple[object, ...]:
    return each.name, each.version, each.parameters
