"""Reads what the browser says, also when a part of it makes no sense. Pure."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from ui.protocol.commands import Seen
from ui.protocol.link import Outbox, Sent, outbox_from_json


def read_outbox(value: Any) -> tuple[Outbox, dict[int, str]]:
    """The outbox, and by number what is wrong with commands that cannot be read.

    Those stand there as `Seen`: left unhandled, the browser would send them for ever and everything
    behind them would wait. Raises `pydantic.ValidationError` when it is no outbox at all.
    """
    try:
        return outbox_from_json(value), {}
    except ValidationError:
        if not isinstance(value, dict) or not isinstance(value.get("sent"), list):
            raise
    unreadable: dict[int, str] = {}
    sent: list[Sent] = []
    for item in value["sent"]:
        try:
            sent.append(Sent.model_validate(item))
        except ValidationError as exc:
            number = item.get("n") if isinstance(item, dict) else None
            if isinstance(number, int) and not isinstance(number, bool):
                first = exc.errors()[0]
                unreadable[number] = f"{'.'.join(str(p) for p in first['loc'][:6])}: {first['msg']}"
                sent.append(Sent(n=number, command=Seen()))
    return outbox_from_json({**value, "sent": [s.model_dump() for s in sent]}), unreadable
