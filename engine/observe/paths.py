"""Paths and URLs of parameters: which a document may name, what lies there, and whether a node can use it."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.declare.field_rules import control_character
from engine.declare.parameters import FileKind, PathIn
from engine.declare.path_found import FilesLeftOut, PathFound
from engine.errors import UsageError, VoxelflowError
from engine.storage import StorageUrl, expanded, is_url, manifest, parse_url
from engine.workspace import Workspace, data_roots, storages

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 64
"""Names of a listing that a scan may open: enough to see a wrong shape or a broken export."""


@dataclass(frozen=True)
class AllowedPlaces:
    """Folders and places in object storage that documents may name; see `allowed_places`."""

    folders: tuple[Path, ...]
    urls: tuple[StorageUrl, ...]

    def __contains__(self, text: object) -> bool:
        """Whether a document may name this path or URL. What is wrong with a URL that cannot be read, `find_path` and
        `why_not_writable` report."""
        if not is_url(text):
            resolved = Path(str(text)).resolve()
            return any(resolved.is_relative_to(folder) for folder in self.folders)
        try:
            url = parse_url(str(text))
        except VoxelflowError:
            return True
        return any(root.holds(url) for root in self.urls)


def allowed_places(workspace: Workspace, extra: Iterable[Path | str] = ()) -> AllowedPlaces:
    """The workspace and its storages, the current directory, the listed data roots, and those in `extra`.

    Data roots are listed in `workspace.json` and in `VOXELFLOW_DATA_ROOTS`. Raises `WorkspaceError` when that file is
    damaged.
    """
    # The separator between two roots is a colon, and so is a part of a URL.
    split = re.split(rf"{re.escape(os.pathsep)}(?!//)", os.environ.get("VOXELFLOW_DATA_ROOTS", ""))
    named: list[Path | str] = [*data_roots(workspace), *filter(None, split)]
    folders = [Path.cwd(), *(s.root for s in storages(workspace))]
    folders += [expanded(str(place)) for place in named if not is_url(place)]
    # The check of parameters reports a control character; the system would refuse the path here without saying so.
    more = [place for place in extra if not control_character(str(place))]
    folders += [Path(place) for place in more if not is_url(place)]
    urls = []
    for place in (*named, *more):
        if is_url(place):
            with contextlib.suppress(UsageError):
                urls.append(parse_url(str(place)))
    return AllowedPlaces(tuple(folder.resolve() for folder in folders), tuple(urls))


def find_path(
    text: str, wanted: PathIn, listings: Path, *, scan: bool = True, params: Mapping[str, Any] | None = None
) -> PathFound:
    """Look at the file, or list the folder; its listing goes into the folder `listings`.

    `scan=False` lists nothing, and asks nothing of an object store. What is wrong becomes the `problem`. `params` are
    the node's parameters: one of them may choose among the `kinds` of files that are wanted.
    """
    if is_url(text):
        return _find_url(text, wanted, listings, scan=scan, params=params or {})
    path = Path(text)
    try:
        found = path.stat()
    except FileNotFoundError:
        return PathFound(text, exists=False)
    except OSError as exc:
        return PathFound(text, exists=True, problem=exc.strerror or str(exc))
    is_folder = stat.S_ISDIR(found.st_mode)
    if not is_folder and not stat.S_ISREG(found.st_mode):
        # A named pipe would wait for its writer when it is opened, and a device may never end.
        return PathFound(text, exists=True, kind="file", problem="it is not a regular file, but a pipe or a device")
    kind = "folder" if is_folder else "file"
    if not _may_access(path, os.R_OK | (os.X_OK if is_folder else 0)):
        return PathFound(text, exists=True, kind=kind, problem="permission denied")
    if not is_folder:
        return PathFound(
            text, exists=True, kind=kind, count=1, bytes=found.st_size, digest=f"{found.st_size}-{found.st_mtime_ns}"
        )
    if wanted.kind != "folder":
        return PathFound(text, exists=True, kind=kind)
    if not scan:
        # Unknown, but not empty: the count is known once the folder has been listed.
        return PathFound(text, exists=True, kind=kind, count=1)
    if wanted.identify:
        return _identified(text, wanted, params or {})
    file_kind = ""
    endings: tuple[tuple[str, int], ...] = ()
    left_out = manifest.LeftOut()
    try:
        listing = None
        chosen = str((params or {}).get(wanted.kind_parameter) or "")
        kinds = _kinds_of(wanted)
        if chosen not in kinds:
            left_out = _to_count(wanted, kinds.values())
            listing = manifest.list_folder(path, wanted.patterns, left_out=left_out)
        if kinds and (listing is None or not _has_any(listing, wanted.patterns)):
            folders = tuple(name for each in kinds.values() for name in each.folders)
            endings = _endings(manifest.names_in(path, folders), kinds.values())
            file_kind = _kind_of(chosen, kinds, endings)
            if file_kind:
                kind_found = kinds[file_kind]
                left_out = _to_count(wanted, kinds.values())
                looked_into = kind_found.any_name and chosen == file_kind
                patterns = ("**/*",) if looked_into else _patterns_of(wanted, kind_found)
                listing = manifest.list_folder(path, patterns, kind_found.folders, left_out)
                if looked_into:
                    listing = _without_others(listing, kind_found, left_out)
    except OSError as exc:
        return PathFound(text, exists=True, kind=kind, problem=f"{exc.filename}: {exc.strerror}")
    found_folder = _found_folder(text, listing, listings)
    nameless = "" if file_kind or chosen not in ("", "auto") else _nameless(kinds.values(), endings)
    passed = _passed_over(left_out, kinds, file_kind)
    return replace(found_folder, file_kind=file_kind, endings=endings, nameless=nameless, **passed)


def _nameless(kinds: Iterable[FileKind], endings: tuple[tuple[str, int], ...]) -> str:
    """The kind whose files have any name, where there are some without an ending or with a number for one."""
    if not any(ending == manifest.NO_ENDING or ending[1:].isdigit() for ending, _ in endings):
        return ""
    return next((each.name for each in kinds if each.any_name), "")


def _identified(text: str, wanted: PathIn, params: Mapping[str, Any]) -> PathFound:
    try:
        digest = _function(wanted.identify)(text, params)
    except VoxelflowError as exc:
        # What is wrong with it the node's own look says, better than that it cannot be read.
        digest = exc.line()
    return PathFound(text, exists=True, kind="folder", count=1, digest=digest)


def _function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _kinds_of(wanted: PathIn) -> Mapping[str, FileKind]:
    """The parameter's further kinds of files, by name."""
    if not wanted.kinds:
        return {}
    found: Iterable[FileKind] = _function(wanted.kinds)()
    return {each.name: each for each in found}


