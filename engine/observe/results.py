"""Results of earlier runs: whether one is whole, which a task may go on from, and what of them must stay.

A result is whole when all that its references name is there, its own files have the sizes they had, and the small ones
among them the same bytes. Sizes and checksums are written down when its node has returned, in `.files.json` in the
task's own folder. Datasets that list their files themselves (a Delta log, a manifest) are for the checks of their type
and of the node.

A run in a workspace and an exported file keep their results in different places (the run store, `done.json`): each is
`Results`, and both choose among them here.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.catalog import AnyNodeType
from engine.declare.dataset_type import pinned_versions
from engine.declare.datasets import Dataset, UnknownDataset
from engine.errors import ExecutionError
from engine.storage import is_url
from engine.storage.checksum import checksum_problem, crc32
from engine.storage.files import size_problem, write_whole
from engine.storage.io_errors import OUT_OF_RESOURCES, explained, number_of

if TYPE_CHECKING:
    # A worker writes down its result with this module, and needs nothing of documents and the run store.
    from engine.document.identity import Identity
    from engine.store.results import Cached, Result

SIZES = ".files.json"
_SMALL = 256 * 1024
"""Up to so many bytes a file is compared by its content too: what describes a model, and not its weights."""
_MOST_COMPARED = 100
"""Files of a result that are read whenever it is looked at."""


class Results(Protocol):
    """Where the results of finished tasks are kept: `engine.store.results.ResultCache`, `engine.export.done.Done`."""

    def find(self, fingerprint: str) -> Result | None:
        """The result of that fingerprint; None when there is none."""

    def newest_of_lineage(self, lineage: str) -> Result | None:
        """The newest result of the lineage; None when there is none."""

    def of_base(self, base: str) -> Sequence[Result]:
        """Results that differ from one another only by extendable parameters, the oldest first."""

    def all(self) -> Sequence[Result]:
        """All results, the oldest first."""


def refuse_damaged(node_type: AnyNodeType | None, out: Path, outputs: Mapping[str, Dataset]) -> None:
    """Check what a node has just made, and write down the sizes of its files. Raises `ExecutionError` with the file."""
    write_sizes(out, outputs)
    if problem := problem_with(node_type, out, outputs):
        raise ExecutionError(
            f"{node_type.name if node_type else 'the node'} has ended, but its result is not whole: {problem}",
            hint="Run it again. If the file belongs to an input, run again from the node that makes that (--from), or"
            " put it back: `voxelflow verify` says what is lost.",
        )


def write_sizes(out: Path, outputs: Mapping[str, Dataset]) -> None:
    """Write down the sizes of the files in the task's folder `out`, so that `problem_with` can compare them; of the
    first small ones the CRC-32 too.

    Left out are hidden files and the folders of datasets that list their files themselves.
    """
    others = {os.path.abspath(d.uri) for d in outputs.values() if d.lists_files}
    sizes = dict(sorted(_sizes(os.path.abspath(out), "", others)))
    sums: dict[str, int] = {}
    for name in islice((name for name, size in sizes.items() if size <= _SMALL), _MOST_COMPARED):
        with suppress(PermissionError):
            sums[name] = crc32((out / name).read_bytes())
    text = json.dumps({"format": 1, "sizes": sizes, "crc32": sums}, indent=1, ensure_ascii=False)
    write_whole(out / SIZES, text, durable=True)


def _sizes(root: str, prefix: str, others: set[str]) -> Iterator[tuple[str, int]]:
    folder = os.path.join(root, prefix)
    if os.path.normpath(folder) in others:
        return
    with os.scandir(folder) as entries:
        for entry in list(entries):
            # A name that is not UTF-8 cannot be written down.
            if entry.name.startswith(".") or not _is_text(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(root, f"{prefix}{entry.name}/", others)
            elif entry.is_file():
                yield prefix + entry.name, entry.stat().st_size


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_removed(out: Path, outputs: Mapping[str, Dataset]) -> bool:
    """Whether a result is gone as a whole, as when its space was freed; damage leaves the rest there."""
    folders = [d.uri for d in outputs.values() if not d.is_file]
    return not out.exists() or any(not is_url(folder) and not os.path.exists(folder) for folder in folders)


def check_result(node_type: AnyNodeType | None, result: Result, data: Path) -> Cached:
    """Whether a result is still whole, and its table can still be changed. `data` is what its folders lie below.

    Raises `FileError` or `DiskFull` when the machine is short of file handles or space, which says nothing of
    the result.
    """
    from engine.store.results import Cached

    out = data / result.out
    with explained(out, in_run=False):
        problem = problem_with(node_type, out, result.outputs)
        moved_on = problem or change_problem(node_type, result.outputs)
    return Cached(result, problem, moved_on, damaged=bool(problem) and not is_removed(out, result.outputs))


def problem_with(node_type: AnyNodeType | None, out: Path, outputs: Mapping[str, Dataset]) -> str:
    """Why a result can no longer be used, with the name of the file, or "". `out` is the task's own folder.

    What a check raises because the machine is short of space or of file handles is raised here too: it says nothing of
    the result.
    """
    for dataset in outputs.values():
        if isinstance(dataset, UnknownDataset):
            return dataset.check()
        for path in dataset.places():
            # What lies in object storage is for the checks of the type and of the node.
            if is_url(path):
                continue
            try:
                found = os.stat(path)
            except OSError:
                return f"{path} is gone"
            if stat.S_ISREG(found.st_mode) and not found.st_size:
                return f"{path} is empty"
        if problem := _problem_of_type(dataset):
            return problem
    return _size_problem(out) or _asked(node_type, outputs, for_change=False)


def _problem_of_type(dataset: Dataset) -> str:
    try:
        return dataset.check()
    except Exception as exc:  # whatever is wrong with it, it can't be used
        if number_of(exc) in OUT_OF_RESOURCES:
            raise
        return f"{dataset.uri} cannot be read as {dataset.kind}: {exc}"


def change_problem(node_type: AnyNodeType | None, outputs: Mapping[str, Dataset]) -> str:
    """Why the table of a whole result cannot be changed further, or ""."""
    return _asked(node_type, outputs, for_change=True)


def _asked(node_type: AnyNodeType | None, outputs: Mapping[str, Dataset], *, for_change: bool) -> str:
    if node_type is None or node_type.verify_hook is None:
        return ""
    try:
        return node_type.verify_hook(outputs, for_change)
    except Exception as exc:  # whatever is wrong with it, it can't be used
        if number_of(exc) in OUT_OF_RESOURCES:
            raise
        return f"it cannot be read: {exc}"


def _size_problem(out: Path) -> str:
    path = out / SIZES
    try:
        noted = json.loads(path.read_bytes())
        sizes: Mapping[str, int] = noted["sizes"]
        sums: Mapping[str, int] = noted.get("crc32", {})  # none of results of an earlier Voxelflow
        found = chain(
            ((name, size_problem(f"{out}/{name}", size)) for name, size in sizes.items()),
            ((name, checksum_problem(out / name, wanted)) for name, wanted in sums.items()),
        )
        return next((f"{out / name} {problem}" for name, problem in found if problem), "")
    except FileNotFoundError:
        return ""  # made by an earlier Voxelflow
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        if number_of(exc) in OUT_OF_RESOURCES:
            raise
        return f"{path} cannot be read: {exc}"


def result_to_extend(results: Results, node_type: AnyNodeType, identity: Identity, data: Path) -> Result | None:
    """The finished result to extend: of the whole ones that with the largest extendable values not above ours.

    `data` is what their folders lie below.
    """
    # A result may be older than the parameter.
    defaults = {p.name: p.default for p in node_type.parameters if p.extendable}
    if not defaults:
        return None

    def values(params: Mapping[str, float | None]) -> tuple[float | None, ...]:
        return tuple(params.get(name, default) for name, default in defaults.items())

    wanted = values(identity.parts["params"])
    fitting = [
        result
        for result in results.of_base(identity.base)
        if result.fingerprint != identity.fingerprint
        and all(_is_within(v, w) for v, w in zip(values(result.identity["params"]), wanted, strict=True))
        and not check_result(node_type, result, data).problem
    ]
    return max(fitting, key=lambda result: values(result.identity["params"]), default=None)


def _is_within(value: float | None, limit: float | None) -> bool:
    """Whether the work to `value` is a part of the work to `limit`; None, no number, is its own alone."""
    return value == limit if value is None or limit is None else value <= limit


def still_there(outputs: Mapping[str, Dataset]) -> dict[str, Any]:
    """An earlier result's outputs to go on from; nothing when some were freed meanwhile: then the work begins anew."""
    gone = any(not is_url(d.uri) and not Path(d.uri).exists() for d in outputs.values())
    return {} if gone else dict(outputs)


def protected_versions(results: Results) -> dict[str, tuple[int, ...]]:
    """By table: the versions that some result refers to, which must stay readable."""
    return pinned_versions(dataset for result in results.all() for dataset in result.outputs.values())
