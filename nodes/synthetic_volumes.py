"""`SyntheticVolumes`: labelled seismic-like volumes of any count and shape, to try a pipeline without data.

Its problems: VF421 the shape has no axis of voxels and one of channels; VF422 fewer volumes than classes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.context import TaskContext
from engine.datasets import Preview, VolumeFiles, VolumeSpec
from engine.errors import UsageError
from engine.node import Look, node
from engine.parameters import Extendable, Range, Unit
from engine.progress import track
from nodes.durable_files import place
from nodes.synthetic.seismic_classes import MAX_CLASSES, class_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nodes.synthetic.seismic import SeismicMaker

_HEADER_BYTES = 128
_BATCH = 32


@node(
    "SyntheticVolumes",
    version=1,
    category="Sources",
    imports=("numpy", "pyarrow"),
    anywhere="makes its files where the others read them",
)
def synthetic_volumes(
    *,
    count: Annotated[int, Range(1, 10_000_000), Unit("volumes"), Extendable()] = 2000,
    shape: Annotated[tuple[int, ...], Range(1, 4096), Unit("voxels")] = (30, 30, 10, 10),
    dtype: Literal[
        "float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"
    ] = "float32",
    classes: Annotated[int, Range(2, MAX_CLASSES)] = 2,
    noise: Annotated[float, Range(0, 10)] = 0.5,
    seed: Annotated[int, Range(0, 2**32 - 1)] = 0,
    ctx: TaskContext,
) -> VolumeFiles:
    """Make labelled seismic-like volumes: layers with faults, channels, bright spots and salt.

    Each volume is a `.npy` file; `labels.csv` beside them names its class. The classes are the
    background alone, each feature alone, then their combinations. Volume number n is the same whatever
    the count, so a larger count only adds files; a killed run goes on where it stopped.

    Args:
        count: how many volumes.
        shape: axes of voxels, then the number of channels, for example 30, 30, 10, 10.
        dtype: type of the numbers.
        classes: how many kinds of volumes.
        noise: noise relative to the signal; 0 is easiest to learn.
        seed: another seed gives other volumes.
    """
    from engine import manifest
    from nodes.conversion.volume_listing import volumes_of
    from nodes.synthetic.seismic import SeismicMaker

    if len(shape) < 2:
        raise UsageError(f"the shape {shape} has no channels", hint="Give voxels, then channels.", parameter="shape")
    folder = ctx.out / "volumes"
    maker = SeismicMaker(tuple(shape), dtype, classes, noise, seed)
    names = class_names(classes)
    spec = VolumeSpec(shape=tuple(shape), dtype=dtype, classes=tuple(sorted(names)))
    _make_files(folder, count, spec, maker, ctx)
    _write_labels(folder, count, names, seed)
    listing = manifest.list_folder(folder, ("**/*.npy", "labels.csv"))
    volumes = volumes_of(listing)
    path = ctx.out / "volumes.arrow"
    manifest.write(volumes, path)
    return VolumeFiles(
        uri=str(folder), manifest=str(path), count=len(volumes), bytes=manifest.total_bytes(volumes), spec=spec
    )


@synthetic_volumes.preview
def _preview(look: Look) -> Preview:
    params = look.params
    count, shape = params["count"], tuple(params["shape"])
    if len(shape) < 2:
        look.problem(
            "VF421",
            "needs at least one axis of voxels and, last, the number of channels",
            hint="For example 30, 30, 10, 10.",
            parameter="shape",
        )
        return Preview(kind="VolumeFiles", count=count)
    if count < params["classes"]:
        look.problem(
            "VF422",
            f"{count} volumes cannot show {params['classes']} classes",
            hint="Make more volumes, or fewer classes.",
            parameter="count",
            severity="warning",
        )
    spec = VolumeSpec(shape=shape, dtype=params["dtype"], classes=tuple(sorted(class_names(params["classes"]))))
    return Preview(
        kind="VolumeFiles", count=count, bytes=count * (spec.volume_bytes + _HEADER_BYTES), spec=spec, labelled=count
    )


def _make_files(folder: Path, count: int, spec: VolumeSpec, maker: SeismicMaker, ctx: TaskContext) -> None:
    """Make the files that are not there, whole each: by a link to an earlier result's, else afresh."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [i for i, is_there in enumerate(_present(folder, count, spec)) if not is_there]
    bases = [
        d for d in (*ctx.extends.values(), *ctx.previous.values()) if isinstance(d, VolumeFiles) and d.spec == spec
    ]
    for base in bases:
        missing = [i for i in missing if i >= base.count or not _link(Path(base.uri) / _name(i), folder / _name(i))]
    batches = [missing[i : i + _BATCH] for i in range(0, len(missing), _BATCH)]

    def make(batch: Sequence[int]) -> int:
        for index in batch:
            _save(folder / _name(index), maker.volume(index)[0], ctx)
        return len(batch)

    with ThreadPoolExecutor(ctx.resources.cores, thread_name_prefix="make") as pool:
        try:
            done = pool.map(make, batches)
            for _ in track(done, total=count, unit="volumes", label="making", amount=int, start=count - len(missing)):
                pass
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _present(folder: Path, count: int, spec: VolumeSpec) -> bytearray:
    """One byte a volume: 1 when its file is there, whole."""
    there = bytearray(count)
    with os.scandir(folder) as entries:
        for entry in entries:
            stem, _, suffix = entry.name.partition(".")
            if suffix == "npy" and stem.isdecimal() and int(stem) < count:
                there[int(stem)] = entry.stat().st_size > spec.volume_bytes
                if not there[int(stem)]:
                    # A power cut can leave a renamed file empty.
                    os.unlink(entry.path)
    return there


def _name(index: int) -> str:
    return f"{index:07d}.npy"


def _link(source: Path, target: Path) -> bool:
    """Let `target` be the same file as `source`, with its modification time; False if there is none."""
    try:
        place(source, target, "link")
    except FileNotFoundError:
        return False
    return True


def _save(path: Path, volume: NDArray[Any], ctx: TaskContext) -> None:
    import numpy as np

    temporary = path.with_name(f".{path.name}")
    with temporary.open("wb") as sink:
        np.save(sink, volume, allow_pickle=False)
    ctx.commit_point("synthetic:file-written")
    temporary.replace(path)
    ctx.commit_point("synthetic:file-renamed")


def _write_labels(folder: Path, count: int, names: Sequence[str], seed: int) -> None:
    from nodes.synthetic.seismic import class_of

    temporary = folder / ".labels.csv"
    with temporary.open("w", encoding="utf-8") as sink:
        sink.write("file,label\n")
        for index in range(count):
            sink.write(f"{_name(index)},{names[class_of(index, seed, len(names))]}\n")
    temporary.replace(folder / "labels.csv")
