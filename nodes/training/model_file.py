"""The file of a person's own model: a file in the workspace's `my_models/` with a function `build(shape, outputs)`.

The file is code (`engine.own_code`), and never runs before the training. What was read when the training began is what
trains, also on other machines, and decides whether a training state belongs to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.errors import UsageError
from engine.own_code import OwnFile

FUNCTION = "build"
EXAMPLE = "nodes/README.md has an example."
_FILE = OwnFile("my_models", "A model file", FUNCTION, f"{FUNCTION}(shape, outputs)", "model_file", EXAMPLE)


@dataclass(frozen=True)
class ModelFile:
    """The file as it was read."""

    path: str
    text: str

    @property
    def name(self) -> str:
        return Path(self.path).stem


def read_model_file(path: str) -> ModelFile:
    """Read the file; nothing of it is run.

    Raises `UsageError` when it may not run (it lies outside a trusted workspace's `my_models/`), cannot be read, or
    has no function `build`.
    """
    return ModelFile(path, _FILE.read(path))


def unusable(message: str, hint: str) -> UsageError:
    """The error for a model file that cannot be used: which file and line, and what to change."""
    return _FILE.unusable(message, hint)
