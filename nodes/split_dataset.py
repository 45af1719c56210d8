"""`SplitDataset`: train, validation and test parts of a table, without copying a byte.

Its problem: VF441 the shares leave nothing to train on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from engine.context import TaskContext
from engine.datasets import Dataset, Preview, Selection, VolumeDelta
from engine.errors import UsageError
from engine.node import Look, node
from engine.parameters import Range

_HINT = "Make validation and test together less than 1."


class Split(NamedTuple):
    """Three references to the same version of the same table; every volume is in exactly one."""

    train: VolumeDelta
    validation: VolumeDelta
    test: VolumeDelta


@node("SplitDataset", version=1, category="Data", anywhere="only names rows")
def split_dataset(
    table: VolumeDelta,
    *,
    validation: Annotated[float, Range(0, 1)] = 0.2,
    test: Annotated[float, Range(0, 1)] = 0.0,
    seed: Annotated[int, Range(0)] = 0,
    ctx: TaskContext,
) -> Split:
    """Split a table into train, validation and test volumes.

    A volume's part follows from its id and the seed alone: it stays where it is when others are
    added, when the table is compacted, and on every machine. The shares are met on average.

    Args:
        table: the volumes to split.
        validation: share of volumes to check the training with.
        test: share of volumes to set aside for the end.
        seed: another seed gives another split.
    """
    if validation + test >= 1:
        raise UsageError(_nothing_left(validation, test), hint=_HINT, parameter="validation")
    # A split of a split must not use the same hash again: its parts would be empty.
    salt = f"voxelflow.split.{seed}.{len(table.selections)}"
    end_of_train, end_of_validation = 1 - validation - test, 1 - test
    split = Split(
        train=table.select(Selection(salt=salt, low=0, high=end_of_train)),
        validation=table.select(Selection(salt=salt, low=end_of_train, high=end_of_validation)),
        test=table.select(Selection(salt=salt, low=end_of_validation, high=1)),
    )
    ctx.facts(train_share=end_of_train, validation_share=validation, test_share=test)
    return split


@split_dataset.preview
def _preview(look: Look) -> Mapping[str, Preview]:
    validation, test = look.params["validation"], look.params["test"]
    if validation + test >= 1:
        look.problem("VF441", _nothing_left(validation, test), hint=_HINT, parameter="validation")
    # A reference counts the volumes of its table, before any selection; so does its preview.
    given = look.inputs.get("table", Preview(kind="VolumeDelta"))
    return dict.fromkeys(Split._fields, given)


@split_dataset.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    from nodes.delta.delta_check import problem_with

    return problem_with(outputs, for_change)


def _nothing_left(validation: float, test: float) -> str:
    return f"a validation share of {validation:g} and a test share of {test:g} leave nothing to train on"
