"""Annotations that say what a node's parameter may hold, and the check of a value against them.

depth: Annotated[Literal[18, 34, 50], Help("...")] = 18
target_file_mb: Annotated[int, Range(1, 4096), Unit("MB")] = 78
folder: Annotated[str, PathIn("folder", "**/*.npy")]

A type with a name is a field type of its own, in any package, for any node:

Day = Annotated[str, Pattern(r"\\d{4}-\\d{2}-\\d{2}", "a date like 2026-01-31")]
"""

from __future__ import annotations

import math
import typing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from engine.declare.annotation_parts import BASES, parts_of
from engine.declare.field_rules import KINDS, NEEDS_A_VALUE, Base, Rule, WidgetName, check_pattern, read_by
from engine.errors import DeclarationError
from engine.text import singular

MISSING: Any = type("MISSING", (), {"__repr__": lambda self: "MISSING"})()
"""Stands for "no default": the person must give a value."""


@dataclass(frozen=True)
class Range:
    """Smallest and largest value, both allowed; `None` leaves an end open."""

    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Unit:
    """Shown after the field: "MB", "voxels", "s"."""

    name: str


@dataclass(frozen=True)
class Step:
    """How far an arrow key or button of the form moves a number."""

    size: float


@dataclass(frozen=True)
class Pattern:
    """Text that the regular expression matches as a whole; `help` says so in words: "a date like 2026-01-31".

    The form checks it too, so the expression is of the kind that `engine.declare.field_rules` describes.
    """

    regex: str
    help: str


@dataclass(frozen=True)
class Widget:
    """The form's control, where the type's usual one is not wanted."""

    name: WidgetName


@dataclass(frozen=True)
class Help:
    """Help text where the docstring's Args section is not the place."""

    text: str


@dataclass(frozen=True)
class FileKind:
    """One of several kinds of files that a folder may hold; see `PathIn.kinds`.

    `endings` are those of its files, `folder_endings` of folders that count as one file each (a Zarr array): such a
    folder's time in a listing is a fingerprint of the names, sizes and times in it. `companions` are files that
    belong to others (a header's data): they are listed too. All in small letters; they match in capitals as well.
    With `needs_folder` a volume may be several files, or a folder: it is not read from object storage. With `any_name`
    its files may have no ending, or any: when this kind is chosen, all are listed but those of other kinds.
    """

    name: str
    endings: tuple[str, ...] = ()
    folder_endings: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    needs_folder: bool = False
    any_name: bool = False

    @property
    def patterns(self) -> tuple[str, ...]:
        """Glob patterns of its files."""
        return tuple(f"**/*{e}" for ending in (*self.endings, *self.companions) for e in (ending, ending.upper()))

    @property
    def folders(self) -> tuple[str, ...]:
        """`folder_endings` in small letters and in capitals."""
        return tuple(e for ending in self.folder_endings for e in (ending, ending.upper()))


@dataclass(frozen=True)
class PathIn:
    """A path that the node reads. A folder is listed once before the run with these glob patterns.

    `kinds` names a function ("module:function") that gives more kinds of files, as `FileKind`s. Where no file fits
    the patterns that begin with `**/`, the folder is listed again: for the kind that the parameter `kind_parameter`
    names, or for that of most files where it says "auto". `identify` names a function that takes the path and the
    node's parameters and gives an identity of what lies there: then nothing is listed. `holds` says what is looked
    for: "volumes".
    """

    kind: Literal["file", "folder"] = "file"
    patterns: tuple[str, ...] = ("**/*",)
    kinds: str = ""
    kind_parameter: str = ""
    holds: str = ""
    identify: str = ""

    def __init__(
        self,
        kind: Literal["file", "folder"] = "file",
        *patterns: str,
        kinds: str = "",
        kind_parameter: str = "",
        holds: str = "",
        identify: str = "",
    ) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "patterns", patterns or ("**/*",))
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "kind_parameter", kind_parameter)
        object.__setattr__(self, "holds", holds)
        object.__setattr__(self, "identify", identify)


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
    """Hidden in the form until asked for."""


@dataclass(frozen=True)
class Added:
    """The parameter is newer than the node: its default, which does what the node did before, enters no fingerprint.

    So results of the time before stay valid.
    """


@dataclass(frozen=True)
class Needs:
    """Top-level modules that one value of the parameter needs beyond what the node needs (see `engine.extras`)."""

    value: Any
    modules: tuple[str, ...]

    def __init__(self, value: Any, *modules: str) -> None:
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "modules", modules)


