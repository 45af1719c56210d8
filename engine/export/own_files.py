"""A person's own functions and models in an export: files of `my_transforms/` and `my_models/` that parameters name.

Such a file runs only where a workspace of that name that the person trusts holds it (`engine.own_code`). An export goes
to machines that have no such workspace. So it carries the file beside its program, and the program, which whoever runs
it trusts, lets it run there: as a copy in a workspace of that file's own, among the person's decisions about code.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from engine.document.resolve import Resolved, TypedNode
from engine.errors import UsageError
from engine.own_code import Folder
from engine.storage import is_url
from engine.storage.files import read_document_text, write_whole
from engine.storage.io_errors import remedy
from engine.storage.process_lock import ProcessLock
from engine.workspace import FORMAT, Workspace, is_trusted, trust, trust_folder, workspace_of_file

_FOLDERS: tuple[str, ...] = get_args(Folder)
_LOCK_S = 30.0
"""To wait for another program that writes the same list of what is trusted: it takes milliseconds."""


@dataclass(frozen=True)
class OwnCode:
    """A file that an export carries: its place in the export's folder, such as `my_transforms/gain.py`, and its text.

    Every line of the text ends in a line feed alone.
    """

    place: str
    text: str


def own_code_of(resolved: Resolved) -> dict[tuple[str, str], OwnCode]:
    """The files of the person's own code that parameters name, by node and parameter.

    Those are the Python files that lie in `my_transforms/` or `my_models/` of a workspace on this machine. Two files
    of one name have different places. Raises `UsageError` for one that cannot be read, or whose workspace is not
    trusted: an export must not lend it the trust that its program gets.
    """
    out: dict[tuple[str, str], OwnCode] = {}
    places: dict[Path, str] = {}
    for item in resolved.typed():
        for parameter, path in paths_of(item).items():
            # As `OwnFile` does: with a link, the file that it leads to decides.
            file = Path(os.path.realpath(path))
            found = None if is_url(path) else _workspace_and_folder(file)
            if found is None:
                continue
            workspace, folder = found
            text = _text(path, file, workspace, node=item.node.id, parameter=parameter)
            if file not in places:
                places[file] = _free_place(folder, file, places)
            out[item.node.id, parameter] = OwnCode(places[file], text)
    return out


def paths_of(item: TypedNode) -> dict[str, str]:
    """The node's paths and URLs by parameter, those that are empty left out."""
    found = {p.name: item.params[p.name] for p in item.type.parameters if p.is_path}
    return {name: str(path) for name, path in found.items() if path}


def allowed_copy(path: str) -> str:
    """The path of a copy of a file that a program brings with it, which `OwnFile` lets run.

    The copy lies in a workspace of its own beside the list of trusted workspaces, and is the same for the same text:
    the same path, size and time, wherever and whenever the program runs for that person. A file outside of a folder of
    that name (`my_transforms`) is left to `OwnFile`. Raises `UsageError` when the file cannot be read, or the copy
    cannot be written; `WorkspaceError` where that file system has no locks.
    """
    file = Path(path)
    folder = file.parent.name
    if folder not in _FOLDERS:
        return path
    try:
        text = read_document_text(file)
    except (OSError, ValueError) as exc:
        raise _unreadable(path, exc) from exc
    kept = trust_folder() / "exported"
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    lock = ProcessLock(kept / "lock")
    try:
        # A scheduler starts several steps at once, and each adds to the list as it was read. Not got in time, the worst
        # is that another step has to be started again.
        lock.acquire_within(_LOCK_S)
        return str(_trusted_copy(kept / digest, folder, file.name, text))
    except OSError as exc:
        raise UsageError(
            f"{path} cannot be made ready to run: {exc.filename}: {exc.strerror}",
            hint="Let XDG_CONFIG_HOME name a folder that this user may write.",
        ) from exc
    finally:
        lock.release()


def _trusted_copy(root: Path, folder: str, name: str, text: str) -> Path:
    workspace, copy = Workspace(root), root / folder / name
    mark, marked = root / "workspace.json", json.dumps({"format": FORMAT}) + "\n"
    if is_trusted(workspace) and _is_made(copy, text) and _holds(mark, marked):
        return copy  # another program may look at it now: written anew, it would have another time for a moment
    copy.parent.mkdir(parents=True, exist_ok=True)
    write_whole(mark, marked, durable=False)
    write_whole(copy, text, durable=False)
    # Steps know a file by its time: one of the same text must not be another on a machine that is new.
    os.utime(copy, (0, 0))
    if not is_trusted(workspace):
        trust(workspace)
    return copy


def _is_made(copy: Path, text: str) -> bool:
    try:
        return copy.stat().st_mtime == 0 and _holds(copy, text)
    except OSError:
        return False


def _holds(path: Path, text: str) -> bool:
    try:
        return read_document_text(path) == text
    except (OSError, ValueError):
        return False


def _workspace_and_folder(file: Path) -> tuple[Workspace, str] | None:
    if file.suffix != ".py":
        return None
    found = ((workspace_of_file(file, folder), folder) for folder in _FOLDERS)
    return next(((workspace, folder) for workspace, folder in found if workspace is not None), None)


def _text(path: str, file: Path, workspace: Workspace, *, node: str, parameter: str) -> str:
    if not is_trusted(workspace):
        raise UsageError(
            f"{path} cannot go along: its workspace is not trusted",
            hint="Read it, then run `voxelflow nodes --trust` once.",
            node=node,
            parameter=parameter,
        )
    try:
        return read_document_text(file)
    except (OSError, ValueError) as exc:
        error = _unreadable(path, exc)
        error.node, error.parameter = node, parameter
        raise error from exc


def _unreadable(path: str, exc: OSError | ValueError) -> UsageError:
    if isinstance(exc, FileNotFoundError):
        return UsageError(f"{path} does not exist", hint="Put it there, or name another file.")
    if isinstance(exc, OSError):
        return UsageError(f"{path} cannot be read: {exc.strerror}", hint=remedy(exc))
    return UsageError(f"{path} cannot be read: {exc}", hint="Save it as Python in UTF-8.")


def _free_place(folder: str, file: Path, places: dict[Path, str]) -> str:
    return next(place for place in _names(folder, file) if place not in places.values())


def _names(folder: str, file: Path) -> Iterator[str]:
    yield f"{folder}/{file.name}"
    number = 2
    while True:
        yield f"{folder}/{file.stem}_{number}{file.suffix}"
        number += 1
