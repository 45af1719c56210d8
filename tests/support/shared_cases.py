"""The tables of cases in ui/protocol/cases, which pytest and vitest both run: one answer for both languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ui.protocol

FOLDER = Path(ui.protocol.__file__).parent / "cases"


def table(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def cases(name: str, *keys: str) -> list[dict[str, Any]]:
    """The cases of a table. One with other keys than `keys` says something that its reader would leave out."""
    found: list[dict[str, Any]] = table(name)["cases"]
    for case in found:
        assert case.keys() <= {"name", *keys}, f"{name}: {case['name']} has {sorted(case.keys() - {'name', *keys})}"
    assert len({case["name"] for case in found}) == len(found), f"{name}: two cases have one name"
    return found


def name_of(case: dict[str, Any]) -> str:
    return str(case["name"])
