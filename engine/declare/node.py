"""Declaring a node type: one decorated function; everything else derives from its signature.

    @node("OptimizeDelta", version=1, category="Tables", icon="shrink", keywords=("compact", "vacuum"))
    def optimize_delta(
        table: VolumeDelta,
        *,
        target_file_mb: Annotated[int, Range(1, 4096), Unit("MB")] = 78,
        ctx: TaskContext,
    ) -> VolumeDelta:
        '''Compact a Delta table's small files into few large ones.

        Args:
            table: the table to compact.
            target_file_mb: size of the files that come out.
        '''

Positional arguments are input ports, keyword-only arguments parameters, the return type is the
output (a NamedTuple for several ports). The argument whose type is `TaskContext` is the engine's. A keyword-only
argument whose type is a frozen dataclass stands for a parameter of each of its fields
(`engine.declare.parameter_class`).
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

from engine.declare.appearance import DEFAULT_ICON, Category, category_of, icon_path
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset
from engine.declare.node_type import NodeType, P, R
from engine.declare.parameter_class import is_parameter_class, parameters_of
from engine.declare.parameters import MISSING, Parameter, parameter_from_annotation
from engine.declare.signature import Port, help_of_fields, kinds_of, outputs_of, read_docstring
from engine.errors import DeclarationError


def node(
    name: str,
    *,
    version: int,
    category: str | Category,
    icon: str = DEFAULT_ICON,
    keywords: tuple[str, ...] = (),
    imports: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    mutates: str | None = None,
    uses_all_cores: bool = False,
    saves_on_request: bool = False,
    anywhere: str = "",
) -> Callable[[Callable[P, R]], NodeType[P, R]]:
    """Turn a function into a node type.

    Raise `version` when the same inputs and parameters would give another result: cached results
    of older versions are then not used. `needs` names packages that may be absent (`import`'s names for them): without
    them the node is refused before a run. `anywhere` says, in a few words, why the function may run on the
    driver's machine under a profile for another backend ("only names files"). `category` is a name, one of
    `engine.declare.appearance.CATEGORIES` or another, or a `Category` with colour and place; `icon` a name
    of `engine.declare.icons` or the `d` of an SVG path on 24 x 24; `keywords` are further words that find
    the node. Raises `DeclarationError` when the signature does not fit, there is no such icon, or text stands for a
    tuple.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]{1,63}", name):
        raise DeclarationError(f"{name!r} is not a node type's name", hint="Use CamelCase letters and digits.")
    tuples: dict[str, Any] = {"keywords": keywords, "imports": imports, "needs": needs}
    for argument, given in tuples.items():
        if isinstance(given, str):  # ("torch") is no tuple: its letters would be taken one by one
            raise DeclarationError(f"{name}: {argument} is text, not a tuple", hint=f'Write {argument}=("{given}",).')
    try:
        icon_path(icon)
    except DeclarationError as exc:
        raise DeclarationError(f"{name}: {exc.message}", hint=exc.hint) from None

    def declare(function: Callable[P, R]) -> NodeType[P, R]:
        return _declare(
            function,
            name=name,
            version=version,
            category=category_of(category),
            icon=icon,
            keywords=keywords,
            imports=imports,
            needs=needs,
            mutates=mutates,
            uses_all_cores=uses_all_cores,
            saves_on_request=saves_on_request,
            anywhere=anywhere,
        )

    return declare


def _declare(function: Callable[P, R], *, name: str, mutates: str | None, **fields: Any) -> NodeType[P, R]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as exc:  # whatever evaluating an author's annotations can raise
        raise DeclarationError(f"{name}: its annotations cannot be read: {exc}", hint="Correct them.") from exc
    summary, description, argument_help = read_docstring(inspect.getdoc(function) or "")
    inputs: list[Port] = []
    parameters: list[Parameter] = []
    classes: dict[str, type[Any]] = {}
    datasets: list[type[Dataset]] = []
    context_argument = None
    for argument in inspect.signature(function).parameters.values():
        if argument.name not in hints:
            raise DeclarationError(f"{name}: argument {argument.name} has no type", hint="Annotate it.")
        annotation = hints[argument.name]
        has_default = argument.default is not inspect.Parameter.empty
        if annotation is TaskContext:
            context_argument = argument.name
        elif argument.kind is inspect.Parameter.KEYWORD_ONLY:
            default = argument.default if has_default else MISSING
            try:
                if is_parameter_class(annotation):
                    if has_default:
                        raise DeclarationError(
                            f"argument {argument.name} has a default", hint="Give the fields of its class defaults."
                        )
                    classes[argument.name] = annotation
                    parameters += parameters_of(annotation, help_of_fields(annotation) | argument_help)
                else:
                    text = argument_help.get(argument.name, "")
                    parameters.append(parameter_from_annotation(argument.name, annotation, default, text))
            except DeclarationError as exc:
                raise DeclarationError(f"{name}: {exc.message}", hint=exc.hint) from None
        elif argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            kinds = kinds_of(annotation, name, argument.name, datasets)
            inputs.append(Port(argument.name, kinds, not has_default, argument_help.get(argument.name, "")))
        else:
            raise DeclarationError(
                f"{name}: argument {argument.name} can be neither a port nor a parameter",
                hint="Give it the type of a dataset, of a parameter or TaskContext.",
            )
    names = [*(p.name for p in inputs), *(p.name for p in parameters), *classes, context_argument]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise DeclarationError(f"{name}: {twice} is declared twice", hint="Rename one of them.")
    if mutates is not None and mutates not in {p.name for p in inputs}:
        raise DeclarationError(
            f"{name}: mutates names {mutates!r}, which is no input port",
            hint="Name an input port.",
        )
    made = NodeType(
        name=name,
        inputs=tuple(inputs),
        outputs=outputs_of(hints.get("return"), name, datasets),
        parameters=tuple(parameters),
        summary=summary,
        description=description,
        function=function,
        context_argument=context_argument,
        mutates=mutates,
        parameter_classes=classes,
        datasets=tuple(dict.fromkeys(datasets)),
        **fields,
    )
    made.on("embedded")(function)
    return made
