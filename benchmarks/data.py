"""The data that everybody gets: volumes in every form that a reader wants, and digests to compare what was delivered.

    python -m benchmarks.data FOLDER INTO VOLUMES_IN_A_FILE

writes `.npy` files as TFRecord files and prints their paths: TensorFlow shall not live in the benchmark's own process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.race import ROOT

if TYPE_CHECKING:
    from engine.declare.datasets import VolumeDelta, VolumeFiles

RECORD_FILE_BYTES = 78_000_000


@dataclass(frozen=True)
class SourceFiles:
    """A folder of `.npy` files with labels; `paths` in the order of their numbers."""

    folder: Path
    paths: tuple[Path, ...]
    shape: tuple[int, ...]

    @property
    def volume_bytes(self) -> int:
        return 4 * int(np.prod(self.shape))


def add_data_options(parser: argparse.ArgumentParser, volumes: int) -> None:
    parser.add_argument("--volumes", type=int, default=volumes, help=f"how many (default: {volumes})")
    parser.add_argument("--shape", default="30,30,10,10", help="of a volume, float32 (default: 30,30,10,10)")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser, 2016)
    parser.add_argument("--batch", type=int, default=32, help="volumes in a batch (default: 32)")


def add_cold_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-cold", action="store_true", help="leave out the rounds from the disk")


def cold_or_not(options: argparse.Namespace) -> tuple[bool, ...]:
    """Whether a race is cold, for each race: first one with all files in the page cache, then one from the disk."""
    return (False,) if options.no_cold else (False, True)


def shape_of(text: str) -> tuple[int, ...]:
    return tuple(int(length) for length in text.split(","))


def make(folder: Path, count: int, shape: Sequence[int], seed: int) -> SourceFiles:
    """`count` random volumes: bytes that no compression makes small, as field data are."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    paths = []
    for number in range(count):
        paths.append(folder / f"{number:07d}.npy")
        np.save(paths[-1], rng.random(tuple(shape), np.float32))
    lines = "".join(f"{path.name},{number % 2}\n" for number, path in enumerate(paths))
    (folder / "labels.csv").write_text("file,label\n" + lines)
    return SourceFiles(folder, tuple(paths), tuple(shape))


# --- every form --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadingData:
    """Where the volumes lie in each form: `.npy` files, our Delta table, TFRecord files, one mapped file.

    `table` and `files` are references as JSON, made by a run of our nodes.
    """

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
        from engine.declare.datasets import dataset_from_json

        return dataset_from_json(self.table)  # type: ignore[return-value]

    @property
    def npy(self) -> VolumeFiles:
        from engine.declare.datasets import dataset_from_json

        return dataset_from_json(self.files)  # type: ignore[return-value]

    @property
    def npy_paths(self) -> list[Path]:
        return sorted(Path(self.folder).glob("*.npy"))


def prepare(options: argparse.Namespace, folder: Path, *, records: bool = True, array: bool = True) -> ReadingData:
    """Make all forms. The count is rounded up to whole batches, so that an epoch is every volume, once."""
    from benchmarks.pipelines import Benchwork, etl

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
        each = max(1, RECORD_FILE_BYTES // source.volume_bytes)
        command = [sys.executable, "-m", "benchmarks.data", str(source.folder), str(folder), str(each)]
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


def write_records(folder: Path, into: Path, each: int) -> list[str]:
    """Write the `.npy` files of `folder` as TFRecord files of `each` volumes into `into`; gives their paths."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    def bytes_of(value: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def number(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    paths, written = sorted(folder.glob("*.npy")), []
    for first in range(0, len(paths), each):
        written.append(str(into / f"{first:07d}.tfrecord"))
        with tf.io.TFRecordWriter(written[-1]) as sink:
            for path in paths[first : first + each]:
                row = int(path.stem)
                values = {"row": number(row), "label": number(row % 2), "volume": bytes_of(np.load(path).tobytes())}
                sink.write(tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString())
    return written


# --- digests -----------------------------------------------------------------------------------


class Digest:
    """One digest of many volumes, whatever their order: the sum of a hash of each (number, bytes).

    Add volumes by their id (`0000012.npy`) or number; equal text means equal sets of volumes.
    """

    def __init__(self) -> None:
        self._sum, self._count = 0, 0

    def add(self, row: Any, volume: Any) -> None:
        """`volume` is the array, or its bytes."""
        data = np.ascontiguousarray(volume).view(np.uint8).data if isinstance(volume, np.ndarray) else volume
        found = hashlib.blake2b(number_of(row).to_bytes(8, "little"), digest_size=16)
        found.update(data)
        self._sum = (self._sum + int.from_bytes(found.digest(), "little")) % 2**128
        self._count += 1

    def add_all(self, rows: Iterable[Any], volumes: Iterable[Any]) -> None:
        for row, volume in zip(rows, volumes, strict=True):
            self.add(row, volume)

    @property
    def text(self) -> str:
        return f"{self._count} volumes {self._sum:032x}"


def number_of(row: Any) -> int:
    """The number of a volume, from itself or from its id."""
    if isinstance(row, bytes):
        row = row.decode()
    return int(PurePosixPath(row).stem) if isinstance(row, str) else int(row)


def digest_of_table(uri: str, version: int | None = None) -> str:
    """The digest of a Delta table's rows, read by pyarrow."""
    from deltalake import DeltaTable

    found = Digest()
    dataset = DeltaTable(uri, version=version).to_pyarrow_dataset()
    for batch in dataset.to_batches(columns=["id", "volume"], batch_size=64, fragment_readahead=1):
        found.add_all(batch["id"].to_pylist(), (value.as_buffer() for value in batch["volume"]))
    return found.text


if __name__ == "__main__":
    print(json.dumps(write_records(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