@dataclass(frozen=True)
class Parameter:
    """One keyword-only argument of a node, as the form, the checks and the docs see it."""

    name: str
    type: Any
    default: Any = MISSING
    """As the node gets it; of a path what is made absolute for it."""
    help: str = ""
    range: Range | None = None
    choices: tuple[Any, ...] = ()
    pattern: Pattern | None = None
    unit: str = ""
    step: float | None = None
    wanted_widget: WidgetName | None = None
    path_in: PathIn | None = None
    path_out: PathOut | None = None
    secret: bool = False
    policy: bool = False
    extendable: bool = False
    advanced: bool = False
    added: bool = False
    optional: bool = field(default=False)
    needs: tuple[Needs, ...] = ()
    length: int | None = None
    """Of a list: how many items it has; None: any number."""
    written_default: Any = MISSING
    """As its author wrote it, where that reads otherwise: `1` of a float."""

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is MISSING

    @property
    def is_path(self) -> bool:
        """Whether the value is a path or URL that the node reads or writes."""
        return self.path_in is not None or self.path_out is not None

    @property
    def as_written(self) -> Any:
        """The default as its author wrote it: fingerprints and chains of transforms contained it before it was read."""
        return self.default if self.written_default is MISSING else self.written_default

    @property
    def title(self) -> str:
        """The name in words, for the form."""
        words = self.name.split("_")
        if len(words) > 1 and words[-1] == self.unit.lower():
            words.pop()  # `target_file_mb` is shown beside its unit
        return " ".join(words).capitalize()

    @property
    def many(self) -> bool:
        """Whether the value is a list."""
        return typing.get_origin(self.type) is tuple

    @property
    def base(self) -> Base:
        """The type of the value, or of a list's items."""
        item = typing.get_args(self.type)[0] if self.many else self.type
        return BASES[item]

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """All that a value must be: what `read_value` checks, and the editor's form."""
        kind = KINDS[self.base]
        out = [Rule("list", None, f"must be a list, each item {kind}")] if self.many else []
        out.append(Rule("type", self.base, f"must be {kind}"))
        if self.required and self.base == "str" and not self.many:
            out.append(Rule("filled", None, NEEDS_A_VALUE))
        if self.choices:
            out.append(Rule("one_of", self.choices, f"must be one of {', '.join(map(_choice, self.choices))}"))
        limits = self.range or Range()
        if limits.low is not None:
            out.append(Rule("at_least", limits.low, f"must be at least {self._bound(limits.low)}"))
        if limits.high is not None:
            out.append(Rule("at_most", limits.high, f"must be at most {self._bound(limits.high)}"))
        if self.pattern is not None:
            out.append(Rule("pattern", self.pattern.regex, f"must be {self.pattern.help}"))
        return tuple(out)

    @property
    def widget(self) -> WidgetName:
        """The form's control."""
        if self.wanted_widget is not None:
            return self.wanted_widget
        if self.many:
            return "list"
        if self.choices:
            return "choice"
        if self.base == "bool":
            return "automatic" if self.optional else "switch"
        if self.base in ("int", "float"):
            return "number"
        if self.is_path:
            return "path"
        return "secret" if self.secret else "text"

    def _bound(self, limit: float) -> str:
        """`1 volume`, `4,096 MB`."""
        return f"{_number(limit)} {singular(self.unit) if limit == 1 else self.unit}".rstrip()

    def form(self) -> dict[str, Any]:
        """What a form needs to draw the field, as JSON."""
        out: dict[str, Any] = {"name": self.name, "title": self.title, "type": type_name(self.type), "help": self.help}
        if not self.required:
            out["default"] = self.default
        if self.range:
            out["range"] = [self.range.low, self.range.high]
        if self.choices:
            out["choices"] = list(self.choices)
        if self.pattern:
            out["pattern"] = {"regex": self.pattern.regex, "help": self.pattern.help}
        if self.unit:
            out["unit"] = self.unit
        if self.step is not None:
            out["step"] = self.step
        if self.wanted_widget:
            out["widget"] = self.wanted_widget
        if self.path_in:
            out["path"] = {"access": "read", "kind": self.path_in.kind, "patterns": list(self.path_in.patterns)}
        if self.path_out:
            out["path"] = {"access": "write", "kind": self.path_out.kind}
        out |= {
            k: True for k in ("required", "secret", "policy", "extendable", "advanced", "optional") if getattr(self, k)
        }
        return out


def type_name(annotation: Any) -> str:
    """`int`, `float`, `str`, `bool`, or `list of int` for a tuple of numbers."""
    if typing.get_origin(annotation) is tuple:
        return f"list of {typing.get_args(annotation)[0].__name__}"
    return str(annotation.__name__)


def parameter_from_annotation(name: str, annotation: Any, default: Any, help_text: str) -> Parameter:
    """Read `Annotated[...]` metadata into a `Parameter`.

    Raises `DeclarationError` when the type is not one of bool, int, float, str, a `Literal` of
    these, `tuple[X, ...]` or `tuple[X, X]` of these, or one of them with `| None`; each of them may be `Annotated`.
    """
    found = parts_of(name, annotation)
    fields: dict[str, Any] = {}
    for note in found.notes:
        match note:
            case Range():
                fields["range"] = note
            case Pattern():
                fields["pattern"] = note
            case Unit(unit):
                fields["unit"] = unit
            case Step(size):
                fields["step"] = size
            case Widget(widget):
                fields["wanted_widget"] = widget
            case Help(text):
                help_text = text
            case Needs():
                fields["needs"] = (*fields.get("needs", ()), note)
            case PathIn():
                fields["path_in"] = note
            case PathOut():
                fields["path_out"] = note
            case Secret() | Policy() | Extendable() | Advanced() | Added():
                fields[type(note).__name__.lower()] = True
            case _:
                raise DeclarationError(
                    f"parameter {name}: annotation {note!r} is not known",
                    hint="Use those of voxelflow, as PathIn or Extendable.",
                )
    parameter = Parameter(
        name=name,
        type=tuple[found.item, ...] if found.many else found.item,  # type: ignore[name-defined]
        default=default,
        help=help_text,
        choices=found.choices,
        optional=found.optional,
        length=found.length,
        **fields,
    )
    _check_declaration(parameter)
    return _with_default_read(parameter)


