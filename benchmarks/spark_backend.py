"""The same pipeline embedded and on Spark, beside what people write for Spark themselves.

* `embedded`: VolumeFolder, NumpyToParquet, ParquetToDelta, OptimizeDelta by `voxelflow run` with the profile `local`;
* `spark`: the same run with the profile `spark-local`, which starts its Java;
* `spark again`: the same with the Java that the run before has left;
* `the usual way`: `binaryFile` and a Python UDF into a Delta table, then OPTIMIZE; Spark's own settings.

The start of the session, until it takes jobs, is timed apart from the work behind it. Every contender's table is read
by delta-rs and must hold the same volumes. `--driver` reports instead what the driver's processes hold in memory for
two numbers of tiny files, and so what 650,000 would take.
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
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.data import add_data_options, make, shape_of
from benchmarks.pipelines import Benchwork, Ran, etl
from benchmarks.race import Contender, Entry, Race, race
from benchmarks.reports import Aim, Report, Table, aim_of

if TYPE_CHECKING:
    from engine.store.runs import RunStore

MANY = 650_000
EXECUTORS, CORES_EACH = 10, 4
NODES = ("convert", "table", "optimize")
EMBEDDED, SPARK, AGAIN, USUAL = "embedded", "spark", "spark again", "the usual way"
_USUAL_SCRIPT = """
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


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser, 2000)
    parser.add_argument("--target-mb", type=int, default=78, help="size of the table's files (default: 78)")
    parser.add_argument("--driver", type=int, nargs=2, metavar="FILES", help="measure the driver's memory")
    parser.set_defaults(rounds=3)


def run(options: argparse.Namespace, folder: Path) -> Report:
    if options.driver:
        return Report("spark_backend", tables=_driver(folder, options.driver))
    source = make(folder / "volumes", options.volumes, shape_of(options.shape), options.seed)
    place: dict[str, Any] = {"source": str(source.folder)}
    ours = place | {"target_mb": options.target_mb}
    entries = [
        Entry(SPARK, "ours", Ours, ours | {"home": str(folder / "spark"), "profile": "spark-local"}),
        Entry(AGAIN, "ours", Ours, ours | {"home": str(folder / "again"), "profile": "spark-local", "again": True}),
        Entry(EMBEDDED, "limit", Ours, ours | {"home": str(folder / "embedded"), "profile": "local"}),
        Entry(USUAL, "peer", Usual, place | {"home": str(folder / "usual")}),
    ]
    found = race(
        "the storage nodes on Spark", entries, unit="MB/s", limit=EMBEDDED, rounds=options.rounds, seed=options.seed,
        folder=folder,
    )  # fmt: skip
    aims = [aim_of(found, SPARK, USUAL, 20)]
    for name in (SPARK, AGAIN):
        times = 1 / found.ratio(name, EMBEDDED).median
        aims.append(Aim(f"{name}: seconds of work, times those of {EMBEDDED}", times, 1.5, True))
    tables = [_by_node(found, SPARK), _by_node(found, AGAIN)]
    return Report("spark_backend", [found], tables, aims, [_extrapolated(found, options.volumes)])


class _Backend(Contender):
    """Makes a Delta table of the files of `source` in `home`."""

    reads_itself = False

    def __init__(self, source: str, home: str) -> None:
        self.source, self.home = Path(source), Path(home)
        self.amount = sum(path.stat().st_size for path in self.source.iterdir()) / 1e6
        self.table = self.home / "table"

    def digest(self) -> str:
        """Of all rows with their labels, whatever their order."""
        from deltalake import DeltaTable

        total = 0
        dataset = DeltaTable(self.table).to_pyarrow_dataset()
        for batch in dataset.to_batches(columns=["id", "label", "volume"], batch_size=64):
            for row_id, label, volume in zip(batch["id"], batch["label"], batch["volume"], strict=True):
                row = hashlib.blake2b(f"{row_id.as_py()} {label.as_py()} ".encode(), digest_size=16)
                row.update(volume.as_buffer())
                total += int.from_bytes(row.digest(), "big")
        return f"{total % 2**128:032x}"


class Ours(_Backend):
    """`voxelflow run` with the profile `profile`; `again`: after a run with the same."""

    def __init__(self, source: str, home: str, profile: str, target_mb: int, again: bool = False) -> None:
        super().__init__(source, home)
        self._profile, self._again = profile, again
        self._work = Benchwork(self.home)
        self._document = etl(self.source, target_file_mb=target_mb)

    def round(self, number: int) -> dict[str, Any]:
        from engine.spark.warm_jvm import end_idle

        end_idle()
        if self._again:
            self._work.run(self._document, profile=self._profile)
            self._work.clean()
        with Peaks(self._work.store) as peaks:
            ran = self._work.run(self._document, profile=self._profile)
        self.table = Path(ran.out("optimize").uri)
        start, spans = _session_apart(self._work, ran)
        return {
            "amount": self.amount,
            "seconds": sum(spans.values()),
            "peak": sum(peaks.bytes.values()),
            "beside": {"s start": start, **{f"s {node}": seconds for node, seconds in spans.items()}},
            "peaks": peaks.bytes,
            **_parts(ran),
        }

    def tidy(self) -> None:
        self._work.clean()

    def close(self) -> None:
        self._work.close()


