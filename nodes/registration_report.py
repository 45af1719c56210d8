"""What RegisterModel did, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.durable_files import flush

if TYPE_CHECKING:
    from engine.tracking.registry import Candidate, Registered


def write_registration(
    folder: Path, candidate: Candidate, registered: Registered, location: str
) -> tuple[Path, dict[str, float | int | str]]:
    """Write `registration.json` into the folder; gives its path and the figures in it."""
    figures: dict[str, float | int | str] = {
        "name": candidate.name,
        "version": registered.version,
        "alias": candidate.alias,
        "is_best": int(registered.aliased),
        "metric": candidate.metric,
        "value": candidate.value,
        "previous_version": registered.previous,
        "model": candidate.digest,
        "location": location,
    }
    if registered.previous_value is not None:
        figures["previous_value"] = registered.previous_value
    path = folder / "registration.json"
    partial = path.with_name(f".{path.name}")
    partial.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    flush([partial])
    partial.replace(path)
    return path, figures