def _check_declaration(parameter: Parameter) -> None:
    """Raises `DeclarationError` when the notes do not fit the type."""
    is_number, is_text = parameter.base in ("int", "float"), parameter.base == "str"
    is_list = parameter.many
    for limit in (parameter.range.low, parameter.range.high) if parameter.range else ():
        if limit is not None and not math.isfinite(limit):
            raise DeclarationError(
                f"parameter {parameter.name}: {limit} is no limit", hint="Write None for an end that is open."
            )
    low, high = (parameter.range.low, parameter.range.high) if parameter.range else (None, None)
    if low is not None and high is not None and low > high:
        raise DeclarationError(
            f"parameter {parameter.name}: nothing lies between {_number(low)} and {_number(high)}",
            hint="Write the smaller limit first.",
        )
    if parameter.step is not None and not 0 < parameter.step < math.inf:
        raise DeclarationError(
            f"parameter {parameter.name}: {parameter.step} is no step", hint="Write a number above 0."
        )
    if parameter.path_in and parameter.path_in.kind not in ("file", "folder"):
        raise DeclarationError(
            f"parameter {parameter.name}: PathIn is of a file or a folder, not {parameter.path_in.kind!r}",
            hint='Write PathIn("file") or PathIn("folder").',
        )
    for noted, fits, wants in (
        (parameter.range, is_number, "Range needs a number"),
        (parameter.step, is_number, "Step needs a number"),
        (parameter.pattern, is_text, "Pattern needs text"),
        (parameter.is_path or parameter.secret, is_text and not is_list, "paths and Secret need text"),
        (parameter.extendable, is_number and not is_list, "Extendable needs a number"),
    ):
        if noted and not fits:
            raise DeclarationError(
                f"parameter {parameter.name}: {wants}, not {type_name(parameter.type)}",
                hint="Change its type, or remove the annotation.",
            )
    if parameter.wanted_widget is not None:
        _check_widget(parameter, parameter.wanted_widget)
    if parameter.pattern is not None:
        try:
            check_pattern(parameter.pattern.regex)
        except DeclarationError as exc:
            raise DeclarationError(f"parameter {parameter.name}: {exc.message}", hint=exc.hint) from None


def _with_default_read(parameter: Parameter) -> Parameter:
    """Raises `DeclarationError` when the default does not fit the type and the notes."""
    if parameter.required:
        return parameter
    try:
        default = read_value(parameter, parameter.default)
    except ValueError as exc:
        raise DeclarationError(
            f"parameter {parameter.name}: its default {parameter.default!r} {exc}",
            hint="Choose a default that fits its type and limits.",
        ) from None
    if repr(default) == repr(parameter.default):
        return parameter
    return replace(parameter, default=default, written_default=parameter.default)


def _check_widget(parameter: Parameter, widget: WidgetName) -> None:
    known = typing.get_args(WidgetName)
    if widget not in known:
        raise DeclarationError(
            f"parameter {parameter.name}: there is no widget {widget!r}", hint=f"There are: {', '.join(known)}."
        )
    fits = {
        "number": not parameter.many and parameter.base in ("int", "float"),
        "switch": not parameter.many and parameter.base == "bool",
        "automatic": not parameter.many and parameter.base == "bool" and parameter.optional,
        "choice": not parameter.many and (bool(parameter.choices) or parameter.base == "bool"),
        "path": parameter.is_path,
    }
    if not fits.get(widget, True):
        raise DeclarationError(
            f"parameter {parameter.name}: the widget {widget!r} cannot show it, a {type_name(parameter.type)}",
            hint="Leave the widget out, or choose another.",
        )


def read_value(parameter: Parameter, value: Any) -> Any:
    """The value as the node will get it, or `ValueError` with what it must be (`engine.declare.field_rules.refusal`).

    Text is read as the parameter's type (`--set epochs=5` gives text); 5.0 passes for an int, 1.5
    does not; JSON lists become tuples.
    """
    if value is None:
        if parameter.optional:
            return None
        raise ValueError(NEEDS_A_VALUE)
    read = read_by(parameter.rules, value)
    if parameter.length is not None and len(read) != parameter.length:
        raise ValueError(f"must be {parameter.length} values, not {len(read)}")
    return read


def _choice(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: float) -> str:
    """`4,096`, `0.05`, `1e-9`."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.15g}".replace("e-0", "e-")
