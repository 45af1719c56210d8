"""What data belongs to which node, and freeing it without touching what a run holds.

The unit is a *place*: the folder of one node type and lineage below `data/` (see `engine.context`),
or half-done work below `scratch/`, in the workspace or in a storage that a profile names. A run holds
the places of its whole plan by a shared lock, so what is being read or written is never freed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from engine.run_lock import ProcessLock
from engine.runs import Result, RunStore
from engine.workspace import Workspace, place_lock, storages


@dataclass(frozen=True)
class Place:
    """One folder of results. `bytes` counts a file that several places share (hard links) once.

    `used` is when a run last made or used a result in it (seconds since the epoch), `results` how
    many results of the cache refer to it, `in_use` whether a run holds it now.
    """

    path: Path
    node_type: str
    node: str
    pipeline: str
    bytes: int
    created: float
    used: float
    results: int
    in_use: bool


@dataclass
class Freed:
    """What `free` did: bytes given back to the disk, and the places left alone with the reason."""

    freed_bytes: int = 0
    freed: list[Path] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)


def survey(workspace: Workspace, store: RunStore) -> list[Place]:
    """Every place with its size and owner, the largest first."""
    results = store.results()
    seen: set[tuple[int, int]] = set()
    out: list[Place] = []
    for path in _places(workspace):
        owners = [r for r in results if _refers(r, path, workspace)]
        maker = next((r for r in reversed(owners) if workspace.data / r.shared == path), owners[-1] if owners else None)
        modified = path.stat().st_mtime
        out.append(
            Place(
                path=path,
                node_type=maker.node_type if maker else path.parent.name,
                node=maker.node if maker else "",
                pipeline=maker.pipeline if maker else "",
                bytes=_size(path, seen),
                created=min((r.created for r in owners), default=modified),
                used=max((r.used for r in owners), default=modified),
                results=len(owners),
                in_use=_in_use(workspace, path),
            )
        )
    return sorted(out, key=lambda p: -p.bytes)


def free(workspace: Workspace, store: RunStore, places: Iterable[Place]) -> Freed:
    """Delete these places and forget the results that refer to them.

    The results are forgotten first and the folder is renamed before it is deleted: a kill in
    between leaves no result that points at half a folder.
    """
    out = Freed()
    for place in places:
        lock = ProcessLock(place_lock(workspace, place.path))
        if not lock.acquire():
            out.skipped.append((place.path, "a run is using it"))
            continue
        try:
            store.forget_results(r.fingerprint for r in store.results() if _refers(r, place.path, workspace))
            trash = place.path.with_name(f".trash-{time.time_ns():x}")
            place.path.rename(trash)
            out.freed_bytes += _delete(trash)
            out.freed.append(place.path)
        except OSError as exc:
            out.skipped.append((place.path, exc.strerror or str(exc)))
        finally:
            lock.release()
    _sweep(workspace, store)
    return out


def _places(workspace: Workspace) -> Iterable[Path]:
    for storage in storages(workspace):
        for kind in _folders(storage.data):
            yield from _folders(kind)
        yield from _folders(storage.scratch)


def _folders(parent: Path) -> list[Path]:
    """None when it is not there: a shared folder that is not mounted just now holds nothing to free."""
    try:
        return sorted(p for p in parent.iterdir() if p.is_dir() and not p.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _refers(result: Result, path: Path, workspace: Workspace) -> bool:
    if workspace.data / result.shared == path:
        return True
    uris = [d.uri for d in result.outputs.values()]
    uris += [m for d in result.outputs.values() if isinstance(m := getattr(d, "manifest", None), str)]
    return any(Path(uri).is_relative_to(path) for uri in uris)


def _in_use(workspace: Workspace, path: Path) -> bool:
    lock = ProcessLock(place_lock(workspace, path))
    if not lock.acquire():
        return True
    lock.release()
    return False


def _size(path: Path, seen: set[tuple[int, int]]) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                stat = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            if (stat.st_dev, stat.st_ino) not in seen:
                seen.add((stat.st_dev, stat.st_ino))
                total += stat.st_blocks * 512
    return total


def _delete(trash: Path) -> int:
    """Delete a folder; gives the bytes that came free (a file still linked elsewhere frees nothing)."""
    freed = 0
    for folder, _, names in os.walk(trash):
        for name in names:
            path = Path(folder) / name
            stat = path.lstat()
            freed += stat.st_blocks * 512 if stat.st_nlink == 1 else 0
            path.unlink()
    shutil.rmtree(trash)
    return freed


def _sweep(workspace: Workspace, store: RunStore) -> None:
    """Remove what a killed clean-up left, and listings that no result refers to."""
    for storage in storages(workspace):
        for trash in storage.data.glob("*/.trash-*"):
            _delete(trash)
    if any(run.active for run in store.runs(limit=100)):
        return
    named = {str(d) for r in store.results() for d in r.identity.get("files", {}).values()}
    held = {
        Path(m).stem
        for r in store.results()
        for d in r.outputs.values()
        if isinstance(m := getattr(d, "manifest", None), str)
    }
    resumable = {p.read_text() for p in (workspace.root / "runs").glob("*/plan.json")} if named else set()
    for listing in workspace.observations.glob("*.arrow"):
        if listing.stem not in named | held and not any(listing.stem in text for text in resumable):
            listing.unlink()
