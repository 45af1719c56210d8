"""What a node's signature and docstring say: its ports, and the help of its arguments."""

from __future__ import annotations

import inspect
import re
import types
import typing
from dataclasses import dataclass
from typing import Any

from engine.declare.dataset_type import Dataset
from engine.errors import DeclarationError

DEFAULT_OUTPUT = "out"
"""Name of the port of a node with one output."""


@dataclass(frozen=True)
class Port:
    """A typed end of an edge. A wire fits when the output's kind is among the input's `kinds`."""

    name: str
    kinds: tuple[str, ...]
    required: bool = True
    help: str = ""

    def accepts(self, other: Port) -> bool:
        """Whether a wire from `other`, an output, to this input fits."""
        return bool(set(self.kinds) & set(other.kinds))


def help_of_fields(cls: type[Any]) -> dict[str, str]:
    """What the class, and those that it derives from, say of their fields."""
    return {
        name: text
        for one in reversed(cls.__mro__)
        for name, text in read_docstring(inspect.cleandoc(one.__doc__ or ""), "Attributes")[2].items()
    }


def kinds_of(annotation: Any, name: str, where: str, datasets: list[type[Dataset]]) -> tuple[str, ...]:
    """The kinds of a port from its annotation, `A` or `A | B`; their types are added to `datasets`.

    Raises `DeclarationError`, with the names of the node and of `where`, for what is no dataset type.
    """
    members = (
        typing.get_args(annotation)
        if typing.get_origin(annotation) in (typing.Union, types.UnionType)
        else (annotation,)
    )
    members = tuple(m for m in members if m is not type(None))
    for member in members:
        if not (inspect.isclass(member) and issubclass(member, Dataset)):
            raise DeclarationError(
                f"{name}: {where} must be a dataset type, not {member!r}", hint="Name a subclass of Dataset."
            )
    datasets += members
    return tuple(m.__name__ for m in members)


def outputs_of(annotation: Any, name: str, datasets: list[type[Dataset]]) -> tuple[Port, ...]:
    """The output ports from the return type: none, one, or one for each field of a NamedTuple. Raises as `kinds_of`."""
    if annotation is None or annotation is type(None):
        return ()
    if inspect.isclass(annotation) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        fields = typing.get_type_hints(annotation)
        return tuple(
            Port(field_name, kinds_of(hint, name, field_name, datasets)) for field_name, hint in fields.items()
        )
    return (Port(DEFAULT_OUTPUT, kinds_of(annotation, name, "the return type", datasets)),)


def read_docstring(text: str, heading: str = "Args") -> tuple[str, str, dict[str, str]]:
    """First line, the paragraphs before `Args:`, and the help of each argument."""
    head, _, tail = text.partition(f"\n{heading}:\n")
    summary, _, description = head.strip().partition("\n")
    arguments: dict[str, str] = {}
    current = ""
    for line in tail.splitlines():
        if line and not line.startswith(" "):
            break
        # A type may follow the name in brackets, as in Google's style: `size (int): how large`.
        if match := re.match(r"    (\w+)(?: \([^)]*\))?: (.*)", line):
            current = match[1]
            arguments[current] = match[2].strip()
        elif current and line.strip():
            arguments[current] += " " + line.strip()
    return summary.strip(), description.strip(), arguments
