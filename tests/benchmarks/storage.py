"""An epoch of shuffled batches from object storage: Azurite on loopback, and with a delay added to each request.

The volumes lie in Azurite as `.npy` objects and as the Delta table that our nodes make of them there. Ours is the
loader that TrainResNet3D uses, as it is and with its local cache (whose first epoch is the warm-up's). The limit is how
fast the server hands out the table's files in large pieces. In the delayed race a proxy holds back each request.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.benchmarks.race import ROOT, Entry, Race, race
from tests.benchmarks.reading_data import ReadingData
from tests.benchmarks.reports import Aim, Report, aim_of
from tests.benchmarks.source_files import SourceFiles, add_data_options, make, shape_of
from tests.support.object_stores import ObjectStore, azurite

_HOME = "tests.benchmarks.storage_readers"
LIMIT, ONE_BY_ONE = "the table's files, whole", "objects one by one"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser, 800)
    parser.add_argument("--batch", type=int, default=32, help="volumes in a batch (default: 32)")
    parser.add_argument("--delay-ms", type=float, nargs="+", default=[0, 20], help="added to a request (default: 0 20)")


def run(options: argparse.Namespace, folder: Path) -> Report:
    count = -(-options.volumes // options.batch) * options.batch
    source = make(folder / "volumes", count, shape_of(options.shape), options.seed)
    races, aims = [], list[Aim]()
    with azurite() as store:
        table = _fill(store, source, folder)
        for delay in options.delay_ms:
            with _delayed(store, delay) as endpoint:
                data = ReadingData(str(source.folder), table, "", "", (), source.shape, options.batch, count)
                found = _race(options, folder, data, delay, endpoint)
            races.append(found)
            aims.append(aim_of(found, "ours, arrow", ONE_BY_ONE, 20 if delay else 5))
    return Report("storage", races, aims=aims)


def _fill(store: ObjectStore, source: SourceFiles, folder: Path) -> str:
    """Put the volumes into the store and let our nodes make the table; gives its reference."""
    from engine.pipeline import Node
    from engine.storage.objects import RemotePath
    from tests.benchmarks.pipelines import Benchwork, chain

    os.environ |= store.environment
    url = store.make_container("benchmark")
    for path in (*source.paths, source.folder / "labels.csv"):
        (RemotePath.at(url) / "volumes" / path.name).upload(path)
    work = Benchwork(folder / "workspace")
    mark = work.workspace.root / "workspace.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"data_roots": [url]}))
    boxes = [
        Node(id="volumes", type="VolumeFolder", params={"folder": f"{url}/volumes"}),
        Node(id="convert", type="NumpyToParquet"),
        Node(id="table", type="ParquetToDelta", params={"table": f"{url}/table"}),
        Node(id="optimize", type="OptimizeDelta"),
    ]
    ran = work.run(chain("storage", boxes))
    work.close()
    return ran.out("optimize").model_dump_json()


@contextmanager
def _delayed(store: ObjectStore, delay_ms: float) -> Iterator[ObjectStore]:
    if not delay_ms:
        yield store
        return
    command = [sys.executable, "-m", "tests.benchmarks.slow_proxy", store.address, str(delay_ms)]
    with ExitStack() as stack:
        proxy = stack.enter_context(
            subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        assert proxy.stdout is not None
        yield store.through(f"http://{proxy.stdout.readline().strip()}")


def _race(options: argparse.Namespace, folder: Path, data: ReadingData, delay: float, store: ObjectStore) -> Race:
    def entry(name: str, kind: str, program: str, **more: object) -> Entry:
        arguments = {"data": data.as_json(), "environment": dict(store.environment)}
        keep = {key: more.pop(key) for key in ("delivers", "rounds") if key in more}
        return Entry(name, kind, f"{_HOME}:{program}", arguments | more, **keep)  # type: ignore[arg-type]

    cache = str(folder / f"cache-{delay:g}")
    entries = [
        entry(LIMIT, "limit", "WholeFiles", delivers=""),
        entry("ours, arrow", "ours", "RemoteTable"),
        entry("ours, arrow, cached", "ours", "RemoteTable", cache=cache),
        entry(ONE_BY_ONE, "peer", "Objects", threads=1, rounds=2 if delay else 1_000),
        entry("objects, 16 threads", "peer", "Objects", threads=16),
        entry("delta-rs and pyarrow dataset, in order", "peer", "DeltaRs"),
    ]
    return race(
        f"an epoch from Azurite, {delay:g} ms added" if delay else "an epoch from Azurite on loopback",
        entries,
        unit="samples/s",
        limit=LIMIT,
        rounds=options.rounds,
        seed=options.seed,
        folder=folder,
    )
