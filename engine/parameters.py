"""Annotations that tell what a node's parameter may hold, and the check of a value against them.

depth: Annotated[Literal[18, 34, 50], Help("...")] = 18
target_file_mb: Annotated[int, Range(1, 4096), Unit("MB")] = 78
folder: Annotated[str, PathIn("folder", "**/*.npy")]
"""

from __future__ import annotations

import math
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.errors import DeclarationError

MISSING: Any = type("MISSING", (), {"__repr__": lambda self: "MISSING"})()
"""Stands for "no default": the person must give a value."""


@dataclass(frozen=True)
class Range:
    """Smallest and largest value, both allowed; `None` leaves an end open."""

    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Unit:
    """Shown behind the field: "MB", "voxels", "s"."""

    name: str


@dataclass(frozen=True)
class Help:
    """Help text where the docstring's Args section is not the place."""

    text: str


@dataclass(frozen=True)
class PathIn:
    """A path that the node reads. A folder is listed once before the run with these glob patterns."""

    kind: Literal["file", "folder"] = "file"
    patterns: tuple[str, ...] = ("**/*",)

    def __init__(self, kind: Literal["file", "folder"] = "file", *patterns: str) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "patterns", patterns or ("**/*",))


@dataclass(frozen=True)
class PathOut:
    """A path that the node writes because the person wants to find the result there."""

    kind: Literal["file", "folder"] = "folder"


@dataclass(frozen=True)
class Secret:
    """The parameter holds the *name of an environment variable*, never the secret itself."""


@dataclass(frozen=True)
class Policy:
    """How the work is done, not what comes out: the value does not enter the fingerprint."""


@dataclass(frozen=True)
class Extendable:
    """A larger value continues from the result of a smaller one (epochs)."""


@dataclass(frozen=True)
class Advanced:
    """Folded away in the form until asked for."""


@dataclass(frozen=True)
class Parameter:
    """One keyword-only argument of a node, as the form, the checks and the docs see it."""

    name: str
    type: Any
    default: Any = MISSING
    help: str = ""
    range: Range | None = None
    choices: tuple[Any, ...] = ()
    unit: str = ""
    path_in: PathIn | None = None
    path_out: PathOut | None = None
    secret: bool = False
    policy: bool = False
    extendable: bool = False
    advanced: bool = False
    optional: bool = field(default=False)

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def title(self) -> str:
        words = self.name.split("_")
        if len(words) > 1 and words[-1] == self.unit.lower():
            words.pop()  # `target_file_mb` stands beside its unit
        return " ".join(words).capitalize()

    def form(self) -> dict[str, Any]:
        """What a form needs to draw the field, as JSON."""
        out: dict[str, Any] = {"name": self.name, "title": self.title, "type": type_name(self.type), "help": self.help}
        if not self.required:
            out["default"] = self.default
        if self.range:
            out["range"] = [self.range.low, self.range.high]
        if self.choices:
            out["choices"] = list(self.choices)
        if self.unit:
            out["unit"] = self.unit
        if self.path_in:
            out["path"] = {"access": "read", "kind": self.path_in.kind, "patterns": list(self.path_in.patterns)}
        if self.path_out:
            out["path"] = {"access": "write", "kind": self.path_out.kind}
        out |= {
            k: True for k in ("required", "secret", "policy", "extendable", "advanced", "optional") if getattr(self, k)
        }
        return out


_SCALARS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def type_name(annotation: Any) -> str:
    """`int`, `float`, `str`, `bool`, or `list of int` for a tuple of numbers."""
    if typing.get_origin(annotation) is tuple:
        return f"list of {typing.get_args(annotation)[0].__name__}"
    return str(annotation.__name__)


