"""In which folder of a task's result its table of predictions lies.

A task that runs anew goes on with its table, by another version. A damaged table is left as it is, and the rows get a
table in a new folder: a commit on top of a damaged log removes the files that the log names wrongly, and when the
damaged byte is back, the files that were meant are still there, and all their rows twice.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from engine.errors import DataError
from engine.storage.files import size_problem
from engine.storage.io_errors import OUT_OF_RESOURCES, number_of
from engine.storage.local_place import LocalPlace
from nodes.table.log import LOG, commit_name, lines_problem, newest_version, removed_since, versions
from nodes.table.snapshot import active_sizes, load_delta

TABLE = "predictions"
_FOLDER = re.compile(rf"{TABLE}(-\d+)?")


class ChosenTable(NamedTuple):
    """A table to commit to: its newest version, -1 when there is none, and the name of its folder.

    `damage` is what is wrong with the table that it takes the place of; "" when there is none.
    """

    base: int = -1
    table: str = TABLE
    damage: str = ""


def choose_table(out: Path) -> ChosenTable:
    """The table in a task's folder to go on with: the first that is whole, else one in a folder that nothing is in."""
    damage = ""
    for folder in _folders(out):
        if newest_version(folder) is None:
            continue
        problem = damage_of(folder)
        if not problem:
            return ChosenTable(version_of(folder), folder.name, damage)
        damage = damage or problem
    names = (TABLE if number == 1 else f"{TABLE}-{number}" for number in count(1))
    return ChosenTable(-1, next(name for name in names if _is_free(out / name)), damage)


def version_of(root: Path) -> int:
    """The newest version of the table at `root`, -1 when there is no table."""
    newest = newest_version(root)
    return -1 if newest is None else newest


def damage_of(root: Path) -> str:
    """What is wrong with the table at `root`, as far as its log and the sizes of its files show it; "" for nothing.

    A file of rows that the log does not name, neither as there nor as removed, shows that the log names it wrongly.
    """
    try:
        sizes = active_sizes(load_delta(root))
        for version in versions(root):
            if problem := lines_problem(LocalPlace(root), f"{LOG}/{commit_name(version)}"):
                return f"{root / LOG / commit_name(version)}: {problem}"
        removed = removed_since(root, -1)
    except DataError as exc:
        if number_of(exc) in OUT_OF_RESOURCES:
            raise
        return exc.message
    for path, size in sorted(sizes.items()):
        if problem := size_problem(root / path, size):
            return f"{root / path} {problem}"
    unknown = (path for path in sorted(root.glob("*.parquet")) if path.name not in sizes and path.name not in removed)
    return next((f"{path} is not in the table's log" for path in unknown), "")


def clear_others(out: Path, table: str) -> None:
    """Empty the folders of other tables in a task's folder.

    They stay as empty folders: a result that still names one is then seen as damaged, not as one that was freed, and
    is made again if this process is killed before the new one is recorded.
    """
    for folder in _folders(out):
        if folder.name != table:
            # What cannot be removed is no harm: the table is not used again.
            with suppress(OSError):
                for path in list(folder.iterdir()):
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path)
                    else:
                        path.unlink()


def _folders(out: Path) -> Iterator[Path]:
    try:
        names = os.listdir(out)
    except FileNotFoundError:
        return
    found = (name for name in names if _FOLDER.fullmatch(name))
    for name in sorted(found, key=lambda name: (len(name), name)):
        if (out / name).is_dir():
            yield out / name


def _is_free(folder: Path) -> bool:
    try:
        return not os.listdir(folder)
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False
