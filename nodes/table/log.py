"""The Delta log's JSON commits, read directly: what delta-rs does not report.

When did data change last, which files were removed since, which token did the last writer have.
Local commits are read one line at a time: one commit of a large table can be megabytes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from engine.errors import DataError, UnsupportedTable
from engine.storage.files import DANGLING, check_regular
from engine.storage.find_place import place_at
from engine.storage.io_errors import OUT_OF_RESOURCES, raise_if_not_damage
from engine.storage.local_place import LocalPlace
from engine.storage.place import Place
from engine.storage.table_lock import WRITER_APP_ID
from nodes.table.line_check import LineCheck, lost_lines

LOG = "_delta_log"
"""The folder of a table that holds its log."""
LAST_CHECKPOINT = "_last_checkpoint"
"""The file of a log that names its last checkpoint."""
_DATA_CHANGE = re.compile(rb'"dataChange"\s*:\s*true')
_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet")
ANY_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.")
"""How the names of the files of a checkpoint begin."""
_KIND = re.compile(rb'\s*\{\s*"(\w+)"')
_UNKNOWN_TYPE = re.compile(r"Unsupported Delta table type: '([^']*)'")
_LATER_TYPE = re.compile(r"(geography|geometry|interval|variant|void)\b")
_REQUIRED = ("id", "schemaString", "partitionColumns", "configuration")
"""Of the metadata action, besides its format."""


def data_version(root: Path | Place, version: int, known: tuple[int, int] | None = None) -> int:
    """The last version up to `version` whose commit added or removed rows.

    `known` is (a version, its data version), where one is known: the search ends there. When an
    older commit was cleaned out of the log, the oldest one that is left counts as a change.
    """
    for current in range(version, -1, -1):
        if known is not None and current <= known[0]:
            return known[1]
        try:
            commit = lines(root, current)
        except FileNotFoundError:
            return min(current + 1, version)
        try:
            if _changes_data(commit):
                return current
        except (ValueError, AttributeError) as exc:
            raise torn(f"{place_at(root)}/{LOG}/{commit_name(current)}", str(exc)) from exc
    return 0


def removed_since(root: Path, version: int) -> set[str]:
    """Files that commits after `version` removed, as far as the log still has them."""
    return {unquote(path) for path in logged_as_removed(root, version)}


def logged_as_removed(root: Path, version: int) -> set[str]:
    """The same, with the paths as the log spells them."""
    return {
        str(action["path"]) for found in versions(root) if found > version for action in actions(root, found, "remove")
    }


def removed_alone(root: Path | Place, version: int, last: int) -> set[str]:
    """Files that commits after `version`, up to `last`, removed without adding any: their rows went nowhere."""
    alone: set[str] = set()
    replaced: set[str] = set()
    for current in range(version + 1, last + 1):
        try:
            adds = next(actions(root, current, "add"), None) is not None
            kind = replaced if adds else alone
            kind |= {unquote(str(action["path"])) for action in actions(root, current, "remove")}
        except FileNotFoundError:
            continue
    return alone - replaced


@dataclass(frozen=True)
class Doubled:
    """A compaction of files that an earlier commit had replaced already, or whose names in it are damaged: their rows
    are in the table twice.

    delta-rs (1.3 to 1.6 at least, https://github.com/delta-io/delta-rs/pull/3982) makes such a commit when another
    compaction of the same files comes first.
    """

    version: int
    earlier: int | None
    """Which had replaced them; None: no commit has added a file of that name."""
    program: str
    files: frozenset[str]
    """The files that hold those rows the second time."""

    def error(self, place: Place) -> DataError:
        """What happened, and how the table is as before."""
        which = "the table never had" if self.earlier is None else f"version {self.earlier} had replaced already"
        return DataError(
            f"rows of the table {place} are in it twice: in version {self.version} {self.program} compacted files that"
            f" {which}",
            hint=f"Run deltalake.DeltaTable({str(place)!r}).restore({self.version - 1}) in Python, then the pipeline"
            " again. Repeat what other programs wrote since.",
        )


def doubled_rows(root: Path | Place, first: int, last: int, active: Container[str]) -> Doubled | None:
    """The first compaction in the commits `first` to `last` that doubled rows, if these are still in `active` files.

    Commits that the log no longer has are passed over.
    """
    removed: dict[str, int] = {}
    known: set[int] | None = set() if first == 0 else None
    """Hashes of the paths that commits have added, as long as none of them is gone."""
    copies: set[str] = set()
    found: Doubled | None = None
    for version in range(first, last + 1):
        names: set[str] = set()
        is_compaction = True
        try:
            for action in actions(root, version, "add"):
                names.add(unquote(str(action["path"])))
                is_compaction &= not action.get("dataChange", True)
            gone = [unquote(str(action["path"])) for action in actions(root, version, "remove")]
        except FileNotFoundError:
            known = None
            continue
        earlier = [removed[path] for path in gone if path in removed]
        is_odd = bool(earlier) or (known is not None and any(hash(path) not in known for path in gone))
        if names and is_compaction:
            if is_odd and found is None:
                info = next(actions(root, version, "commitInfo"), {})
                program = str(info.get("engineInfo") or "another program")
                found = Doubled(version, max(earlier, default=None), program, frozenset())
            # Compacted once more, they are still there twice.
            copies |= names if is_odd or not copies.isdisjoint(gone) else set()
        if known is not None:
            known.update(map(hash, names))
        copies -= set(gone)
        removed |= dict.fromkeys(gone, version)
        for path in names:
            removed.pop(path, None)
    left = frozenset(path for path in copies if path in active)
    return replace(found, files=left) if found is not None and left else None


def last_writer(root: Path | Place, version: int) -> tuple[int, int] | None:
    """(version, token) of the newest commit up to `version` that Voxelflow made.

    None when the log does not have one.
    """
    for current in range(version, -1, -1):
        try:
            for action in actions(root, current, "txn"):
                if action.get("appId") == WRITER_APP_ID:
                    return current, int(action["version"])
        except FileNotFoundError:
            return None
    return None


def refuse_torn(root: Path, cause: object = None) -> None:
    """Raise `DataError` naming a file of a local log that was cut short, as by a power cut, if there is one; also one
    that is no regular file, for which delta-rs would wait, or a link whose target is missing.

    delta-rs takes a commit without content for one that changed nothing, and passes over lines of a kind that it does
    not know: rows would be missing silently. So lines are counted in commits of ours, which say how many they have
    (0.24 ms for 1,000 files). With `cause`, the error of a reader that could not read the log, checkpoints and the ends
    of commits are looked at too.
    """
    log = root / LOG
    try:
        names = sorted(path.name for path in log.iterdir())
    except OSError:
        return
    checkpoints = [name for name in names if _CHECKPOINT.fullmatch(name)]
    # Commits up to a checkpoint stand in it, too.
    since = checkpoints[-1][:20] if checkpoints else ""
    for name in names:
        if name[:20] >= since and (_COMMIT.fullmatch(name) or ANY_CHECKPOINT.match(name) or name == LAST_CHECKPOINT):
            _refuse_special(log / name)
        if _COMMIT.fullmatch(name) and name[:20] > since:
            end = _end(log / name)
            if not end or (cause is not None and not end.endswith((b"}", b"}\n", b"}\r\n"))):
                raise torn(log / name, "it ends within a line" if end else "it is empty")
            if problem := _lost_lines(log / name):
                raise torn(log / name, lines_problem(LocalPlace(root), f"{LOG}/{name}") or problem)
    if cause is not None:
        for name in checkpoints:
            if _end(log / name)[-4:] != b"PAR1":
                raise torn(log / name, str(cause).splitlines()[0], without_checkpoint(LocalPlace(root), int(name[:20])))


def _lost_lines(path: Path) -> str:
    try:
        return lost_lines(path.read_bytes())
    except OSError as exc:
        raise_if_not_damage(exc)
        return ""


def _refuse_special(path: Path) -> None:
    try:
        check_regular(path, sys.maxsize)
    except OSError as exc:
        if exc.errno in (errno.EINVAL, errno.EISDIR) or exc.strerror == DANGLING:
            raise torn(path, str(exc.strerror)) from exc


def refuse_damaged(place: Place, wanted: int | None = None) -> None:
    """Raise the error that says why delta-rs cannot read a version (the newest by default), where the log shows it.

    `DataError` when a commit is gone, is no JSON or names no file or schema, or when the last checkpoint's file is
    gone, which delta-rs does not read past; `UnsupportedTable` when the table's metadata lacks a field that the
    protocol requires.
    """
    last = _last_checkpoint(place)
    if last is not None and not any(name.startswith(f"{last:020d}.checkpoint.") for name in place.names(LOG)):
        raise torn(
            place.path(f"{LOG}/{LAST_CHECKPOINT}"),
            f"it names the checkpoint of version {last}, which is gone",
            without_checkpoint(place, last),
        )
    checkpoints = (int(name[:20]) for name in place.names(LOG) if ANY_CHECKPOINT.match(name))
    since = max(checkpoints, default=-1)
    found = sorted(versions(place), reverse=True)
    # The first commit is needed like others where there is no checkpoint.
    for following, version in pairwise([*found, -1]):
        if version != following - 1 and version >= since:
            raise torn(place.path(f"{LOG}/{commit_name(version + 1)}"), "it is gone, and there are later ones")
    needed = found if wanted is None else [v for v in found if v <= wanted]
    for version in needed:
        path = f"{LOG}/{commit_name(version)}"
        if problem := lines_problem(place, path):
            raise torn(place.path(path), problem)
    for version in needed:
        for action in actions(place, version, "metaData"):
            if missing := _missing_fields(action):
                raise UnsupportedTable(
                    f"the Delta log of {place} cannot be read: the metadata in {commit_name(version)} lacks"
                    f" {', '.join(missing)}, which the Delta protocol requires",
                    hint=f"In Spark: ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('written' = 'anew'), which writes"
                    " the metadata whole. Or write its rows to a new table.",
                )
            if problem := _schema_problem(str(action["schemaString"])):
                raise torn(place.path(f"{LOG}/{commit_name(version)}"), problem)
            return
    if since < 0 and needed:
        raise torn(
            place.path(f"{LOG}/{commit_name(needed[-1])}"), "neither it nor a later one has the table's metadata"
        )


def damaged_type(place: Place, wanted: int | None, text: str) -> DataError | None:
    """The error that names the file of the log with a type that Delta does not have; None where it is another error.

    `text` is what delta-rs says of the version (the newest by default). A type that came to Delta later is no damage.
    """
    found = _UNKNOWN_TYPE.search(text)
    if found is None or _LATER_TYPE.match(found[1]):
        return None
    why = f"its schema has a column of type {found[1]}, and Delta has no such type"
    last = _last_checkpoint(place)
    newest = max((v for v in versions(place) if wanted is None or v <= wanted), default=-1)
    for version in range(newest, -1, -1):
        path = f"{LOG}/{commit_name(version)}"
        try:
            schemas = [str(action.get("schemaString")) for action in actions(place, version, "metaData")]
        except FileNotFoundError:
            break
        if any(f'"{found[1]}"' in schema for schema in schemas):
            return torn(place.path(path), why)
        if schemas:
            break  # sound: it is a checkpoint that differs from it
    if last is None or (wanted is not None and last > wanted):
        return None
    names = (name for name in place.names(LOG) if name.startswith(f"{last:020d}.checkpoint."))
    return next(
        (torn(place.path(f"{LOG}/{name}"), why, without_checkpoint(place, last)) for name in sorted(names)), None
    )


def _schema_problem(text: str) -> str:
    """Why the text is no schema of a Delta table; "" when it is."""
    from deltalake import Schema

    try:
        Schema.from_json(text)
    except Exception as exc:  # delta-rs has no type of its own for it
        return f"its schema cannot be read ({str(exc).partition(chr(10))[0]})"
    return ""


def lines_problem(place: Place, path: str) -> str:
    """Why a file of the log is not lines of JSON that name files; "" when it is.

    Raises `OSError` where it cannot be read for a reason that is not its own (`raise_if_not_damage`).
    """
    try:
        seen, check = False, LineCheck()
        for number, line in enumerate(place.lines(path), 1):
            if line.strip():
                seen = True
                if problem := check.problem(number, line):
                    return problem
        return check.problem_at_end() if seen else "it is empty"
    except OSError as exc:
        raise_if_not_damage(exc)
        return f"it cannot be read ({exc.strerror or exc})"


def without_checkpoint(place: Place, checkpoint: int) -> str:
    """What to do where the checkpoint of this version is gone or damaged; "" where nothing else says the same."""
    names = set(place.names(LOG))
    versions = [int(name[:20]) for name in names if _COMMIT.fullmatch(name)]
    others = (int(name[:20]) for name in names if _CHECKPOINT.fullmatch(name))
    begin = max((v for v in others if v < checkpoint), default=-1)
    if not versions or any(commit_name(v) not in names for v in range(begin + 1, max(versions) + 1)):
        return ""
    found = [name for name in names if name.startswith(f"{checkpoint:020d}.checkpoint.")]
    if _last_checkpoint(place) == checkpoint:
        found.append(LAST_CHECKPOINT)
    return f"Delete {' and '.join(sorted(found))} in {place.path(LOG)}: the log's commits have the same."


def _last_checkpoint(place: Place) -> int | None:
    try:
        return int(json.loads(bytes(place.read(f"{LOG}/{LAST_CHECKPOINT}")))["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _missing_fields(metadata: Mapping[str, Any]) -> list[str]:
    fields = [name for name in _REQUIRED if metadata.get(name) is None]
    file_format = metadata.get("format") or {}
    return fields + [f"format.{name}" for name in ("provider", "options") if file_format.get(name) is None]


def torn(path: Path | str, why: str, hint: str = "") -> DataError:
    """The error for a file of a table's log that was cut short."""
    table = str(path).partition(f"/{LOG}/")[0]
    return DataError(
        f"{path} is damaged: {why}",
        hint=hint
        or "Restore that file from a backup; or, if pipelines alone fill the table, delete the folder"
        f" {table} and run them again.",
    )


def _end(path: Path) -> bytes:
    """The last bytes of a file; none when it is empty or cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4))
            return file.read()
    except OSError as exc:
        raise_if_not_damage(exc)
        return b""


def newest_version(root: Path | Place) -> int | None:
    """The newest version that has a commit of its own in the log; None when there is no log."""
    try:
        return max(versions(root), default=None)
    except OSError as exc:
        if exc.errno in OUT_OF_RESOURCES:
            raise
        return None


def has_commit(root: Path | Place, version: int) -> bool:
    """Whether the log has this version's commit."""
    return place_at(root).stat(f"{LOG}/{commit_name(version)}") is not None


def has_version(place: Place, version: int) -> bool:
    """Whether the log has all the files from which a version is read: the commits since the first or a checkpoint."""
    names = set(place.names(LOG))
    checkpoints = (int(name[:20]) for name in names if ANY_CHECKPOINT.match(name))
    begin = max((found for found in checkpoints if found <= version), default=-1)
    return all(commit_name(found) in names for found in range(begin + 1, version + 1))


def oldest_since(root: Path, moment: float) -> int:
    """The oldest version that was still the newest one at `moment` (seconds since the epoch)."""
    found = sorted(versions(root), reverse=True)
    for following, _ in pairwise(found):
        if commit_file(root, following).stat().st_mtime < moment:
            return following
    return found[-1] if found else 0


def commit_file(root: Path, version: int) -> Path:
    """The path of a version's commit in the log of a local table."""
    return root / LOG / commit_name(version)


def checkpoint_file(root: Path, version: int) -> Path:
    """The path of a version's checkpoint, one whole file, in the log of a local table."""
    return root / LOG / f"{version:020d}.checkpoint.parquet"


def note_of(info: Mapping[str, Any], name: str) -> str | None:
    """A note in a commit's description (`commitInfo`): at its top as we write it, or in the tags that Delta writes."""
    tags = info.get("tags")
    return info.get(name) or (tags.get(name) if isinstance(tags, Mapping) else None)


def commit_name(version: int) -> str:
    """The name of a version's commit in the log's folder."""
    return f"{version:020d}.json"


def actions(root: Path | Place, version: int, kind: str) -> Iterator[dict[str, Any]]:
    """The commit's actions of one kind ("add", "remove", "txn" ...).

    Raises `FileNotFoundError` when the log does not have the commit, `DataError` when it is damaged.
    """
    for line in lines(root, version):
        if kind_of(line) == kind:
            try:
                action = json.loads(line)[kind]
            except (ValueError, KeyError) as exc:
                raise torn(f"{place_at(root)}/{LOG}/{commit_name(version)}", str(exc)) from exc
            yield action


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


def lines(root: Path | Place, version: int) -> Iterator[bytes]:
    """The lines of a commit. Raises `FileNotFoundError` when the log does not have it."""
    return place_at(root).lines(f"{LOG}/{commit_name(version)}")


def versions(root: Path | Place) -> list[int]:
    """The versions that have a commit in the log, in no order."""
    return [int(name[:20]) for name in place_at(root).names(LOG) if _COMMIT.fullmatch(name)]
