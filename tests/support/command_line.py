"""What a command of `voxelflow` said, for tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.cli.session import Answer
from engine.pipeline import Pipeline


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Said]
Save = Callable[[Pipeline], str]
"""Write a document into the current directory; gives its file name."""


def no_model(folder: Path, files: Sequence[Path]) -> list[Answer]:
    """What a command is given that shall ask no model."""
    raise AssertionError("a model was asked")
