"""Everybody who hands out batches of volumes from object storage (`readers` has those of local files)."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tests.benchmarks.readers import Batches, OurLoader, Reader

_PIECE = 8 << 20
_STREAMS = 8
_ROWS = 64


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


class DeltaRs(_Remote):
    """What delta-rs offers for its tables, in the table's order."""

    def open(self) -> None:
        from deltalake import DeltaTable

        self._dataset = DeltaTable(self.data.delta.uri, version=self.data.delta.version).to_pyarrow_dataset()

    def epoch(self, number: int) -> Batches:
        for batch in self._dataset.to_batches(columns=["id", "volume"], batch_size=_ROWS):
            values = [np.frombuffer(value.as_buffer(), np.float32) for value in batch["volume"]]
            if values:
                yield batch["id"].to_pylist(), np.stack(values).reshape(-1, *self.data.shape)


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
