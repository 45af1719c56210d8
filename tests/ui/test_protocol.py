"""The browser's types are those of the Python models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from node_tools import run_tool
from outside_parts import CANVAS

from ui.protocol.__main__ import schema
from ui.protocol.commands import Command
from ui.protocol.notices import Notice

TYPES = CANVAS / "src" / "protocol.ts"


@pytest.mark.slow
def test_every_model_and_field_is_known_to_the_browser() -> None:
    text = TYPES.read_text()
    types = dict(re.findall(r"^export type (\w+) = \{\n(.*?)^\};", text, re.MULTILINE | re.DOTALL))
    models = {name: item for name, item in schema()["definitions"].items() if name != "JsonValue"}
    assert types.keys() == models.keys()
    for name, model in models.items():
        assert re.findall(r"^  (\w+)(?=\??:)", types[name], re.MULTILINE) == list(model["properties"]), name
    # Optional fields and unknown types would hide what one side has forgotten. Ops of pages loaded earlier, and of
    # almost every edit, exempt nothing.
    assert re.findall(r"(\w+)\?:", text) == ["exempt"]
    assert "unknown" not in text


def test_every_command_and_notice_is_in_its_union() -> None:
    text = TYPES.read_text()
    unions: dict[str, Any] = {"Command": Command, "Notice": Notice}
    for name, made in unions.items():
        union = re.search(rf"^export type {name} =\n(.*?);", text, re.MULTILINE | re.DOTALL)
        assert union is not None
        assert re.findall(r"\w+", union[1]) == [model.__name__ for model in made.__args__[0].__args__]


@pytest.mark.slow
@pytest.mark.needs(part="canvas")
def test_the_types_are_up_to_date(tmp_path: Path) -> None:
    """Else: `npm run types` in ui/canvas."""
    run_tool("node", "protocol.mjs", str(tmp_path / "protocol.ts"))
    assert TYPES.read_text() == (tmp_path / "protocol.ts").read_text()
