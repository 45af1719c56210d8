"""`SyntheticVolumes`: labelled seismic-like volumes of any count and shape, to try a pipeline without data."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.declare.check_context import CheckContext
from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, DTypeName, Preview, VolumeFiles, VolumeSpec
from engine.declare.node import node
from engine.declare.parameters import Extendable, Range, Unit
from engine.declare.progress import track
from engine.diagnostics.rule import Rule
from engine.errors import UsageError
from engine.storage.files import flush, flush_many, remove_partial, size_problem, whole_file, write_whole
from nodes.synthetic import MAX_CLASSES, class_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nodes.synthetic.seismic import SeismicMaker

_HEADER_BYTES = 128
_BATCH = 32
_LISTING = "files.arrow"
"""Names and sizes of all files in the folder, the table of labels among them."""
_VOLUMES = "volumes.arrow"
_FLUSH_S = 5.0
"""Seconds between flushes; what a killed run makes again."""


@node(
    "SyntheticVolumes",
    version=1,
    category="Sources",
    icon="wand-sparkles",
    keywords=("example data", "generate", "demo", "simulate"),
    imports=("engine.processes.pyarrow_without_pandas", "numpy", "pyarrow"),
    anywhere="makes its files where the others read them",
)
def synthetic_volumes(
    *,
    count: Annotated[int, Range(1, 10_000_000), Unit("volumes"), Extendable()] = 2000,
    shape: Annotated[tuple[int, ...], Range(1, 4096), Unit("voxels")] = (30, 30, 10, 10),
    dtype: Literal["float32", DTypeName] = "float32",
    classes: Annotated[int, Range(2, MAX_CLASSES)] = 2,
    noise: Annotated[float, Range(0, 10)] = 0.5,
    seed: Annotated[int, Range(0, 2**32 - 1)] = 0,
    ctx: TaskContext,
) -> VolumeFiles:
    """Make labelled seismic-like volumes: layers with faults, channels, bright spots and salt.

    Each volume is a `.npy` file; `labels.csv` beside them names its class. The classes are the
    background alone, each feature alone, then their combinations. Volume number n is the same whatever
    the count, so a larger count only adds files; a killed run makes its last seconds again, and goes on.

    Args:
        count: how many volumes.
        shape: axes of voxels, then the number of channels, for example 30, 30, 10, 10.
        dtype: type of the numbers.
        classes: how many kinds of volumes.
        noise: noise relative to the signal; 0 is easiest to learn.
        seed: another seed gives other volumes.
    """
    from engine.storage import manifest
    from nodes.conversion.volume_sources import volumes_of
    from nodes.synthetic.seismic import SeismicMaker

    if len(shape) < 2:
        raise UsageError(f"the shape {shape} has no channels", hint="Give voxels, then channels.", parameter="shape")
    folder = ctx.out / "volumes"
    maker = SeismicMaker(tuple(shape), dtype, classes, noise, seed)
    names = class_names(classes)
    spec = VolumeSpec(shape=tuple(shape), dtype=dtype, classes=tuple(sorted(names)))
    flushed = _Flushed(folder, ctx.out / "flushed.bits", count)
    _make_files(folder, count, spec, maker, flushed, ctx)
    _write_labels(folder, count, names, seed)
    listing = manifest.list_folder(folder, ("**/*.npy", "labels.csv"))
    manifest.write(listing, ctx.out / _LISTING)
    volumes = volumes_of(listing)
    # Before the listing names it.
    flush([folder / "labels.csv", folder])
    path = ctx.out / _VOLUMES
    manifest.write(volumes, path)
    return VolumeFiles(
        uri=str(folder), manifest=str(path), count=len(volumes), bytes=manifest.total_bytes(volumes), spec=spec
    )


@synthetic_volumes.verify
def _verify(outputs: Mapping[str, Dataset], for_change: bool) -> str:
    """Every volume and the table of labels stand with the sizes they had."""
    from engine.storage import manifest

    volumes = outputs["out"]
    assert isinstance(volumes, VolumeFiles)
    listing = Path(volumes.manifest).with_name(_LISTING)
    try:
        entries = manifest.entries(manifest.read(listing if listing.exists() else volumes.manifest))
    except (OSError, ValueError) as exc:
        return f"the list of its files, {volumes.manifest}, cannot be read: {exc}"
    for entry in () if for_change else entries:
        path = f"{volumes.uri}/{entry.path}"
        if problem := size_problem(path, entry.size):
            return f"{path} {problem}"
    return ""


@synthetic_volumes.preview
def _preview(look: CheckContext) -> Preview:
    params = look.params
    count, shape = params["count"], tuple(params["shape"])
    if len(shape) < 2:
        look.report(
            ShapeTooShort,
            "needs at least one axis of voxels and, last, the number of channels",
            hint="For example 30, 30, 10, 10.",
            parameter="shape",
        )
        return Preview(kind="VolumeFiles", count=count)
    if count < params["classes"]:
        look.report(
            FewerVolumesThanClasses,
            f"{count} volumes cannot show {params['classes']} classes",
            hint="Make more volumes, or fewer classes.",
            parameter="count",
        )
    spec = VolumeSpec(shape=shape, dtype=params["dtype"], classes=tuple(sorted(class_names(params["classes"]))))
    return Preview(
        kind="VolumeFiles", count=count, bytes=count * (spec.volume_bytes + _HEADER_BYTES), spec=spec, labelled=count
    )


class _Flushed:
    """Which volumes' files are on the disk, in a file of a bit for each.

    The name and the size of a file prove nothing: a power cut may keep both and lose the content.
    """

    def __init__(self, folder: Path, place: Path, count: int) -> None:
        self._folder, self._place = folder, place
        self._bits = self._read(count)
        self._waiting: deque[int] = deque()
        self._flushing = threading.Lock()
        self._last = time.monotonic()

    def _read(self, count: int) -> bytearray:
        """One byte per volume: 1 when it is flushed."""
        import numpy as np

        try:
            packed = np.frombuffer(self._place.read_bytes(), np.uint8)
        except FileNotFoundError:
            # Versions without this file flushed all volumes before they wrote the listing.
            whole = self._place.with_name(_VOLUMES).exists()
            return bytearray(b"\1" * count if whole else count)
        bits = np.unpackbits(packed)[:count]
        return bytearray(np.pad(bits, (0, count - len(bits))).tobytes())

    def keep_whole(self, size: int) -> list[int]:
        """Remove the files that are not flushed, or not of `size` bytes; the volumes that have no file then."""
        there = bytearray(len(self._bits))
        with os.scandir(self._folder) as entries:
            for entry in entries:
                stem, _, suffix = entry.name.partition(".")
                if suffix == "npy" and stem.isdecimal() and (index := int(stem)) < len(there):
                    there[index] = self._bits[index] and entry.stat().st_size == size
                    if not there[index]:
                        os.unlink(entry.path)
        if there != self._bits:
            self._bits = there
            self._write()
        return [index for index, is_there in enumerate(there) if not is_there]

    def add(self, index: int) -> None:
        """Count this volume's file, which is whole, with the next flush. Threads may call it; every few seconds one
        of them flushes. Raises `OSError`."""
        self._waiting.append(index)
        if time.monotonic() > self._last + _FLUSH_S and self._flushing.acquire(blocking=False):
            try:
                self._flush()
            finally:
                self._flushing.release()

    def flush(self) -> None:
        """Have all files that were added on the disk. Raises `OSError`."""
        with self._flushing:
            self._flush()

    def _flush(self) -> None:
        added = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if added:
            # All at once, since each flush of one file waits for the disk.
            flush_many(chain((self._folder / _name(index) for index in added), [self._folder]))
            for index in added:
                self._bits[index] = 1
            self._write()
        self._last = time.monotonic()

    def _write(self) -> None:
        import numpy as np

        write_whole(self._place, np.packbits(np.frombuffer(self._bits, np.uint8)).tobytes(), durable=True)


def _make_files(
    folder: Path, count: int, spec: VolumeSpec, maker: SeismicMaker, flushed: _Flushed, ctx: TaskContext
) -> None:
    """Make the files that are not there, whole each: by a link to an earlier result's, else afresh."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_partial(folder)
    size = _file_bytes(spec)
    missing = flushed.keep_whole(size)
    linked: set[int] = set()
    bases = [
        d for d in (*ctx.extends.values(), *ctx.previous.values()) if isinstance(d, VolumeFiles) and d.spec == spec
    ]
    for base in bases:
        known = Path(base.uri)
        for index in missing:
            if index < base.count and index not in linked and _link(known / _name(index), folder / _name(index), size):
                linked.add(index)
                flushed.add(index)
    missing = [i for i in missing if i not in linked]
    batches = [missing[i : i + _BATCH] for i in range(0, len(missing), _BATCH)]

    def make(batch: Sequence[int]) -> int:
        for index in batch:
            _save(folder / _name(index), maker.volume(index)[0], ctx)
            flushed.add(index)
        return len(batch)

    try:
        with ThreadPoolExecutor(ctx.resources.cores, thread_name_prefix="make") as pool:
            try:
                done = pool.map(make, batches)
                for _ in track(
                    done, total=count, unit="volumes", label="making", amount=int, start=count - len(missing)
                ):
                    pass
            finally:
                pool.shutdown(cancel_futures=True)
    except BaseException:
        # What else is made is kept, where the disk still takes it.
        with suppress(OSError):
            flushed.flush()
        raise
    flushed.flush()


