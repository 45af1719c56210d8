"""How commands and notices travel: numbered and acknowledged, so that each counts once."""

from __future__ import annotations

from typing import Any

from ui.protocol.commands import Command
from ui.protocol.document import Wire
from ui.protocol.notices import Notice

CANVAS_PATH = "voxelflow/canvas"
VIEW_PATH = "voxelflow/view"
MLFLOW_PATH = "voxelflow/mlflow"
SUBPROTOCOL = "voxelflow"
HEARTBEAT_S = 20.0


class Ticket(Wire):
    """What the canvas connects with: the component's `data`."""

    ticket: str


class PortView(Wire):
    """A dataset at an output port, and the key to look at it."""

    port: str
    key: str


class LookAt(Wire):
    """Datasets to look at within a page of the app: the component's `data` there."""

    look: list[PortView]


class Sent(Wire):
    """A command with its number."""

    n: int
    command: Command


class Outbox(Wire):
    """What the browser says, oldest first: what is new, and after a lost connection all that was not handled.

    `client` names the page (a reload is a new one), `session` the link that `seen` belongs to,
    `seen` is the number of the last notice that arrived.
    """

    client: str
    session: str
    seen: int
    sent: list[Sent]


class Posted(Wire):
    """A notice with its number."""

    n: int
    notice: Notice


class Inbox(Wire):
    """What Python says, oldest first: what is new, and after a lost connection all that was not seen.

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