def parameter_from_annotation(name: str, annotation: Any, default: Any, help_text: str) -> Parameter:
    """Read `Annotated[...]` metadata into a `Parameter`.

    Raises `DeclarationError` when the type is not one of bool, int, float, str, a `Literal` of
    these, `tuple[X, ...]` of these, or one of them with `| None`.
    """
    notes: tuple[Any, ...] = ()
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, *rest = typing.get_args(annotation)
        notes = tuple(rest)
    optional = False
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [a for a in typing.get_args(annotation) if a is not type(None)]
        optional = len(members) < len(typing.get_args(annotation))
        if len(members) != 1:
            raise DeclarationError(f"parameter {name}: a union of several types is not supported")
        annotation = members[0]
    choices: tuple[Any, ...] = ()
    if typing.get_origin(annotation) is Literal:
        choices = typing.get_args(annotation)
        annotation = type(choices[0])
    item = typing.get_args(annotation)[0] if typing.get_origin(annotation) is tuple else annotation
    if item not in _SCALARS:
        raise DeclarationError(
            f"parameter {name}: type {annotation!r} is not supported",
            hint="Use bool, int, float, str, a Literal of these, or tuple[X, ...].",
        )
    fields: dict[str, Any] = {}
    for note in notes:
        match note:
            case Range():
                fields["range"] = note
            case Unit(unit):
                fields["unit"] = unit
            case Help(text):
                help_text = text
            case PathIn():
                fields["path_in"] = note
            case PathOut():
                fields["path_out"] = note
            case Secret() | Policy() | Extendable() | Advanced():
                fields[type(note).__name__.lower()] = True
            case _:
                raise DeclarationError(f"parameter {name}: annotation {note!r} is not known")
    parameter = Parameter(
        name=name, type=annotation, default=default, help=help_text, choices=choices, optional=optional, **fields
    )
    if default is not MISSING:
        try:
            default = read_value(parameter, default)
        except ValueError as exc:
            raise DeclarationError(f"parameter {name}: its default {default!r} {exc}") from None
    return parameter


def read_value(parameter: Parameter, value: Any) -> Any:
    """The value as the node will get it, or `ValueError` with the rest of the sentence "<value> ...".

    Text is read as the parameter's type (`--set epochs=5` gives text); 5.0 passes for an int, 1.5
    does not; JSON lists become tuples.
    """
    if value is None:
        if parameter.optional:
            return None
        raise ValueError("must have a value")
    if typing.get_origin(parameter.type) is tuple:
        item_type = typing.get_args(parameter.type)[0]
        if isinstance(value, str):
            value = [part.strip() for part in value.strip("[]() ").split(",") if part.strip()]
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"must be a list, each item {_SCALARS[item_type]}")
        out: Any = tuple(_scalar(item_type, v) for v in value)
        for v in out:
            _within(parameter, v)
        return out
    out = _scalar(parameter.type, value)
    if parameter.choices and out not in parameter.choices:
        raise ValueError(f"must be one of {', '.join(str(c) for c in parameter.choices)}")
    _within(parameter, out)
    return out


def _within(parameter: Parameter, value: Any) -> None:
    limits = parameter.range
    if limits is None:
        return
    if limits.low is not None and value < limits.low:
        raise ValueError(f"must be at least {_bound(parameter, limits.low)}")
    if limits.high is not None and value > limits.high:
        raise ValueError(f"must be at most {_bound(parameter, limits.high)}")


def _bound(parameter: Parameter, limit: float) -> str:
    """`1 volume`, `4096 MB`."""
    unit = parameter.unit
    if limit == 1 and unit.endswith("s") and len(unit) > 2:
        unit = unit[:-1]
    return f"{limit:g} {unit}".rstrip()


def _scalar(wanted: Any, value: Any) -> Any:
    wrong = ValueError(f"must be {_SCALARS[wanted]}")
    if wanted is str:
        if isinstance(value, str):
            return value
        raise wrong
    if wanted is bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false", "yes", "no"):
            return value.lower() in ("true", "yes")
        raise wrong
    if isinstance(value, bool):
        raise wrong
    try:
        number = float(value)
        if not math.isfinite(number):
            raise wrong
        if wanted is float:
            return number
        if number != int(number):
            raise wrong
        # Through int for text, so that large whole numbers keep every digit.
        return int(value) if not isinstance(value, str) or value.strip().lstrip("+-").isdigit() else int(number)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
