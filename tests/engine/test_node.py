from __future__ import annotations

from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.context import TaskContext
from engine.datasets import Report, VolumeDelta, VolumeFiles, VolumeParquet
from engine.errors import DeclarationError
from engine.node import NodeType, node
from engine.parameters import (
    Extendable,
    Parameter,
    PathIn,
    Policy,
    Range,
    Secret,
    Unit,
    parameter_from_annotation,
    read_value,
)


@node("Example", version=3, category="Tests", imports=("json",), mutates="table")
def example(
    table: VolumeDelta,
    other: VolumeParquet | VolumeFiles | None = None,
    *,
    size: Annotated[int, Range(1, 10), Unit("MB")] = 4,
    mode: Literal["a", "b"] = "a",
    shape: tuple[int, ...] = (1, 2),
    folder: Annotated[str, PathIn("folder", "*.npy")],
    token: Annotated[str, Secret()] = "",
    epochs: Annotated[int, Extendable()] = 1,
    threads: Annotated[int | None, Policy()] = None,
    ctx: TaskContext,
) -> VolumeDelta:
    """Do one thing.

    And tell more of it,
    on two lines.

    Args:
        table: the table
            to change.
        size: how large.
    """
    return table


def test_everything_derives_from_the_signature() -> None:
    assert isinstance(example, NodeType)
    described = example.describe()
    assert described["summary"] == "Do one thing."
    assert "on two lines" in described["description"]
    assert [(p["name"], p["kinds"], p["required"]) for p in described["inputs"]] == [
        ("table", ["VolumeDelta"], True),
        ("other", ["VolumeParquet", "VolumeFiles"], False),
    ]
    assert described["inputs"][0]["help"] == "the table to change."
    forms = {p["name"]: p for p in described["parameters"]}
    assert forms["size"] == {
        "name": "size",
        "title": "Size",
        "type": "int",
        "help": "how large.",
        "default": 4,
        "range": [1, 10],
        "unit": "MB",
    }
    assert forms["mode"]["choices"] == ["a", "b"]
    assert forms["shape"]["type"] == "list of int"
    assert forms["folder"]["required"]
    assert forms["folder"]["path"] == {"access": "read", "kind": "folder", "patterns": ["*.npy"]}
    assert forms["token"]["secret"]
    assert forms["epochs"]["extendable"]
    assert forms["threads"]["policy"]
    assert forms["threads"]["optional"]
    assert example.context_argument == "ctx"
    assert example.mutates == "table"
    assert "ctx" not in forms


def test_backends_are_variants_of_one_declaration() -> None:
    @node("Twice", version=1, category="Tests")
    def twice(table: VolumeDelta) -> VolumeDelta:
        return table

    @twice.on("spark")
    def _(table: VolumeDelta) -> VolumeDelta:
        return table

    assert sorted(twice.backends) == ["embedded", "spark"]


def test_a_wrong_declaration_is_told_to_its_author() -> None:
    def untyped(table) -> VolumeDelta: ...

    def wrong_port(table: int) -> VolumeDelta: ...

    def wrong_parameter(*, x: dict[str, int]) -> Report: ...

    def bad_default(*, x: Annotated[int, Range(1, 2)] = 3) -> Report: ...

    for function, told in (
        (untyped, "has no type"),
        (wrong_port, "must be a dataset type"),
        (wrong_parameter, "is not supported"),
        (bad_default, "its default 3 must be at most 2"),
    ):
        with pytest.raises(DeclarationError, match=told):
            node("Wrong", version=1, category="Tests")(function)
    with pytest.raises(DeclarationError, match="not a node type's name"):
        node("wrong name", version=1, category="Tests")
    with pytest.raises(DeclarationError, match="no input port"):
        node("Wrong", version=1, category="Tests", mutates="nothing")(test_backends_are_variants_of_one_declaration)


def test_a_return_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DeclarationError, match="returned Report on its output out"):
        example.collect(Report(uri="x"))


def _parameter(annotation: object) -> Parameter:
    return parameter_from_annotation("p", annotation, 1 if annotation is int else None, "")


@pytest.mark.parametrize(
    ("annotation", "given_value", "read"),
    [
        (int, "5", 5),
        (int, 5.0, 5),
        (int, 2**60 + 1, 2**60 + 1),
        (float, "1e-3", 0.001),
        (bool, "yes", True),
        (bool, False, False),
        (str, "x", "x"),
        (tuple[int, ...], "[16, 16, 8]", (16, 16, 8)),
        (tuple[int, ...], [1], (1,)),
        (int | None, None, None),
    ],
)
def test_values_are_read_as_the_parameters_type(annotation: object, given_value: object, read: object) -> None:
    parameter = Parameter(name="p", type=annotation) if annotation != int | None else Parameter("p", int, optional=True)
    assert read_value(parameter, given_value) == read


@pytest.mark.parametrize(
    ("annotation", "given_value"),
    [(int, 1.5), (int, True), (int, "x"), (float, "nan"), (float, "inf"), (bool, 1), (str, 1), (int, None), (int, [1])],
)
def test_values_of_another_type_are_refused(annotation: type, given_value: object) -> None:
    with pytest.raises(ValueError, match="must"):
        read_value(Parameter(name="p", type=annotation), given_value)


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_a_range_lets_through_what_lies_in_it(low: int, high: int, number: int) -> None:
    parameter = Parameter(name="p", type=int, range=Range(low, high))
    if low <= number <= high:
        assert read_value(parameter, number) == number
    else:
        with pytest.raises(ValueError, match=r"at (least|most)"):
            read_value(parameter, number)


@pytest.mark.parametrize(
    ("limits", "unit", "number", "told"),
    [
        (Range(1, 9), "volumes", 0, "must be at least 1 volume"),
        (Range(1, 9), "volumes", 10, "must be at most 9 volumes"),
        (Range(1, 9), "MB", 0, "must be at least 1 MB"),
        (Range(1, 9), "s", 0, "must be at least 1 s"),
        (Range(1, 9), "", 0, "must be at least 1"),
    ],
)
def test_a_limit_is_told_with_its_unit(limits: Range, unit: str, number: int, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}$"):
        read_value(Parameter(name="p", type=int, range=limits, unit=unit), number)


def test_a_title_leaves_out_the_unit_that_stands_beside_it() -> None:
    assert Parameter("target_file_mb", int, unit="MB").title == "Target file"
    assert Parameter("checkpoint_every_s", int, unit="s").title == "Checkpoint every"
    assert Parameter("batch_size", int, unit="volumes").title == "Batch size"
    assert Parameter("s", int, unit="s").title == "S"
