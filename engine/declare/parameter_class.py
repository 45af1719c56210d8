"""A node's parameters as one frozen dataclass, and the calls of functions that take one, or only some parameters.

    @dataclass(frozen=True)
    class Compaction:
        target_file_mb: Annotated[int, Range(1, 4096), Unit("MB")] = 78
        min_fill: float = 0.75

    def optimize_delta(table: VolumeDelta, *, parameters: Compaction, ctx: TaskContext) -> VolumeDelta: ...

Each field is a parameter of the node as if it stood in the signature. Who calls the node names the fields; the function
gets the object. So a form of many parameters, a helper that takes them all and a variant for another backend share
one declaration.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from engine.declare.parameters import MISSING, Parameter, parameter_from_annotation
from engine.errors import DeclarationError


def is_parameter_class(annotation: Any) -> bool:
    return inspect.isclass(annotation) and dataclasses.is_dataclass(annotation)


def _fields_of(cls: type[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name, annotation and default (or `MISSING`) of each field. Raises `DeclarationError` when one cannot be used."""
    if not cls.__dataclass_params__.frozen:
        raise DeclarationError(
            f"the parameter class {cls.__name__} can be changed", hint="Use @dataclass(frozen=True)."
        )
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception as exc:  # whatever evaluating an author's annotations can raise
        raise DeclarationError(
            f"the annotations of {cls.__name__} cannot be read: {exc}", hint="Correct them."
        ) from exc
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        if field.default_factory is not dataclasses.MISSING:
            raise DeclarationError(
                f"parameter {field.name}: its default is made by a function",
                hint="Give it a plain value, such as a tuple for a list.",
            )
        yield field.name, hints[field.name], MISSING if field.default is dataclasses.MISSING else field.default


def parameters_of(cls: type[Any], help_texts: Mapping[str, str] | None = None) -> list[Parameter]:
    """The parameters that the class declares, in the order of its fields. Raises `DeclarationError`."""
    texts = help_texts or {}
    return [parameter_from_annotation(n, a, default, texts.get(n, "")) for n, a, default in _fields_of(cls)]


def callable_by_name(
    function: Callable[..., Any],
    *,
    inputs: Collection[str],
    parameters: Sequence[Parameter],
    classes: Mapping[str, type[Any]],
    context_argument: str | None,
) -> Callable[..., Any]:
    """`function` as all backends are called: inputs, parameters and the context by name.

    A function may declare only some of the parameters, and only some of the parameter classes (`classes`, by argument):
    it gets what it declares. Parameters that are not given have their defaults.

    Raises `DeclarationError` when it declares an argument that the node does not have, or lacks an input.
    """
    arguments = inspect.signature(function).parameters
    names = {p.name for p in parameters}
    known = {*inputs, *names, *classes, *([context_argument] if context_argument else [])}
    takes_all = any(a.kind is inspect.Parameter.VAR_KEYWORD for a in arguments.values())
    declared = {
        name
        for name, a in arguments.items()
        if a.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    }
    if strange := [n for n in declared - known if arguments[n].default is inspect.Parameter.empty]:
        raise DeclarationError(
            f"{function.__name__} takes {sorted(strange)[0]}, which is no argument of the node",
            hint=f"The node has: {', '.join(sorted(known))}.",
        )
    if not takes_all and (missing := [n for n in inputs if n not in declared]):
        raise DeclarationError(
            f"{function.__name__} does not take the input {missing[0]}",
            hint="Add an argument of that name.",
        )
    fields = {argument: {f.name for f in dataclasses.fields(cls) if f.init} for argument, cls in classes.items()}
    within = {name for argument in classes if argument in declared for name in fields[argument]}
    defaults = {p.name: p.default for p in parameters if not p.required}

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if unknown := sorted(given.keys() - known):
            raise TypeError(f"{function.__name__}() got an unexpected argument {unknown[0]!r}")
        values = defaults | given
        keywords = {
            name: value
            for name, value in values.items()
            if name in declared or (takes_all and name not in within and name not in classes)
        }
        for argument, cls in classes.items():
            if argument in declared and argument not in given:
                keywords[argument] = cls(**{name: values[name] for name in fields[argument] if name in values})
        return function(*args, **keywords)

    return call
