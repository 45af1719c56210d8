"""The annotation of a parameter, taken apart: its type, whether it is a list or may be None, its choices and notes."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

from engine.declare.field_rules import Base
from engine.errors import DeclarationError

BASES: dict[Any, Base] = {bool: "bool", int: "int", float: "float", str: "str"}


@dataclass
class Parts:
    """What an annotation is made of, whatever is wrapped in what."""

    item: Any = None
    many: bool = False
    length: int | None = None
    """Of a list: how many items it has; None: any number."""
    optional: bool = False
    choices: tuple[Any, ...] = ()
    notes: tuple[Any, ...] = ()


def parts_of(name: str, annotation: Any) -> Parts:
    """Take the annotation of the parameter `name` apart. Raises `DeclarationError` for a type that is not supported."""
    if type(annotation).__name__ == "TypeAliasType":  # Python 3.12's `type Day = ...`
        return parts_of(name, annotation.__value__)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        out = parts_of(name, arguments[0])
        out.notes += arguments[1:]  # the outer ones come last, and count
        return out
    if origin in (typing.Union, types.UnionType):
        members = [a for a in arguments if a is not type(None)]
        if len(members) != 1:
            raise DeclarationError(
                f"parameter {name}: a union of several types is not supported",
                hint="Choose one type, which may be None too.",
            )
        out = parts_of(name, members[0])
        out.optional = True
        return out
    if annotation is tuple or (origin is tuple and len({*arguments} - {Ellipsis}) != 1):
        raise DeclarationError(
            f"parameter {name}: {annotation!r} is not supported, since all items of a list have one type",
            hint="Write tuple[X, ...], or tuple[X, X, X] for three of them.",
        )
    if origin is tuple:
        out = parts_of(name, arguments[0])
        if not out.many and not out.optional:
            out.many, out.length = True, None if Ellipsis in arguments else len(arguments)
            return out
    if origin is Literal:
        kinds = {type(choice) for choice in arguments}
        if len(kinds) == 1 and kinds <= BASES.keys():
            return Parts(item=kinds.pop(), choices=arguments)
    if annotation in BASES:
        return Parts(item=annotation)
    raise DeclarationError(
        f"parameter {name}: type {annotation!r} is not supported",
        hint="Use bool, int, float, str, a Literal of these, or tuple[X, ...].",
    )
