"""What the browser says to Python.

What becomes of a command whose answer never came (a lost connection, a server started again) is declared here, once:
Python reads it from the classes, the browser from `NOT_RESENT` in protocol.ts.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from ui.protocol.document import Op, Wire

ExportTarget = Literal["python", "airflow", "databricks", "github", "kubernetes"]


class _Command(Wire):
    once: ClassVar[bool] = False
    """Must not be done twice: its number is kept on disk before it is done, so a server started again knows it."""
    resent: ClassVar[bool] = True
    """Sent again to a new session. Else it is dropped: a person would have pressed again by then, or the page asks
    anew by itself."""


class Hello(_Command):
    """The canvas is there, anew or again after the connection was lost; `document` is what it shows."""

    resent: ClassVar[bool] = False
    type: Literal["hello"] = "hello"
    document: str | None


class Seen(_Command):
    """Nothing to say, but `Outbox.seen` has moved on."""

    resent: ClassVar[bool] = False
    type: Literal["seen"] = "seen"


class OpenDocument(_Command):
    """Show another document in this tab."""

    type: Literal["open"] = "open"
    document: str


class NewDocument(_Command):
    """A new pipeline, empty or from a template."""

    once: ClassVar[bool] = True
    type: Literal["new"] = "new"
    template: str | None


class MakeEdit(_Command):
    """One step of the person's. `edit` names it, so that it is applied once however often it is sent."""

    type: Literal["edit"] = "edit"
    document: str
    edit: str
    ops: list[Op]


class Save(_Command):
    """Write the draft to its file. Refused when the file was changed by someone else, unless `overwrite`."""

    once: ClassVar[bool] = True
    type: Literal["save"] = "save"
    document: str
    overwrite: bool


class SaveAs(_Command):
    """Write the draft to a new file under another name."""

    once: ClassVar[bool] = True
    type: Literal["save-as"] = "save-as"
    document: str
    name: str


class Rename(_Command):
    """Give the document another name; its file follows."""

    once: ClassVar[bool] = True
    type: Literal["rename"] = "rename"
    document: str
    name: str


class Duplicate(_Command):
    """Copy the draft into a new document."""

    once: ClassVar[bool] = True
    type: Literal["duplicate"] = "duplicate"
    document: str


class Delete(_Command):
    """Move the document and its draft to the trash."""

    once: ClassVar[bool] = True
    type: Literal["delete"] = "delete"
    document: str


class Revert(_Command):
    """Drop the draft and take what the file holds."""

    once: ClassVar[bool] = True
    type: Literal["revert"] = "revert"
    document: str


class Import(_Command):
    """A pipeline's JSON text from the person's computer; `name` is its file's name."""

    once: ClassVar[bool] = True
    type: Literal["import"] = "import"
    name: str
    text: str


class Export(_Command):
    """Ask for the draft's canonical text."""

    resent: ClassVar[bool] = False
    type: Literal["export"] = "export"
    document: str


class ExportCode(_Command):
    """Ask for the draft as a program, or as what a platform takes: what `voxelflow export --to TARGET` writes."""

    resent: ClassVar[bool] = False
    type: Literal["export-code"] = "export-code"
    document: str
    profile: str
    target: ExportTarget


class ListVersions(_Command):
    """List what each save of the document wrote."""

    resent: ClassVar[bool] = False
    type: Literal["list-versions"] = "list-versions"
    request: int
    document: str


class ReadVersion(_Command):
    """Ask for one of these versions."""

    resent: ClassVar[bool] = False
    type: Literal["read-version"] = "read-version"
    request: int
    document: str
    version: str


class KeepDraft(_Command):
    """Keep the draft as a version: another one is about to take its place."""

    once: ClassVar[bool] = True
    type: Literal["keep-draft"] = "keep-draft"
    document: str


class AllowFolder(_Command):
    """Let the workspace's pipelines use a folder or URL outside it: a path as a document has it, from now on."""

    once: ClassVar[bool] = True
    type: Literal["allow-folder"] = "allow-folder"
    path: str


class RunLimit(Wire):
    """A run, or a whole sweep, is stopped after a time such as `3h`, or at a cost; "" and None: it is not."""

    stop_after: str
    stop_at_cost: float | None


class StartRun(_Command):
    """Run the draft: all of it, from or to a node; `values` set pipeline parameters for this run.

    `limit` is the run's own; None: that of the profile.
    """

    once: ClassVar[bool] = True
    resent: ClassVar[bool] = False

    type: Literal["run"] = "run"
    document: str
    profile: str
    start: str | None
    end: str | None
    fresh: bool
    values: dict[str, JsonValue]
    limit: RunLimit | None


class Search(Wire):
    """A search of a sweep's values: so many trials, for the highest or the lowest of a figure such as `val_auc`."""

    trials: int
    figure: str
    maximise: bool


class SweepCommand(_Command):
    """Every combination of `values`, as typed: by parameter, or `node.parameter`, with commas.

    With a `search` values may be ranges (`1e-5..1e-2:log`), and only its trials are run. Up to the node `end`; `jobs`
    runs at a time.
    """

    resent: ClassVar[bool] = False
    document: str
    profile: str
    end: str | None
    values: dict[str, str]
    jobs: int
    search: Search | None = None


class StartSweep(SweepCommand):
    """Run the draft with these values. `limit` is that of all trials together; that of the profile is each trial's."""

    once: ClassVar[bool] = True

    type: Literal["sweep"] = "sweep"
    limit: RunLimit | None = None


class ForecastSweep(SweepCommand):
    """Ask what such a sweep of the draft would run, and what that would take."""

    type: Literal["forecast-sweep"] = "forecast-sweep"
    request: int


class CancelRun(_Command):
    """Cancel a run."""

    resent: ClassVar[bool] = False
    type: Literal["cancel"] = "cancel"
    run_id: str


class ResumeRun(_Command):
    """Go on with a run that did not end well."""

    once: ClassVar[bool] = True
    resent: ClassVar[bool] = False

    type: Literal["resume"] = "resume"
    run_id: str


class Watch(_Command):
    """Stream the log of this node's task (None: of none)."""

    resent: ClassVar[bool] = False
    type: Literal["watch"] = "watch"
    node: str | None


class Browse(_Command):
    """List a folder; None lists the folders that the workspace may use, and where else one may look."""

    resent: ClassVar[bool] = False
    type: Literal["browse"] = "browse"
    request: int
    path: str | None


class Choose(_Command):
    """The compute profile that the tab's next run will take: problems and forecasts are those for it."""

    type: Literal["choose"] = "choose"
    profile: str


class Recheck(_Command):
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
    | ExportCode
    | ListVersions
    | ReadVersion
    | KeepDraft
    | AllowFolder
    | StartRun
    | StartSweep
    | ForecastSweep
    | CancelRun
    | ResumeRun
    | Watch
    | Browse
    | Choose
    | Recheck,
    Field(discriminator="type"),
]
