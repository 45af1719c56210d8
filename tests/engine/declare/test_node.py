from __future__ import annotations

import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.declare.context import TaskContext
from engine.declare.datasets import Report, VolumeDelta, VolumeFiles, VolumeParquet
from engine.declare.node import node
from engine.declare.node_type import NodeType
from engine.declare.parameters import (
    MISSING,
    Advanced,
    Extendable,
    Help,
    Parameter,
    PathIn,
    PathOut,
    Pattern,
    Policy,
    Range,
    Secret,
    Step,
    Unit,
    Widget,
    parameter_from_annotation,
    read_value,
)
from engine.document.identity import identity_of
from engine.errors import DeclarationError


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


@dataclass(frozen=True)
class Sizes:
    """How large.

    Attributes:
        size: how
            large.
        epochs: how often.
    """

    size: Annotated[int, Range(1, 10), Unit("MB")] = 4
    shape: tuple[int, ...] = (1, 2)
    epochs: Annotated[int, Extendable()] = 1
    KIND: ClassVar[str] = "sizes"

    @property
    def bytes(self) -> int:
        return self.size * 1_000_000


@dataclass(frozen=True)
class MoreSizes(Sizes):
    name: str = field(kw_only=True)
    """Required, since it has no default."""


CALLS: list[tuple[Any, ...]] = []


@node("Sized", version=1, category="Tests")
def sized(table: VolumeDelta, *, sizes: MoreSizes, fast: bool = False, ctx: TaskContext) -> VolumeDelta:
    """Do it.

    Args:
        table: the table.
        name: what it is called.
    """
    CALLS.append(("here", sizes, fast, ctx))
    return table


@sized.on("spark")
def _sized_on_spark(table: VolumeDelta, *, sizes: MoreSizes) -> VolumeDelta:
    CALLS.append(("spark", sizes))
    return table


@sized.on("other")
def _sized_elsewhere(table: VolumeDelta, *, size: int, ctx: TaskContext, **others: Any) -> VolumeDelta:
    CALLS.append(("other", size, ctx, others))
    return table


def test_the_fields_of_a_dataclass_are_parameters() -> None:
    @node("Sized", version=1, category="Tests")
    def written_out(
        table: VolumeDelta,
        *,
        size: Annotated[int, Range(1, 10), Unit("MB")] = 4,
        shape: tuple[int, ...] = (1, 2),
        epochs: Annotated[int, Extendable()] = 1,
        name: str,
        fast: bool = False,
        ctx: TaskContext,
    ) -> VolumeDelta:
        """Do it.

        Args:
            table: the table.
            size: how large.
            epochs: how often.
            name: what it is called.
        """
        return table

    assert sized.parameters == written_out.parameters
    assert sized.describe() | {"backends": ["embedded"]} == written_out.describe()
    params = {"name": "x", "size": 3}
    assert identity_of(sized, params, {}, {}) == identity_of(written_out, params, {}, {})


def test_calls_name_the_parameters_and_functions_get_what_they_declare(tmp_path: Path) -> None:
    CALLS.clear()
    table = VolumeDelta(uri="t", version=0, data_version=0, count=1, bytes=1, files=1)
    ctx = TaskContext("run", "it", "0" * 32, tmp_path, tmp_path, tmp_path)
    assert sized(table, size=2, name="a", fast=True, ctx=ctx) is table
    assert sized(table, sizes=MoreSizes(name="b"), ctx=ctx) is table
    everything = {"size": 5, "shape": (1,), "epochs": 2, "name": "c", "fast": True}
    for backend in ("embedded", "spark", "other"):
        assert sized.backends[backend](table=table, **everything, ctx=ctx) is table
    sizes = MoreSizes(5, (1,), 2, name="c")
    assert [
        ("here", MoreSizes(2, name="a"), True, ctx),
        ("here", MoreSizes(name="b"), False, ctx),
        ("here", sizes, True, ctx),
        ("spark", sizes),
        ("other", 5, ctx, {"shape": (1,), "epochs": 2, "name": "c", "fast": True}),
    ] == CALLS
    with pytest.raises(TypeError, match="unexpected argument 'sizee'"):
        sized(table, sizee=2, ctx=ctx)
    with pytest.raises(TypeError, match="name"):
        sized(table, ctx=ctx)


def test_a_wrong_parameter_class_is_refused() -> None:
    @dataclass
    class Changing:
        x: int = 1

    @dataclass(frozen=True)
    class Made:
        x: tuple[int, ...] = field(default_factory=tuple)

    @dataclass(frozen=True)
    class Odd:
        x: int | str = 1

    @dataclass(frozen=True)
    class Good:
        x: Annotated[int, Range(1, 2)] = 1

    def changing(*, p: Changing) -> Report: ...

    def made(*, p: Made) -> Report: ...

    def odd(*, p: Odd) -> Report: ...

    def default(*, p: Good = Good()) -> Report: ...

    def twice(*, p: Good, x: int) -> Report: ...

    def port(x: VolumeDelta, *, p: Good) -> Report: ...

    for function, message in (
        (changing, "Changing can be changed"),
        (made, "x: its default is made by a function"),
        (odd, "a union of several types"),
        (default, "argument p has a default"),
        (twice, "x is declared twice"),
        (port, "x is declared twice"),
    ):
        # The classes are local, so their annotations cannot be looked up by name.
        function.__annotations__ = {n: {"Changing": Changing, "Made": Made, "Odd": Odd, "Good": Good}.get(t, t)
                                    for n, t in function.__annotations__.items()}  # fmt: skip
        with pytest.raises(DeclarationError, match=message):
            node("Wrong", version=1, category="Tests")(function)


