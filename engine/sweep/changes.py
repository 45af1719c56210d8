"""Whether all trials of a sweep are of the same data and code: scores of others do not compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.catalog import Catalog
from engine.document.pipeline import load
from engine.errors import VoxelflowError
from engine.profiles import find_profile
from engine.store.runs import RunStore
from engine.store.sweeps import Sweep
from engine.sweep.options import SweepOptions
from engine.sweep.trials import SweepInputs
from engine.workspace import Workspace

_WORK, _BEFORE, _CHANGED = "work", "before", "changed"
"""Options of a sweep: its `SweepInputs.work` when it began, the earlier sweep that it is begun instead of, and the node
that had changed when it was resumed."""


def as_options(work: Mapping[str, str], earlier: Sweep | None = None) -> dict[str, Any]:
    """The options of a sweep that begins with that work, instead of `earlier`."""
    before = None if earlier is None else {"sweep": earlier.sweep_id, "node": changed(earlier, work)}
    return {_WORK: dict(work), **({} if before is None else {_BEFORE: before})}


def changed(sweep: Sweep, work: Mapping[str, str]) -> str:
    """The first node whose results would be others than when the sweep began; "" for none, and of a sweep of an earlier
    version, which did not keep them."""
    before = sweep.options.get(_WORK)
    if not isinstance(before, Mapping):
        return ""
    return next((node for node in {**work, **before} if before.get(node) != work.get(node)), "")


def record_changes(workspace: Workspace, store: RunStore, catalog: Catalog, sweep: Sweep) -> None:
    """Look whether a node does or reads something else than when the sweep began, and keep that with the sweep.

    Keeps nothing when the pipeline cannot be planned, for example because a file is missing: its trials fail with the
    reason.
    """
    try:
        document = load(sweep.document, f"the document of sweep {sweep.sweep_id}")
        options, profile = SweepOptions.from_json(sweep.options), find_profile(sweep.profile, workspace)
        work = SweepInputs(document, catalog, workspace, store, options, profile).work()
    except VoxelflowError:
        return
    if node := changed(sweep, work):
        store.sweeps.change(sweep.sweep_id, {_CHANGED: node})


def begun_anew(sweep: Sweep) -> str:
    """Why the sweep was begun instead of going on with an earlier one, as a sentence; "" where there was none."""
    before = sweep.options.get(_BEFORE)
    if not isinstance(before, Mapping):
        return ""
    return (
        f"A new sweep: what {before['node']} does or reads has changed since sweep {before['sweep']}, of the same"
        " settings, began."
    )


def mixed(sweep: Sweep) -> str:
    """That trials of the sweep are of different data or code, as sentences; "" when nothing is known of it."""
    node = sweep.options.get(_CHANGED)
    if not node:
        return ""
    return (
        f"What {node} does or reads has changed since sweep {sweep.sweep_id} began: trials that were done before it"
        " was resumed are not comparable with later ones. To compare all of them, start the sweep again instead."
    )
