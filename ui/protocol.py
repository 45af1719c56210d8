"""Everything that crosses between the canvas in the browser and Python, as frozen models.

The browser sends commands, Python answers with notices. `ui/canvas/src/protocol.ts` is generated
from these models (`python -m ui.protocol` prints their JSON Schema), so both sides agree by
construction.

A pipeline on its way to the browser is a `Doc`: the document with its lists as maps, so that a
change is a small `Op` at a path and two people's changes to different fields never collide.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from engine.diagnostics import Severity
from engine.events import RunState, TaskState


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# --- the document ------------------------------------------------------------------------------


class DocPosition(_Wire):
    """The node's top left corner, in pixels at zoom 1."""

    x: float
    y: float


class DocNode(_Wire):
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


class DocEdge(_Wire):
    """A wire between two ends, each written `node.port`; its key in `Doc.edges` is `source->target`."""

    source: str
    target: str
    order: float


class DocParameter(_Wire):
    value: JsonValue
    help: str


class Doc(_Wire):
    """A pipeline as the canvas edits it. Same content as `engine.pipeline.Pipeline`."""

    name: str
    description: str
    parameters: dict[str, DocParameter]
    nodes: dict[str, DocNode]
    edges: dict[str, DocEdge]
    ui: dict[str, JsonValue]


class Op(_Wire):
    """Set what lies at `path` to `value`, or take it away with `remove`.

    Paths: ["description"], ["ui", key], ["parameters", name], ["edges", key], ["nodes", id] (a whole
    `DocNode`), ["nodes", id, field] and ["nodes", id, "params" | "ui", key]. An op inside a node
    that is no longer there does nothing.
    """

    path: list[str]
    value: JsonValue
    remove: bool


# --- the catalogue -----------------------------------------------------------------------------


class PortInfo(_Wire):
    name: str
    kinds: list[str]
    required: bool
    help: str


class PathInfo(_Wire):
    access: Literal["read", "write"]
    kind: Literal["file", "folder"]
    patterns: list[str]


class FieldInfo(_Wire):
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


class NodeTypeInfo(_Wire):
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


class ProfileInfo(_Wire):
    name: str
    backend: str
    description: str


class PipelineInfo(_Wire):
    """A pipeline of the workspace. `unsaved` means a draft differs from the file (or there is no file yet)."""

    document: str
    name: str
    description: str
    modified: float | None
    unsaved: bool
    problem: str


class TemplateInfo(_Wire):
    template: str
    name: str
    description: str
    nodes: int


# --- what is known of nodes --------------------------------------------------------------------


class Problem(_Wire):
    """A diagnostic, as `engine.diagnostics.Diagnostic`."""

    code: str
    severity: Severity
    message: str
    hint: str
    node: str | None
    port: str | None
    parameter: str | None


class OutputInfo(_Wire):
    """A dataset that a node made: its figures in words, and where it lies."""

    port: str
    kind: str
    uri: str
    figures: str


class Last(_Wire):
    """What a node last made, whichever run it was. `made` sums its outputs up in words."""

    run_id: str
    created: float
    made: str
    outputs: list[OutputInfo]


class Outlook(_Wire):
    """What a run would do with a node: nothing (`fresh`), or work, and why."""

    fresh: bool
    reason: str
    backend: str
    last: Last | None


class ProgressInfo(_Wire):
    done: float
    total: float | None
    unit: str
    label: str
    rate: float | None
    seconds_left: float | None


class FailureInfo(_Wire):
    code: str
    message: str
    hint: str
    parameter: str | None


class NodeStatus(_Wire):
    """A node's task in the run that is shown. Times are seconds since the epoch."""

    state: TaskState
    reason: str
    attempt: int
    started: float | None
    ended: float | None
    progress: ProgressInfo | None
    made: str
    outputs: list[OutputInfo]
    failure: FailureInfo | None


class RunInfo(_Wire):
    run_id: str
    state: RunState
    profile: str
    error: str
    created: float
    started: float | None
    ended: float | None
    cancelling: bool


class LogLine(_Wire):
    time: float | None
    level: Literal["info", "warning", "error", "output"]
    text: str


