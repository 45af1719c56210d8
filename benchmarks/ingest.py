"""A folder of `.npy` files into a durable Delta table, from files in the page cache and from the disk.

Ours is `voxelflow run` of VolumeFolder, NumpyToParquet, ParquetToDelta and OptimizeDelta; its time is the span of the
three storage tasks, their processes' start apart. Everybody flushes to the disk before the clock stops. Spark takes
the first files only, as many as --spark-files says (0: no Spark), and its session's start is not counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import (
    Digest,
    SourceFiles,
    add_cold_option,
    add_data_options,
    cold_or_not,
    digest_of_table,
    make,
    shape_of,
)
from benchmarks.race import Contender, Entry, Race, file_name, peak_bytes, race, sync, timed
from benchmarks.reports import Aim, Report, aim_of

LIMIT = "cat files > one; fsync"
NAIVE = "np.load loop, write_deltalake"
SPARK = "Spark: binaryFile, mapInArrow"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser, 2000)
    parser.add_argument("--spark-files", type=int, default=200, help="files for Spark; 0 leaves it out (default: 200)")
    add_cold_option(parser)


def run(options: argparse.Namespace, folder: Path) -> Report:
    source = make(folder / "volumes", options.volumes, shape_of(options.shape), options.seed)
    aims: list[Aim] = []
    races = []
    for cold in cold_or_not(options):
        found = _race(options, folder, source, cold)
        races.append(found)
        if cold:
            continue
        aims += [aim_of(found, "ours", LIMIT, 0.9), aim_of(found, "ours", NAIVE, 5)]
        if options.spark_files:
            aims.append(aim_of(found, "ours", SPARK, 10))
        aims.append(Aim("ingest: peak memory of a task, MB", found["ours"].peak / 1e6, 500, at_most=True))
    return Report("ingest", races, aims=aims)


def _race(options: argparse.Namespace, folder: Path, source: SourceFiles, cold: bool) -> Race:
    place = {"source": str(source.folder)}

    def entry(
        name: str, kind: str, program: type[Contender], *, few: bool = False, rounds: int = 1000, **more: object
    ) -> Entry:
        home = folder / file_name(name)
        # Who gets fewer files delivers other bytes, which must be the same as those of `cat` on so many.
        delivers = "the first files" if few else "all"
        arguments = {**place, "home": str(home), **more}
        return Entry(name, kind, program, arguments, delivers, rounds)  # type: ignore[arg-type]

    entries = [
        entry(LIMIT, "limit", Cat, sync=True),
        entry("cat files > one", "limit", Cat, sync=False),
        entry("ours", "ours", Ours, whole=False, cold=cold),
        entry("ours, the whole command", "ours", Ours, whole=True, cold=cold, rounds=2),
        entry(NAIVE, "peer", NaiveLoop),
        entry("one table of lists", "peer", TableOfLists, rounds=2),
        entry("one Parquet file a volume", "peer", FileEach, rounds=2),
    ]
    if options.spark_files and not cold:
        few = min(options.spark_files, options.volumes)
        entries.append(entry(SPARK, "peer", Spark, few=True, rounds=2, count=few))
        entries.append(entry("cat, Spark's files", "limit", Cat, few=True, sync=True, count=few))
    title = f"ingest, {'from the disk' if cold else 'files in the page cache'}"
    return race(
        title, entries, unit="MB/s", limit=LIMIT, rounds=options.rounds, seed=options.seed, folder=folder, cold=cold
    )


# --- the contenders ----------------------------------------------------------------------------


class _Ingest(Contender):
    """Converts the files of `source` (with `count`: the first so many) into `home`."""

    def __init__(self, source: str, home: str, count: int = 0) -> None:
        self.paths = sorted(Path(source).glob("*.npy"))[: count or None]
        self.labels = dict(line.split(",") for line in (Path(source) / "labels.csv").read_text().splitlines()[1:])
        self.home = Path(home)
        self.amount = sum(path.stat().st_size for path in self.paths) / 1e6

    def files(self) -> Iterable[str | Path]:
        return self.paths

    def round(self, number: int) -> dict[str, Any]:
        self.home.mkdir()
        answer: dict[str, Any] = {"amount": self.amount}
        with timed(answer):
            self.convert()
        return answer

    def convert(self) -> None:
        raise NotImplementedError

    @property
    def table(self) -> Path:
        return self.home / "table"

    def digest(self) -> str:
        return digest_of_table(str(self.table))

    def tidy(self) -> None:
        shutil.rmtree(self.home)

    def volumes(self) -> Iterator[tuple[str, float, np.ndarray]]:
        for path in self.paths:
            yield path.name, float(self.labels[path.name]), np.load(path)

    def sync(self) -> None:
        """Flush what was written: the writers that people use leave that to the machine."""
        sync(path for path in self.home.rglob("*") if path.is_file())


class Cat(_Ingest):
    """All bytes into one file, in one stream, by the system's own program."""

    def __init__(self, source: str, home: str, count: int = 0, sync: bool = True) -> None:
        super().__init__(source, home, count)
        self._sync, self._list = sync, b"\0".join(bytes(path) for path in self.paths)

    def convert(self) -> None:
        with (self.home / "all").open("wb") as sink:
            subprocess.run(["xargs", "-0", "cat"], input=self._list, stdout=sink, check=True)
            if self._sync:
                os.fsync(sink.fileno())

    def round(self, number: int) -> dict[str, Any]:
        return super().round(number) | {"peak": 0}  # not known: another program's

    def digest(self) -> str:
        found = Digest()
        with (self.home / "all").open("rb") as file:
            for path in self.paths:
                found.add(path.name, np.load(file))
        return found.text


