"""Parquet files in object storage for the loaders: ranged reads, and the local cache where one is asked for."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine.storage.cache import RangeCache
from engine.storage.objects import RemotePath
from engine.storage.ranged_file import RangedFile

if TYPE_CHECKING:
    import pyarrow as pa

STREAMS = 8
"""Row groups under way at a time, within the loader's memory bound: requests wait for the network, not for a core."""


class RemoteFiles:
    """See `file_access.FileAccess`. `sizes` are the files' bytes by URL, as the table's log tells them."""

    mapped = False
    streams = STREAMS

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._tags: dict[str, str] = {}
        self._lock = threading.Lock()
        self._cache = RangeCache.from_environment()

    def open(self, path: str) -> pa.NativeFile:
        """The file as it was when it was first opened here: its tag is asked for once. Raises `DataError` else."""
        import pyarrow as pa

        with self._lock:
            tag = self._tags.get(path, "")
        file = RangedFile(RemotePath.at(path), self._sizes.get(path), tag, self._cache)
        with self._lock:
            self._tags[path] = file.tag
        return pa.PythonFile(file, mode="r")
