"""Descriptors of the files that are read at random, a few for each thread."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import Any

from engine.errors import DataError

OPEN_FILES = 64
"""Files each reading thread keeps open: far below the usual limit of 1,024 for a process."""


class OpenFiles:
    """A few open files for each thread: no thread closes what another one reads from."""

    def __init__(self, paths: list[str]) -> None:
        self.most = OPEN_FILES
        self._paths = paths
        self._local: Any = threading.local()
        self._all: list[OrderedDict[int, int]] = []
        self._lock = threading.Lock()

    def descriptor(self, number: int) -> int:
        """The file's descriptor, good until this thread has asked for `most` others.

        Raises `DataError` when the file is gone.
        """
        mine: OrderedDict[int, int] | None = getattr(self._local, "files", None)
        if mine is None:
            mine = self._local.files = OrderedDict()
            with self._lock:
                self._all.append(mine)
        if number in mine:
            mine.move_to_end(number)
            return mine[number]
        if len(mine) >= self.most:
            os.close(mine.popitem(last=False)[1])
        try:
            mine[number] = os.open(self._paths[number], os.O_RDONLY)
        except FileNotFoundError as exc:
            raise DataError(
                f"{self._paths[number]} is gone", hint="Something vacuumed the table. Make it again."
            ) from exc
        return mine[number]

    def close(self) -> None:
        """Close all. No thread may be reading any more."""
        with self._lock:
            for files in self._all:
                while files:
                    os.close(files.popitem()[1])
