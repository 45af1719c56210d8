"""A Delta table of many small files into one of few large ones.

The table has one Parquet file for each volume (--per-file: as many volumes), in the volume layout, as NumpyToParquet
would write them. Each contender gets its own copy of the log over the same data files. Ours is `voxelflow run` of
OptimizeDelta, its time the task's span; it is durable when it says so, and the others are flushed before the clock
stops. The limit is copying the bytes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import SourceFiles, add_cold_option, add_data_options, cold_or_not, digest_of_table, make, shape_of
from benchmarks.race import Contender, Entry, file_name, race, sync, timed
from benchmarks.reports import Aim, Report, aim_of

TARGET_MB = 78
LIMIT = "copy the bytes; fsync"
DEFAULTS = "delta-rs, defaults"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser, 2000)
    parser.add_argument("--per-file", type=int, default=1, help="volumes in a small file (default: 1)")
    add_cold_option(parser)


def run(options: argparse.Namespace, folder: Path) -> Report:
    source = make(folder / "volumes", options.volumes, shape_of(options.shape), options.seed)
    small = folder / "small"
    make_table(small, source, options.per_file)
    for path in source.folder.iterdir():
        path.unlink()

    def entry(name: str, kind: str, program: type[Contender], **more: object) -> Entry:
        home = folder / file_name(name)
        arguments = {"table": str(small), "home": str(home), **more}
        return Entry(name, kind, program, arguments)  # type: ignore[arg-type]

    races = []
    for cold in cold_or_not(options):
        entries = [
            entry(LIMIT, "limit", Copy, sync=True),
            entry("copy the bytes", "limit", Copy, sync=False),
            entry("ours", "ours", Ours, cold=cold),
            entry(DEFAULTS, "peer", DeltaRs, tuned=False),
            entry("delta-rs, tuned", "peer", DeltaRs, tuned=True),
        ]
        title = f"compact, {'from the disk' if cold else 'files in the page cache'}"
        settings = {"rounds": options.rounds, "seed": options.seed, "folder": folder, "cold": cold}
        races.append(race(title, entries, unit="MB/s", limit=LIMIT, **settings))
    warm = races[0]
    aims = [
        aim_of(warm, "ours", LIMIT, 0.5),
        aim_of(warm, "ours", DEFAULTS, 3),
        Aim("compact: peak memory of the task, MB", warm["ours"].peak / 1e6, 500, at_most=True),
    ]
    return Report("compact", races, aims=aims)


def make_table(folder: Path, source: SourceFiles, per_file: int) -> None:
    """A Delta table in the volume layout with `per_file` volumes in each file."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake import DeltaTable, convert_to_deltalake

    from engine.declare.datasets import VolumeSpec
    from nodes.volume_file.layout import properties, schema, writer_options

    spec = VolumeSpec(shape=source.shape, dtype="float32", classes=("0", "1"))
    columns = schema(spec)
    folder.mkdir()
    for first in range(0, len(source.paths), per_file):
        paths = source.paths[first : first + per_file]
        row = {
            "id": [path.name for path in paths],
            "label": pa.array([int(path.stem) % 2 for path in paths], pa.float32()),
            "volume": [np.load(path).tobytes() for path in paths],
        }
        with pq.ParquetWriter(folder / f"{first:07d}.parquet", columns, **writer_options()) as writer:
            writer.write_table(pa.table(row, schema=columns), row_group_size=64)
    convert_to_deltalake(str(folder))
    DeltaTable(str(folder)).alter.set_table_properties(properties(spec), raise_if_not_exists=False)


class _Compaction(Contender):
    """Each round compacts a table of its own: the same data files by hard links, and a copy of the log."""

    def __init__(self, table: str, home: str) -> None:
        self._source, self.home = Path(table), Path(home)
        self.small = sorted(self._source.glob("*.parquet"))
        self.amount = sum(path.stat().st_size for path in self.small) / 1e6

    @property
    def table(self) -> Path:
        return self.home / "table"

    def files(self) -> Iterable[str | Path]:
        return self.small

    def round(self, number: int) -> dict[str, Any]:
        self.table.mkdir(parents=True)
        for path in self.small:
            os.link(path, self.table / path.name)
        shutil.copytree(self._source / "_delta_log", self.table / "_delta_log")
        return {"amount": self.amount} | self.compact()

    def compact(self) -> dict[str, Any]:
        """What the round answers; `seconds` among it."""
        raise NotImplementedError

    def digest(self) -> str:
        from deltalake import DeltaTable

        if len(self.small) > 1 and len(DeltaTable(self.table).file_uris()) >= len(self.small):
            raise ValueError(f"{self.table} was not compacted")
        return digest_of_table(str(self.table))

    def tidy(self) -> None:
        shutil.rmtree(self.table)


class Copy(_Compaction):
    """All bytes of the small files into one, in one stream."""

    def __init__(self, table: str, home: str, sync: bool) -> None:
        super().__init__(table, home)
        self._sync = sync

    def compact(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"peak": 0}  # another program's
        names = b"\0".join(bytes(path) for path in self.small)
        with timed(answer), (self.table / "all").open("wb") as sink:
            subprocess.run(["xargs", "-0", "cat"], input=names, stdout=sink, check=True)
            if self._sync:
                os.fsync(sink.fileno())
        return answer

    def digest(self) -> str:
        """The table is as it was; what was copied must be its files' bytes."""
        with (self.table / "all").open("rb") as copied:
            for path in self.small:
                data = path.read_bytes()
                if copied.read(len(data)) != data:
                    raise ValueError(f"the copy of {path} differs")
        return digest_of_table(str(self.table))


class Ours(_Compaction):
    """`voxelflow run` of OptimizeDelta."""

    reads_itself = False

    def __init__(self, table: str, home: str, cold: bool = False) -> None:
        from benchmarks.pipelines import Benchwork, chain
        from engine.document.pipeline import Node

        super().__init__(table, home)
        self._work = Benchwork(self.home / "workspace")
        boxes = [
            Node(id="there", type="TableAt", params={"folder": str(self.table)}),
            Node(id="settle", type="SettleDelta", params={"drop": str(self.table) if cold else ""}),
            Node(id="optimize", type="OptimizeDelta", params={"target_file_mb": TARGET_MB}),
        ]
        self._document = chain("compact", boxes)

    def compact(self) -> dict[str, Any]:
        # The table is another one every time, at the same place.
        self._work.clean()
        span = self._work.run(self._document).tasks["optimize"]
        return {"seconds": span.seconds, "peak": span.peak}

    def close(self) -> None:
        self._work.close()


class DeltaRs(_Compaction):
    """`DeltaTable.optimize.compact`: with its defaults, or `tuned` to keep the layout and to use small row groups."""

    def __init__(self, table: str, home: str, tuned: bool) -> None:
        super().__init__(table, home)
        self._tuned = tuned

    def compact(self) -> dict[str, Any]:
        from deltalake import ColumnProperties, DeltaTable, WriterProperties

        table = DeltaTable(self.table)
        options: dict[str, Any] = {}
        if self._tuned:
            plain = ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
            properties = WriterProperties(
                compression="UNCOMPRESSED", max_row_group_size=64, default_column_properties=plain
            )
            options = {"writer_properties": properties, "target_size": TARGET_MB * 1_000_000}
        before = set(self.table.glob("*.parquet"))
        answer: dict[str, Any] = {}
        with timed(answer):
            table.optimize.compact(**options)
            sync(set(self.table.glob("*.parquet")) - before)
        return answer
