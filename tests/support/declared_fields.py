"""Parameters of every kind, declared as the author of a node does, and what is sent of them to the browser.

python -m tests.support.declared_fields     writes ui/protocol/cases/declared.json, from which vitest takes its fields
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import ui.protocol
from engine.declare.parameters import (
    MISSING,
    Parameter,
    PathIn,
    PathOut,
    Pattern,
    Range,
    Secret,
    Step,
    Unit,
    Widget,
    parameter_from_annotation,
)
from ui.protocol.catalogue import field_info

Day = Annotated[str, Pattern(r"\d{4}-\d{2}-\d{2}", help="a date like 2026-01-31")]
"""A field type of one's own: one line, and nothing in TypeScript."""

DECLARED: dict[str, tuple[Any, Any]] = {
    "int": (int, 5),
    "required int": (int, MISSING),
    "int or none": (int | None, 5),
    "none or int": (int | None, None),
    "volumes": (Annotated[int, Range(1, 10_000), Unit("volumes")], 64),
    "seconds": (Annotated[int, Range(0), Unit("s")], 0),
    "float": (float, 0.5),
    "rate": (Annotated[float, Range(1e-9, 10)], 3e-4),
    "percent": (Annotated[float, Range(0, 100), Unit("%"), Step(5)], 20.0),
    "switch": (bool, False),
    "automatic": (bool | None, None),
    "text": (str, "x"),
    "required text": (str, MISSING),
    "text or none": (str | None, None),
    "depth": (Annotated[Literal[18, 34, 1000], Unit("layers")], 18),
    "mode": (Literal["fast", "exact, slow", "2"], "fast"),
    "yes or no": (Literal[True, False], True),
    "ints": (tuple[int, ...], (8, 8)),
    "shape": (Annotated[tuple[int, ...], Range(1, 4096), Unit("voxels")], MISSING),
    "floats": (tuple[float, ...], ()),
    "words": (tuple[str, ...], ("a",)),
    "flags": (tuple[bool, ...] | None, None),
    "colours": (tuple[Literal["red", "green"], ...], ("red",)),
    "day": (Day, "2026-01-31"),
    "required day": (Day, MISSING),
    "day or none": (Annotated[Day | None, Widget("text")], None),
    "days": (tuple[Day, ...], ()),
    "three": (Annotated[str, Pattern(r".{3}|", "three characters, or none")], ""),
    "anchored": (Annotated[str, Pattern(r"^a|[b$]+$", "a, or b and $")], "a"),
    "letters": (Annotated[str, Pattern(r"[\wé😀]+(?:[.\-/]\w{1,2})*", "letters")], "a"),
    "folder": (Annotated[str, PathIn("folder", "**/*.npy")], MISSING),
    "target": (Annotated[str, PathOut("file")], "out.csv"),
    "token": (Annotated[str, Secret()], MISSING),
}


def declared(name: str) -> Parameter:
    annotation, default = DECLARED[name]
    return parameter_from_annotation(name.replace(" ", "_"), annotation, default, "")


def sent_to_the_browser() -> dict[str, Any]:
    return {name: field_info(declared(name)).model_dump(mode="json") for name in DECLARED}


if __name__ == "__main__":
    from pathlib import Path

    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(field)}" for name, field in sent_to_the_browser().items())
    (Path(ui.protocol.__file__).parent / "cases" / "declared.json").write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
