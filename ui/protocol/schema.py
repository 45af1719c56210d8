"""JSON Schema of the protocol, from which the browser's types are made."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from ui.protocol.link import Inbox, Outbox


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
