"""A person's own code in a file of the workspace: a model in `my_models/`, a transform in `my_transforms/`.

Such a file is code: it runs only when its workspace is trusted. Here it is read and nothing of it is run. What was read
travels on as text, so that what runs is what was there when the work began, on other machines too; a transform's text
is stored with tables and models as well, and runs only where this person has trusted that very text.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import UsageError
from engine.storage.files import read_document_text, write_whole
from engine.storage.io_errors import remedy
from engine.workspace import Workspace, is_trusted, trust_folder, trusted_workspaces, workspace_of_file

Folder = Literal["my_models", "my_transforms"]


@dataclass(frozen=True)
class OwnFile:
    """What a file must be: it lies in `folder`, and defines `function`, which is called as `call` says.

    `what` it is, for messages; `parameter` names the one that chose it.
    """

    folder: Folder
    what: str
    function: str
    call: str
    parameter: str
    example: str = "nodes/README.md has an example."

    def read(self, path: str) -> str:
        """The file's text; nothing of it is run.

        Raises `UsageError` when it may not run (it lies outside of a trusted workspace's folder), cannot be read, or
        lacks its function.
        """
        # Resolved, so that a link in a trusted workspace does not lend its trust to a file elsewhere.
        place = Path(path).resolve()
        if not place.exists():
            raise self.unusable(f"{path} does not exist", "Check the spelling.")
        workspace = workspace_of_file(place, self.folder)
        if workspace is None:
            raise self.unusable(
                f"{path} does not lie in a workspace's {self.folder}/, so it is not run", "Move it into that folder."
            )
        if not is_trusted(workspace):
            raise self.unusable(
                f"{path} was not run: the workspace is not trusted", "Read it, then run `voxelflow nodes --trust` once."
            )
        try:
            text = read_document_text(place)
            tree = ast.parse(text, path)
        except SyntaxError as exc:
            raise self.unusable(f"{path}, line {exc.lineno}: {exc.msg}", "Correct that line.") from exc
        except OSError as exc:
            raise self.unusable(f"{path} cannot be read: {exc.strerror}", remedy(exc)) from exc
        except (ValueError, RecursionError, MemoryError) as exc:  # also what the parser says of deep nesting
            raise self.unusable(f"{path} cannot be read: {exc}", "Save it as Python in UTF-8.") from exc
        if self.function not in _top_level_names(tree):
            raise self.unusable(f"{path} has no function {self.call}", self.example)
        return text

    def unusable(self, message: str, hint: str) -> UsageError:
        """The error for a file that cannot be used: which file and line, and what to change."""
        return UsageError(message, hint=hint, parameter=self.parameter)


def remember_trusted(text: str) -> None:
    """Note that this text, of a file in a trusted workspace, may run wherever it comes from; the file may change."""
    place = _trusted_texts() / _digest(text)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, "", durable=False)


def is_trusted_text(text: str) -> bool:
    """Whether this person has trusted the text: then or now it was a file in a trusted workspace's `my_transforms/`."""
    if (_trusted_texts() / _digest(text)).exists():
        return True
    return any(text == found for workspace in trusted_workspaces() for found in _texts(workspace))


def _texts(workspace: Workspace) -> Iterable[str]:
    for path in workspace.my_transforms.glob("*.py"):
        try:
            yield read_document_text(path)
        except (OSError, ValueError):
            continue


def _trusted_texts() -> Path:
    return trust_folder() / "trusted-transforms"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _top_level_names(tree: ast.Module) -> set[str]:
    """Names that the file defines or imports itself; one that is made in other ways is not seen."""
    names: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in statement.names}
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return names