def test_a_variant_with_arguments_of_its_own_is_refused_when_it_is_declared() -> None:
    def misspelt(table: VolumeDelta, *, sizee: int) -> VolumeDelta: ...

    def without_input(*, size: int) -> VolumeDelta: ...

    for function, message in (
        (misspelt, "Sized: misspelt takes sizee, which is no argument of the node"),
        (without_input, "Sized: without_input does not take the input table"),
    ):
        with pytest.raises(DeclarationError, match=message):
            sized.on("spark")(function)
    assert sized.backends["spark"].__name__ == "_sized_on_spark"


def test_a_wrong_declaration_is_refused_with_the_reason() -> None:
    def untyped(table) -> VolumeDelta: ...

    def wrong_port(table: int) -> VolumeDelta: ...

    def wrong_parameter(*, x: dict[str, int]) -> Report: ...

    def bad_default(*, x: Annotated[int, Range(1, 2)] = 3) -> Report: ...

    for function, message in (
        (untyped, "has no type"),
        (wrong_port, "must be a dataset type"),
        (wrong_parameter, "is not supported"),
        (bad_default, "its default 3 must be at most 2"),
    ):
        with pytest.raises(DeclarationError, match=message):
            node("Wrong", version=1, category="Tests")(function)
    with pytest.raises(DeclarationError, match="not a node type's name"):
        node("wrong name", version=1, category="Tests")
    with pytest.raises(DeclarationError, match="no input port"):
        node("Wrong", version=1, category="Tests", mutates="nothing")(test_backends_are_variants_of_one_declaration)


@pytest.mark.parametrize("argument", ["keywords", "imports", "needs"])
def test_text_in_place_of_a_tuple_is_refused(argument: str) -> None:
    """Its letters were the packages that the node needs: "Wrong needs t, which is not installed"."""
    with pytest.raises(DeclarationError, match=f"Wrong: {argument} is text, not a tuple") as caught:
        node("Wrong", version=1, category="Tests", **{argument: "torch"})  # type: ignore[arg-type]
    assert caught.value.hint == f'Write {argument}=("torch",).'


def test_types_in_a_docstring_part_no_argument_from_its_help() -> None:
    @node("Typed", version=1, category="Tests")
    def typed(*, size: int = 1, folder: str = "", plain: int = 2) -> Report:
        """Do one thing.

        Args:
            size (int): how large.
            folder (str, optional): where
                it lies.
            plain: as it is (or not): so.
        """
        raise NotImplementedError

    assert {p.name: p.help for p in typed.parameters} == {
        "size": "how large.", "folder": "where it lies.", "plain": "as it is (or not): so.",
    }  # fmt: skip


def test_a_return_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DeclarationError, match="returned Report on its output out"):
        example.collect(Report(uri="x"))


Hex = Annotated[str, Pattern("#[0-9a-f]{6}", "a colour like #1f77b4")]


@pytest.mark.parametrize(
    ("annotation", "read"),
    [
        (Hex, "#1f77b4"),
        (Annotated[Hex, Advanced()], "#1f77b4"),
        (Hex | None, "#1f77b4"),
        (Annotated[Hex | None, Help("h")], "#1f77b4"),
        (tuple[Hex, ...], ("#1f77b4",)),
        (Annotated[tuple[Hex, ...] | None, Policy()], ("#1f77b4",)),
    ],
)
def test_a_named_type_keeps_its_rules_wherever_it_stands(annotation: object, read: object) -> None:
    parameter = parameter_from_annotation("p", annotation, MISSING, "")
    assert read_value(parameter, "#1f77b4") == read
    with pytest.raises(ValueError, match=r"^must be a colour like #1f77b4$"):
        read_value(parameter, "red")


