"""What data belongs to which node, and freeing it without touching what a run uses or still needs.

The unit is a *place*: the folder of one node type and lineage below `data/` (see `engine.declare.context`),
or half-done work below `scratch/`, in the workspace or in a storage that a profile names.

What is never freed, and how that is known:

* what a run at work reads or writes: it locks the places of its whole plan;
* what a run that is just being planned or started was promised: its start lock (`engine.run.start_lock`);
* what a lost, failed or cancelled run needs to be resumed: its plan names it (`Needed`), until it is resumed
  or the person says that it need not be (`holds`);
* what a program reads that has a lease on a table, or writes under the table's lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from engine.declare.dataset_type import protected_places
from engine.errors import WorkspaceError
from engine.failpoints import failpoint
from engine.run.start_lock import nobody_starts
from engine.storage.files import remove_partial
from engine.storage.process_lock import ProcessLock, is_held
from engine.storage.table_lock import INTERNALS
from engine.storage.workspace_paths import each_text
from engine.store.results import Result
from engine.store.runs import Run, RunStore
from engine.store.schema import recorded_paths
from engine.workspace import Workspace, place_lock, place_of, scratch_name, storages

_LISTING_KEPT_S = 3600.0
"""A listing that nothing names yet may belong to someone who plans without starting a run."""
Holds = Callable[[Run], bool]
"""Whether a run that could be resumed still keeps what it needs."""


def always(run: Run) -> bool:
    """Until it is resumed."""
    return True


class Needed:
    """By place, the run that needs it to be resumed or to go on. Plans are read once, so looking again costs little."""

    def __init__(self, workspace: Workspace, store: RunStore, holds: Holds = always) -> None:
        self._workspace, self._store, self._holds = workspace, store, holds
        self._plans: dict[str, Any] = {}

    def look(self, results: Iterable[Result]) -> dict[Path, Run]:
        """The places that runs need now; a run at work comes before one that could be resumed."""
        by_fingerprint = {r.fingerprint: r for r in results}
        out: dict[Path, Run] = {}
        for run in self._store.unfinished():
            plan = self._plan(run.run_id)
            if plan is None:
                continue  # it never began, and cannot be resumed
            if not run.active and (not self._holds(run) or _is_made(run, plan, by_fingerprint)):
                continue
            for place in self._places(plan, by_fingerprint):
                if place not in out or run.active:
                    out[place] = run
        return out

    def _plan(self, run_id: str) -> Any:
        if run_id not in self._plans:
            try:
                text = (self._workspace.run_folder(run_id) / "plan.json").read_text(encoding="utf-8")
                plan = json.loads(text)
                # Plans of an older Voxelflow have absolute paths, perhaps of a place where the workspace lay then.
                paths = self._store.paths if "paths" in plan else recorded_paths(self._workspace, plan)
                self._plans[run_id] = each_text(plan, paths.loaded)
            except (OSError, ValueError, TypeError, AttributeError):
                return None
        return self._plans[run_id]

    def _places(self, plan: Any, results: Mapping[str, Result]) -> Iterator[Path]:
        """Every text of a plan may be a path, a place below `data/` or a fingerprint; other texts do no harm."""
        for text in {*_texts(plan), *_scratch_names(plan)}:
            if place := _place(self._workspace, text):
                yield place
            for storage in storages(self._workspace):
                yield storage.scratch / text
            if result := results.get(text):
                yield from places_of_result(self._workspace, result)


def places_of_result(workspace: Workspace, result: Result) -> set[Path]:
    """Where its files lie: the folder of its lineage, and those of datasets that it took over from others."""
    texts = [result.shared]
    for dataset in result.outputs.values():
        texts += protected_places(dataset)
    return {place for text in texts if (place := _place(workspace, text))}


def _place(workspace: Workspace, text: str) -> Path | None:
    if "/" not in text or "\0" in text:
        return None
    return place_of(workspace, workspace.data / text)  # an absolute path stays what it is


def _is_made(run: Run, plan: Any, results: Mapping[str, Result]) -> bool:
    """Whether another run has made all that this one left undone."""
    if run.state == "lost":
        return False
    try:
        return all(task["identity"]["fingerprint"] in results for task in plan["tasks"])
    except (KeyError, TypeError):
        return False


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _scratch_names(plan: Any) -> list[str]:
    """Those of the half-done work of a plan as JSON."""
    try:
        return [
            scratch_name(task["identity"]["fingerprint"], task["shared"], bool(task.get("forced")))
            for task in plan["tasks"]
        ]
    except (KeyError, TypeError, AttributeError):
        return []


@dataclass(frozen=True)
class Place:
    """One folder of results. `bytes` counts a file that several places share (hard links) once.

    `used` is when a run last made or used a result in it (seconds since the epoch), `results` how
    many results of the cache refer to it, `in_use` whether a run or a reader uses it now, `kept_for`
    the run that needs it to be resumed.
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
    kept_for: str = ""


