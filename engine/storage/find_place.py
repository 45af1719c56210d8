"""The `Place` that a path or URL names, on a disk, in an object store or where an installed package keeps files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from engine.errors import UsageError, VoxelflowError
from engine.storage.local_place import LocalPlace
from engine.storage.objects import RemotePath, redact
from engine.storage.place import Place
from engine.storage.remote_place import RemotePlace
from engine.storage.schemes import SCHEMES, installed_places
from engine.storage.urls import is_url, parse_url

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def place_at(where: str | Path | RemotePath | Place) -> Place:
    """The place that a path, a `file://` URI or a storage URL names.

    Raises `UsageError` for other URLs, and where the package that has the scheme cannot make a place of it.
    """
    if isinstance(where, Place):
        return where
    if isinstance(where, RemotePath):
        return RemotePlace(where)
    if is_url(where):
        url = parse_url(str(where))
        entry = None if url.scheme in SCHEMES else installed_places(url.scheme)
        return RemotePlace(RemotePath(url)) if entry is None else _made_by(entry, str(url))
    parts = urlsplit(str(where))
    return LocalPlace(Path(unquote(parts.path) if parts.scheme == "file" else where))


def _made_by(entry: EntryPoint, url: str) -> Place:
    """The place that an installed package makes of a URL. Raises `UsageError` where it cannot."""
    try:
        found = entry.load()(url)
    except VoxelflowError:
        raise
    except Exception as exc:  # a package of someone else may raise anything
        why = redact(f"{type(exc).__name__}: {exc}")
    else:
        if isinstance(found, Place):
            return found
        why = f"it gave no Place but a {type(found).__name__}"
    package = f"the package {entry.dist.name}" if entry.dist else entry.value
    raise UsageError(
        f"{package} cannot open {url}: {why}", hint="Update, correct or remove the package, or use another place."
    )
