"""What lies at a path parameter that names a place in object storage; the remote half of `engine.observe`."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import VoxelflowError
from engine.found_folder import found_folder
from engine.node import PathFound
from engine.parameters import PathIn
from engine.storage.urls import StorageUrl, parse_url
from engine.workspace import Workspace


def is_listed(text: str, roots: Sequence[StorageUrl]) -> bool:
    """Whether a document may name this URL. One that cannot be read is told by `find` and `cannot_write`."""
    try:
        url = parse_url(text)
    except VoxelflowError:
        return True
    return any(root.holds(url) for root in roots)


def find(text: str, wanted: PathIn, workspace: Workspace, *, scan: bool) -> PathFound:
    """List the folder, or look for the object; without `scan` nothing is asked of the store."""
    try:
        url = parse_url(text)
        if wanted.kind != "folder":
            return PathFound(
                text, exists=True, kind=wanted.kind, problem="a table of labels must lie on a local disk, for now"
            )
        if not scan:
            return PathFound(text, exists=True, kind="folder", count=1)
        from engine.storage.listing import list_remote
        from engine.storage.objects import RemotePath

        listing = list_remote(RemotePath(url), wanted.patterns)
    except VoxelflowError as exc:
        return PathFound(text, exists=True, kind=wanted.kind, problem=exc.line())
    return found_folder(text, listing, workspace)


def cannot_write(text: str, *, scan: bool) -> str:
    """Why nothing can be written at this URL, or "". Without `scan` the store is not asked.

    Whether the credentials allow writing is known when something is written: looking tells only of reading.
    """
    try:
        url = parse_url(text)
        if scan:
            from engine.storage.objects import RemotePath

            RemotePath(url).has_any()
    except VoxelflowError as exc:
        return exc.line()
    return ""