@pytest.mark.parametrize(
    ("annotation", "default", "message"),
    [
        (Annotated[int, Pattern("[0-9]+", "digits")], 1, "Pattern needs text, not int"),
        (Annotated[str, Range(1, 2)], "", "Range needs a number, not str"),
        (Annotated[bool, Step(1)], True, "Step needs a number"),
        (Annotated[float, Range(0, float("inf"))], 1.0, "inf is no limit"),
        (Annotated[int, Range(5, 1)], 3, "nothing lies between 5 and 1"),
        (Annotated[float, Step(float("nan"))], 1.0, "nan is no step"),
        (Annotated[float, Step(0)], 1.0, "0 is no step"),
        (Annotated[str, PathIn("fold")], "", "PathIn is of a file or a folder, not 'fold'"),  # type: ignore[arg-type]
        (Annotated[tuple[int, ...], Secret()], (1,), "need text, not list of int"),
        (Annotated[tuple[str, ...], Secret()], (), "Secret need text, not list of str"),
        (Annotated[tuple[str, ...] | None, PathIn("file")], None, "paths and Secret need text, not list of str"),
        (Annotated[tuple[str, ...], PathOut("folder")], (), "paths and Secret need text, not list of str"),
        (Annotated[str, Extendable()], "10", "Extendable needs a number, not str"),
        (Annotated[bool, Extendable()], True, "Extendable needs a number, not bool"),
        (Annotated[tuple[int, ...], Extendable()], (1,), "Extendable needs a number, not list of int"),
        (tuple[int, int, int], (1, 2), r"its default \(1, 2\) must be 3 values, not 2"),
        (tuple[float, int], (1.0, 2), r"tuple\[float, int\] is not supported"),
        (tuple[()], (), r"tuple\[\(\)\] is not supported"),
        (tuple, (), "tuple'> is not supported"),
        (typing.Tuple, (), "Tuple is not supported"),  # noqa: UP006
        (Hex, "red", "its default 'red' must be a colour like #1f77b4"),
        (Annotated[str, Widget("colour")], "", "there is no widget 'colour'"),  # type: ignore[arg-type]
        (Annotated[str, Widget("number")], "", "the widget 'number' cannot show it"),
        (Annotated[bool, Widget("automatic")], True, "the widget 'automatic' cannot show it"),
        (Literal[1, "a"], 1, "is not supported"),
        (tuple[int | None, ...], (), "is not supported"),
        (tuple[tuple[int, ...], ...], (), "is not supported"),
        (Annotated[str, Pattern(r"(?i)a", "a")], "a", "a browser would read"),
    ],
)
def test_what_does_not_fit_together_is_refused(annotation: object, default: object, message: str) -> None:
    with pytest.raises(DeclarationError, match=f"parameter p: .*{message}"):
        parameter_from_annotation("p", annotation, default, "")


@pytest.mark.parametrize(
    "regex",
    [
        "(?i)a", "(?P<n>a)", "(?=a)", "(?<!a)b", "a++", "a*+", "a{2}+", r"\bx", r"\s", r"(a)\1", "a{,3}", "a{", "x}",
        "]", "[]a]", "[^]", "[[a]", "[a--b]", "[a&&b]", r"\-", r"\Z", r"\A", "^*", "$+", "(", ")", "[b-a]",
        "*a", "a{2,1}", r"\p{L}", r"\N{DIGIT ONE}", r"\0", "a\\", "a{4294967296}",
    ],
)  # fmt: skip
def test_a_pattern_that_a_browser_reads_otherwise_is_refused(regex: str) -> None:
    with pytest.raises(DeclarationError, match=r"a browser would read|is not a regular expression"):
        parameter_from_annotation("p", Annotated[str, Pattern(regex, "x")], MISSING, "")


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
    with pytest.raises(ValueError, match=r"must|needs a value"):
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
    ("limits", "unit", "number", "message"),
    [
        (Range(1, 9), "volumes", 0, "must be at least 1 volume"),
        (Range(1, 9), "volumes", 10, "must be at most 9 volumes"),
        (Range(1, 9), "batches", 0, "must be at least 1 batch"),
        (Range(1, 9), "MB", 0, "must be at least 1 MB"),
        (Range(1, 9), "s", 0, "must be at least 1 s"),
        (Range(1, 9), "", 0, "must be at least 1"),
    ],
)
def test_a_limit_is_named_with_its_unit(limits: Range, unit: str, number: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        read_value(Parameter(name="p", type=int, range=limits, unit=unit), number)


def test_a_title_leaves_out_the_unit_that_stands_beside_it() -> None:
    assert Parameter("target_file_mb", int, unit="MB").title == "Target file"
    assert Parameter("checkpoint_every_s", int, unit="s").title == "Checkpoint every"
    assert Parameter("batch_size", int, unit="volumes").title == "Batch size"
    assert Parameter("s", int, unit="s").title == "S"


def test_a_node_that_was_written_with_the_former_name_of_the_context_works() -> None:
    from voxelflow import CheckContext, Look, Preview

    @node("Former", version=1, category="Tests")
    def made() -> Report:
        """Make nothing."""
        raise NotImplementedError

    @made.preview
    def _(look: Look) -> Preview:
        return Preview(kind="Report", figures=dict(look.params))

    assert made.preview_hook is not None
    assert made.preview_hook(CheckContext(params={"a": 1})) == Preview(kind="Report", figures={"a": 1})


def test_a_list_of_a_fixed_length_has_that_length() -> None:
    for annotation in (tuple[int, int, int], Annotated[tuple[int, int, int] | None, Policy()]):
        parameter = parameter_from_annotation("size", annotation, (8, 8, 4), "")
        assert read_value(parameter, "64, 64, 48") == (64, 64, 48)
        with pytest.raises(ValueError, match="must be 3 values, not 2"):
            read_value(parameter, [64, 64])
