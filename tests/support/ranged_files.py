"""Files as object storage gives them: only ranges can be read, and each read is counted."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from nodes.loaders.data_files import DataFiles, data_files


@dataclass
class RangedFiles:
    """A `FileAccess` that is not local, over local files. `reads` counts by path; `under_way` is the most at a time."""

    mapped: bool = False
    streams: int = 3
    reads: dict[str, int] = field(default_factory=dict)
    most: int = 0
    _open: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, path: str) -> Any:
        return pa.PythonFile(_Ranged(self, path), mode="r")

    def begin(self, path: str) -> None:
        with self._lock:
            self.reads[path] = self.reads.get(path, 0) + 1
            self._open += 1
            self.most = max(self.most, self._open)

    def end(self) -> None:
        with self._lock:
            self._open -= 1

    def data_files(self, dataset: Any) -> DataFiles:
        """To be put in the place of `nodes.loaders.data_files.data_files`."""
        found = data_files(dataset)
        return DataFiles(found.paths, found.spec, self)


class _Ranged:
    def __init__(self, access: RangedFiles, path: str) -> None:
        self._access, self._path = access, path
        self._file = open(path, "rb")  # noqa: SIM115 - closed by pyarrow
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        self._access.begin(self._path)
        try:
            return self._file.read(count)
        finally:
            self._access.end()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self._file.close()
        self.closed = True
