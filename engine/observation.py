"""What was seen of the world at one moment, frozen: all that planning may know besides the document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.node import PathFound
from engine.runs import Result


@dataclass(frozen=True)
class Cached:
    """A result in the cache. `problem` says why it can't be used; `moved_on` why its table can't be changed further."""

    result: Result
    problem: str = ""
    moved_on: str = ""


@dataclass(frozen=True)
class Observation:
    """Folders, files, disk and cache as they were when `observe` looked.

    `paths` holds what lies at each node's path parameters, `facts` what the nodes' quick scans
    found. `changes` says by node and path parameter how a listing differs from the last run's.
    `cache` holds results by fingerprint, `previous` the newest of a lineage where new ones will lie,
    `shorter` the best one to extend by base, `last` what each node made when the pipeline last ran.
    """

    paths: Mapping[str, Mapping[str, PathFound]] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    not_writable: Mapping[str, str] = field(default_factory=dict)
    """Reason by path; the key "" is the workspace."""
    outside: frozenset[str] = frozenset()
    missing_secrets: frozenset[str] = frozenset()
    free_bytes: int = 0
    storage: Path | None = None
    """Where new results will lie when that is not the workspace (the profile's storage)."""
    cache: Mapping[str, Cached] = field(default_factory=dict)
    previous: Mapping[str, Result] = field(default_factory=dict)
    shorter: Mapping[str, Result] = field(default_factory=dict)
    last: Mapping[str, Result] = field(default_factory=dict)
    cached_nodes: frozenset[str] = frozenset()
    """Nodes whose result is there already and can be used."""