class Ours(_Ingest):
    """`voxelflow run`. The bytes are durable before a task says that it is done."""

    reads_itself = False

    def __init__(self, source: str, home: str, whole: bool = False, cold: bool = False) -> None:
        from benchmarks.pipelines import Benchwork, etl

        super().__init__(source, home)
        self._whole = whole
        self._work = Benchwork(self.home)
        drop = source if cold and not whole else ""
        self._document = etl(Path(source), settle=not whole, drop=drop)

    def round(self, number: int) -> dict[str, Any]:
        ran = self._work.run(self._document)
        self._out = ran.out("optimize")
        spans = {name: ran.tasks[name] for name in ("convert", "table", "optimize")}
        seconds = ran.seconds if self._whole else sum(span.seconds for span in spans.values())
        return {
            "amount": self.amount,
            "seconds": seconds,
            "peak": max(span.peak for span in spans.values()),
            "beside": {} if self._whole else {f"s {name}": span.seconds for name, span in spans.items()},
            "peaks": {name: span.peak for name, span in spans.items()},
        }

    def digest(self) -> str:
        return digest_of_table(self._out.uri, self._out.version)  # type: ignore[attr-defined]

    def tidy(self) -> None:
        self._work.clean()

    def close(self) -> None:
        self._work.close()


class NaiveLoop(_Ingest):
    """The first thing one writes: load everything, make a table, write it."""

    def convert(self) -> None:
        import pyarrow as pa
        from deltalake import write_deltalake

        ids, labels, values = [], [], []
        for name, label, volume in self.volumes():
            ids.append(name)
            labels.append(label)
            values.append(volume.tobytes())
        table = pa.table({"id": ids, "label": pa.array(labels, pa.float32()), "volume": pa.array(values, pa.binary())})
        write_deltalake(str(self.table), table)
        self.sync()


class TableOfLists(_Ingest):
    """One Parquet table with a column of numbers in lists, as datasets for Hugging Face are made."""

    def convert(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names, flat = [], []
        for name, _, volume in self.volumes():
            names.append(name)
            flat.append(volume.reshape(-1))
        offsets = np.arange(len(flat) + 1, dtype=np.int64) * len(flat[0])
        column = pa.LargeListArray.from_arrays(offsets, np.concatenate(flat))
        pq.write_table(pa.table({"id": names, "volume": column}), self.home / "table.parquet", row_group_size=100)
        self.sync()

    def digest(self) -> str:
        import pyarrow.parquet as pq

        found = Digest()
        with pq.ParquetFile(self.home / "table.parquet") as file:
            for batch in file.iter_batches(32):
                values = batch["volume"].flatten().to_numpy().reshape(len(batch), -1)
                found.add_all(batch["id"].to_pylist(), values)
        return found.text


class FileEach(_Ingest):
    """A Parquet file for each volume, then a Delta log over all of them."""

    def convert(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from deltalake import convert_to_deltalake

        self.table.mkdir()
        for name, label, volume in self.volumes():
            row = {"id": [name], "label": pa.array([label], pa.float32()), "volume": [volume.tobytes()]}
            pq.write_table(pa.table(row), self.table / f"{name}.parquet")
        convert_to_deltalake(str(self.table))
        self.sync()


class Spark(_Ingest):
    """`binaryFile`, a function over Arrow batches in Python workers, a Delta table; then OPTIMIZE."""

    def __init__(self, source: str, home: str, count: int) -> None:
        from delta import configure_spark_with_delta_pip
        from pyspark.sql import SparkSession

        super().__init__(source, home, count)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        # Spark is given a folder: one with only these files.
        self._folder = Path(f"{home}-files")
        self._folder.mkdir()
        for path in self.paths:
            os.link(path, self._folder / path.name)
        cores = len(os.sched_getaffinity(0))
        builder = (
            SparkSession.builder.master(f"local[{cores}]")
            .config("spark.driver.memory", "4g")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.local.dir", f"{home}-spark")
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        )
        self._spark = configure_spark_with_delta_pip(builder).getOrCreate()
        self._spark.range(1).count()

    def convert(self) -> None:
        files = self._spark.read.format("binaryFile").load(str(self._folder))
        rows = files.select("path", "content").mapInArrow(_decode, "id string, volume binary")
        rows.write.format("delta").save(str(self.table))
        self._spark.sql(f"OPTIMIZE delta.`{self.table}`")
        self.sync()

    def round(self, number: int) -> dict[str, Any]:
        # Java and its Python workers are processes below this one.
        return super().round(number) | {"peak": _peak_of_children()}

    def close(self) -> None:
        self._spark.stop()


def _decode(batches: Any) -> Any:
    """In a Python worker of Spark."""
    import io

    import numpy
    import pyarrow

    for batch in batches:
        ids = [path.rsplit("/", 1)[-1] for path in batch["path"].to_pylist()]
        values = [numpy.load(io.BytesIO(content)).tobytes() for content in batch["content"].to_pylist()]
        yield pyarrow.RecordBatch.from_pydict({"id": ids, "volume": values})


def _peak_of_children() -> int:
    """The peaks of all processes below this one, added up: Java's and its Python workers'."""
    import psutil

    return sum(peak_bytes(process.pid) for process in psutil.Process().children(recursive=True))
