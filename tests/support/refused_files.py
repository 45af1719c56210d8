"""Why a file of volumes is refused, and what its header says of the spacing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodes.conversion.formats import Reading
from nodes.conversion.formats.reader import header_of, read_volume
from nodes.conversion.quarantine import Refused


def refusal(path: Path, format: str, dataset: str = "") -> str:
    """Why the file at `path` is refused."""
    with pytest.raises(Refused) as refused:
        read_volume(str(path.parent), path.name, Reading(format, dataset))
    return f"{refused.value.reason}: {refused.value.message}"


def spacing_in(path: Path, format: str) -> dict[str, Any]:
    """The columns of the spacing that the file's header gives."""
    columns = header_of(str(path.parent), path.name, Reading(format)).columns
    return {name: value for name, value in columns.items() if name.startswith("spacing_")}
