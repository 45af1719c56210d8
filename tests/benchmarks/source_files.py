"""The volumes that everybody gets: a folder of `.npy` files with labels."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.benchmarks.digests import Digest


@dataclass(frozen=True)
class SourceFiles:
    """`paths` in the order of their numbers; `digest` of them all."""

    folder: Path
    paths: tuple[Path, ...]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    @property
    def volume_bytes(self) -> int:
        return 4 * int(np.prod(self.shape))

    def digest(self, count: int | None = None) -> str:
        """Of the first `count` volumes (None: of all)."""
        found = Digest()
        for path in self.paths[:count]:
            found.add(path.name, np.load(path))
        return found.text


def add_data_options(parser: argparse.ArgumentParser, volumes: int) -> None:
    parser.add_argument("--volumes", type=int, default=volumes, help=f"how many (default: {volumes})")
    parser.add_argument("--shape", default="30,30,10,10", help="of a volume, float32 (default: 30,30,10,10)")


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
