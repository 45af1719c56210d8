"""Cost by the number of files: a folder of small volumes, and one Parquet file per volume, through the storage nodes.

For each count, twice, through `voxelflow run`:

* `folder`: that many `.npy` files through NumpyToParquet, ParquetToDelta and OptimizeDelta, then into the loader;
* `file per volume`: a Delta table of that many one-row files, compacted.

A cost that grows linearly shows as a steady number of files a second, and memory as a steady number of bytes for a
further file. `again` is the whole command when nothing is to be done: listing, fingerprints, the look into the cache.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.data import shape_of
from benchmarks.pipelines import Benchwork, Ran, chain, etl
from benchmarks.race import ROOT, timed
from benchmarks.reports import Report, Table

if TYPE_CHECKING:
    from engine.declare.datasets import VolumeDelta

_FOLDER_FILES = 10_000
"""Files in one sub-folder: more make some file systems slow, which is not the question."""
_DIFFERENT = 64

_FILE_PER_VOLUME = '''
import hashlib
import os
from pathlib import Path

from voxelflow import TaskContext, VolumeFiles, VolumeParquet, node, track


@node("FilePerVolume", version=1, category="Benchmarks")
def file_per_volume(files: VolumeFiles, *, ctx: TaskContext) -> VolumeParquet:
    """Write each volume to a Parquet file of its own."""
    from engine.storage import manifest
    from nodes.conversion.npy_files import VolumeReader
    from nodes.volume_file.write import PlainFile
    from nodes.volume_file.join import template
    from engine.storage.files import flush_many
    from nodes.volume_file.layout import schema, writer_options
    from nodes.volume_file.parts import Part, Parts, write_parts

    spec = files.spec.model_copy(update={"classes": ("a", "b")})
    empty = template(schema(spec), writer_options())
    reader = VolumeReader(files.uri, spec, finite=True)
    folder, parts = ctx.out / "parts", []
    folder.mkdir(exist_ok=True)
    listing = manifest.entries(manifest.read(files.manifest))
    for number, entry in enumerate(track(listing, total=files.count, unit="volumes")):
        name = hashlib.blake2b(entry.path.encode(), digest_size=16).hexdigest() + ".parquet"
        out = PlainFile(folder / name, empty, spec.volume_bytes, 1)
        label = float(number % 2)
        out.expect([entry.path], [label])
        reader.read(entry.path, entry.size, entry.mtime_ns, out.buffer())
        out.keep(entry.path, label)
        out.finish()
        found = os.stat(folder / name)
        parts.append(
            Part(
                path=name, rows=1, bytes=found.st_size, mtime_ns=found.st_mtime_ns, labelled=1,
                id_min=entry.path, id_max=entry.path, label_min=label, label_max=label,
            )
        )
    flush_many([folder / p.path for p in parts])
    write_parts(Parts(parts=tuple(parts)), ctx.out / "parts.json")
    return VolumeParquet(
        uri=str(folder), manifest=str(ctx.out / "parts.json"), count=len(parts), bytes=sum(p.bytes for p in parts),
        spec=spec, found=len(parts), labelled=len(parts),
    )
'''


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 100_000], help="how many files")
    parser.add_argument("--shape", default="8,8,4,1", help="of a volume, float32 (default: 8,8,4,1)")
    parser.add_argument("--only", choices=["folder", "files"], help="one of the two ways alone")


def run(options: argparse.Namespace, folder: Path) -> Report:
    """The counts one after the other: each leaves nothing behind but its figures."""
    from engine.workspace import trust

    work = Benchwork(folder / "workspace")
    (work.workspace.my_nodes / "scale_nodes.py").write_text(_FILE_PER_VOLUME)
    trust(work.workspace)
    ways = {"folder": _by_folder, "files": _by_files}
    rows: list[list[Any]] = []
    try:
        for count in options.counts:
            source = folder / f"source-{count}"
            made: dict[str, Any] = {}
            with timed(made):
                make_files(source, count, shape_of(options.shape))
            rows.append(["source", count, "write the .npy files", *_figures(count, made["seconds"], 0)])
            for name, way in ways.items():
                if options.only in (None, name):
                    rows += [[name, count, *row] for row in way(work, source, count)]
                    work.clean()
            shutil.rmtree(source)
    finally:
        work.close()
    columns = ["way", "files", "step", "seconds", "files/s", "peak MB", "note"]
    return Report("scale", tables=[Table("cost by number of files", columns, rows), _further(rows)])


def make_files(folder: Path, count: int, shape: Sequence[int]) -> None:
    """`count` small volumes in two classes, in sub-folders."""
    rng = np.random.default_rng(0)
    blobs = []
    for _ in range(_DIFFERENT):
        sink = io.BytesIO()
        np.save(sink, rng.random(tuple(shape), np.float32))
        blobs.append(sink.getvalue())
    for number in range(count):
        place = folder / f"class{number % 2}" / f"{number // _FOLDER_FILES:03d}"
        if number % _FOLDER_FILES < 2:
            place.mkdir(parents=True, exist_ok=True)
        with open(f"{place}/{number:07d}.npy", "wb", buffering=0) as sink_file:
            sink_file.write(blobs[number % _DIFFERENT])


def _by_folder(work: Benchwork, source: Path, count: int) -> list[list[Any]]:
    document = etl(source, settle=True)
    ran = work.run(document)
    listed = _child("listing", str(source))
    out: list[list[Any]] = [["list and fingerprint", *_figures(count, listed["seconds"], listed["peak"])]]
    out += [[n, *_task(ran, n, count)] for n in ("volumes", "convert", "table", "optimize")]
    again = work.run(document)
    out.append(["again", *_figures(count, again.seconds, 0)])
    return [*out, *_loaded(ran, count)]


def _by_files(work: Benchwork, source: Path, count: int) -> list[list[Any]]:
    from engine.document.pipeline import Node

    boxes = [
        Node(id="volumes", type="VolumeFolder", params={"folder": str(source)}),
        Node(id="spread", type="FilePerVolume"),
        Node(id="before-table", type="SettleParquet"),
        Node(id="table", type="ParquetToDelta"),
        Node(id="before-optimize", type="SettleDelta"),
        Node(id="optimize", type="OptimizeDelta", params={"target_file_mb": 1}),
    ]
    document = chain("files", boxes)
    ran = work.run(document)
    out: list[list[Any]] = [[n, *_task(ran, n, count)] for n in ("table", "optimize")]
    again = work.run(document)
    out.append(["again", *_figures(count, again.seconds, 0)])
    return [*out, *_loaded(ran, count)]


def _task(ran: Ran, node: str, count: int) -> list[Any]:
    span = ran.tasks[node]
    return _figures(count, span.seconds, span.peak, _note(span.outputs["out"]))


def _note(dataset: Any) -> str:
    if dataset.kind == "VolumeParquet":
        return f"{len(list(Path(dataset.uri).glob('*.parquet'))):,} files"
    if dataset.kind != "VolumeDelta":
        return ""
    root = Path(dataset.uri)
    log = [p for p in (root / "_delta_log").iterdir() if p.is_file()]
    ledgers = sum(p.stat().st_size for p in (root / "_voxelflow" / "ledger").glob("*"))
    return (
        f"{dataset.files:,} files, version {dataset.version}, log {sum(p.stat().st_size for p in log):,} bytes"
        f" in {len(log)} files, ledger {ledgers:,}"
    )


def _loaded(ran: Ran, count: int) -> list[list[Any]]:
    table: VolumeDelta = ran.out("optimize")  # type: ignore[assignment]
    found = _child("loader", table.model_dump_json())
    note = f"{found['rows']:,} rows, shuffled batches of 256"
    return [
        ["loader: open", *_figures(count, found["opened"], found["peak"])],
        ["loader: epoch", *_figures(count, found["epoch"], found["peak"], note)],
    ]


def _figures(count: int, seconds: float, peak: float, note: str = "") -> list[Any]:
    return [round(seconds, 3), round(count / max(seconds, 1e-9)), round(peak / 1e6), note]


def _further(rows: Sequence[Sequence[Any]]) -> Table:
    """What a further file costs, between each count and the one before."""
    out: list[list[Any]] = []
    before: dict[tuple[str, str], Sequence[Any]] = {}
    for row in rows:
        key = (row[0], row[2])
        if (last := before.get(key)) is not None and row[1] > last[1]:
            more = row[1] - last[1]
            memory = round((row[5] - last[5]) * 1e6 / more) if row[5] else ""
            out.append([*key, f"{last[1]:,} -> {row[1]:,}", round((row[3] - last[3]) / more * 1e6, 1), memory])
        before[key] = row
    return Table("a further file", ["way", "step", "files", "microseconds", "bytes of memory"], out)


def _child(what: str, argument: str) -> dict[str, Any]:
    """Something done in a process of its own, so that its memory is its own."""
    command = [sys.executable, "-m", "benchmarks.scale", what, argument]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _main(what: str, argument: str) -> dict[str, Any]:
    import resource

    from engine.storage import manifest

    answer: dict[str, Any] = {}
    if what == "listing":
        began = time.perf_counter()
        manifest.digest(manifest.list_folder(Path(argument), ("**/*.npy", "labels.csv", "labels.parquet")))
        answer["seconds"] = time.perf_counter() - began
    else:
        from engine.declare.datasets import dataset_from_json
        from nodes.loaders import open_source
        from nodes.loaders.interface import Reading

        began = time.perf_counter()
        source = open_source("arrow", dataset_from_json(argument), cores=2)
        answer["opened"] = time.perf_counter() - began
        began = time.perf_counter()
        loader = source.loader(source.rows_in(), Reading(min(256, len(source.rows.ids)), seed=0, training=True))
        answer["rows"] = sum(len(batch.rows) for batch in loader.batches())
        answer["epoch"] = time.perf_counter() - began
        source.close()
    return answer | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


if __name__ == "__main__":
    print(json.dumps(_main(*sys.argv[1:3])))
