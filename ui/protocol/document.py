"""A pipeline as the canvas edits it, and the base of all models that cross between the canvas and Python.

The document with its lists as maps, so that a change is a small `Op` at a path and two people's
changes to different fields never collide.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PlainSerializer

from engine.document.pipeline import Colour, NodeMode


class Wire(BaseModel):
    """What crosses between the canvas and Python: frozen, and nothing in it that the other side does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


LARGEST_WHOLE = 2**53 - 1
"""A browser rounds whole numbers beyond it."""


def for_browser(value: JsonValue) -> JsonValue:
    """The value with whole numbers that a browser cannot hold as text, which fields read to the last digit.

    So it also comes back when the browser sends a whole node: after an undo, in a copy.
    """
    if isinstance(value, dict):
        return {key: for_browser(item) for key, item in value.items()}
    if isinstance(value, list):
        return [for_browser(item) for item in value]
    # `True` is an `int` as well, and a small one.
    return str(value) if isinstance(value, int) and abs(value) > LARGEST_WHOLE else value


Value = Annotated[JsonValue, PlainSerializer(for_browser, return_type=JsonValue, when_used="json")]
"""What a document holds and no model describes."""


class DocPosition(Wire):
    """The node's top left corner, in pixels at zoom 1."""

    x: float
    y: float


class DocNode(Wire):
    """A node; its id is its key in `Doc.nodes`. `order` is its place among the file's nodes."""

    type: str
    version: int | None
    title: str
    params: dict[str, Value]
    position: DocPosition
    retries: int
    timeout_s: float | None
    mode: NodeMode = "run"
    ui: dict[str, Value]
    order: float


class DocEdge(Wire):
    """A wire between two ends, each written `node.port`; its key in `Doc.edges` is `source->target`."""

    source: str
    target: str
    order: float


class DocParameter(Wire):
    """A parameter of the pipeline."""

    value: Value
    help: str


class DocAnnotation(Wire):
    """A frame or a note; its id is its key in `Doc.annotations`. `text` is the frame's title or the note's text."""

    kind: Literal["frame", "note"]
    text: str
    colour: Colour
    position: DocPosition
    width: float
    height: float
    order: float


class Doc(Wire):
    """A pipeline as the canvas edits it. Same content as `engine.document.pipeline.Pipeline`."""

    name: str
    description: str
    parameters: dict[str, DocParameter]
    nodes: dict[str, DocNode]
    edges: dict[str, DocEdge]
    annotations: dict[str, DocAnnotation] = {}
    ui: dict[str, Value]


class Op(Wire):
    """Set what lies at `path` to `value`, or delete it with `remove`.

    Paths: ["description"], ["ui", key], ["parameters", name] and ["parameters", name, "value" | "help"],
    ["edges", key], ["nodes", id] (a whole `DocNode`), ["nodes", id, field] and ["nodes", id, "params" | "ui",
    key], ["annotations", id] and ["annotations", id, field]. An op inside what is no longer there does
    nothing. A node that is removed takes its wires along; a wire that is set takes the place of another in
    its input, and is not made without both its nodes. None of that counts for the wires with the keys `exempt`:
    what is undone or restored gets back also the wires that nobody could draw.
    """

    path: list[str]
    value: Value
    remove: bool
    exempt: list[str] = Field([], json_schema_extra={"optional": True})
