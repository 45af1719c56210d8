"""A seismic survey with its attributes, a SEG-Y file each, into durable patches.

Ours is `voxelflow run` of VolumeFolder and CutVolumes: Parquet files of 78 MB; its time is the task's span. Beside it
what people write: the attributes loaded by segyio into one array, cut by NumPy, each patch saved as a `.npy` file.
Everybody flushes to the disk before the clock stops. The limit is reading the survey and writing as many bytes as the
patches have to one file. A survey of 512 x 512 x 256 with ten attributes gives 650,000 patches of 30 x 30 x 10 x 10
with a stride of 4, 4 and 6: 234 GB. Without overlap there are 7,225, as many bytes as are read; the table says what
650,000 would take at that rate.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Digest, add_cold_option, cold_or_not, shape_of
from benchmarks.race import Contender, Entry, file_name, race, sync, timed
from benchmarks.reports import Aim, Report, Table, aim_of

LIMIT = "read the survey, write the bytes; fsync"
NUMPY = "segyio, NumPy, np.save each"
WHOLE = 650_000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--survey", default="512,512,256", help="inlines, crosslines, samples (default: 512,512,256)")
    parser.add_argument("--attributes", type=int, default=10, help="files of the survey (default: 10)")
    parser.add_argument("--size", default="30,30,10", help="voxels of a patch (default: 30,30,10)")
    parser.add_argument("--stride", default="30,30,10", help="from one patch to the next (default: 30,30,10)")
    add_cold_option(parser)


def run(options: argparse.Namespace, folder: Path) -> Report:
    shape, size, stride = (shape_of(text) for text in (options.survey, options.size, options.stride))
    survey = folder / "survey"
    write_survey(survey, shape, options.attributes, options.seed)
    given = {"survey": str(survey), "size": size, "stride": stride}

    def entry(name: str, kind: str, program: type[_Cut], rounds: int = 1000, **more: object) -> Entry:
        home = folder / file_name(name)
        arguments = {**given, "home": str(home), **more}
        return Entry(name, kind, program, arguments, "all" if kind != "limit" else "", rounds)  # type: ignore[arg-type]

    races = []
    for cold in cold_or_not(options):
        entries = [
            entry(LIMIT, "limit", Write),
            entry("ours", "ours", Ours, cold=cold),
            entry(NUMPY, "peer", Naive, rounds=2),
        ]
        title = f"cut, {'from the disk' if cold else 'survey in the page cache'}"
        settings = {"rounds": options.rounds, "seed": options.seed, "folder": folder, "cold": cold}
        races.append(race(title, entries, unit="MB/s", limit=LIMIT, **settings))
    warm, from_disk = races[0], races[-1]  # one race with --no-cold
    aims = [
        aim_of(from_disk, "ours", LIMIT, 0.75),
        aim_of(warm, "ours", NUMPY, 3),
        Aim("cut: peak memory of the task, MB", warm["ours"].peak / 1e6, 1500, at_most=True),
    ]
    megabytes = WHOLE * 4 * options.attributes * np.prod(size) / 1e6
    rows = [
        [race.title, result.name, result.rate, float(megabytes / result.rate / 3600)]
        for race in races
        for result in race.results
    ]
    table = Table(f"{WHOLE:,} patches at these rates: {megabytes / 1e3:,.0f} GB", ["", "", "MB/s", "hours"], rows)
    return Report("cut", races, [table], aims=aims)


def write_survey(folder: Path, shape: tuple[int, ...], attributes: int, seed: int) -> None:
    """One SEG-Y file for each attribute: IEEE floats, sorted by inline."""
    import segyio

    folder.mkdir()
    random = np.random.default_rng(seed)
    for number in range(attributes):
        attribute = random.standard_normal(shape, np.float32)
        segyio.tools.from_array3D(str(folder / f"survey_{number:02d}.sgy"), attribute, format=5)


def starts(shape: Iterable[int], size: Iterable[int], stride: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """The first voxel of each patch."""
    x, y, z = (range(0, length - wide + 1, step) for length, wide, step in zip(shape, size, stride, strict=True))
    for i in x:
        for j in y:
            for k in z:
                yield i, j, k


def number_at(place: tuple[int, int, int]) -> int:
    """A number for the patch that begins there."""
    return (place[0] * 10_000 + place[1]) * 10_000 + place[2]


# --- the contenders ----------------------------------------------------------------------------


class _Cut(Contender):
    """Cuts the survey into `home`."""

    def __init__(self, survey: str, size: list[int], stride: list[int], home: str) -> None:
        self.survey, self.home = sorted(Path(survey).glob("*.sgy")), Path(home)
        self.size, self.stride = size, stride
        shape = self._shape()
        self.places = list(starts(shape, size, stride))
        self.patch_bytes = 4 * len(self.survey) * int(np.prod(size))
        self.amount = len(self.places) * self.patch_bytes / 1e6

    def _shape(self) -> tuple[int, ...]:
        import segyio

        with segyio.open(str(self.survey[0])) as file:
            return len(file.ilines), len(file.xlines), len(file.samples)

    def files(self) -> Iterable[str | Path]:
        return self.survey

    def round(self, number: int) -> dict[str, Any]:
        self.home.mkdir()
        answer: dict[str, Any] = {"amount": self.amount}
        with timed(answer):
            self.cut()
        return answer

    def cut(self) -> None:
        raise NotImplementedError

    def tidy(self) -> None:
        shutil.rmtree(self.home)


class Write(_Cut):
    """All bytes of the survey into memory that is used again, and as many out of it as the patches have."""

    def cut(self) -> None:
        buffer = bytearray(8 << 20)
        for path in self.survey:
            with path.open("rb", buffering=0) as source:
                while source.readinto(buffer):
                    pass
        patch = np.random.default_rng(0).bytes(self.patch_bytes)
        with (self.home / "all").open("wb", buffering=0) as sink:
            for _ in self.places:
                sink.write(patch)
            os.fsync(sink.fileno())


class Naive(_Cut):
    """All attributes in memory as one array; a file for each patch."""

    def cut(self) -> None:
        import segyio

        whole = np.stack([segyio.tools.cube(str(path)) for path in self.survey], axis=-1)
        for place in self.places:
            np.save(self.home / f"{number_at(place)}.npy", self._patch(whole, place))
        sync(self.home.iterdir())

    def _patch(self, whole: NDArray[Any], place: tuple[int, int, int]) -> NDArray[Any]:
        return whole[tuple(slice(first, first + length) for first, length in zip(place, self.size, strict=True))]

    def digest(self) -> str:
        found = Digest()
        for path in self.home.iterdir():
            found.add(int(path.stem), np.load(path))
        return found.text


class Ours(_Cut):
    """`voxelflow run`. The bytes are durable before the task says that it is done."""

    reads_itself = False

    def __init__(self, survey: str, size: list[int], stride: list[int], home: str, cold: bool = False) -> None:
        from benchmarks.pipelines import Benchwork, chain
        from engine.document.pipeline import Node

        super().__init__(survey, size, stride, home)
        self._work = Benchwork(self.home)
        params: dict[str, Any] = {"size": size, "stride": stride, "channels_from": "{cube}_{channel}.sgy"}
        nodes = [
            Node(id="folder", type="VolumeFolder", params={"folder": survey}),
            Node(id="before", type="SettleFiles", params={"drop": survey if cold else ""}),
            Node(id="cut", type="CutVolumes", params=params),
        ]
        self._document = chain("cut", nodes)

    def round(self, number: int) -> dict[str, Any]:
        ran = self._work.run(self._document)
        span = ran.tasks["cut"]
        self._out = span.outputs["out"]
        return {"amount": self.amount, "seconds": span.seconds, "peak": span.peak}

    def digest(self) -> str:
        import pyarrow.parquet as pq

        found = Digest()
        for path in Path(self._out.uri).iterdir():
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(16, columns=["x", "y", "z", "volume"]):
                    for row in batch.to_pylist():
                        found.add(number_at((row["x"], row["y"], row["z"])), row["volume"])
        return found.text

    def tidy(self) -> None:
        self._work.clean()

    def close(self) -> None:
        self._work.close()
