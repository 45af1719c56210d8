"""What the browser says to Python."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from ui.protocol.document import Op
from ui.protocol.wire import Wire


class Hello(Wire):
    """The canvas is there, anew or again after the connection was lost; `document` is what it shows."""

    type: Literal["hello"] = "hello"
    document: str | None


class Seen(Wire):
    """Nothing to say, but `Outbox.seen` has moved on."""

    type: Literal["seen"] = "seen"


class OpenDocument(Wire):
    type: Literal["open"] = "open"
    document: str


class NewDocument(Wire):
    """A new pipeline, empty or from a template."""

    type: Literal["new"] = "new"
    template: str | None


class MakeEdit(Wire):
    """One step of the person's. `edit` names it, so that it is applied once however often it is sent."""

    type: Literal["edit"] = "edit"
    document: str
    edit: str
    ops: list[Op]


class Save(Wire):
    """Write the draft to its file. Refused when the file was changed by someone else, unless `overwrite`."""

    type: Literal["save"] = "save"
    document: str
    overwrite: bool


class SaveAs(Wire):
    type: Literal["save-as"] = "save-as"
    document: str
    name: str


class Rename(Wire):
    type: Literal["rename"] = "rename"
    document: str
    name: str


class Duplicate(Wire):
    type: Literal["duplicate"] = "duplicate"
    document: str


class Delete(Wire):
    type: Literal["delete"] = "delete"
    document: str


class Revert(Wire):
    """Drop the draft and take what the file holds."""

    type: Literal["revert"] = "revert"
    document: str


class Import(Wire):
    """A pipeline's JSON text from the person's computer; `name` is its file's name."""

    type: Literal["import"] = "import"
    name: str
    text: str


class Export(Wire):
    type: Literal["export"] = "export"
    document: str


class StartRun(Wire):
    """Run the draft: all of it, from or to a node; `values` set pipeline parameters for this run."""

    type: Literal["run"] = "run"
    document: str
    profile: str
    start: str | None
    end: str | None
    fresh: bool
    values: dict[str, JsonValue]


class CancelRun(Wire):
    type: Literal["cancel"] = "cancel"
    run_id: str


class ResumeRun(Wire):
    type: Literal["resume"] = "resume"
    run_id: str


class Watch(Wire):
    """Stream the log of this node's task (None: of none)."""

    type: Literal["watch"] = "watch"
    node: str | None


class Browse(Wire):
    """List a folder inside the allowed roots; None lists the roots."""

    type: Literal["browse"] = "browse"
    request: int
    path: str | None


class Choose(Wire):
    """The compute profile that the tab's next run will take: problems and the outlook are told for it."""

    type: Literal["choose"] = "choose"
    profile: str


class Recheck(Wire):
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
    | Choose
    | Recheck,
    Field(discriminator="type"),
]
