"""`python -m tests.torture [KIND ...]`: break runs in every way that a machine can, and judge what is left.

Prints a table with the rounds of each kind that passed and failed, and for each failure the command that repeats it.
The exit status is 1 when a round failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from forked_programs import forking
from io_faults import FaultyDisk, build_library

from tests.torture.kinds import KINDS
from tests.torture.rounds import Kind, Tally, World, as_json, play, table
from tests.torture.scene import scene_in
from tests.torture.warm import LIBRARY, PREPARED

IN_MEMORY = Path("/dev/shm")
"""A file system without a disk, on Linux: rounds make thousands of small files."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [kind.name for kind in KINDS]
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"one or more of {', '.join(names)} (default: all)")
    parser.add_argument("--rounds", type=int, help="of each kind (default: every one, or as many as are usual)")
    parser.add_argument("--seed", type=int, default=0, help="the first round; the next ones follow (default: 0)")
    parser.add_argument("--call", help='of failed calls: just this one, such as "grown optimize 480"')
    parser.add_argument("--minutes", type=float, help="end each kind after so long")
    parser.add_argument("--short", action="store_true", help="a few rounds with fixed seeds, as in CI")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--folder", type=Path, help="where the workspaces go (default: memory, else temporary)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.kinds if name not in names]
    if unknown:
        parser.error(f"unknown kind {unknown[0]}; there are {', '.join(names)}")
    wanted = [kind for kind in KINDS if not options.kinds or kind.name in options.kinds]
    minutes = options.minutes if options.minutes is not None else float("inf")
    tallies = []
    for tally in campaign(
        wanted, options.seed, options.rounds, minutes, short=options.short, folder=options.folder, call=options.call
    ):
        tallies.append(tally)
        if options.json:
            options.json.write_text(as_json(tallies))
    print(table(tallies), flush=True)
    if options.call and all(tally.not_run for tally in tallies):
        return 1
    return int(any(tally.findings for tally in tallies))


def campaign(
    kinds: Sequence[type[Kind]],
    seed: int = 0,
    rounds: int | None = None,
    minutes: float = float("inf"),
    *,
    short: bool = False,
    folder: Path | None = None,
    call: str | None = None,
) -> Iterator[Tally]:
    """The rounds of each kind in turn, in `folder` or in memory; kinds of one environment share a world."""
    for environment, group in groupby(kinds, lambda kind: kind.environment()):
        tried = [kind for kind in group if kind.short or not short]
        if not tried:
            continue
        with world(environment, folder, short=short and rounds is None) as made:
            for kind in tried:
                seeds: Sequence[int] | str | None = kind.short if short else call
                if rounds is not None:
                    seeds = range(seed, seed + rounds)
                tally = play(kind, made, seeds, time.monotonic() + 60 * minutes, lambda line: print(line, flush=True))
                took = f"{tally.rounds} rounds in {tally.seconds:.0f} s, {len(tally.findings)} failed"
                print(f"{kind.name}: {tally.not_run or took}", flush=True)
                yield tally


@contextmanager
def world(own: Mapping[str, str], folder: Path | None, *, short: bool = False) -> Iterator[World]:
    """Where rounds take place whose processes have this in their environment."""
    place = folder or (IN_MEMORY if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > 1 << 30 else None)
    with tempfile.TemporaryDirectory(prefix="torture-", dir=place) as base:
        root = Path(base).resolve()
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **own}
        disk, preload = None, {}
        if shutil.which("cc") and sys.platform == "linux":
            library = build_library(root)
            disk = FaultyDisk(library, root / "scene", root / "control")
            environment[LIBRARY] = str(library)
            preload = disk.environment
        with (
            forking(root, PREPARED, environment | preload) as forks,
            forks.used(),
            scene_in(root, environment, forks) as scene,
        ):
            yield World(root, scene, disk, forks, short)


if __name__ == "__main__":
    # Ended from outside, it still removes its data and ends its processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
