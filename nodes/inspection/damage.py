"""Everything that is stored of a dataset, read and compared: what is damaged, and what is lost by it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from engine.declare.datasets import Dataset, TrainedModel, VolumeDelta, VolumeParquet, VolumeSpec
from engine.errors import DataError, UsageError, VoxelflowError
from engine.observe.results import SIZES
from engine.storage import is_url
from engine.storage.checksum import checksum_problem
from engine.storage.files import size_problem
from engine.storage.find_place import place_at
from engine.storage.io_errors import raise_if_not_damage
from engine.storage.place import Place
from engine.text import plural, safe
from nodes.inspection.archives import archive_problem
from nodes.table.log import LOG, commit_name, doubled_rows, lines_problem
from nodes.table.snapshot import TableVersion, open_table
from nodes.table.unknown_removes import unknown_removes
from nodes.volume_file.damage import FileCheck, check_file
from nodes.volume_file.id_bounds import Described
from nodes.volume_file.layout import spec_of
from nodes.volume_file.parts import read_parts

NO_ROWS = "none of its rows"
"""What is lost where only what a footer says of the rows is wrong."""
Progress = Callable[[int, int], None]
"""Gets the bytes that were read since the last call, and those of all files together."""


@dataclass(frozen=True)
class Damage:
    """A damaged file: `problem` says what is wrong with it, `lost` what is lost with it.

    `rows` counts the volumes that are lost, of which `ids` are the first; `kind` says what sort of file it is.
    """

    file: str
    kind: str
    problem: str
    lost: str
    rows: int = 0
    ids: tuple[str, ...] = ()


@dataclass
class Checked:
    """What was read and found. `volumes` have been compared with their checksums, `unchecked` have none.

    `remarks` say what else could not be checked, `moved` are the new names of files that were set aside.
    """

    files: int = 0
    volumes: int = 0
    unchecked: int = 0
    damages: list[Damage] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    moved: list[Path] = field(default_factory=list)


class StoredFile(NamedTuple):
    """A file of volumes by its name in its place, with the bytes and rows that the log or the manifest says, and
    what that says of its ids and labels, where these are to be compared."""

    path: str
    bytes: int
    rows: int
    said: Described | None = None


def check_dataset(
    dataset: Dataset, checked: Checked, *, threads: int = 4, progress: Progress = lambda done, total: None
) -> Iterator[Damage]:
    """Read everything that a dataset names; gives what is damaged, and counts in `checked`.

    Memory: 1 MB and a footer for each thread, and the list of the files. Raises `UsageError` for a kind of dataset that
    cannot be checked, `OSError` where files cannot be read for a reason that is not theirs (`raise_if_not_damage`).
    """
    if isinstance(dataset, VolumeDelta):
        yield from _check_table(dataset, checked, threads, progress)
    elif isinstance(dataset, VolumeParquet):
        yield from _check_parts(dataset, checked, threads, progress)
    elif isinstance(dataset, TrainedModel):
        if is_url(dataset.uri):
            checked.remarks.append(f"{dataset.uri} lies in object storage: a model there is not read")
        else:
            yield from check_model(Path(dataset.uri), checked)
    else:
        raise UsageError(f"{dataset.kind} has nothing that could be verified", hint="Give a table or a model.")


def check_files(
    place: Place, files: Sequence[StoredFile], spec: VolumeSpec, threads: int, progress: Progress
) -> Generator[tuple[StoredFile, FileCheck], None, None]:
    """Check every file against its size, its rows and its checksums; in any order."""

    def check(file: StoredFile) -> FileCheck:
        with place.open(file.path, file.bytes) as opened:
            return check_file(opened, file.rows, spec.volume_bytes, file.said)

    yield from in_threads(place, check, files, threads, progress)


def in_threads(
    place: Place,
    check: Callable[[StoredFile], FileCheck],
    files: Sequence[StoredFile],
    threads: int,
    progress: Progress,
) -> Generator[tuple[StoredFile, FileCheck], None, None]:
    """What `check` finds in each file that is there with its size; in any order.

    Raises `OSError` where a file cannot be read for a reason that is not its own (`raise_if_not_damage`).
    """
    total = sum(file.bytes for file in files)

    def checked(file: StoredFile) -> FileCheck:
        try:
            found = place.stat(file.path)
        except OSError as exc:
            if exc.errno != errno.ELOOP:
                raise
            return FileCheck((f"it cannot be read ({exc.strerror})",), ((0, file.rows),))
        if found is None:
            return FileCheck(("it is gone",), ((0, file.rows),))
        if found.size < 0:
            return FileCheck(("it is no regular file",), ((0, file.rows),))
        if found.size != file.bytes:
            return FileCheck((f"it has {found.size:,} bytes, not {file.bytes:,}",), ((0, file.rows),))
        try:
            return check(file)
        except OSError as exc:
            raise_if_not_damage(exc)
            return FileCheck((f"it cannot be read ({exc.strerror or exc})",), ((0, file.rows),))

    waiting = iter(files)
    pending: dict[Future[FileCheck], StoredFile] = {}
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        try:
            while True:
                for file in islice(waiting, 2 * threads - len(pending)):
                    pending[pool.submit(checked, file)] = file
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    file = pending.pop(future)
                    progress(file.bytes, total)
                    yield file, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _damages(
    place: Place, files: Sequence[StoredFile], spec: VolumeSpec, checked: Checked, threads: int, progress: Progress
) -> Iterator[Damage]:
    for file, found in check_files(place, files, spec, threads, progress):
        checked.files += 1
        checked.volumes += found.checked
        checked.unchecked += found.unchecked
        if found.problems:
            yield damage_of(place, file, found)


def damage_of(place: Place, file: StoredFile, found: FileCheck) -> Damage:
    """What `check_files` found in a damaged file, in words."""
    names = ", ".join(found.ids) + (" ..." if found.ids and len(found.ids) < found.lost else "")
    if not found.lost:
        lost = NO_ROWS
    elif found.lost == file.rows:
        lost = f"all {file.rows:,} volumes in it" if file.rows > 1 else "the volume in it"
    else:
        lost = f"{found.lost:,} of {file.rows:,} volumes ({listed_rows(found.rows)})"
    return Damage(
        place.path(file.path), "volumes", "; ".join(found.problems[:3]), f"{lost}{f': {names}' if names else ''}",
        found.lost, found.ids,
    )  # fmt: skip


def listed_rows(ranges: Sequence[tuple[int, int]]) -> str:
    """`rows 7, 20-29`: the first five of half-open ranges of rows."""
    listed = ", ".join(f"{a}" if b == a + 1 else f"{a}-{b - 1}" for a, b in ranges[:5])
    noun = "row" if len(ranges) == 1 and ranges[0][1] == ranges[0][0] + 1 else "rows"
    return f"{noun} {listed}{' ...' if len(ranges) > 5 else ''}"


def _check_table(table: VolumeDelta, checked: Checked, threads: int, progress: Progress) -> Iterator[Damage]:
    place = place_at(table.uri)
    yield from check_log(place)
    try:
        version = open_table(place, table.version)
    except VoxelflowError as exc:
        raise_if_not_damage(exc)
        yield Damage(place.path(LOG), "log", exc.message, "which files and rows the table has")
        return
    yield from check_version(version, checked, threads, progress)


def check_version(table: TableVersion, checked: Checked, threads: int, progress: Progress) -> Iterator[Damage]:
    active = {f.path for f in table.files}
    doubled = None
    with suppress(DataError):  # a commit that cannot be read has been named with the log
        doubled = doubled_rows(table.place, 0, table.version, active)
    if doubled is not None:
        commit = table.place.path(f"{LOG}/{commit_name(doubled.version)}")
        yield Damage(commit, "rows", doubled.error(table.place).message, "nothing")
    yield from check_removes(table.place, table.version)
    files = [StoredFile(f.path, f.bytes, f.rows, f) for f in table.files]
    yield from _damages(table.place, files, table.spec, checked, threads, progress)


def check_removes(place: Place, version: int) -> Iterator[Damage]:
    """Files that commits up to the version take out by a damaged name."""
    with suppress(DataError):  # as above
        for found in unknown_removes(place, version):
            commit = place.path(f"{LOG}/{commit_name(found.version)}")
            problem = f"it removes {found.path}, which no commit has added; {found.meant} stays in the table"
            yield Damage(commit, "log", problem, "nothing: rows that it took out of that file are there still")


def check_log(place: Place) -> Iterator[Damage]:
    """Commits that are no JSON, checkpoints that cannot be read, and a `_last_checkpoint` that names none."""
    names = sorted(place.names(LOG))
    for name in names:
        path, problem, lost = f"{LOG}/{name}", "", "versions of the table that need it"
        if name.endswith(".json") and name[:20].isdigit() and len(name) == 25:
            problem = lines_problem(place, path)
            lost = f"version {int(name[:20])}, and those after it that no checkpoint holds"
        elif name.endswith(".parquet") and ".checkpoint" in name:
            problem = _checkpoint_problem(place, path)
            lost = "nothing while the commits before it are there; without them the table cannot be opened"
        elif name == "_last_checkpoint":
            problem = lines_problem(place, path)
            lost = "nothing: it only says where the newest checkpoint is, and can be deleted"
        if problem:
            yield Damage(place.path(path), "log", problem, lost)


def _checkpoint_problem(place: Place, path: str) -> str:
    found = place.stat(path)
    if found is None:
        return ""  # cleaned up meanwhile
    try:
        with place.open(path, found.size) as file, pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            for _ in parquet.iter_batches(16_384, use_threads=False):
                pass
    except (pa.ArrowException, OSError, ValueError) as exc:
        raise_if_not_damage(exc)
        return f"it cannot be read as Parquet ({str(exc).splitlines()[0].rstrip('.')})"
    return ""


def _check_parts(dataset: VolumeParquet, checked: Checked, threads: int, progress: Progress) -> Iterator[Damage]:
    try:
        parts = read_parts(dataset).parts
    except (DataError, OSError) as exc:
        raise_if_not_damage(exc)
        yield Damage(str(dataset.manifest), "manifest", str(exc), "which Parquet files the dataset has")
        return
    place = place_at(dataset.uri)
    files = [StoredFile(p.path, p.bytes, p.rows, p) for p in parts if p.rows]
    spec = dataset.spec or (spec_of(pq.read_schema(place.path(files[0].path)).metadata, dataset.uri) if files else None)
    if spec is not None:
        yield from _damages(place, files, spec, checked, threads, progress)


def check_model(folder: Path, checked: Checked) -> Iterator[Damage]:
    """The files of a trained model: their sizes and, of small ones, their checksums as they were noted, archives by
    checksums of their own, JSON by reading it.

    A remark names the files whose content is compared with nothing.
    """
    lost = {
        "model.keras": "the model",
        "training_state.npz": "from where a longer training goes on; the model is whole",
    }
    lost["best_state.npz"] = lost["training_state.npz"]
    if not folder.exists():
        yield Damage(str(folder), "model", "it is gone", "the model")
        return
    sums: dict[str, int] = {}
    try:
        noted = json.loads((folder / SIZES).read_bytes())
        sizes, sums = noted["sizes"], dict(noted.get("crc32", {}))
        for name, size in sizes.items():
            if problem := size_problem(folder / name, size):
                yield Damage(str(folder / name), "model", f"it {problem}", lost.get(name, "this file of the model"))
    except FileNotFoundError:
        sizes = {}
        checked.remarks.append("no list says which files belong to the model: one that is gone is not missed")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise_if_not_damage(exc)
        sizes = {}
        yield Damage(str(folder / SIZES), "model", f"it cannot be read ({exc})", "the sizes of the model's files")
    uncompared: dict[bool, list[str]] = {True: [], False: []}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")):
        name = os.path.relpath(path, folder)
        if name in sizes and size_problem(path, sizes[name]):
            checked.files += 1
            continue
        found = _check_model_file(path, sums.get(name))
        checked.files += found.is_read
        if found.problem:
            yield Damage(str(path), "model", found.problem, lost.get(name, "this file of the model"))
        elif not found.is_compared:
            uncompared[name in sizes].append(name)
    checked.remarks += [_not_compared(names, is_noted) for is_noted, names in uncompared.items() if names]


def _not_compared(names: Sequence[str], is_noted: bool) -> str:
    listed = safe(", ".join(names[:5])) + (" ..." if len(names) > 5 else "")
    known = ["their sizes are right"] if is_noted else []
    if any(name.endswith(".json") for name in names):
        known.append("JSON can be read")
    content = f"the content of {plural(len(names), 'files')} of the model, for which there are no checksums ({listed})"
    return f"{content}: {' and '.join(known)}, and that is all that is known" if known else content


class _ModelFile(NamedTuple):
    """What is known of a file of a model: whether all of it was read, and compared with a checksum."""

    problem: str = ""
    is_read: bool = True
    is_compared: bool = False


def _check_model_file(path: Path, checksum: int | None) -> _ModelFile:
    try:
        if checksum is not None:
            differs = checksum_problem(path, checksum)
            return _ModelFile(differs and f"it {differs}", is_compared=True)
        if path.suffix in (".keras", ".npz", ".zip"):
            problem = archive_problem(path)
            return _ModelFile(problem or "", is_compared=problem is not None)
        if path.suffix == ".json":
            json.loads(path.read_bytes())
            return _ModelFile()
    except (OSError, ValueError) as exc:
        raise_if_not_damage(exc)
        return _ModelFile(f"it cannot be read ({exc})")
    return _ModelFile(is_read=False)


def set_aside(damages: Iterable[Damage], copies: Sequence[Path]) -> list[Path]:
    """Rename damaged files of volumes to NAME.damaged, so that the next run sees that they are gone.

    `copies` are folders of the workspace's parts: a part that is the same file by a hard link goes too. Gives the new
    names.
    """
    moved: list[Path] = []
    for damage in damages:
        path = Path(damage.file)
        if damage.kind != "volumes" or not path.is_file():
            continue
        identity = (path.stat().st_dev, path.stat().st_ino)
        links = [path]
        for folder in copies if path.stat().st_nlink > 1 else ():
            found = ((p, p.stat()) for p in folder.glob("*.parquet") if p != path)
            links += [p for p, stat in found if (stat.st_dev, stat.st_ino) == identity]
        for link in links:
            link.replace(link.with_name(f"{link.name}.damaged"))
            moved.append(link.with_name(f"{link.name}.damaged"))
    return moved