def _has_any(listing: pa.Table, patterns: tuple[str, ...]) -> bool:
    """Whether a file was listed for one of the patterns that match at any depth; the others name single files."""
    exact = {pattern for pattern in patterns if not pattern.startswith("**/")}
    return len(listing) > len(exact) or any(path not in exact for path in listing["path"].to_pylist())


def _endings(paths: Iterable[str], kinds: Iterable[FileKind]) -> tuple[tuple[str, int], ...]:
    known = [ending for each in kinds for ending in (*each.endings, *each.folder_endings)]
    return tuple(manifest.count_endings(paths, known).most_common())


def _commonest(endings: tuple[tuple[str, int], ...], kinds: Iterable[FileKind]) -> str:
    """The kind of most files; among equals the first of `kinds`. "": no file is of any."""
    counts = {
        each.name: sum(count for ending, count in endings if ending in (*each.endings, *each.folder_endings))
        for each in kinds
    }
    best = max(counts, key=lambda name: counts[name], default="")
    return best if counts.get(best) else ""


def is_missing(place: str) -> bool:
    """Whether there is nothing at a path; False of a URL, and where that cannot be seen."""
    if is_url(place):
        return False
    try:
        Path(place).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _find_url(text: str, wanted: PathIn, listings: Path, *, scan: bool, params: Mapping[str, Any]) -> PathFound:
    try:
        url = parse_url(text)
        if wanted.kind != "folder":
            return PathFound(
                text, exists=True, kind=wanted.kind, problem="a table of labels must lie on a local disk, for now"
            )
        if not scan:
            return PathFound(text, exists=True, kind="folder", count=1)
        if wanted.identify:
            return _identified(text, wanted, params)
        from engine.storage.objects import RemotePath

        folder, kinds = RemotePath(url), _kinds_of(wanted)
        chosen = str(params.get(wanted.kind_parameter) or "")
        left_out = _to_count(wanted, kinds.values())
        listing = manifest.list_remote(folder, wanted.patterns, left_out) if chosen not in kinds else None
        file_kind = ""
        endings: tuple[tuple[str, int], ...] = ()
        if kinds and (listing is None or not _has_any(listing, wanted.patterns)):
            found = manifest.list_remote(folder, ("**/*",))
            # A volume that is a folder has no file with its ending.
            names = [_folder_or_file(path, kinds.values()) for path in found["path"].to_pylist()]
            endings = _endings(dict.fromkeys(names), kinds.values())
            file_kind = _kind_of(chosen, kinds, endings)
            if file_kind and kinds[file_kind].needs_folder:
                listing, file_kind = manifest.table_of(()), ""
            elif file_kind:
                left_out = _to_count(wanted, kinds.values())
                listing = manifest.list_remote(folder, _patterns_of(wanted, kinds[file_kind]), left_out)
        assert listing is not None
    except VoxelflowError as exc:
        return PathFound(text, exists=True, kind=wanted.kind, problem=exc.line())
    found_folder = _found_folder(text, listing, listings)
    return replace(found_folder, file_kind=file_kind, endings=endings, **_passed_over(left_out, kinds, file_kind))