class Usual(_Backend):
    """What people write: a script of their own, its session begun anew each time."""

    def round(self, number: int) -> dict[str, Any]:
        self.home.mkdir()
        script = self.home / "usual.py"
        script.write_text(_USUAL_SCRIPT)
        command = [sys.executable, str(script), str(self.source), str(self.source / "labels.csv"), str(self.table)]
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        took = json.loads(done.stdout.splitlines()[-1])
        return {"amount": self.amount, "seconds": took["work"], "peak": 0, "beside": {"s start": took["start"]}}

    def tidy(self) -> None:
        shutil.rmtree(self.home)


def _session_apart(work: Benchwork, ran: Ran) -> tuple[float, dict[str, float]]:
    """Seconds until Spark's session took jobs (0 without one), and those of each node's work after it."""
    from engine.declare.events import SparkSession

    events = work.events(ran.run_id, "spark-session")
    live = [event.time for event in events if isinstance(event, SparkSession) and event.state == "live"]
    start, spans = 0.0, {}
    for name in NODES:
        began = ran.tasks[name].started
        if live and began < live[0]:  # the first task waited for the session
            start, began = live[0] - began, live[0]
        spans[name] = ran.tasks[name].ended - began
    return start, spans


def _parts(ran: Ran) -> dict[str, int]:
    from nodes.volume_file.parts import read_parts

    parquet: Any = ran.out("convert")
    return {"parts": len(read_parts(parquet).parts), "manifest_bytes": Path(parquet.manifest).stat().st_size}


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
                for _, event in self._store.events(run.run_id, kinds=["spark-session"]):
                    with contextlib.suppress(psutil.Error):
                        for child in psutil.Process(getattr(event, "java", 0)).children():
                            if child.name() == "java":
                                self._note("java", child.memory_info().rss)

    def _note(self, name: str, seen: int) -> None:
        self.bytes[name] = max(seen, self.bytes.get(name, 0))


def _by_node(found: Race, name: str) -> Table:
    """How many times as long a node's work takes on Spark, round by round."""
    rows = []
    for node in NODES:
        both = zip(found[name].answers, found[EMBEDDED].answers, strict=True)
        ratios = [a["beside"][f"s {node}"] / b["beside"][f"s {node}"] for a, b in both]
        rows.append([node, statistics.median(ratios), min(ratios), max(ratios)])
    return Table(f"{name} / {EMBEDDED}, seconds", ["node", "median", "least", "most"], rows)


def _extrapolated(found: Race, volumes: int) -> str:
    runs: Sequence[Mapping[str, Any]] = found[SPARK].answers
    took = sorted(runs, key=lambda answer: answer["seconds"])[len(runs) // 2]
    each = took["beside"]["s convert"] * (os.cpu_count() or 1) / took["parts"]
    parts = MANY / volumes * took["parts"]
    waves = math.ceil(parts / (EXECUTORS * CORES_EACH))
    return (
        f"a part: {volumes / took['parts']:.0f} volumes, {took['amount'] / took['parts']:.0f} MB,"
        f" {each:.2f} core-seconds\n"
        f"{MANY} volumes on {EXECUTORS} executors of {CORES_EACH} cores: {parts:.0f} parts, {waves} a core,"
        f" {waves * each:.0f} s of conversion where the storage keeps up"
        f" ({MANY / volumes * took['amount'] / max(1e-9, waves * each) / 1e3:.1f} GB/s)"
    )


def _driver(folder: Path, counts: Sequence[int]) -> list[Table]:
    """The driver's memory for two numbers of files, and what a further file costs."""
    seen = []
    for count in counts:
        source = make(folder / f"volumes-{count}", count, (16, 16, 4, 1), 0).folder
        contender = Ours(str(source), str(folder / f"run-{count}"), "spark-local", 1)
        seen.append(contender.round(0))
        contender.close()
        shutil.rmtree(source)
    rows = [
        [count, a["parts"], *(round(a["peaks"].get(name, 0) / 1e6) for name in ("python", "java")),
         round(a["manifest_bytes"] / a["parts"])]
        for count, a in zip(counts, seen, strict=True)
    ]  # fmt: skip
    further = []
    for name, peak in seen[-1]["peaks"].items():
        each = (peak - seen[0]["peaks"][name]) / (counts[-1] - counts[0])
        further.append([name, round(each), (peak + each * (MANY - counts[-1])) / 1e9])
    return [
        Table("the driver's memory", ["files", "parts", "python MB", "java MB", "manifest bytes a part"], rows),
        Table("a further file", ["process", "bytes", f"GB for {MANY} files"], further),
    ]
