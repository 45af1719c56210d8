"""What Python says to the browser."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ui.protocol.catalogue import DatasetTypeInfo, NodeTypeInfo, PipelineInfo, ProfileInfo, TemplateInfo
from ui.protocol.document import Doc, Op, Wire
from ui.protocol.status import LogLine, NodeForecast, NodeStatus, Problem, RunInfo


class Entry(Wire):
    """A file or folder in the file browser. `bytes` of files, `items` of folders (None: not counted)."""

    name: str
    path: str
    kind: Literal["file", "folder"]
    bytes: int | None


class Welcome(Wire):
    """First word of a session. `types` and `datasets` are the catalogue, `problems` what is wrong with it; `ran` is
    False in a workspace that has no runs."""

    type: Literal["welcome"] = "welcome"
    types: list[NodeTypeInfo]
    datasets: list[DatasetTypeInfo]
    problems: list[Problem]
    profiles: list[ProfileInfo]
    workspace: str
    version: str
    ran: bool


class Library(Wire):
    """The pipelines of the workspace, and the templates."""

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
    """How the draft compares with its file. `disk`: "new" has no file yet, "changed" and "deleted" by someone else."""

    type: Literal["file"] = "file"
    document: str
    path: str
    dirty: bool
    disk: Literal["new", "same", "changed", "deleted"]


class Checked(Wire):
    """The problems of revision `rev`. By `node.port`: `previews` says in words what is known to come out, and `views`
    has the keys of what is there already and can be looked at. By node: `does` says what it does, where it says so.
    `listed` once all folders have been listed: until then there may be more to look at."""

    type: Literal["checked"] = "checked"
    document: str
    rev: int
    problems: list[Problem]
    previews: dict[str, str]
    views: dict[str, str]
    does: dict[str, str]
    listed: bool


class RunForecast(Wire):
    """What a run of revision `rev` would do, by node."""

    type: Literal["forecast"] = "forecast"
    document: str
    rev: int
    nodes: dict[str, NodeForecast]


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
    """Answer to `Browse`. `parent` is None at the top; `problem` says why there is nothing.

    `allowed`: pipelines of this workspace may use the folder. `elsewhere` is where one may look outside of what they
    may use; empty when the app shows nothing of that.
    """

    type: Literal["listing"] = "listing"
    request: int
    path: str | None
    parent: str | None
    entries: list[Entry]
    truncated: bool
    allowed: bool
    elsewhere: list[Entry]
    problem: str


class Exported(Wire):
    """The draft's canonical text or code, to be downloaded under `name`; with `packed`, a zip file as base64."""

    type: Literal["exported"] = "exported"
    name: str
    text: str
    packed: bool


class VersionInfo(Wire):
    """What a save wrote, `saved` in seconds since the epoch. `unsaved`: a draft that a restored version replaced."""

    version: str
    saved: float
    unsaved: bool
    nodes: int
    problem: str


class Versions(Wire):
    """Answer to `ListVersions`, the newest first."""

    type: Literal["versions"] = "versions"
    request: int
    versions: list[VersionInfo]


class VersionRead(Wire):
    """Answer to `ReadVersion`: the document, or the `problem` with it."""

    type: Literal["version"] = "version"
    request: int
    doc: Doc | None
    problem: str


class SweepNode(Wire):
    """A node that runs in a sweep: in how many of its trials; None: not all of them were planned."""

    node: str
    times: int | None


class ExpectedPart(Wire):
    """What is expected of a sweep in words: its `name` is "time", "cost", "time and cost" or "not counted"."""

    name: str
    text: str


class SweepForecast(Wire):
    """Answer to `ForecastSweep`: how many trials there would be, the nodes that run, the time and cost of all (nothing
    where nothing runs), and how these are known. `problem` says why there can be no such sweep."""

    type: Literal["sweep-forecast"] = "sweep-forecast"
    request: int
    trials: int
    nodes: list[SweepNode]
    expected: list[ExpectedPart]
    notes: list[str]
    problem: str


class Message(Wire):
    """Something a person should read: the outcome of a command, a refusal with its hint."""

    type: Literal["message"] = "message"
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
    | RunForecast
    | RunShown
    | StatusChanged
    | LogLines
    | Listing
    | Exported
    | Versions
    | VersionRead
    | SweepForecast
    | Message
    | Others,
    Field(discriminator="type"),
]