def _to_count(wanted: PathIn, kinds: Iterable[FileKind]) -> manifest.LeftOut:
    """Counts, while a folder is listed for one kind of files, those of all kinds that are not taken."""
    own = {pattern.removeprefix("**/*").lower() for pattern in wanted.patterns if pattern.startswith("**/*.")}
    known = tuple(kinds)
    if not known:
        return manifest.LeftOut()
    return manifest.LeftOut(
        tuple(own.union(*(each.endings for each in known))), tuple(e for each in known for e in each.folder_endings)
    )


def _passed_over(left_out: manifest.LeftOut, kinds: Mapping[str, FileKind], file_kind: str) -> dict[str, Any]:
    files = []
    for ending, count in left_out.files.most_common():
        of = [each.name for each in kinds.values() if ending in (*each.endings, *each.folder_endings)]
        kind = file_kind if file_kind in of else (of or [""])[0]
        files.append(FilesLeftOut(ending, count, left_out.examples[ending], kind, kind == file_kind))
    return {"left_out": tuple(files), "links": tuple(sorted(left_out.links.items()))}


def _folder_or_file(path: str, kinds: Iterable[FileKind]) -> str:
    """The first folder on a path that is one volume of a kind, else the path."""
    folders = tuple(ending for each in kinds for ending in each.folders)
    parts = path.split("/")
    for number, part in enumerate(parts[:-1], 1):
        if folders and part.endswith(folders):
            return "/".join(parts[:number])
    return path


def _kind_of(chosen: str, kinds: Mapping[str, FileKind], endings: tuple[tuple[str, int], ...]) -> str:
    """The kind that is chosen, or that most files have; "": no file is of any, or another kind is chosen."""
    if chosen in kinds:
        return chosen
    return _commonest(endings, kinds.values()) if chosen in ("", "auto") else ""


def _patterns_of(wanted: PathIn, kind: FileKind) -> tuple[str, ...]:
    """What is listed of a kind: its files, and those that are wanted by name."""
    return (*kind.patterns, *(pattern for pattern in wanted.patterns if not pattern.startswith("**/")))


def _without_others(listing: pa.Table, kind: FileKind, left_out: manifest.LeftOut) -> pa.Table:
    """Without the files that by their endings are of other kinds; `left_out` counts these."""
    others = tuple(set(left_out.endings) - set(kind.endings))
    kept = []
    for path in listing["path"].to_pylist():
        kept.append(not path.lower().endswith(others))
        if not kept[-1]:
            left_out.add(path)
    return listing.filter(kept)


def _found_folder(text: str, listing: pa.Table, listings: Path) -> PathFound:
    """The listing's figures; the listing itself is kept in the folder `listings`, under its digest."""
    digest = manifest.digest(listing)
    listings.mkdir(exist_ok=True)
    kept = listings / f"{digest}.arrow"
    with contextlib.suppress(FileNotFoundError, PermissionError):
        os.utime(kept)  # `clean` leaves a young one: its finder may still read it
    # An earlier version did not flush it: a power cut may have left one that is empty.
    if not manifest.is_whole(kept):
        manifest.write(listing, kept)
    count = listing.num_rows
    rows = sorted({i * (count - 1) // max(1, SAMPLE - 1) for i in range(SAMPLE)}) if count else []
    return PathFound(
        text,
        exists=True,
        kind="folder",
        count=count,
        bytes=manifest.total_bytes(listing),
        digest=digest,
        manifest=str(kept),
        sample=tuple(listing["path"][row].as_py() for row in rows),
    )


def why_not_writable(place: Path | str, kind: Literal["file", "folder"] = "folder", *, scan: bool = True) -> str:
    """Why no file or folder can be written at this path or URL, or "". Without `scan` an object store is not asked.

    Of a path where nothing is, the nearest folder that exists counts; a file that is there already is written over.
    Whether credentials allow writing is known when something is written: a look shows only whether they allow reading.
    """
    if is_url(place):
        try:
            url = parse_url(str(place))
            if scan:
                from engine.storage.find_place import place_at

                next(place_at(str(place)).names(), None)
        except VoxelflowError as exc:
            return exc.line()
        except Exception as exc:  # the package that has the scheme may raise anything
            from engine.storage.objects import redact
            from engine.storage.schemes import installed_places

            if (entry := installed_places(url.scheme)) is None:
                raise
            package = f"the package {entry.dist.name}" if entry.dist else entry.value
            return f"{package} cannot look into {place}: {redact(f'{type(exc).__name__}: {exc}')}"
        return ""
    for folder in (Path(place), *Path(place).parents):
        try:
            found = folder.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as exc:
            return f"{folder}: {exc.strerror}"
        if kind == "file" and folder == Path(place):
            return _why_not_written_over(folder, found.st_mode)
        if not stat.S_ISDIR(found.st_mode):
            return f"{folder} is a file"
        return "" if _may_access(folder, os.W_OK | os.X_OK) else f"no permission in {folder}"
    return "no such folder"


def _why_not_written_over(path: Path, mode: int) -> str:
    if stat.S_ISDIR(mode):
        return f"{path} is a folder"
    if not stat.S_ISREG(mode):
        return "it is not a regular file, but a pipe or a device"
    return "" if _may_access(path, os.W_OK) else f"no permission to change {path}"


def _may_access(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)
