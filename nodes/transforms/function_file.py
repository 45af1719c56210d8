"""The file of a person's own transform: a file in the workspace's `my_transforms/` with `transform(volume, row)`.

Its text is a part of the chain, so a changed file is another chain, and executors and models have it with them.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.declare.datasets import Transform
from engine.errors import UsageError
from engine.own_code import OwnFile, is_trusted_text, remember_trusted

FUNCTION_STEP = "function"
_FILE = OwnFile("my_transforms", "A transform", "transform", "transform(volume, row)", "function")


def read_function(path: str) -> str:
    """The file's text; nothing of it is run. Raises `UsageError` when it may not run, or has no such function."""
    text = _FILE.read(path)
    remember_trusted(text)
    return text


def refuse_untrusted(transforms: Iterable[Transform], where: str) -> None:
    """Raise `UsageError` when a step is somebody's own function whose text this person has not trusted.

    `where` the chain comes from, for people: "the model in FOLDER".
    """
    for each in transforms:
        if each.name == FUNCTION_STEP and not is_trusted_text(str(each.parameters.get("source", ""))):
            file = each.parameters.get("file", "the function")
            raise UsageError(
                f"{where} changes volumes with a function of somebody's own, {file}, which is not trusted here, so it"
                " was not run",
                hint=f"Read its source, which is stored beside it as JSON (transforms). To run it, save it as {file} in"
                " the folder my_transforms of your workspace, and run `voxelflow nodes --trust`.",
            )
