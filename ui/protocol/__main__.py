"""Prints the JSON Schema of the protocol and its constants, from which `ui/canvas/protocol.mjs` makes protocol.ts."""

from __future__ import annotations

import json
from typing import Any, get_args

from pydantic import TypeAdapter

from engine.declare.field_rules import NEEDS_A_VALUE
from engine.declare.view import CardPicture, Charts, Picked, TablePage
from engine.document.pipeline import ID_PATTERN, MAX_NAME
from engine.viewing.info import ViewInfo
from engine.viewing.pictures import COLOUR_MAPS, SMALLER_SIDE
from engine.viewing.reader import Choices
from ui.protocol.catalogue import free_field, policy_fields
from ui.protocol.commands import Command
from ui.protocol.document import Wire
from ui.protocol.link import CANVAS_PATH, HEARTBEAT_S, SUBPROTOCOL, VIEW_PATH, Inbox, LookAt, Outbox, Ticket
from ui.protocol.picture import Look, Picture


def schema() -> dict[str, Any]:
    """JSON Schema of both directions, of graphs to look at, and of what is asked about datasets.

    Every field is required, and nothing left to a default, but for those marked `optional`.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(
        tuple[Outbox, Inbox, Ticket, Picture, Look, LookAt, ViewInfo, Picked, CardPicture, TablePage, Charts, Choices],
    )
    out = adapter.json_schema(mode="serialization")
    definitions = {name: _plain(item) for name, item in sorted(out["$defs"].items())}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Protocol", "definitions": definitions}


def _plain(item: Any) -> Any:
    """Without titles of properties (each would become a type of its own) and defaults."""
    if isinstance(item, list):
        return [_plain(i) for i in item]
    if not isinstance(item, dict):
        return item
    out = {key: _plain(value) for key, value in item.items() if key not in ("default", "discriminator", "properties")}
    if "$ref" in out:
        out["$ref"] = out["$ref"].replace("#/$defs/", "#/definitions/")
    if "properties" in item:
        fields = {name: _plain(field) for name, field in item["properties"].items()}
        out["required"] = [name for name, field in fields.items() if not field.get("optional")]
        hidden = ("title", "optional")
        out["properties"] = {n: {k: v for k, v in f.items() if k not in hidden} for n, f in fields.items()}
    return out


class Constant(Wire):
    """A value that the browser needs as well; `type` as TypeScript writes it."""

    name: str
    type: str
    value: Any
    comment: str


def constants() -> list[Constant]:
    """The values that are declared in Python and written into the browser's protocol.ts."""
    commands = get_args(get_args(Command)[0])
    policy = policy_fields()
    return [
        Constant(name="CANVAS_PATH", type="string", value=CANVAS_PATH, comment="Where the canvas connects."),
        Constant(name="VIEW_PATH", type="string", value=VIEW_PATH, comment="Where datasets are looked at."),
        Constant(
            name="COLOUR_MAPS",
            type=f"Readonly<Record<{' | '.join(map(repr, COLOUR_MAPS))}, readonly string[]>>",
            value=COLOUR_MAPS,
            comment="Colours at equal distances from the least value to the greatest.",
        ),
        Constant(
            name="SMALLER_SIDE",
            type="number",
            value=SMALLER_SIDE,
            comment="Of the larger side of zero: from there on values have both signs.",
        ),
        Constant(
            name="SUBPROTOCOL",
            type="string",
            value=SUBPROTOCOL,
            comment="Offered along with the ticket: unlike an address, it ends up in no log.",
        ),
        Constant(name="HEARTBEAT_S", type="number", value=HEARTBEAT_S, comment="Python sends something this often."),
        Constant(
            name="NOT_RESENT",
            type="readonly Command['type'][]",
            value=[model.model_fields["type"].default for model in commands if not model.resent],
            comment="Commands that a new session is not sent again.",
        ),
        Constant(
            name="ID_PATTERN", type="string", value=ID_PATTERN, comment="Ids of nodes, names of pipeline parameters."
        ),
        Constant(name="MAX_NAME", type="number", value=MAX_NAME, comment="Characters in a pipeline's name."),
        Constant(name="NEEDS_A_VALUE", type="string", value=NEEDS_A_VALUE, comment="Said where a value is missing."),
        Constant(
            name="POLICY_FIELDS",
            type=f"Readonly<Record<{' | '.join(map(repr, policy))}, FieldInfo>>",
            value={name: field.model_dump(mode="json") for name, field in policy.items()},
            comment="How a node is run, whatever it does.",
        ),
        Constant(
            name="FREE_FIELD",
            type="FieldInfo",
            value=free_field().model_dump(mode="json"),
            comment="A parameter of the pipeline whose type no node says.",
        ),
    ]


if __name__ == "__main__":
    print(json.dumps({"schema": schema(), "constants": [c.model_dump(mode="json") for c in constants()]}, indent=2))
