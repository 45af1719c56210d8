"""How commands and notices travel: numbered and acknowledged, so that each counts once."""

from __future__ import annotations

from typing import Any

from ui.protocol.commands import Command
from ui.protocol.notices import Notice
from ui.protocol.wire import Wire


class Sent(Wire):
    n: int
    command: Command


class Outbox(Wire):
    """What the browser has said and Python has not yet acknowledged, oldest first.

    `client` names the page (a reload is a new one), `session` the link that `seen` belongs to,
    `seen` is the number of the last notice that arrived.
    """

    client: str
    session: str
    seen: int
    sent: list[Sent]


class Posted(Wire):
    n: int
    notice: Notice


class Inbox(Wire):
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
