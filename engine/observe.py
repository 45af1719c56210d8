"""`observe`: the only I/O before a run. Lists folders once, scans a sample, looks at disk and cache."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine import manifest, observe_remote
from engine.catalog import AnyNodeType
from engine.checks import look_ahead
from engine.errors import UsageError
from engine.found_folder import found_folder
from engine.identity import Identity, identify
from engine.node import Look, PathFound
from engine.observation import Cached, Observation
from engine.parameters import Parameter
from engine.resolve import Resolved, ResolvedNode
from engine.runs import Result, RunStore
from engine.storage import StorageUrl, is_url, parse_url
from engine.workspace import Storage, Workspace, storages


def observe(
    resolved: Resolved,
    workspace: Workspace,
    store: RunStore | None,
    *,
    scan: bool = True,
    extra_roots: Iterable[Path | str] = (),
    storage: Path | None = None,
) -> Observation:
    """Look at everything the pipeline touches.

    `scan=False` leaves out listings and samples (a check of paths and permissions only, in
    milliseconds). `extra_roots` are folders and storage URLs that the person named just now. `storage` is where new
    results will lie when that is not the workspace.
    """
    named = tuple(extra_roots)
    roots = [*allowed_roots(workspace), *(Path(p).resolve() for p in named if not is_url(p))]
    urls = [*allowed_urls(workspace), *_urls(named)]
    paths: dict[str, dict[str, PathFound]] = {}
    not_writable: dict[str, str] = {}
    outside: set[str] = set()
    secrets: set[str] = set()
    for item in resolved.typed():
        assert item.type is not None
        for parameter in item.type.parameters:
            value = item.params.get(parameter.name)
            if not value:
                continue
            if (parameter.path_in or parameter.path_out) and is_url(value):
                if not observe_remote.is_listed(str(value), urls):
                    outside.add(str(value))
                elif parameter.path_in is not None:
                    found = observe_remote.find(str(value), parameter.path_in, workspace, scan=scan)
                    paths.setdefault(item.node.id, {})[parameter.name] = found
                elif reason := observe_remote.cannot_write(str(value), scan=scan):
                    not_writable[str(value)] = reason
            elif (parameter.path_in or parameter.path_out) and not _inside(Path(str(value)), roots):
                outside.add(str(value))
            elif parameter.path_in is not None:
                look = _find(Path(str(value)), parameter, workspace, scan=scan)
                paths.setdefault(item.node.id, {})[parameter.name] = look
            elif parameter.path_out is not None and (reason := _cannot_write(Path(str(value)))):
                not_writable[str(value)] = reason
            if parameter.secret and str(value) not in os.environ:
                secrets.add(str(value))
    seen = Observation(
        paths=paths,
        not_writable=not_writable,
        outside=frozenset(outside),
        missing_secrets=frozenset(secrets),
    )
    seen = at_storage(seen, workspace, storage)
    if not scan:
        return seen
    seen = _with(seen, facts=_scan(resolved, seen))
    return seen if store is None else look_into_cache(resolved, seen, store, workspace)


def at_storage(seen: Observation, workspace: Workspace, storage: Path | None) -> Observation:
    """The observation for a profile whose results lie in `storage` (None: the workspace)."""
    place = Storage(storage or workspace.root)
    not_writable = {path: reason for path, reason in seen.not_writable.items() if path}
    if reason := _cannot_write(workspace.data) or _cannot_write(place.data):
        not_writable[""] = reason
    standing = next(p for p in (place.root, *place.root.parents) if p.exists())
    return _with(seen, not_writable=not_writable, storage=storage, free_bytes=shutil.disk_usage(standing).free)


def look_into_cache(resolved: Resolved, seen: Observation, store: RunStore, workspace: Workspace) -> Observation:
    """The observation with what the result cache holds for this pipeline, and whether it still can be read."""
    identities = identify(resolved, seen.paths)
    cache: dict[str, Cached] = {}
    previous: dict[str, Result] = {}
    shorter: dict[str, Result] = {}
    last: dict[str, Result] = {}
    changes: dict[str, dict[str, str]] = {}
    usable: set[str] = set()
    for item in resolved.typed():
        node, identity = item.node.id, identities.get(item.node.id)
        if identity is None:
            continue
        if result := store.result(identity.fingerprint):
            found = check_result(item.type, result)
            cache[identity.fingerprint] = found
            if not found.problem:
                usable.add(node)
        if newest := store.newest_of_lineage(identity.lineage, seen.storage):
            previous[identity.lineage] = newest
        if best := _longest(item, identity, store):
            shorter[identity.base] = best
        if before := store.newest_of_node(resolved.pipeline.name, node):
            last[node] = before
            changes[node] = {
                name: change
                for name, found_path in seen.paths.get(node, {}).items()
                if (change := _listing_change(workspace, before, name, found_path))
            }
    return _with(
        seen,
        cache=cache,
        previous=previous,
        shorter=shorter,
        last=last,
        changes=changes,
        cached_nodes=frozenset(usable),
    )


def allowed_roots(workspace: Workspace) -> list[Path]:
    """Folders that documents may name: the workspace and its storages, the current directory, the listed data roots."""
    roots = [Path.cwd(), *(s.root for s in storages(workspace))]
    roots += [Path(p).expanduser() for p in _data_roots(workspace) if not is_url(p)]
    return [r.resolve() for r in roots]


def allowed_urls(workspace: Workspace) -> list[StorageUrl]:
    """Places in object storage that documents may name: the listed data roots that are URLs."""
    return _urls(_data_roots(workspace))


def _urls(texts: Iterable[Path | str]) -> list[StorageUrl]:
    out: list[StorageUrl] = []
    for text in texts:
        if is_url(text):
            with contextlib.suppress(UsageError):
                out.append(parse_url(str(text)))
    return out


def _data_roots(workspace: Workspace) -> list[str]:
    roots: list[str] = []
    with contextlib.suppress(OSError, ValueError):
        roots += map(str, json.loads((workspace.root / "workspace.json").read_text()).get("data_roots", []))
    # The separator between two roots is a colon, and so is a part of a URL.
    split = re.split(rf"{re.escape(os.pathsep)}(?!//)", os.environ.get("VOXELFLOW_DATA_ROOTS", ""))
    return roots + [part for part in split if part]


def _inside(path: Path, roots: list[Path]) -> bool:
    resolved = path.resolve()
    return any(resolved.is_relative_to(root) for root in roots)


def _find(path: Path, parameter: Parameter, workspace: Workspace, *, scan: bool) -> PathFound:
    assert parameter.path_in is not None
    text = str(path)
    try:
        found = path.stat()
    except FileNotFoundError:
        return PathFound(text, exists=False)
    except OSError as exc:
        return PathFound(text, exists=True, problem=exc.strerror or str(exc))
    is_folder = path.is_dir()
    kind = "folder" if is_folder else "file"
    if not _may(path, os.R_OK | (os.X_OK if is_folder else 0)):
        return PathFound(text, exists=True, kind=kind, problem="permission denied")
    if not is_folder:
        return PathFound(
            text, exists=True, kind=kind, count=1, bytes=found.st_size, digest=f"{found.st_size}-{found.st_mtime_ns}"
        )
    if parameter.path_in.kind != "folder":
        return PathFound(text, exists=True, kind=kind)
    if not scan:
        # Unknown, but not empty: the count is told once the folder has been listed.
        return PathFound(text, exists=True, kind=kind, count=1)
    try:
        listing = manifest.list_folder(path, parameter.path_in.patterns)
    except OSError as exc:
        return PathFound(text, exists=True, kind=kind, problem=f"{exc.filename}: {exc.strerror}")
    return found_folder(text, listing, workspace)


def _cannot_write(path: Path) -> str:
    """Why nothing can be written at `path`, or "". Looks at the nearest folder that exists."""
    for folder in (path, *path.parents):
        try:
            found = folder.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as exc:
            return f"{folder}: {exc.strerror}"
        else:
            if not stat.S_ISDIR(found.st_mode):
                return f"{folder} is a file"
            return "" if _may(folder, os.W_OK | os.X_OK) else f"no permission in {folder}"
    return "no such folder"


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _scan(resolved: Resolved, seen: Observation) -> dict[str, Mapping[str, Any]]:
    facts: dict[str, Mapping[str, Any]] = {}
    for item in resolved.typed():
        assert item.type is not None
        if item.type.scan_hook is None or not item.complete:
            continue
        paths = seen.paths.get(item.node.id, {})
        if any(not p.exists or p.problem for p in paths.values()):
            continue
        # Previews upstream may build on facts found just now, so they are taken afresh each time.
        previews, _ = look_ahead(resolved, _with(seen, facts=facts))
        inputs = {
            e.target_port: previews[e.source_node, e.source_port]
            for e in resolved.wires_into(item.node.id)
            if (e.source_node, e.source_port) in previews
        }
        try:
            facts[item.node.id] = item.type.scan_hook(Look(params=item.params, inputs=inputs, paths=paths))
        except Exception as exc:  # a scan only warns beforehand; the run tells for sure
            facts[item.node.id] = {"scan_failed": f"{type(exc).__name__}: {exc}"}
    return facts


def check_result(node_type: AnyNodeType | None, result: Result) -> Cached:
    """Whether a result in the cache can still be read, and its table still be changed."""
    problem = moved_on = ""
    for dataset in result.outputs.values():
        for path in (dataset.uri, getattr(dataset, "manifest", None)):
            # What lies in object storage is for the node's own check.
            if path is not None and not is_url(path) and not os.path.exists(path):
                problem = problem or f"{path} is gone"
    verify = node_type.verify_hook if node_type else None
    if not problem and verify is not None:
        try:
            problem = verify(result.outputs, False)
            moved_on = problem or verify(result.outputs, True)
        except Exception as exc:  # whatever is wrong with it, it can't be used
            problem = f"it cannot be read: {exc}"
    return Cached(result, problem, moved_on)


def _longest(item: ResolvedNode, identity: Identity, store: RunStore) -> Result | None:
    """The finished result to extend: the one with the largest extendable values not above ours."""
    assert item.type is not None
    names = [p.name for p in item.type.parameters if p.extendable]
    if not names:
        return None

    def values(result: Result) -> tuple[float, ...]:
        return tuple(result.identity["params"][n] for n in names)

    wanted = tuple(item.params[n] for n in names)
    fitting = [
        r
        for r in store.results_of_base(identity.base)
        if r.fingerprint != identity.fingerprint
        and all(v <= w for v, w in zip(values(r), wanted, strict=True))
        and not check_result(item.type, r).problem
    ]
    return max(fitting, key=values, default=None)


def _listing_change(workspace: Workspace, before: Result, name: str, now: PathFound) -> str:
    old_digest = before.identity.get("files", {}).get(name)
    if not now.manifest or not old_digest or old_digest == now.digest:
        return ""
    old_path = workspace.observations / f"{old_digest}.arrow"
    if not old_path.exists():
        return "changed on disk"
    counts = manifest.compare(manifest.read(old_path), manifest.read(now.manifest))
    return ", ".join(f"{verb} {n} file{'s' if n != 1 else ''}" for verb, n in counts.items() if n)


def _with(seen: Observation, **changes: Any) -> Observation:
    from dataclasses import replace

    return replace(seen, **changes)
