"""The same pipeline embedded and on Spark, beside what people write for Spark themselves.

    python -m tests.benchmarks spark_backend [--volumes 2000] [--shape 30,30,10,10] [--rounds 3] [--folder DIR]
    python -m tests.benchmarks spark_backend --driver 2000 20000

embedded        VolumeFolder, NumpyToParquet, ParquetToDelta, OptimizeDelta by `voxelflow run` with the profile `local`
spark           the same run with the profile `spark-local`
the usual way   `binaryFile` and a Python UDF into a Delta table, then OPTIMIZE; Spark's own settings

The start of the session, until it takes jobs, is told apart from the work behind it. Every contender's table is read
by delta-rs and must hold the same volumes. `--driver` tells instead what the driver's processes hold in memory for two
numbers of tiny files, and so what 650,000 would take.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from engine.datasets import VolumeDelta, VolumeParquet
from engine.events import SparkSession as SessionEvent
from engine.pipeline import write_pipeline
from engine.runs import RunStore
from engine.workspace import open_workspace
from nodes.volume_parts import read_parts
from tests.benchmarks.pipelines import etl

MANY = 650_000
EXECUTORS, CORES_EACH = 10, 4
NODES = ("convert", "table", "optimize")
USUAL = """
import io, json, sys, time
import numpy as np
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession, functions as f

source, labels, table = sys.argv[1:]
began = time.perf_counter()
builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.memory", "4g").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
spark.range(1).count()
started = time.perf_counter()
bytes_of = f.udf(lambda content: np.load(io.BytesIO(content)).tobytes(), "binary")
files = spark.read.format("binaryFile").option("pathGlobFilter", "*.npy").load(source)
named = files.select(f.element_at(f.split("path", "/"), -1).alias("id"), bytes_of("content").alias("volume"))
known = spark.read.option("header", True).csv(labels).select(f.col("file").alias("id"), f.col("label").cast("float"))
named.join(f.broadcast(known), "id").write.format("delta").save(table)
spark.sql(f"OPTIMIZE delta.`{table}`")
print(json.dumps({"start": started - began, "work": time.perf_counter() - started}))
spark.stop()
"""


@dataclass
class Took:
    """Seconds of one contender until it can work and at work, and what was measured of ours besides."""

    start: float
    work: float
    table: Path
    nodes: dict[str, float] = field(default_factory=dict)
    parts: int = 0
    manifest_bytes: int = 0
    peaks: dict[str, int] = field(default_factory=dict)


def make_files(folder: Path, count: int, shape: tuple[int, ...]) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(count):
        np.save(folder / f"v{number:06d}.npy", rng.random(shape, np.float32))
    lines = "".join(f"v{number:06d}.npy,{number % 2}\n" for number in range(count))
    (folder / "labels.csv").write_text("file,label\n" + lines)


def ours(profile: str, source: Path, folder: Path, target_mb: int) -> Took:
    """`voxelflow run` in a new workspace."""
    workspace = open_workspace(folder)
    document = workspace.pipelines / "etl.json"
    write_pipeline(etl(source, target_file_mb=target_mb), document)
    options = ["--profile", profile, "--workspace", str(folder)]
    command = [sys.executable, "-m", "voxelflow", "run", str(document), *options]
    environment = os.environ | {"VOXELFLOW_DATA_ROOTS": str(source), "VOXELFLOW_TRACKING": "off"}
    store = RunStore(workspace)
    with (
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run,
        Peaks(store) as peaks,
    ):
        said, _ = run.communicate()
    if run.returncode:
        raise SystemExit(said)
    run_id = store.runs()[0].run_id
    tasks = {t.node: t for t in store.tasks(run_id)}
    live = [e.time for _, e in store.events(run_id) if isinstance(e, SessionEvent) and e.state == "live"]
    spans, start = {}, 0.0
    for name in NODES:
        began, ended = tasks[name].started, tasks[name].ended
        assert began is not None
        assert ended is not None
        if live and began < live[0]:  # the first task waited for the session
            start, began = live[0] - began, live[0]
        spans[name] = ended - began
    parquet, table = tasks["convert"].outputs["out"], tasks["optimize"].outputs["out"]
    assert isinstance(parquet, VolumeParquet)
    assert isinstance(table, VolumeDelta)
    return Took(
        start=start,
        work=sum(spans.values()),
        table=Path(table.uri),
        nodes=spans,
        parts=len(read_parts(parquet).parts),
        manifest_bytes=Path(parquet.manifest).stat().st_size,
        peaks=peaks.bytes,
    )


class Peaks:
    """The most memory that the processes of a run's tasks have held, in bytes: `python`, and `java` below it."""

    def __init__(self, store: RunStore) -> None:
        self.bytes: dict[str, int] = {}
        self._store, self._over = store, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            for run in self._store.runs(1):
                for pid in {t.pid for t in self._store.tasks(run.run_id) if t.pid and t.node in NODES}:
                    with contextlib.suppress(psutil.Error):
                        self._note("python", psutil.Process(pid).memory_info().rss)
                        for child in psutil.Process(pid).children():
                            if child.name() == "java":
                                self._note("java", child.memory_info().rss)

    def _note(self, name: str, seen: int) -> None:
        self.bytes[name] = max(seen, self.bytes.get(name, 0))


