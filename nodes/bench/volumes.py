"""The volumes that a benchmark trains on: made by the nodes that make a person's, or the person's own.

Volumes that are made lie in a folder of the benchmark's own, `.voxelflow-bench/NAME` below the storage, and go with it.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from engine.bench.options import BenchOptions
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, VolumeDelta, VolumeFiles, VolumeSpec
from engine.errors import DataError, UsageError
from engine.storage import expanded, is_url, manifest
from engine.storage.io_errors import remedy
from engine.storage.objects import RemotePath
from engine.storage.page_cache import forget
from engine.storage.urls import parse_url
from nodes.conversion.npy_files import spread
from nodes.loaders import READS
from nodes.loaders.data_files import data_files
from nodes.profiling.worker import local_paths

OURS = ".voxelflow-bench"
ABANDONED_S = 86_400.0
"""What another benchmark left here that began longer ago was killed, and its files are removed."""
_LATENCY_READS = 15
_READ_BYTES = 4096
_UPLOADS = 16
_ONLY_FILES = "the data is a folder of .npy files; name a table to measure this loader"


@dataclass(frozen=True)
class BenchVolumes:
    """Where the volumes lie, in each form that there is of them; `without` says why a form is missing."""

    files: VolumeFiles | None
    table: VolumeDelta | None
    made: bool
    without: str

    @property
    def any(self) -> VolumeFiles | VolumeDelta:
        """One of the forms."""
        found = self.table or self.files
        assert found is not None
        return found

    @property
    def spec(self) -> VolumeSpec:
        """Shape and type of the volumes."""
        found = self.any
        return found.spec or data_files(found).spec if isinstance(found, VolumeDelta) else _known(found)

    def for_loader(self, loader: str) -> VolumeFiles | VolumeDelta | None:
        """The form that a loader reads; None where it is missing."""
        return next((d for d in (self.files, self.table) if d is not None and d.kind in READS[loader]), None)


def _known(files: VolumeFiles) -> VolumeSpec:
    if files.spec is None:
        raise DataError(
            f"none of the files in {files.uri} can be read as a volume", hint="Choose a folder of .npy files."
        )
    return files.spec


@contextmanager
def bench_volumes(options: BenchOptions, ctx: TaskContext) -> Iterator[BenchVolumes]:
    """The volumes that the options name, or such ones made anew, which are removed at the end.

    Raises `UsageError` for a place that is not there or cannot be written, `DataError` for one without volumes.
    """
    if options.data:
        yield _given(options.data, ctx)
        return
    place = options.storage or str(ctx.scratch)
    if is_url(place):
        with _made_remote(place, options, ctx) as made:
            yield made
        return
    root = expanded(place)
    if not root.is_dir():
        raise UsageError(f"there is no folder {place}", hint="Name a folder, or az://container/folder.")
    folder = root / OURS / ctx.fingerprint[:16]
    try:
        folder.mkdir(parents=True)
        _remove_abandoned(folder)
    except OSError as exc:
        raise UsageError(
            f"nothing can be written to {place}: {exc.strerror or exc}",
            hint=f"{remedy(exc)} A benchmark makes volumes of its own there and removes them.",
        ) from exc
    try:
        files, table = _make(options, folder, str(folder / "table"), ctx)
        yield BenchVolumes(files, table, True, "")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another benchmark is at work there
            folder.parent.rmdir()


def _remove_abandoned(folder: Path) -> None:
    """What killed benchmarks left beside the folder."""
    for found in folder.parent.iterdir():
        with suppress(FileNotFoundError):  # another benchmark that ends now
            if found.stat().st_mtime < time.time() - ABANDONED_S:
                shutil.rmtree(found)


@contextmanager
def _made_remote(place: str, options: BenchOptions, ctx: TaskContext) -> Iterator[BenchVolumes]:
    folder = RemotePath.at(f"{place.rstrip('/')}/{OURS}/{ctx.fingerprint[:16]}")
    here = ctx.scratch / "made"
    here.mkdir()
    ours = RemotePath.at(f"{place.rstrip('/')}/{OURS}")
    for left in list(ours.walk()):
        if left.mtime_ns < (time.time() - ABANDONED_S) * 1e9:
            (ours / left.path).unlink(missing_ok=True)
    try:
        made, table = _make(options, here, str(folder / "table"), ctx)
        yield BenchVolumes(_uploaded(made, folder / "files", ctx), table, True, "")
    finally:
        for found in list(folder.walk()):
            (folder / found.path).unlink(missing_ok=True)
        shutil.rmtree(here, ignore_errors=True)


def _uploaded(made: VolumeFiles, folder: RemotePath, ctx: TaskContext) -> VolumeFiles:
    """The files of a local folder, labels too, in one of an object store."""
    root = Path(made.uri)
    with ThreadPoolExecutor(_UPLOADS) as pool:
        list(pool.map(lambda path: (folder / path.relative_to(root).as_posix()).upload(path), root.rglob("*.*")))
    return _listed(str(folder), ctx)


def _make(options: BenchOptions, folder: Path, table: str, ctx: TaskContext) -> tuple[VolumeFiles, VolumeDelta]:
    """Make volumes in the folder, and a table of them, as a pipeline would."""
    from nodes.numpy_to_parquet import numpy_to_parquet
    from nodes.parquet_to_delta import parquet_to_delta
    from nodes.synthetic_volumes import synthetic_volumes

    def of(name: str) -> TaskContext:
        out, shared, scratch = (folder / name / place for place in ("out", "shared", "scratch"))
        for path in (out, shared, scratch):
            path.mkdir(parents=True)
        return replace(ctx, node_id=name, out=out, shared=shared, scratch=scratch)

    count = options.volumes_to_make
    files = synthetic_volumes(count=count, shape=options.shape, dtype=options.dtype, ctx=of("volumes"))
    parquet = numpy_to_parquet(files, ctx=of("parquet"))
    return files, parquet_to_delta(parquet, table=table, ctx=of("delta"))


def _given(place: str, ctx: TaskContext) -> BenchVolumes:
    """A folder of `.npy` files, or a table."""
    from nodes.table.snapshot import open_table

    if not is_url(place):
        root = expanded(place).absolute()
        if not root.is_dir():
            raise UsageError(f"there is no folder {place}", hint="Name a folder of .npy files, or a Delta table.")
        if not (root / "_delta_log").is_dir():
            return BenchVolumes(_listed(str(root), ctx), None, False, _ONLY_FILES)
        place = str(root)
    elif not (RemotePath.at(place) / "_delta_log").has_any():
        return BenchVolumes(_listed(place, ctx), None, False, _ONLY_FILES)
    return BenchVolumes(None, open_table(place).reference(place), False, "the data is a table")


def _listed(folder: str, ctx: TaskContext) -> VolumeFiles:
    from nodes.volume_folder import VOLUME_FILES, volume_folder

    listing = ctx.scratch / "listing.arrow"
    patterns = (*VOLUME_FILES, "labels.csv", "labels.parquet")
    if is_url(folder):
        listed = manifest.list_remote(RemotePath.at(folder), patterns)
    else:
        listed = manifest.list_folder(Path(folder), patterns)
    manifest.write(listed, listing)
    files: VolumeFiles = volume_folder(folder=folder, ctx=replace(ctx, inputs_found={"folder": listing}))
    return files


def storage_of(data: Dataset) -> str:
    """ "local", or the scheme of an object store."""
    return parse_url(data.uri).scheme if is_url(data.uri) else "local"


def latency_ms(data: VolumeFiles | VolumeDelta) -> float:
    """The median of some reads of 4 kB from the data's files, in milliseconds, with empty caches."""
    if is_url(data.uri):
        if isinstance(data, VolumeDelta):
            paths = [RemotePath.at(path) for path in data_files(data).paths]
        else:
            names = manifest.read(data.manifest).column("path")
            paths = [RemotePath.at(data.uri) / names[number].as_py() for number in spread(len(names), _LATENCY_READS)]

        def read_remote(number: int) -> None:
            # Each file in turn; a store has no cache here that reading the same bytes again would use.
            paths[number % len(paths)].read_range(0, _READ_BYTES)

        return _median(read_remote)
    local = local_paths(data)
    chosen = local[:: max(1, len(local) // _LATENCY_READS)][:_LATENCY_READS]
    forget(chosen)
    # Of few files: places far apart, beyond what the system reads ahead.
    apart = max(1, min(Path(path).stat().st_size for path in chosen) * len(chosen) // _LATENCY_READS)

    def read(number: int) -> None:
        with open(chosen[number % len(chosen)], "rb", buffering=0) as file:
            file.seek(apart * (number // len(chosen)))
            file.read(_READ_BYTES)

    return _median(read)


def _median(read: Callable[[int], object]) -> float:
    """Milliseconds; `read` gets the number of the read."""
    times = []
    for number in range(_LATENCY_READS):
        began = time.perf_counter()
        read(number)
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)
