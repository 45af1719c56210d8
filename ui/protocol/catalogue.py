"""What there is to choose from: node types with the fields of their forms, profiles, pipelines, templates.

A field of a form is data: the browser draws it and checks what is typed from this alone. Types are declared in Python
(`engine.declare.parameters`), once each. One that existing widgets show needs nothing else; a new widget needs its name
in `engine.declare.field_rules` and a control in `ui/canvas/src/view/inspector/fields/controls.tsx`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import JsonValue

from engine.declare.field_rules import Base, Check, WidgetName
from engine.declare.parameters import Parameter, Range, Unit, parameter_from_annotation
from ui.protocol.document import Wire


class PathInfo(Wire):
    """A path that a node reads or writes."""

    access: Literal["read", "write"]
    kind: Literal["file", "folder"]
    patterns: list[str]


class RuleInfo(Wire):
    """One thing that the value must be, as `engine.declare.field_rules.Rule`; `message` is said when it is not."""

    check: Check
    value: JsonValue
    message: str


class FieldInfo(Wire):
    """One parameter as a form draws it.

    `type` is that of the value, or with `many` of a list's items; "any" is JSON where the text is JSON, else text. The
    value must keep all `rules`, in this order. `hint` is shown below the field after its help, `placeholder` in it
    while it is empty and has no default. `step` is how far an arrow key moves a number (None: as far
    as suits its size).
    """

    name: str
    title: str
    help: str
    required: bool
    default: JsonValue
    optional: bool
    type: Base | Literal["any"]
    many: bool
    rules: list[RuleInfo]
    widget: WidgetName
    unit: str
    step: float | None
    path: PathInfo | None
    hint: str
    placeholder: str
    policy: bool
    extendable: bool
    advanced: bool


class PortInfo(Wire):
    """A port of a node type; `kinds` are the dataset types that fit."""

    name: str
    kinds: list[str]
    required: bool
    help: str


class NodeTypeInfo(Wire):
    """A node type; `origin` is the module or file that declares it.

    `light` and `dark` are the colours (`#rrggbb`) of its category in either theme, `icon` the data of an SVG path,
    drawn with a line of 2 on a square of 24. `keywords` find it as well as its texts do.
    """

    type: str
    version: int
    category: str
    light: str
    dark: str
    icon: str
    keywords: list[str]
    summary: str
    description: str
    origin: str
    backends: list[str]
    inputs: list[PortInfo]
    outputs: list[PortInfo]
    fields: list[FieldInfo]


class DatasetTypeInfo(Wire):
    """A dataset type: `light` and `dark` are the colours (`#rrggbb`) of its ports and wires in either theme, `pictured`
    whether cards show thumbnails of it."""

    kind: str
    title: str
    summary: str
    light: str
    dark: str
    pictured: bool


class ProfileInfo(Wire):
    """A compute profile.

    `price` is what an hour costs, None where that is not known; `priced` says where it is from and what is in
    it, or why it is not known.
    `stop_after` and `stop_at_cost` limit each run that is given no limit of its own; "" and None: they do not.
    """

    name: str
    backend: str
    description: str
    price: float | None
    currency: str
    priced: str
    stop_after: str
    stop_at_cost: float | None


class PipelineInfo(Wire):
    """A pipeline of the workspace. `unsaved` means a draft differs from the file (or there is no file yet)."""

    document: str
    name: str
    description: str
    modified: float | None
    unsaved: bool
    problem: str


class TemplateInfo(Wire):
    """A pipeline to begin with; `nodes` is how many it has."""

    template: str
    name: str
    description: str
    nodes: int


# --- fields from declared parameters -------------------------------------------------------------


def field_info(parameter: Parameter) -> FieldInfo:
    """The form field of a node's parameter."""
    secret = "the name of an environment variable: the secret itself never enters the pipeline"
    return FieldInfo(
        name=parameter.name,
        title=parameter.title,
        help=parameter.help,
        required=parameter.required,
        default=None if parameter.required else _plain(parameter.default),
        optional=parameter.optional,
        type=parameter.base,
        many=parameter.many,
        rules=[RuleInfo(check=r.check, value=_plain(r.value), message=r.message) for r in parameter.rules],
        widget=parameter.widget,
        unit=parameter.unit,
        step=parameter.step,
        path=_path(parameter),
        hint=secret if parameter.secret else parameter.pattern.help if parameter.pattern else "",
        placeholder="NAME_OF_A_VARIABLE" if parameter.secret else "",
        policy=parameter.policy,
        extendable=parameter.extendable,
        advanced=parameter.advanced,
    )


def _path(parameter: Parameter) -> PathInfo | None:
    if parameter.path_in is not None:
        return PathInfo(access="read", kind=parameter.path_in.kind, patterns=list(parameter.path_in.patterns))
    if parameter.path_out is not None:
        return PathInfo(access="write", kind=parameter.path_out.kind, patterns=[])
    return None


def _plain(value: Any) -> JsonValue:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


# --- fields that no node declares ----------------------------------------------------------------


def policy_fields() -> dict[str, FieldInfo]:
    """How a node is run, whatever it does: fields of the document's nodes."""
    retries = parameter_from_annotation(
        "retries", Annotated[int, Range(0, 100)], 0, "how often to try again after a failure"
    )
    limit = parameter_from_annotation(
        "timeout_s", Annotated[float | None, Range(1), Unit("s")], None, "an attempt that takes longer is stopped"
    )
    return {
        "retries": field_info(retries),
        "timeout_s": field_info(limit).model_copy(update={"title": "Time limit"}),
    }


def free_field() -> FieldInfo:
    """A parameter of the pipeline whose type no node says: anything goes."""
    text = field_info(parameter_from_annotation("", str | None, None, ""))
    return text.model_copy(update={"type": "any", "rules": []})