def usual(source: Path, folder: Path) -> Took:
    folder.mkdir()
    table = folder / "table"
    script = folder / "usual.py"
    script.write_text(USUAL)
    command = [sys.executable, str(script), str(source), str(source / "labels.csv"), str(table)]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    told = json.loads(done.stdout.splitlines()[-1])
    return Took(told["start"], told["work"], table)


def digest(table: Path) -> str:
    """Of all rows, whatever their order."""
    from deltalake import DeltaTable

    total = 0
    dataset = DeltaTable(table).to_pyarrow_dataset()
    for batch in dataset.to_batches(columns=["id", "label", "volume"], batch_size=64):
        for row_id, label, volume in zip(batch["id"], batch["label"], batch["volume"], strict=True):
            row = hashlib.blake2b(f"{row_id.as_py()} {label.as_py()} ".encode(), digest_size=16)
            row.update(volume.as_buffer())
            total += int.from_bytes(row.digest(), "big")
    return f"{total % 2**128:032x}"


def compare(folder: Path, volumes: int, shape: tuple[int, ...], rounds: int, target_mb: int) -> None:
    source = folder / "volumes"
    make_files(source, volumes, shape)
    megabytes = sum(p.stat().st_size for p in source.iterdir()) / 1e6
    print(f"{volumes} files, {megabytes:.0f} MB; seconds by contender, the start of the session apart")
    contenders: dict[str, Callable[[Path], Took]] = {
        "embedded": lambda place: ours("local", source, place, target_mb),
        "spark": lambda place: ours("spark-local", source, place, target_mb),
        "the usual way": lambda place: usual(source, place),
    }
    found: dict[str, list[Took]] = {name: [] for name in contenders}
    digests = set()
    print(f"{'round':>5} {'contender':>14} {'start':>7} {'work':>7}  nodes")
    for number in range(rounds):
        for name, run in contenders.items():
            place = folder / "place"
            took = run(place)
            digests.add(digest(took.table))
            found[name].append(took)
            nodes = ", ".join(f"{node} {seconds:.2f}" for node, seconds in took.nodes.items())
            print(f"{number:>5} {name:>14} {took.start:7.2f} {took.work:7.2f}  {nodes}", flush=True)
            shutil.rmtree(place)
    if len(digests) != 1:
        raise SystemExit("the contenders' tables differ")
    print("all tables hold the same volumes")
    ratios = [(u.work / s.work, s.work / e.work) for e, s, u in zip(*found.values(), strict=True)]
    _tell("the usual way / spark (aim: 20 or more)", [r[0] for r in ratios])
    _tell("spark / embedded (aim: 1.5 or less)", [r[1] for r in ratios])
    for node in NODES:
        both = zip(found["spark"], found["embedded"], strict=True)
        _tell(f"  spark / embedded, {node}", [s.nodes[node] / e.nodes[node] for s, e in both])
    _extrapolate(found["spark"], volumes, megabytes)


def _tell(what: str, ratios: list[float]) -> None:
    print(f"{what}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def _extrapolate(runs: list[Took], volumes: int, megabytes: float) -> None:
    cores = os.cpu_count() or 1
    took = sorted(runs, key=lambda t: t.work)[len(runs) // 2]
    each = took.nodes["convert"] * cores / took.parts
    parts = MANY / volumes * took.parts
    print(f"a part: {volumes / took.parts:.0f} volumes, {megabytes / took.parts:.0f} MB, {each:.2f} core-seconds")
    waves = math.ceil(parts / (EXECUTORS * CORES_EACH))
    print(
        f"{MANY} volumes on {EXECUTORS} executors of {CORES_EACH} cores: {parts:.0f} parts, {waves} a core,"
        f" {waves * each:.0f} s of conversion where the storage keeps up"
        f" ({MANY / volumes * megabytes / max(1e-9, waves * each) / 1e3:.1f} GB/s)"
    )


def driver(folder: Path, counts: list[int]) -> None:
    seen = []
    for count in counts:
        source = folder / f"volumes-{count}"
        make_files(source, count, (16, 16, 4, 1))
        took = ours("spark-local", source, folder / f"run-{count}", 1)
        seen.append(took)
        told = ", ".join(f"{name} {peak / 1e6:.0f} MB" for name, peak in took.peaks.items())
        print(
            f"{count} files, {took.parts} parts: {told}; manifest {took.manifest_bytes / took.parts:.0f} bytes a part"
        )
        shutil.rmtree(source)
    more = counts[-1] - counts[0]
    for name, peak in seen[-1].peaks.items():
        each = (peak - seen[0].peaks[name]) / more
        all_of_them = (peak + each * (MANY - counts[-1])) / 1e9
        print(f"{name}: {each:.0f} bytes a further file; {MANY} files: {all_of_them:.2f} GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--volumes", type=int, default=2000)
    parser.add_argument("--shape", default="30,30,10,10")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target-mb", type=int, default=78, help="size of the table's files")
    parser.add_argument("--driver", type=int, nargs=2, metavar="FILES", help="measure the driver's memory")
    parser.add_argument("--folder", type=Path, help="where to put the data (default: a temporary folder)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        if args.driver:
            driver(Path(name), args.driver)
        else:
            shape = tuple(int(n) for n in args.shape.split(","))
            compare(Path(name), args.volumes, shape, args.rounds, args.target_mb)


if __name__ == "__main__":
    main()
