"""The file browser: folders that documents of this workspace may name, and, for people of this computer, all others."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from heapq import nsmallest
from pathlib import Path

from engine.errors import UsageError, VoxelflowError
from engine.observe.paths import allowed_places
from engine.storage import is_url, parse_url
from engine.storage.urls import expanded
from engine.workspace import Workspace
from ui.protocol.notices import Entry, Listing

MAX_ENTRIES = 2_000
_MAX_LOOKED_AT = 200_000
"""Names read of one folder: what lies behind is reached by typing its path."""


def browse(workspace: Workspace, base: Path, request: int, path: str | None, *, anywhere: bool = False) -> Listing:
    """List a folder; None lists the allowed roots. Relative paths start at `base`.

    With `anywhere` folders outside the allowed roots are listed too, and marked as such. Why a folder cannot be listed
    is said in `problem`; nothing is raised.
    """
    roots = list(dict.fromkeys(allowed_places(workspace).folders))
    if path is None:
        entries = [_entry(str(r), r, is_folder=True) for r in roots if r.is_dir()]
        return _listing(request, None, None, entries, elsewhere=_elsewhere() if anywhere else [])
    try:
        folder = _found(base, path, None if anywhere else roots)
        entries, truncated = _entries(folder)
    except (OSError, ValueError, RuntimeError) as exc:  # RuntimeError: a link in a circle
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        return _listing(request, path, None, [], problem=f"{path[:300]}: {reason}")
    up = folder.parent != folder and (anywhere or _inside(folder.parent, roots))
    return _listing(
        request, str(folder), str(folder.parent) if up else None, entries,
        truncated=truncated, allowed=_inside(folder, roots),
    )  # fmt: skip


def _elsewhere() -> list[Entry]:
    """Where to begin outside: the person's own folder and the root of the file system."""
    places = {"Home": Path.home(), "This computer": Path(Path.home().anchor)}
    return [_entry(name, place, is_folder=True) for name, place in places.items() if place.is_dir()]


def _found(base: Path, path: str, roots: list[Path] | None) -> Path:
    if "\0" in path:
        raise ValueError("that is no path")
    given = expanded(path)
    if ".." in given.parts:
        raise ValueError("a path with .. is not followed")
    folder = base / given
    if roots is not None and not _inside(folder, roots):
        raise ValueError("it lies outside the folders that this workspace may use")
    if not folder.exists():
        raise ValueError("there is no such folder")
    if not folder.is_dir():
        raise ValueError("it is a file, not a folder")
    return folder


def _inside(path: Path, roots: Iterable[Path]) -> bool:
    # Where it really is: a link inside may lead outside.
    resolved = path.resolve()
    return any(resolved.is_relative_to(root) for root in roots)


def _entries(folder: Path) -> tuple[list[Entry], bool]:
    """Folders first, each in natural order (`2` before `10`), without hidden ones."""
    found: list[tuple[bool, list[tuple[int, str]], str]] = []
    truncated = False
    with os.scandir(folder) as items:
        for item in items:
            if item.name.startswith(".") or not _is_text(item.name):
                continue
            if len(found) >= _MAX_LOOKED_AT:
                truncated = True
                break
            try:
                is_file = not item.is_dir()
            except OSError:  # a link in a circle
                continue
            found.append((is_file, _natural(item.name), item.name))
    first = nsmallest(MAX_ENTRIES, found)
    entries = [_entry(name, folder / name, is_folder=not is_file) for is_file, _, name in first]
    return entries, truncated or len(found) > len(first)


def _entry(name: str, path: Path, *, is_folder: bool) -> Entry:
    size: int | None = None
    if not is_folder:
        try:
            size = path.stat().st_size
        except OSError:  # gone meanwhile, or a link to nowhere
            size = None
    return Entry(name=name, path=str(path), kind="folder" if is_folder else "file", bytes=size)


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts `a2` before `a10`."""
    parts = re.split(r"([0-9]+)", name.casefold())
    return [(int(p[:300]), "") if p.isdecimal() else (-1, p) for p in parts]


def _is_text(name: str) -> bool:
    # Bytes that are not UTF-8 cannot be written in a document.
    return not any("\ud800" <= c <= "\udfff" for c in name)


def unlisted(request: int, path: str | None, reason: Exception) -> Listing:
    """The answer where a folder could not be listed for a reason that `browse` does not know."""
    problem = reason.line() if isinstance(reason, VoxelflowError) else f"{type(reason).__name__}: {reason}"
    return _listing(request, path, None, [], problem=f"{(path or 'the folders')[:300]}: {problem}")


def _listing(
    request: int,
    path: str | None,
    parent: str | None,
    entries: list[Entry],
    *,
    truncated: bool = False,
    allowed: bool = True,
    elsewhere: list[Entry] | None = None,
    problem: str = "",
) -> Listing:
    return Listing(
        request=request, path=path, parent=parent, entries=entries,
        truncated=truncated, allowed=allowed, elsewhere=elsewhere or [], problem=problem,
    )  # fmt: skip


def to_allow(base: Path, text: str) -> str:
    """The folder that a document's path means: the path itself, or where a file lies; a URL as it is.

    Raises `UsageError` when there is no such folder, or nobody can say whether there is one.
    """
    if is_url(text):
        return str(parse_url(text))
    if "\0" in text:
        raise UsageError(f"{text!r} is no path", hint="Type it again.")
    try:
        path = (base / expanded(text)).resolve()
        folder = path if path.is_dir() else path.parent
        there = folder.is_dir()
    except (OSError, RuntimeError) as exc:  # RuntimeError: a link in a circle, or a person's own folder is not known
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise UsageError(f"{text[:300]} cannot be looked at: {reason}", hint="Choose another folder.") from exc
    if not there:
        raise UsageError(f"there is no folder {folder}", hint="Make it first, or choose another.")
    return str(folder)
