"""A pipeline as the canvas edits it.

The document with its lists as maps, so that a change is a small `Op` at a path and two people's
changes to different fields never collide.
"""

from __future__ import annotations

from pydantic import JsonValue

from ui.protocol.wire import Wire


class DocPosition(Wire):
    """The node's top left corner, in pixels at zoom 1."""

    x: float
    y: float


class DocNode(Wire):
    """A node; its id is its key in `Doc.nodes`. `order` is its place among the file's nodes."""

    type: str
    version: int | None
    title: str
    params: dict[str, JsonValue]
    position: DocPosition
    retries: int
    timeout_s: float | None
    ui: dict[str, JsonValue]
    order: float


class DocEdge(Wire):
    """A wire between two ends, each written `node.port`; its key in `Doc.edges` is `source->target`."""

    source: str
    target: str
    order: float


class DocParameter(Wire):
    value: JsonValue
    help: str


class Doc(Wire):
    """A pipeline as the canvas edits it. Same content as `engine.pipeline.Pipeline`."""

    name: str
    description: str
    parameters: dict[str, DocParameter]
    nodes: dict[str, DocNode]
    edges: dict[str, DocEdge]
    ui: dict[str, JsonValue]


class Op(Wire):
    """Set what lies at `path` to `value`, or take it away with `remove`.

    Paths: ["description"], ["ui", key], ["parameters", name], ["edges", key], ["nodes", id] (a whole
    `DocNode`), ["nodes", id, field] and ["nodes", id, "params" | "ui", key]. An op inside a node
    that is no longer there does nothing.
    """

    path: list[str]
    value: JsonValue
    remove: bool
