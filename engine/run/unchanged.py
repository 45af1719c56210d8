"""Whether the code and the files that a run was planned with are still those.

A result is recorded under the fingerprint of its task, which was made of them when the run was planned. What a task
makes of others would be found later under the name of the old ones; so it fails instead, and a new run is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.catalog import AnyNodeType, Catalog
from engine.declare.datasets import Dataset
from engine.document.plan import Plan, PlannedTask
from engine.errors import ChangedSincePlanned, DataError
from engine.observe.paths import find_path
from engine.storage import manifest
from engine.text import plural

_HINT = "`voxelflow run` starts a new run, which takes over what is done of what has not changed."
_GONE = "Put it back, or mount its disk, and resume the run; or start a new one with `voxelflow run`."
"""Also of a file that cannot be read now."""


def code_planned(task: PlannedTask) -> str:
    """The digest of the node's source file when the task was planned; "" of a node whose version says all."""
    version = task.identity.parts.get("version")
    return version if isinstance(version, str) else ""


def files_planned(task: PlannedTask) -> dict[str, str]:
    """By path parameter, what identified that which lay there when the task was planned, folders with a listing left
    out."""
    found: Mapping[str, Any] = task.identity.parts.get("files", {})
    return {name: str(digest) for name, digest in found.items() if name not in task.listings}


def refuse_changed(node_type: AnyNodeType, params: Mapping[str, Any], code: str, files: Mapping[str, str]) -> None:
    """Raise `ChangedSincePlanned` when the node's code or a file that it reads is not what it was, `DataError` when it
    is gone or cannot be read.

    `code` is as of `code_planned`, `files` as of `files_planned`.
    """
    if code and node_type.origin != "built-in" and node_type.source_digest != code:
        raise ChangedSincePlanned(f"the code of {node_type.name} has changed since the run was planned", hint=_HINT)
    for parameter in node_type.parameters:
        wanted = parameter.path_in
        if wanted is None or wanted.kind != "file" or parameter.name not in files:
            continue
        path = str(params.get(parameter.name))
        found = find_path(path, wanted, Path(), scan=False)
        if found.problem:
            raise DataError(f"{path} cannot be read: {found.problem}", hint=_GONE, parameter=parameter.name)
        if not found.exists:
            raise DataError(f"{path} is gone since the run was planned", hint=_GONE, parameter=parameter.name)
        if found.digest != files[parameter.name]:
            raise ChangedSincePlanned(
                f"{path} has changed since the run was planned", hint=_HINT, parameter=parameter.name
            )


def changed_folders(
    plan: Plan,
    tasks: Iterable[PlannedTask],
    made: Mapping[str, Mapping[str, Dataset]],
    catalog: Catalog,
    listings: Path,
) -> Iterator[tuple[PlannedTask, DataError]]:
    """The tasks that would read folders which have changed since they were listed, each with what has changed.

    `made` are the outputs that nodes have already, by port. Folders are listed anew, each once, into the folder
    `listings`.
    """
    found: dict[tuple[str, str], DataError | None] = {}
    for task in tasks:
        for lister, name in _folders_read(plan, task, made):
            if (lister.node, name) not in found:
                found[lister.node, name] = _change_of_folder(lister, catalog, name, listings)
            if (change := found[lister.node, name]) is not None:
                yield task, change
                break


def _change_of_folder(task: PlannedTask, catalog: Catalog, name: str, listings: Path) -> DataError | None:
    try:
        _refuse_changed_folder(task, catalog.find(task.node_type, task.version), name, listings)
    except DataError as exc:
        return exc
    return None


def _folders_read(
    plan: Plan, task: PlannedTask, made: Mapping[str, Mapping[str, Dataset]]
) -> Iterator[tuple[PlannedTask, str]]:
    """The folders that a task reads file by file, as the task and its parameter that they were listed for.

    Its own, and those that one of its inputs stands for, as the result of VolumeFolder does: listed by a node before
    it, since another one may list the same folder for other files.
    """
    sources = [(made.get(source.node, {}), source.port) for source in task.inputs.values()]
    places, before = {outputs[port].uri for outputs, port in sources if port in outputs}, _before(plan, task)
    for other in plan.tasks:
        for name in other.listings:
            if other.node == task.node or (other.node in before and other.params.get(name) in places):
                yield other, name


def _before(plan: Plan, task: PlannedTask) -> set[str]:
    """The nodes that the task's inputs come from, however far."""
    tasks, found, left = {each.node: each for each in plan.tasks}, set[str](), [task]
    while left:
        new = {source.node for source in left.pop().inputs.values()} - found
        found |= new
        left += [tasks[node] for node in new if node in tasks]
    return found


def _refuse_changed_folder(task: PlannedTask, node_type: AnyNodeType | None, name: str, listings: Path) -> None:
    """Raise `ChangedSincePlanned` when a file that was listed for the parameter is gone or changed, `DataError` when
    the folder is gone.

    Files that have come since are no change: the run works on those of its listing. Lists the folder anew, into the
    folder `listings`.
    """
    parameter = None if node_type is None else node_type.parameter(name)
    if parameter is None or parameter.path_in is None:
        return
    path = str(task.params.get(name))
    found = find_path(path, parameter.path_in, listings, params=task.params)
    if not found.exists:
        raise DataError(f"{path} is gone since the run was planned", hint=_GONE)
    if not found.manifest or found.digest == task.identity.parts["files"].get(name):
        return  # one that cannot be listed is reported by who reads it
    before = Path(task.listings[name])
    if not manifest.is_whole(before):
        raise ChangedSincePlanned(f"{path} has changed since the run was planned", hint=_HINT)
    counts = manifest.compare(manifest.read(before), manifest.read(found.manifest))
    changes = [
        f"{plural(counts[verb], 'files')} {how}"
        for verb, how in (("changed", "changed"), ("lost", "gone"))
        if counts[verb]
    ]
    if changes:
        raise ChangedSincePlanned(f"{path} has changed since the run was planned: {', '.join(changes)}", hint=_HINT)
