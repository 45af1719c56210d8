"""The Delta log's JSON commits, read directly: what delta-rs does not tell.

When did data change last, which files were removed since, which token did the last writer have.
Commits are read one line at a time: one commit of a large table can be megabytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from engine.table_lock import WRITER_APP_ID

_DATA_CHANGE = re.compile(rb'"dataChange"\s*:\s*true')
_KIND = re.compile(rb'\s*\{\s*"(\w+)"')


def data_version(root: Path, version: int, known: tuple[int, int] | None = None) -> int:
    """The last version up to `version` whose commit added or removed rows.

    `known` is (a version, its data version), where one is known: the search ends there. When an
    older commit was cleaned out of the log, the oldest one that is left counts as a change.
    """

    def lines(wanted: int) -> Iterator[bytes] | None:
        return _lines(root, wanted) if commit_file(root, wanted).exists() else None

    return data_version_of(lines, version, known)


def data_version_of(
    lines: Callable[[int], Iterable[bytes] | None], version: int, known: tuple[int, int] | None = None
) -> int:
    """The same for a log whose commits `lines` reads, None when there is no such commit."""
    for current in range(version, -1, -1):
        if known is not None and current <= known[0]:
            return known[1]
        commit = lines(current)
        if commit is None:
            return min(current + 1, version)
        if _changes_data(commit):
            return current
    return 0


def removed_since(root: Path, version: int) -> set[str]:
    """Paths that commits after `version` removed, as far as the log still has them."""
    return {
        unquote(str(action["path"]))
        for found in _versions(root)
        if found > version
        for action in actions(root, found, "remove")
    }


def last_writer(root: Path, version: int) -> tuple[int, int] | None:
    """(version, token) of the newest commit up to `version` made under Voxelflow's table lock.

    None when the log does not have one.
    """
    for current in range(version, -1, -1):
        if not commit_file(root, current).exists():
            return None
        for action in actions(root, current, "txn"):
            if action.get("appId") == WRITER_APP_ID:
                return current, int(action["version"])
    return None


def newest_version(root: Path) -> int | None:
    """The newest version that has a commit of its own in the log; None when there is no log."""
    try:
        return max(_versions(root), default=None)
    except OSError:
        return None


def oldest_since(root: Path, moment: float) -> int:
    """The oldest version that was still the newest one at `moment` (seconds since the epoch)."""
    found = sorted(_versions(root), reverse=True)
    for following, _ in pairwise(found):
        if commit_file(root, following).stat().st_mtime < moment:
            return following
    return found[-1] if found else 0


def commit_file(root: Path, version: int) -> Path:
    return root / "_delta_log" / commit_name(version)


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def actions(root: Path, version: int, kind: str) -> Iterator[dict[str, Any]]:
    """The commit's actions of one kind ("add", "remove", "txn" ...)."""
    for line in _lines(root, version):
        if kind_of(line) == kind:
            yield json.loads(line)[kind]


def kind_of(line: bytes) -> str:
    """The kind of the action in a line of a commit; "" for an empty line."""
    match = _KIND.match(line)
    return match[1].decode() if match else ""


def _changes_data(lines: Iterable[bytes]) -> bool:
    for line in lines:
        # A cheap look first: most lines of a compaction need no parsing.
        if _DATA_CHANGE.search(line):
            action = json.loads(line)
            if any(action.get(kind, {}).get("dataChange") for kind in ("add", "remove")):
                return True
    return False


def _lines(root: Path, version: int) -> Iterator[bytes]:
    with commit_file(root, version).open("rb") as lines:
        yield from lines


def _versions(root: Path) -> list[int]:
    folder = root / "_delta_log"
    return [int(p.stem) for p in folder.glob("*.json") if len(p.stem) == 20 and p.stem.isdigit()]
