"""What Python says to the browser."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ui.protocol.catalogue import NodeTypeInfo, PipelineInfo, ProfileInfo, TemplateInfo
from ui.protocol.document import Doc, Op
from ui.protocol.status import LogLine, NodeStatus, Outlook, Problem, RunInfo
from ui.protocol.wire import Wire


class Entry(Wire):
    """A file or folder in the file browser. `bytes` of files, `items` of folders (None: not counted)."""

    name: str
    path: str
    kind: Literal["file", "folder"]
    bytes: int | None


class Welcome(Wire):
    """First word of a session. `types` is the catalogue, `problems` what is wrong with it."""

    type: Literal["welcome"] = "welcome"
    types: list[NodeTypeInfo]
    problems: list[Problem]
    profiles: list[ProfileInfo]
    workspace: str
    version: str


class Library(Wire):
    type: Literal["library"] = "library"
    pipelines: list[PipelineInfo]
    templates: list[TemplateInfo]


class Opened(Wire):
    """The tab now shows this document. `edits` are the ids of the latest edits that `doc` holds already."""

    type: Literal["opened"] = "opened"
    document: str
    rev: int
    doc: Doc
    edits: list[str]


class Edited(Wire):
    """An edit was applied, by this tab or another: `rev` counts them."""

    type: Literal["edited"] = "edited"
    document: str
    rev: int
    edit: str
    ops: list[Op]


class FileState(Wire):
    """How the draft stands to its file. `disk`: "new" has no file yet, "changed" and "deleted" by someone else."""

    type: Literal["file"] = "file"
    document: str
    path: str
    dirty: bool
    disk: Literal["new", "same", "changed", "deleted"]


class Checked(Wire):
    """The problems of revision `rev`. `previews` says by `node.port` what is known to come out, in words."""

    type: Literal["checked"] = "checked"
    document: str
    rev: int
    problems: list[Problem]
    previews: dict[str, str]


class Foreseen(Wire):
    """What a run of revision `rev` would do, by node."""

    type: Literal["foreseen"] = "foreseen"
    document: str
    rev: int
    nodes: dict[str, Outlook]


class RunShown(Wire):
    """The newest run of the document, or none."""

    type: Literal["run"] = "run"
    document: str
    run: RunInfo | None


class StatusChanged(Wire):
    """States of nodes in a run: those that changed, or with `whole` all of them."""

    type: Literal["status"] = "status"
    run_id: str
    whole: bool
    nodes: dict[str, NodeStatus]


class LogLines(Wire):
    """Further lines of the watched node's log; with `reset` they replace what stood there."""

    type: Literal["log"] = "log"
    run_id: str
    node: str
    reset: bool
    lines: list[LogLine]


class Listing(Wire):
    """Answer to `Browse`. `parent` is None at a root; `problem` says why there is nothing."""

    type: Literal["listing"] = "listing"
    request: int
    path: str | None
    parent: str | None
    entries: list[Entry]
    truncated: bool
    problem: str


class Exported(Wire):
    """The draft's canonical text, to be downloaded under `name`."""

    type: Literal["exported"] = "exported"
    name: str
    text: str


class Told(Wire):
    """Something a person should read: the outcome of a command, a refusal with its hint."""

    type: Literal["told"] = "told"
    level: Literal["info", "success", "warning", "error"]
    text: str
    hint: str
    node: str | None
    parameter: str | None


class Others(Wire):
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