class Entry(_Wire):
    """A file or folder in the file browser. `bytes` of files, `items` of folders (None: not counted)."""

    name: str
    path: str
    kind: Literal["file", "folder"]
    bytes: int | None


# --- browser -> Python -------------------------------------------------------------------------


class Hello(_Wire):
    """The canvas is there, anew or again after the connection was lost; `document` is what it shows."""

    type: Literal["hello"] = "hello"
    document: str | None


class Seen(_Wire):
    """Nothing to say, but `Outbox.seen` has moved on."""

    type: Literal["seen"] = "seen"


class OpenDocument(_Wire):
    type: Literal["open"] = "open"
    document: str


class NewDocument(_Wire):
    """A new pipeline, empty or from a template."""

    type: Literal["new"] = "new"
    template: str | None


class MakeEdit(_Wire):
    """One step of the person's. `edit` names it, so that it is applied once however often it is sent."""

    type: Literal["edit"] = "edit"
    document: str
    edit: str
    ops: list[Op]


class Save(_Wire):
    """Write the draft to its file. Refused when the file was changed by someone else, unless `overwrite`."""

    type: Literal["save"] = "save"
    document: str
    overwrite: bool


class SaveAs(_Wire):
    type: Literal["save-as"] = "save-as"
    document: str
    name: str


class Rename(_Wire):
    type: Literal["rename"] = "rename"
    document: str
    name: str


class Duplicate(_Wire):
    type: Literal["duplicate"] = "duplicate"
    document: str


class Delete(_Wire):
    type: Literal["delete"] = "delete"
    document: str


class Revert(_Wire):
    """Drop the draft and take what the file holds."""

    type: Literal["revert"] = "revert"
    document: str


class Import(_Wire):
    """A pipeline's JSON text from the person's computer; `name` is its file's name."""

    type: Literal["import"] = "import"
    name: str
    text: str


class Export(_Wire):
    type: Literal["export"] = "export"
    document: str


class StartRun(_Wire):
    """Run the draft: all of it, from or to a node; `values` set pipeline parameters for this run."""

    type: Literal["run"] = "run"
    document: str
    profile: str
    start: str | None
    end: str | None
    fresh: bool
    values: dict[str, JsonValue]


class CancelRun(_Wire):
    type: Literal["cancel"] = "cancel"
    run_id: str


class ResumeRun(_Wire):
    type: Literal["resume"] = "resume"
    run_id: str


class Watch(_Wire):
    """Stream the log of this node's task (None: of none)."""

    type: Literal["watch"] = "watch"
    node: str | None


class Browse(_Wire):
    """List a folder inside the allowed roots; None lists the roots."""

    type: Literal["browse"] = "browse"
    request: int
    path: str | None


class Recheck(_Wire):
    """Look again at folders, tables and the cache."""

    type: Literal["recheck"] = "recheck"
    document: str


Command = Annotated[
    Hello
    | Seen
    | OpenDocument
    | NewDocument
    | MakeEdit
    | Save
    | SaveAs
    | Rename
    | Duplicate
    | Delete
    | Revert
    | Import
    | Export
    | StartRun
    | CancelRun
    | ResumeRun
    | Watch
    | Browse
    | Recheck,
    Field(discriminator="type"),
]


class Sent(_Wire):
    n: int
    command: Command


class Outbox(_Wire):
    """What the browser has said and Python has not yet acknowledged, oldest first.

    `client` names the page (a reload is a new one), `session` the link that `seen` belongs to,
    `seen` is the number of the last notice that arrived.
    """

    client: str
    session: str
    seen: int
    sent: list[Sent]


# --- Python -> browser -------------------------------------------------------------------------


class Welcome(_Wire):
    """First word of a session. `types` is the catalogue, `problems` what is wrong with it."""

    type: Literal["welcome"] = "welcome"
    types: list[NodeTypeInfo]
    problems: list[Problem]
    profiles: list[ProfileInfo]
    workspace: str
    version: str


class Library(_Wire):
    type: Literal["library"] = "library"
    pipelines: list[PipelineInfo]
    templates: list[TemplateInfo]


class Opened(_Wire):
    """The tab now shows this document. `edits` are the ids of the latest edits that `doc` holds already."""

    type: Literal["opened"] = "opened"
    document: str
    rev: int
    doc: Doc
    edits: list[str]


