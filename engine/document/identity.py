"""What makes two pieces of work the same: fingerprints. Pure.

* `fingerprint`: node type, version (a user node: its source), parameters, inputs' fingerprints, and
  the names, sizes and times of the files it reads. Equal fingerprints, equal results.
* `base`: the same without extendable parameters: results that can continue from one another.
* `lineage`: without what the sources contain: the same work on data that grows.

Threads, retries, limits, titles, backend and profile are policy; they enter none of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from engine.catalog import AnyNodeType
from engine.declare.path_found import PathFound
from engine.document.resolve import Resolved, TypedNode
from engine.storage.workspace_paths import WorkspacePaths


class Identity(BaseModel):
    """The three keys of one node's work, and what went into them (to say later what changed)."""

    model_config = ConfigDict(frozen=True)

    fingerprint: str
    base: str
    lineage: str
    parts: dict[str, Any]


def identify(
    resolved: Resolved, paths: Mapping[str, Mapping[str, PathFound]], own_paths: WorkspacePaths | None = None
) -> dict[str, Identity]:
    """The identity of every node whose parameters and inputs are all known.

    A path inside the workspace counts by its place there, so a workspace that moved has the same identities.
    """
    out: dict[str, Identity] = {}
    for item in resolved.typed():
        if item.complete and (identity := _identify(item, resolved, paths.get(item.node.id, {}), out, own_paths)):
            out[item.node.id] = identity
    return out


def _identify(
    item: TypedNode,
    resolved: Resolved,
    paths: Mapping[str, PathFound],
    known: Mapping[str, Identity],
    own_paths: WorkspacePaths | None,
) -> Identity | None:
    sources: dict[str, tuple[str, str]] = {}
    for edge in resolved.wires_into(item.node.id):
        if edge.source_node not in known:
            return None
        sources[edge.target_port] = (edge.source_node, edge.source_port)
    return identity_of(
        item.type,
        {**item.params, **_left_out(item)},
        {port: (known[node], out) for port, (node, out) in sources.items()},
        {name: found.digest for name, found in paths.items() if found.exists},
        own_paths,
    )


def _left_out(item: TypedNode) -> dict[str, Any]:
    """Parameters that were left out, as their author wrote the default, so that older results stay valid.

    What is read at a path is identified by its digest; a path to write is identified by where it is.
    """
    left_out = [p for p in item.type.parameters if p.name not in item.node.params and not p.required]
    by_place = [p for p in left_out if p.path_out is not None and not p.added]
    return {p.name: p.default if p.added else p.as_written for p in left_out if p not in by_place}


def identity_of(
    node_type: AnyNodeType,
    params: Mapping[str, Any],
    inputs: Mapping[str, tuple[Identity, str]],
    files: Mapping[str, str],
    own_paths: WorkspacePaths | None = None,
) -> Identity:
    """The identity of one call of a node.

    `inputs` maps each wired port to the identity and the output port it is wired to, `files` each path parameter to the
    digest of what lies there.
    """
    identified = [p for p in node_type.parameters if not p.policy]
    values: dict[str, Any] = {}
    for parameter in identified:
        value = _plain(params.get(parameter.name))
        if parameter.added and value == _plain(parameter.default):
            continue
        if own_paths is not None and parameter.is_path and isinstance(value, str):
            value = own_paths.identified(value)
        values[parameter.name] = value
    parts: dict[str, Any] = {
        "type": node_type.name,
        "version": node_type.version_with(params) if node_type.origin == "built-in" else node_type.source_digest,
        "params": values,
        "inputs": {port: f"{made.fingerprint}.{out}" for port, (made, out) in inputs.items()},
        "files": dict(files),
    }
    extendable = {p.name for p in identified if p.extendable}
    base = parts | {"params": {k: v for k, v in values.items() if k not in extendable}}
    lineage = base | {"inputs": {port: f"{made.lineage}.{out}" for port, (made, out) in inputs.items()}, "files": {}}
    return Identity(fingerprint=_hash(parts), base=_hash(base), lineage=_hash(lineage), parts=parts)


def added_defaults(node_type: AnyNodeType) -> dict[str, Any]:
    """The values of parameters that an identity does not name, by name."""
    return {p.name: _plain(p.default) for p in node_type.parameters if p.added and not p.policy}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def what_changed(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    files: Mapping[str, str],
    defaults: Mapping[str, Any] | None = None,
) -> str:
    """Why work with the parts `new` is not the work `old`, in words.

    `files` says for a path parameter how its listing changed, e.g. "gained 20 files". `defaults` are those of the
    parameters that are part of an identity only when they differ from their default (`added_defaults`).
    """
    reasons: list[str] = []
    if old.get("type") != new["type"]:
        return f"the node was a {old.get('type')}"
    if old.get("version") != new["version"]:
        both_numbers = isinstance(old.get("version"), int) and isinstance(new["version"], int)
        reasons.append(
            f"node version {old['version']} -> {new['version']}" if both_numbers else "the node's code changed"
        )
    known = defaults or {}
    before, after = {**known, **old.get("params", {})}, {**known, **new["params"]}
    reasons += [
        f"parameter {name} changed {before.get(name)} -> {after.get(name)}"
        for name in sorted(before.keys() | after.keys())
        if json.dumps(before.get(name)) != json.dumps(after.get(name))  # 1 and 1.0 are two
    ]
    for name, digest in new["files"].items():
        if old.get("files", {}).get(name) != digest:
            reasons.append(f"{name} {files.get(name, 'changed on disk')}")
    wired_before, wired_after = old.get("inputs", {}), new["inputs"]
    changed = [p for p in sorted(wired_before.keys() | wired_after.keys()) if wired_before.get(p) != wired_after.get(p)]
    if changed:
        reasons.append(f"input {', '.join(changed)} changed")
    return "; ".join(reasons)


def seed_of(fingerprint: str) -> int:
    """The seed of a task that was given none: equal work, equal seed."""
    return int(fingerprint[:8], 16)
