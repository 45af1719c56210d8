"""What there is to choose from: node types and their fields, profiles, pipelines, templates."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from ui.protocol.wire import Wire


class PortInfo(Wire):
    name: str
    kinds: list[str]
    required: bool
    help: str


class PathInfo(Wire):
    access: Literal["read", "write"]
    kind: Literal["file", "folder"]
    patterns: list[str]


class FieldInfo(Wire):
    """One parameter as a form draws it. `type` is bool, int, float, str or `list of int` and the like."""

    name: str
    title: str
    type: str
    help: str
    required: bool
    default: JsonValue
    low: float | None
    high: float | None
    choices: list[JsonValue]
    unit: str
    path: PathInfo | None
    secret: bool
    policy: bool
    extendable: bool
    advanced: bool
    optional: bool


class NodeTypeInfo(Wire):
    type: str
    version: int
    category: str
    summary: str
    description: str
    origin: str
    backends: list[str]
    inputs: list[PortInfo]
    outputs: list[PortInfo]
    fields: list[FieldInfo]


class ProfileInfo(Wire):
    name: str
    backend: str
    description: str


class PipelineInfo(Wire):
    """A pipeline of the workspace. `unsaved` means a draft differs from the file (or there is no file yet)."""

    document: str
    name: str
    description: str
    modified: float | None
    unsaved: bool
    problem: str


class TemplateInfo(Wire):
    template: str
    name: str
    description: str
    nodes: int