@dataclass
class Freed:
    """What `free` did: bytes given back to the disk, and the places left alone with the reason."""

    freed_bytes: int = 0
    freed: list[Path] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)


def survey(workspace: Workspace, store: RunStore, holds: Holds = always) -> list[Place]:
    """Every place with its size and owner, the largest first. `holds` says which runs keep what they need."""
    results = store.results.all()
    needed = Needed(workspace, store, holds).look(results)
    owners_of = _owners(results, workspace)
    seen: set[tuple[int, int]] = set()
    out: list[Place] = []
    for path in _places(workspace):
        owners = owners_of.get(path, [])
        maker = next((r for r in reversed(owners) if workspace.data / r.shared == path), owners[-1] if owners else None)
        try:
            modified = path.stat().st_mtime
        except FileNotFoundError:  # freed or finished meanwhile
            continue
        run = needed.get(path)
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
                in_use=(run is not None and run.active) or _in_use(workspace, path),
                kept_for=run.run_id if run is not None and not run.active else "",
            )
        )
    return sorted(out, key=lambda p: -p.bytes)


def free(workspace: Workspace, store: RunStore, places: Iterable[Place], holds: Holds = always) -> Freed:
    """Delete these places and forget the results that refer to them, except what is needed by now.

    While no run can start, results are forgotten and folders renamed; they are deleted afterwards. A kill in between
    leaves no result that points at half a folder, and the next clean-up finishes it. Raises `WorkspaceError` when
    another clean-up is at work.
    """
    alone = ProcessLock(workspace.locks / "clean")
    if not alone.acquire():
        raise WorkspaceError(
            "another `voxelflow clean` frees data of this workspace just now", hint="Try again when it has ended."
        )
    out = Freed()
    try:
        # Plans are read before, so that no start of a run waits for that.
        needed = Needed(workspace, store, holds)
        needed.look(())
        with nobody_starts(workspace) as granted:
            moved = _move_aside(workspace, store, list(places), needed, out) if granted else {}
            if granted:
                _sweep_listings(workspace, store)
        if not granted:
            out.skipped += [(p.path, "a run is being planned or started; try again later") for p in places]
        for path, trash in moved.items():
            try:
                out.freed_bytes += _delete(trash)
                out.freed.append(path)
            except OSError as exc:
                out.skipped.append((path, f"its files cannot be deleted: {exc.strerror or exc}"))
        _sweep_trash(workspace)
    finally:
        alone.release()
    return out


def _move_aside(
    workspace: Workspace, store: RunStore, places: list[Place], needed: Needed, out: Freed
) -> dict[Path, Path]:
    """Forget the results of the places that can be freed and rename these; gives what to delete, by place."""
    results = store.results.all()
    runs, owners_of = needed.look(results), _owners(results, workspace)
    moved: dict[Path, Path] = {}
    for number, place in enumerate(places):
        owners = owners_of.get(place.path, [])
        if reason := _kept(place, owners, runs):
            out.skipped.append((place.path, reason))
            continue
        with _locked(workspace, place.path) as locked:
            if not locked:
                out.skipped.append((place.path, "a run is using it"))
                continue
            store.results.forget(r.fingerprint for r in owners)
            failpoint("clean:forgotten")
            trash = place.path.with_name(f".trash-{time.time_ns():x}-{number}")
            try:
                place.path.rename(trash)
            except FileNotFoundError:  # another clean-up was here
                continue
            except OSError as exc:
                out.skipped.append((place.path, exc.strerror or str(exc)))
                continue
            moved[place.path] = trash
            failpoint("clean:moved")
    return moved