class Edited(_Wire):
    """An edit was applied, by this tab or another: `rev` counts them."""

    type: Literal["edited"] = "edited"
    document: str
    rev: int
    edit: str
    ops: list[Op]


class FileState(_Wire):
    """How the draft stands to its file. `disk`: "new" has no file yet, "changed" and "deleted" by someone else."""

    type: Literal["file"] = "file"
    document: str
    path: str
    dirty: bool
    disk: Literal["new", "same", "changed", "deleted"]


class Checked(_Wire):
    """The problems of revision `rev`. `previews` says by `node.port` what is known to come out, in words."""

    type: Literal["checked"] = "checked"
    document: str
    rev: int
    problems: list[Problem]
    previews: dict[str, str]


class Foreseen(_Wire):
    """What a run of revision `rev` would do, by node."""

    type: Literal["foreseen"] = "foreseen"
    document: str
    rev: int
    nodes: dict[str, Outlook]


class RunShown(_Wire):
    """The newest run of the document, or none."""

    type: Literal["run"] = "run"
    document: str
    run: RunInfo | None


class StatusChanged(_Wire):
    """States of nodes in a run: those that changed, or with `whole` all of them."""

    type: Literal["status"] = "status"
    run_id: str
    whole: bool
    nodes: dict[str, NodeStatus]


class LogLines(_Wire):
    """Further lines of the watched node's log; with `reset` they replace what stood there."""

    type: Literal["log"] = "log"
    run_id: str
    node: str
    reset: bool
    lines: list[LogLine]


class Listing(_Wire):
    """Answer to `Browse`. `parent` is None at a root; `problem` says why there is nothing."""

    type: Literal["listing"] = "listing"
    request: int
    path: str | None
    parent: str | None
    entries: list[Entry]
    truncated: bool
    problem: str


class Exported(_Wire):
    """The draft's canonical text, to be downloaded under `name`."""

    type: Literal["exported"] = "exported"
    name: str
    text: str


class Told(_Wire):
    """Something a person should read: the outcome of a command, a refusal with its hint."""

    type: Literal["told"] = "told"
    level: Literal["info", "success", "warning", "error"]
    text: str
    hint: str
    node: str | None
    parameter: str | None


class Others(_Wire):
    """How many other tabs have this document open."""

    type: Literal["others"] = "others"
    document: str
    count: int


Notice = Annotated[
    Welcome
    | Library
    | Opened
    | Edited
    | FileState
    | Checked
    | Foreseen
    | RunShown
    | StatusChanged
    | LogLines
    | Listing
    | Exported
    | Told
    | Others,
    Field(discriminator="type"),
]


class Posted(_Wire):
    n: int
    notice: Notice


class Inbox(_Wire):
    """What Python says and the browser has not yet seen, oldest first: the component's `data`.

    `handled` is the number of the last command of `client` that was handled. A `session` the
    browser does not know means a new link: it says Hello and sends again what is not handled.
    """

    session: str
    client: str
    handled: int
    posted: list[Posted]


def outbox_from_json(value: Any) -> Outbox:
    """Raises `pydantic.ValidationError` on anything else."""
    return Outbox.model_validate(value)


def schema() -> dict[str, Any]:
    """JSON Schema of both directions. Every field is required: nothing is left to a default."""
    adapter: TypeAdapter[Any] = TypeAdapter(tuple[Outbox, Inbox])
    out = adapter.json_schema(mode="serialization")
    definitions = {name: _plain(item) for name, item in sorted(out["$defs"].items())}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Protocol", "definitions": definitions}


def _plain(item: Any) -> Any:
    """Without titles of properties (each would become a type of its own) and defaults: every field is required."""
    if isinstance(item, list):
        return [_plain(i) for i in item]
    if not isinstance(item, dict):
        return item
    out = {key: _plain(value) for key, value in item.items() if key not in ("default", "discriminator", "properties")}
    if "$ref" in out:
        out["$ref"] = out["$ref"].replace("#/$defs/", "#/definitions/")
    if "properties" in item:
        fields = {name: _plain(field) for name, field in item["properties"].items()}
        out["properties"] = {n: {k: v for k, v in f.items() if k != "title"} for n, f in fields.items()}
        out["required"] = list(fields)
    return out


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
