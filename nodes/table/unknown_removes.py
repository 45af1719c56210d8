"""Commits that take a file out of a table under a damaged name: no commit has put such a file into it.

The file that was meant stays, and with it the rows that a DELETE took out, or that an UPDATE wrote anew.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from engine.storage.place import Place
from nodes.table.log import actions
from nodes.table.snapshot import is_outside

_ODD = 2
"""Characters in which a damaged name may differ: names that programs draw differ in more."""


@dataclass(frozen=True)
class UnknownRemove:
    """What a commit takes out, and the file of the table with nearly the same name."""

    version: int
    path: str
    meant: str


def unknown_removes(place: Place, last: int) -> list[UnknownRemove]:
    """Those in the commits up to `last` whose files are still in the table.

    None where a commit is gone: it may have added such a file. None that a RESTORE undoes; none of compactions, of
    which `doubled_rows` says whether rows are there twice. Memory: the paths of the table's files, and a number for
    each that the log names. Raises `DataError` for a commit that is damaged otherwise.
    """
    added = set[int]()
    active: dict[str, int] = {}
    found: list[tuple[UnknownRemove, int]] = []
    for version in range(last + 1):
        try:
            adds, removes = list(actions(place, version, "add")), list(actions(place, version, "remove"))
            info = next(actions(place, version, "commitInfo"), {}) if found else {}
        except FileNotFoundError:
            return []
        if info.get("operation") == "RESTORE":
            # What the restored version had is rightly there again, but for what was not taken out before it.
            target = _restored(info)
            found = [
                (each, since)
                for each, since in found
                if target is not None and (each.version <= target or since > target)
            ]
        names, gone = set(_paths(adds)), set(_paths(removes))
        if not adds or any(action.get("dataChange", True) for action in adds):
            unknown = (path for path in gone if hash(path) not in added and not is_outside(path))
            alike = ((path, meant) for path in unknown for meant in _alike(path, active))
            found += [(UnknownRemove(version, path, meant), active[meant]) for path, meant in alike]
        for path in gone - names:
            active.pop(path, None)
        for path in names:
            active.setdefault(path, version)
        added.update(map(hash, names))
    return [each for each, _ in found if each.meant in active]


def _restored(info: Mapping[str, Any]) -> int | None:
    """The version that a RESTORE brings back; None where it names a moment instead."""
    given = info.get("operationParameters")
    version = str(given.get("version")) if isinstance(given, Mapping) else ""
    return int(version) if version.isdecimal() else None


def _paths(files: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Decoded, as two programs may spell one path in two ways."""
    return (unquote(str(action["path"])) for action in files)


def _alike(path: str, others: Iterable[str]) -> Iterator[str]:
    """The first of the other paths that differs from this one in one or two characters."""
    alike = (each for each in others if len(each) == len(path) and sum(map(operator.ne, each, path)) <= _ODD)
    yield from sorted(alike)[:1]
