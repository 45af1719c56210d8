"""Deleting the files of a table that nothing needs any more. Under the table's lock.

Kept are the files of the newest version, of every version that a reference or the cache holds or that a
running training has a lease on (`nodes.table.lease`), and of versions that were current within the
last `keep_hours`. Deleted are files that were removed from the table and files that never joined it (a
killed writer left them).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from engine.declare.context import TaskContext
from engine.errors import StaleInput, UsageError
from nodes.table.commit import Committer, TableWriter, table_writer
from nodes.table.features import CommitRules, commit_rules
from nodes.table.lease import no_new_leases
from nodes.table.ledger import is_content_named
from nodes.table.log import logged_as_removed, oldest_since, removed_since
from nodes.table.log_writer import Operation
from nodes.table.snapshot import IN_PLACE, load_delta, local_folder, logged_paths
from nodes.table.staging import clear_abandoned, clear_conversions
from nodes.volume_file.rewrite import PREFIX

STRANGER_HOURS = 24.0
"""A file of another program that never joined the table may be about to: it is spared for a day."""
_WEEK_MS = 7 * 24 * 3_600_000
"""How long other programs keep files by default."""
_TEMPORARY = re.compile(r"\..+\.parquet\.(\d+|[0-9a-f]+\.partial)")
"""How `link_or_copy` calls a copy that is not complete; those of earlier versions ended in a number."""


@dataclass(frozen=True)
class Vacuumed:
    """What was deleted; `kept` counts the files that only older versions need."""

    files: int
    bytes: int
    kept: int


def vacuum(
    uri: str, versions: Iterable[int], keep_hours: float, ctx: TaskContext, committer: Committer | None = None
) -> Vacuumed:
    """Delete what neither `versions`, nor `ctx.protected`, nor the newest version needs; see the module.

    A table that was made in place shares its folder with a Parquet dataset: there only files that Voxelflow's
    rewriting made are deleted. A second vacuum after a kill goes on where the first one ended. `committer` writes into
    the log what was done.
    """
    root = local_folder(uri)
    with table_writer(root, ctx, committer) as writer, no_new_leases(root, ctx.is_cancelled) as leased:
        ctx.commit_point("optimize:before-vacuum")
        delta = load_delta(root)
        in_place = delta.metadata().configuration.get(IN_PLACE) == "true"
        now = time.time()
        active = _names(logged_paths(delta))
        needed = active | _names(logged_as_removed(root, oldest_since(root, now - keep_hours * 3600)))
        for version in {*versions, *leased, *protected_versions(root, ctx.protected)}:
            if version != delta.version():
                needed |= _files_of(root, version, ctx)
        removed = removed_since(root, -1)
        kept = 0
        unneeded: dict[str, int] = {}
        for path, stat in _files_below(root):
            ctx.check_cancelled()
            if path in needed:
                kept += path not in active
                continue
            ours = _is_ours(path)
            age_hours = (now - stat.st_ctime) / 3600
            if in_place and not path.rsplit("/", 1)[-1].startswith(PREFIX):
                continue
            if path not in removed and age_hours < (keep_hours if ours else max(keep_hours, STRANGER_HOURS)):
                continue
            unneeded[path] = stat.st_size
        freed = sum(unneeded.values())
        if unneeded:
            _delete(writer, unneeded, keep_hours, commit_rules(delta, root))
        freed += clear_abandoned(root)
        clear_conversions(root)
    return Vacuumed(len(unneeded), freed, kept)


def _delete(writer: TableWriter, files: Mapping[str, int], keep_hours: float, rules: CommitRules) -> None:
    """Delete files with their sizes, between the two commits by which Delta reports a vacuum."""
    size = sum(files.values())
    kept_ms = round(keep_hours * 3_600_000)
    parameters = {
        "retentionCheckEnabled": False,
        "specifiedRetentionMillis": kept_ms,
        "defaultRetentionMillis": _WEEK_MS,
    }
    begun = {"numFilesToDelete": len(files), "sizeOfDataToDelete": size}
    writer.note(Operation("VACUUM START", parameters, begun), rules)
    for path in files:
        (writer.root / path).unlink(missing_ok=True)
    folders = {path.rpartition("/")[0] for path in files}
    ended = {"numDeletedFiles": len(files), "numVacuumedDirectories": len(folders)}
    writer.note(Operation("VACUUM END", {"status": "COMPLETED"}, ended), rules)


def protected_versions(root: Path, protected: Mapping[str, tuple[int, ...]]) -> set[int]:
    """The versions of this table that must stay readable, however its URI is spelt."""
    place = root.resolve()
    return {v for uri, versions in protected.items() if _is_at(uri, place) for v in versions}


def _is_at(uri: str, place: Path) -> bool:
    try:
        return local_folder(uri).resolve() == place
    except UsageError:
        return False


def _names(logged: Iterable[str]) -> set[str]:
    """The files that these paths of the log may mean: decoded as the protocol says, and as they stand there."""
    return {name for path in logged for name in (unquote(path), path)}


def _files_of(root: Path, version: int, ctx: TaskContext) -> set[str]:
    try:
        return _names(logged_paths(load_delta(root, version)))
    except StaleInput as exc:
        ctx.warn(f"version {version} cannot be kept: {exc.message}")
        return set()


def _is_ours(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.startswith(PREFIX) or is_content_named(name) or _TEMPORARY.fullmatch(name) is not None


def _files_below(root: Path, prefix: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Data files by their path below the table; folders of Delta and Voxelflow are left out."""
    with os.scandir(root / prefix) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(("_", ".")):
                    yield from _files_below(root, f"{prefix}{entry.name}/")
            elif entry.name.endswith(".parquet") or _TEMPORARY.fullmatch(entry.name):
                yield prefix + entry.name, entry.stat(follow_symlinks=False)