def _file_bytes(spec: VolumeSpec) -> int:
    """The size of each volume's file, its header included."""
    import io

    import numpy as np

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": np.dtype(spec.dtype).str, "fortran_order": False, "shape": spec.shape}
    )
    return header.tell() + spec.volume_bytes


def _name(index: int) -> str:
    return f"{index:07d}.npy"


def _link(source: Path, target: Path, size: int) -> bool:
    """Let `target` be the same file as `source`, with its modification time; False if there is none of this size."""
    from engine.storage.hard_link import link_or_copy

    if size_problem(source, size):
        return False
    try:
        link_or_copy(source, target, "link")
    except FileNotFoundError:
        return False
    return True


def _save(path: Path, volume: NDArray[Any], ctx: TaskContext) -> None:
    import numpy as np

    with whole_file(path, durable=False) as temporary:
        with temporary.open("wb") as sink:
            # As np.save does, whose error on a full disk has no reason: it writes through C's stdio.
            header = np.lib.format.header_data_from_array_1_0(volume)
            np.lib.format.write_array_header_1_0(sink, header)
            sink.write(np.ascontiguousarray(volume).data)
        ctx.commit_point("synthetic:file-written")
    ctx.commit_point("synthetic:file-renamed")


def _write_labels(folder: Path, count: int, names: Sequence[str], seed: int) -> None:
    from nodes.synthetic.seismic import class_of

    with whole_file(folder / "labels.csv", durable=False) as temporary, temporary.open("w", encoding="utf-8") as sink:
        sink.write("file,label\n")
        for index in range(count):
            sink.write(f"{_name(index)},{names[class_of(index, seed, len(names))]}\n")


# --- what it reports before a run ----------------------------------------------------------------


class ShapeTooShort(Rule):
    """The shape of a volume has the lengths of its axes, then the number of channels, so it has two numbers or more.

    What to do: write for example 30, 30, 10, 10 for 30x30x10 voxels with 10 channels.
    """

    code = "VF421"
    severity = "error"
    title = "a shape without voxels or channels"


class FewerVolumesThanClasses(Rule):
    """With fewer volumes than classes some class has no example, and a training cannot learn it.

    What to do: raise `count`, or lower `classes`.
    """

    code = "VF422"
    severity = "warning"
    title = "fewer volumes than classes"
