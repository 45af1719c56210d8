"""Imports of large libraries without what they use where it is installed and go on without where it is not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


@contextmanager
def without(packages: Collection[str]) -> Iterator[None]:
    """While the block lasts, imports by this thread find none of the packages, unless they are loaded already.

    Other threads, and everybody afterwards, import them as ever. For processes of our own: a library that was imported
    so takes no pandas data frames, for example, also not those of a person's own code.
    """
    finder = _Absent(packages)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Absent(MetaPathFinder):
    def __init__(self, packages: Collection[str]) -> None:
        self._packages = frozenset(packages)
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self._packages and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None