def _kept(place: Place, owners: list[Result], runs: Mapping[Path, Run]) -> str:
    """Why the place is not freed although it was chosen; empty when it may be."""
    run = runs.get(place.path)
    if run is not None:
        return "a run is using it" if run.active else f"run {run.run_id} can still be resumed"
    if any(r.used > place.used for r in owners):
        return "a run has used it meanwhile"
    return ""


@contextmanager
def _locked(workspace: Workspace, path: Path) -> Iterator[bool]:
    """Hold the place, and the tables in it, alone; False when someone uses one of them."""
    locks = [ProcessLock(place_lock(workspace, path))]
    leases: list[Path] = []
    for table in _tables(path):
        # The gate keeps new leases from being taken (see `nodes.table.lease`).
        locks += [ProcessLock(table / INTERNALS / name) for name in ("reserved", "lock", "leases/gate")]
        leases += _files(table / INTERNALS / "leases")
    try:
        try:
            free = all(lock.acquire() for lock in locks)
        except OSError:  # no permission in the table: then none to delete it either
            free = False
        yield free and not any(is_held(lease) for lease in leases if lease.name != "gate")
    finally:
        for lock in locks:
            lock.release()


def _tables(path: Path) -> list[Path]:
    """The folders below a place, two levels deep, that Voxelflow has written as Delta tables."""
    out: list[Path] = []
    level = [path]
    for _ in range(3):
        out += [folder for folder in level if (folder / INTERNALS).is_dir()]
        level = [child for folder in level if folder not in out for child in _folders(folder)]
    return out


def _places(workspace: Workspace) -> Iterable[Path]:
    for storage in storages(workspace):
        for kind in _folders(storage.data):
            yield from _folders(kind)
        yield from _folders(storage.scratch)


def _folders(parent: Path) -> list[Path]:
    """None when it is not there: a shared folder that is not mounted just now has nothing to free."""
    try:
        return sorted(p for p in parent.iterdir() if p.is_dir() and not p.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _files(folder: Path) -> list[Path]:
    try:
        return [p for p in folder.iterdir() if p.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _owners(results: list[Result], workspace: Workspace) -> dict[Path, list[Result]]:
    """By place, the results that lie there, oldest first."""
    out: dict[Path, list[Result]] = {}
    for result in results:
        for place in places_of_result(workspace, result):
            out.setdefault(place, []).append(result)
    return out


def _in_use(workspace: Workspace, path: Path) -> bool:
    lock = ProcessLock(place_lock(workspace, path))
    if not lock.acquire():
        return True
    lock.release()
    tables = [table / INTERNALS for table in _tables(path)]
    return any(
        is_held(file) for table in tables for file in (table / "reserved", table / "lock", *_files(table / "leases"))
    )


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
            failpoint("clean:file-deleted")
    shutil.rmtree(trash)
    return freed


def _sweep_trash(workspace: Workspace) -> None:
    """Delete what a killed clean-up had moved aside."""
    for storage in storages(workspace):
        for trash in [*storage.data.glob("*/.trash-*"), *storage.scratch.glob(".trash-*")]:
            with contextlib.suppress(OSError):  # the next one tries again
                _delete(trash)


def _sweep_listings(workspace: Workspace, store: RunStore) -> None:
    """Delete listings that neither a result nor the plan of any run refers to. To be called while no run starts."""
    named = {str(d) for r in store.results.all() for d in r.identity.get("files", {}).values()}
    named |= {
        PurePosixPath(place).stem
        for r in store.results.all()
        for d in r.outputs.values()
        for place in protected_places(d)
    }
    old = time.time() - _LISTING_KEPT_S
    remove_partial(workspace.observations, before=old)
    found = [p for p in workspace.observations.glob("*.arrow") if p.stem not in named and p.stat().st_mtime < old]
    if not found:
        return
    for plan in (workspace.root / "runs").glob("*/plan.json"):
        with contextlib.suppress(OSError):
            named.update(re.findall(r"([^/\\\"]+)\.arrow", plan.read_text(encoding="utf-8", errors="replace")))
    for listing in found:
        if listing.stem not in named:
            listing.unlink(missing_ok=True)
