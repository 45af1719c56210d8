"""An epoch of shuffled batches from object storage: Azurite on loopback, and with a delay added to each request.

The volumes lie in Azurite as `.npy` objects and as the Delta table that our nodes make of them there. Ours is the
loader that TrainResNet3D uses, as it is and with its local cache (whose first epoch is the warm-up's). The limit is how
fast the server hands out the table's files in large pieces. In the delayed race a proxy holds back each request
(`tests/support/slow_network.py`).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.data import ReadingData, SourceFiles, add_data_options, make, shape_of
from benchmarks.race import Contender, Entry, Race, race
from benchmarks.readers import ArrowDataset, Batches, OurLoader, Reader
from benchmarks.reports import Aim, Report, aim_of

if TYPE_CHECKING:
    from object_stores import ObjectStore

LIMIT, ONE_BY_ONE = "the table's files, whole", "objects one by one"
_PIECE = 8 << 20
_STREAMS = 8


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data_options(parser, 800)
    parser.add_argument("--batch", type=int, default=32, help="volumes in a batch (default: 32)")
    parser.add_argument("--delay-ms", type=float, nargs="+", default=[0, 20], help="added to a request (default: 0 20)")


def run(options: argparse.Namespace, folder: Path) -> Report:
    from object_stores import azurite
    from slow_network import delayed

    count = -(-options.volumes // options.batch) * options.batch
    source = make(folder / "volumes", count, shape_of(options.shape), options.seed)
    races, aims = [], list[Aim]()
    with azurite() as store:
        table = _fill(store, source, folder)
        for delay in options.delay_ms:
            with delayed(store, delay) as endpoint:
                data = ReadingData(str(source.folder), table, "", "", (), source.shape, options.batch, count)
                found = _race(options, folder, data, delay, endpoint)
            races.append(found)
            aims.append(aim_of(found, "ours, arrow", ONE_BY_ONE, 20 if delay else 5))
    return Report("storage", races, aims=aims)


def _fill(store: ObjectStore, source: SourceFiles, folder: Path) -> str:
    """Put the volumes into the store and let our nodes make the table; gives its reference."""
    from benchmarks.pipelines import Benchwork, chain
    from engine.document.pipeline import Node
    from engine.storage.objects import RemotePath

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


def _race(options: argparse.Namespace, folder: Path, data: ReadingData, delay: float, store: ObjectStore) -> Race:
    def entry(name: str, kind: str, program: type[Contender], **more: object) -> Entry:
        arguments = {"data": data.as_json(), "environment": dict(store.environment)}
        keep = {key: more.pop(key) for key in ("delivers", "rounds") if key in more}
        return Entry(name, kind, program, arguments | more, **keep)  # type: ignore[arg-type]

    cache = str(folder / f"cache-{delay:g}")
    entries = [
        entry(LIMIT, "limit", WholeFiles, delivers=""),
        entry("ours, arrow", "ours", RemoteTable),
        entry("ours, arrow, cached", "ours", RemoteTable, cache=cache),
        entry(ONE_BY_ONE, "peer", Objects, threads=1, rounds=2 if delay else 1_000),
        entry("objects, 16 threads", "peer", Objects, threads=16),
        entry("delta-rs and pyarrow dataset, in order", "peer", DeltaRs),
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


# --- the contenders ----------------------------------------------------------------------------


class RemoteTable(OurLoader):
    """Our loader over the table, with a cache in the folder `cache` if one is named."""

    def __init__(self, data: dict[str, Any], environment: dict[str, str], cache: str = "") -> None:
        os.environ |= environment
        if cache:
            os.environ |= {"VOXELFLOW_CACHE": cache, "VOXELFLOW_CACHE_GB": "8"}
        super().__init__(data, "arrow")


class _Remote(Reader):
    def __init__(self, data: dict[str, Any], environment: dict[str, str]) -> None:
        os.environ |= environment
        super().__init__(data)

    @property
    def container(self) -> Any:
        from obstore.store import AzureStore

        return AzureStore("benchmark")


class Objects(_Remote):
    """Each volume is an object of its own, fetched with a request of its own."""

    def __init__(self, data: dict[str, Any], environment: dict[str, str], threads: int) -> None:
        self._threads = threads
        super().__init__(data, environment)

    def open(self) -> None:
        self._store = self.container
        self._names = [f"volumes/{path.name}" for path in self.data.npy_paths]
        self._pool = ThreadPoolExecutor(self._threads)

    def _get(self, number: int) -> np.ndarray:
        import obstore

        return np.load(io.BytesIO(obstore.get(self._store, self._names[number]).bytes()))  # type: ignore[no-any-return]

    def epoch(self, number: int) -> Batches:
        # All are asked for at once: of those that wait, the pool takes the next.
        volumes: Iterator[np.ndarray] = (
            map(self._get, self.order(number)) if self._threads == 1 else self._pool.map(self._get, self.order(number))
        )
        for rows in self.steps(number):
            yield rows, np.stack([next(volumes) for _ in rows])


class DeltaRs(_Remote, ArrowDataset):
    """What delta-rs offers for its tables, in the table's order."""


class WholeFiles(_Remote):
    """The table's files in large pieces, several under way, and nothing done with them."""

    def open(self) -> None:
        import obstore

        self._store = self.container
        found = [meta for chunk in obstore.list(self._store, "table/") for meta in chunk]
        files = [(m["path"], m["size"]) for m in found if m["path"].endswith(".parquet") and "/_" not in m["path"]]
        self._pieces = [(path, at) for path, size in files for at in range(0, size, _PIECE)]
        self._pool = ThreadPoolExecutor(_STREAMS)

    def round(self, number: int) -> dict[str, Any]:
        import obstore

        def get(piece: tuple[str, int]) -> int:
            return len(obstore.get_range(self._store, piece[0], start=piece[1], length=_PIECE))

        began = time.perf_counter()
        read = sum(self._pool.map(get, self._pieces))
        assert read >= self.data.count * 4 * int(np.prod(self.data.shape))
        return {"amount": self.data.count, "seconds": time.perf_counter() - began}
