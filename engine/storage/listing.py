"""The listing of a folder in object storage, as `engine.manifest` keeps that of a local one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine import manifest
from engine.storage.objects import RemotePath
from engine.storage.urls import is_url

if TYPE_CHECKING:
    import pyarrow as pa


def list_place(place: str, patterns: tuple[str, ...]) -> pa.Table:
    """The listing of a local folder or of a URL. Raises `OSError` or `DataError`."""
    if is_url(place):
        return list_remote(RemotePath.at(place), patterns)
    return manifest.list_folder(Path(place), patterns)


def list_remote(folder: RemotePath, patterns: tuple[str, ...]) -> pa.Table:
    """All objects below `folder` that match one of `patterns`; see `manifest.list_folder`.

    One request for each thousand or so. Raises `DataError`.
    """
    found = (
        manifest.FileEntry(item.path, item.size, item.mtime_ns)
        for item in folder.walk()
        if not any(part.startswith(".") for part in item.path.split("/"))
        and any(manifest.matches(item.path, pattern) for pattern in patterns)
    )
    return manifest.table_of(found)
