"""`observe`: the only I/O before a run. Lists folders once, scans a sample, looks at disk and cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.declare.check_context import CheckContext
from engine.declare.path_found import PathFound
from engine.document.checks import Observation, packages_needed, preview_outputs
from engine.document.identity import identify
from engine.document.resolve import Resolved, TypedNode
from engine.extras import missing
from engine.observe.paths import allowed_places, find_path, is_missing, why_not_writable
from engine.observe.results import check_result, result_to_extend
from engine.storage import manifest
from engine.storage.workspace_paths import WorkspacePaths
from engine.store.results import Cached, Result
from engine.store.runs import RunStore
from engine.workspace import Storage, Workspace


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
    allowed = allowed_places(workspace, extra_roots)
    paths: dict[str, dict[str, PathFound]] = {}
    not_writable: dict[str, str] = {}
    outside: set[str] = set()
    secrets: set[str] = set()
    for item in resolved.typed():
        for parameter in item.type.parameters:
            value = item.params.get(parameter.name)
            if not value:
                continue
            place = str(value)
            if parameter.is_path and place not in allowed:
                outside.add(place)
                if parameter.path_in is not None and is_missing(place):
                    paths.setdefault(item.node.id, {})[parameter.name] = PathFound(place, exists=False)
            elif parameter.path_in is not None:
                found = find_path(place, parameter.path_in, workspace.observations, scan=scan, params=item.params)
                paths.setdefault(item.node.id, {})[parameter.name] = found
            elif parameter.path_out is not None and (
                reason := why_not_writable(place, parameter.path_out.kind, scan=scan)
            ):
                not_writable[place] = reason
            if parameter.secret and place not in os.environ:
                secrets.add(place)
    seen = Observation(
        paths=paths,
        not_writable=not_writable,
        outside=frozenset(outside),
        missing_secrets=frozenset(secrets),
        missing_packages=frozenset(missing(packages_needed(resolved))),
        own_paths=store.paths if store is not None else WorkspacePaths(workspace.root),
    )
    seen = at_storage(seen, workspace, storage)
    if not scan:
        return seen
    seen = replace(seen, facts=_scan(resolved, seen))
    return seen if store is None else look_into_cache(resolved, seen, store, workspace)


def at_storage(seen: Observation, workspace: Workspace, storage: Path | None) -> Observation:
    """The observation for a profile whose results lie in `storage` (None: the workspace)."""
    place = Storage(storage or workspace.root)
    not_writable = {path: reason for path, reason in seen.not_writable.items() if path}
    if reason := why_not_writable(workspace.data) or why_not_writable(place.data):
        not_writable[""] = reason
    existing = next(p for p in (place.root, *place.root.parents) if p.exists())
    return replace(seen, not_writable=not_writable, storage=storage, free_bytes=shutil.disk_usage(existing).free)


def look_into_cache(resolved: Resolved, seen: Observation, store: RunStore, workspace: Workspace) -> Observation:
    """The observation with what the result cache has for this pipeline, and whether that can still be read."""
    seen = replace(seen, own_paths=store.paths)
    identities = identify(resolved, seen.paths, store.paths)
    cache: dict[str, Cached] = {}
    previous: dict[str, Result] = {}
    shorter: dict[str, Result] = {}
    last: dict[str, Result] = {}
    missed: dict[str, str] = {}
    changes: dict[str, dict[str, str]] = {}
    usable: set[str] = set()
    for item in resolved.typed():
        node, identity = item.node.id, identities.get(item.node.id)
        if identity is None:
            continue
        if result := store.results.find(identity.fingerprint):
            found = check_result(item.type, result, workspace.data)
            cache[identity.fingerprint] = found
            if not found.problem:
                usable.add(node)
        if newest := store.results.newest_of_lineage(identity.lineage, seen.storage):
            previous[identity.lineage] = newest
        if best := result_to_extend(store.results, item.type, identity, workspace.data):
            shorter[identity.base] = best
        if before := store.results.newest_of_node(resolved.pipeline.name, node):
            last[node] = before
            changes[node] = {
                name: change
                for name, found_path in seen.paths.get(node, {}).items()
                if (change := _listing_change(workspace, before, name, found_path))
            }
        else:
            missed[node] = _without_result(store, resolved.pipeline.name, item, identity.fingerprint)
    return replace(
        seen,
        cache=cache,
        previous=previous,
        shorter=shorter,
        last=last,
        missed=missed,
        changes=changes,
        cached_nodes=frozenset(usable),
    )


def _scan(resolved: Resolved, seen: Observation) -> dict[str, Mapping[str, Any]]:
    facts: dict[str, Mapping[str, Any]] = {}
    for item in resolved.typed():
        if item.type.scan_hook is None or not item.complete:
            continue
        paths = seen.paths.get(item.node.id, {})
        if any(not p.exists or p.problem for p in paths.values()):
            continue
        # Previews upstream may build on facts found just now, so they are taken afresh each time.
        previews, _ = preview_outputs(resolved, replace(seen, facts=facts))
        inputs = {
            e.target_port: previews[e.source_node, e.source_port]
            for e in resolved.wires_into(item.node.id)
            if (e.source_node, e.source_port) in previews
        }
        try:
            found = item.type.scan_hook(CheckContext(params=item.params, inputs=inputs, paths=paths))
            facts[item.node.id] = dict(found or {})  # a hook that found nothing may return nothing
        except Exception as exc:  # a scan only warns beforehand; the run decides
            facts[item.node.id] = {"scan_failed": f"{type(exc).__name__}: {exc}"}
    return facts


def _without_result(store: RunStore, pipeline: str, item: TypedNode, fingerprint: str) -> str:
    """Why there is no result that the node made in this pipeline before; "" when it never ran anywhere."""
    match store.last_state(pipeline, item.node.id):
        case "failed", _:
            return "failed when it last ran"
        case "cancelled", _:
            return "was cancelled when it last ran"
        case "done" | "cached", _:
            return "its result was removed"
        case _, run_id:
            return f"run {run_id} is at it" if store.run(run_id).active else "was interrupted when it last ran"
    if store.has_made(fingerprint):
        return "its result was removed"
    other = store.ran_in(item.node.id, item.type.name)
    return f"has not run in this pipeline yet, only in {other}" if other else ""


def _listing_change(workspace: Workspace, before: Result, name: str, now: PathFound) -> str:
    old_digest = before.identity.get("files", {}).get(name)
    if not now.manifest or not old_digest or old_digest == now.digest:
        return ""
    old_path = workspace.observations / f"{old_digest}.arrow"
    if not manifest.is_whole(old_path):
        return "changed on disk"
    counts = manifest.compare(manifest.read(old_path), manifest.read(now.manifest))
    return ", ".join(f"{verb} {n} file{'s' if n != 1 else ''}" for verb, n in counts.items() if n)
