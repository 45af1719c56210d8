"""One set of volumes in every form that a reader wants: `.npy` files, our Delta table, TFRecord, one mapped file."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.benchmarks.race import ROOT
from tests.benchmarks.source_files import add_data_options, make, shape_of

if TYPE_CHECKING:
    from engine.datasets import VolumeDelta, VolumeFiles

RECORD_FILE_BYTES = 78_000_000


@dataclass(frozen=True)
class ReadingData:
    """Where everything lies. `table` and `files` are references as JSON, made by a run of our nodes."""

    folder: str
    table: str
    files: str
    array: str
    records: tuple[str, ...]
    shape: tuple[int, ...]
    batch: int
    count: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, values: dict[str, Any]) -> ReadingData:
        return cls(**values | {"records": tuple(values["records"]), "shape": tuple(values["shape"])})

    @property
    def delta(self) -> VolumeDelta:
        from engine.datasets import dataset_from_json

        return dataset_from_json(self.table)  # type: ignore[return-value]

    @property
    def npy(self) -> VolumeFiles:
        from engine.datasets import dataset_from_json

        return dataset_from_json(self.files)  # type: ignore[return-value]

    @property
    def npy_paths(self) -> list[Path]:
        return sorted(Path(self.folder).glob("*.npy"))


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser, 2016)
    parser.add_argument("--batch", type=int, default=32, help="volumes in a batch (default: 32)")


def prepare(options: argparse.Namespace, folder: Path, *, records: bool = True, array: bool = True) -> ReadingData:
    """Make all forms. The count is rounded up to whole batches, so that an epoch is every volume, once."""
    from tests.benchmarks.pipelines import Benchwork, etl

    count = -(-options.volumes // options.batch) * options.batch
    source = make(folder / "volumes", count, shape_of(options.shape), options.seed)
    work = Benchwork(folder / "workspace")
    ran = work.run(etl(source.folder))
    work.close()
    if array:
        mapped = np.lib.format.open_memmap(folder / "all.npy", "w+", np.float32, (count, *source.shape))
        for number, path in enumerate(source.paths):
            mapped[number] = np.load(path)
        mapped.flush()
    paths: tuple[str, ...] = ()
    if records:
        # In a process of its own: TensorFlow shall not live here.
        each = max(1, RECORD_FILE_BYTES // source.volume_bytes)
        command = [sys.executable, "-m", "tests.benchmarks.record_files", str(source.folder), str(folder), str(each)]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        paths = tuple(json.loads(done.stdout))
    return ReadingData(
        folder=str(source.folder),
        table=ran.out("optimize").model_dump_json(),
        files=ran.out("volumes").model_dump_json(),
        array=str(folder / "all.npy"),
        records=paths,
        shape=source.shape,
        batch=options.batch,
        count=count,
    )
