"""How fast volumes come: one law for every storage and loader, its figures from a probe or a benchmark.

    seconds a volume = (requests x latency + bytes x seconds a byte + processor time) / streams

but never less than the storage takes for one when it gives all that it has. A loader has `streams` requests under way
and reads ahead, so latency costs a share of itself and nothing at all while the training computes for longer.
`requests` is 1 for a file or a volume of a local table, and a 64th for a table in an object store, which is fetched by
row group. The processor time, of opening and checking and of each byte, is taken from the training as well on a machine
without an accelerator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Literal

from engine.bench.compare import WAITING
from engine.declare.workload import Access

if TYPE_CHECKING:
    from engine.bench.result import BenchResult, BenchRow
    from engine.probes import StorageProbe, Timed

Way = Literal["files", "table", "remote table"]
"""How volumes are stored: a file each, in a local table, in a table in an object store."""
_PROCESSOR_S: Mapping[Way, tuple[float, float]] = {
    "files": (1.2e-4, 4e-10),
    "table": (1.5e-5, 2.5e-10),
    "remote table": (2e-5, 2e-9),
}
"""Processor seconds for a volume, and for a byte of it, where nothing was measured: engine/README.md, *Measured*."""
_PETASTORM = 8.0
"""How many times as much petastorm takes, in the same measurements."""
_AT_LEAST = 0.05
"""Relative error of one probe: the same place gives so different figures at another time."""


@dataclass(frozen=True)
class InputModel:
    """The law of one way of storing, on one machine. `byte_s` are seconds a byte of one stream.

    `processor_s` is for a volume of `volume_bytes`. `spread` is the relative error (one deviation) of the law;
    `source` says where it is from.
    """

    latency_s: float
    byte_s: float
    access: Access
    processor_s: float
    volume_bytes: int
    spread: float
    source: str
    most_mb_s: float | None = None
    """What the disk or network carries in all."""
    most_per_s: float | None = None
    """Volumes a second that the storage gives at most, however many reads are under way."""

    def wait_s(self, streams: int) -> float:
        """Seconds between two volumes, with so many reads under way."""
        each = self.access.requests * self.latency_s + self.volume_bytes * self.byte_s
        least = self.volume_bytes / (self.most_mb_s * 1e6) if self.most_mb_s else 0.0
        if self.most_per_s:
            least = max(least, 1 / self.most_per_s)
        return max((each + self.processor_s) / streams, least)

    @property
    def cached(self) -> InputModel:
        """The same volumes from memory: they cost processor time alone."""
        return replace(self, latency_s=0.0, byte_s=0.0, most_mb_s=None, most_per_s=None)

    def farther(self, latency_s: float) -> InputModel:
        """The same storage with a longer way to it: each request takes so much longer."""
        return replace(self, latency_s=self.latency_s + latency_s)

    def limited(self, mb_s: float | None) -> InputModel:
        """Behind a disk or network that carries at most so many MB a second."""
        return replace(self, most_mb_s=mb_s or None)


def processor_seconds(way: Way, loader: str, volume_bytes: int) -> float:
    """What a volume takes of the processor where that was not measured."""
    fixed, byte = _PROCESSOR_S[way]
    return (fixed + byte * volume_bytes) * (_PETASTORM if loader == "petastorm" else 1.0)


def from_memory(way: Way, loader: str, access: Access, volume_bytes: int) -> InputModel:
    """The law of volumes that are in memory, where nothing was measured."""
    spent = processor_seconds(way, loader, volume_bytes)
    return InputModel(0.0, 0.0, access, spent, volume_bytes, UNKNOWN_SPREAD, "")


UNKNOWN_SPREAD = 0.5
"""Relative error where nothing was measured."""


def from_probe(probe: StorageProbe, way: Way, loader: str, access: Access, volume_bytes: int) -> InputModel:
    """The law that a probe's figures give for a way of storing."""
    requests = 1.0 if way == "files" else access.requests
    each = _of_one_stream(probe, way, access)
    # One wait for several requests, as the system reads ahead: no volume waits for longer than it takes.
    latency_s = min(probe.random_reads.p50_ms / 1000, each / requests)
    # What one stream needs beside the latency, spread over the bytes.
    byte_s = (each - requests * latency_s) / probe.file_bytes
    most = probe.small_reads_at_once.per_s if way == "files" else 0.0
    if most:
        # Of volumes that take one stream longer, the storage gives fewer.
        most *= each / (latency_s + volume_bytes * byte_s)
    return InputModel(
        latency_s=latency_s,
        byte_s=byte_s,
        access=access,
        processor_s=processor_seconds(way, loader, volume_bytes),
        volume_bytes=volume_bytes,
        spread=_spread_of(probe.small_reads if way == "files" else probe.random_reads),
        source=f"the probe of {probe.place}",
        most_per_s=most or None,
    )


def _of_one_stream(probe: StorageProbe, way: Way, access: Access) -> float:
    """Seconds that a stream waits for a volume while the storage has more to give; 0 where nothing was measured.

    Of many reads at once the store may be full: what each then takes says nothing of the few that a loader has.
    """
    if way != "files":
        volumes = probe.table_reads
        return access.on(probe.machine.cores) / volumes.per_s if volumes.per_s else 0.0
    alone, at_once = probe.small_reads, probe.small_reads_at_once
    times = [reads.streams / reads.per_s for reads in (alone, at_once) if reads.per_s]
    # One by one comes first, and may have waited for the connections too: nothing is faster for being one of many.
    return min(times, default=0.0)


def _spread_of(reads: Timed) -> float:
    """The relative error of a mean of so many operations, by how far a slow one is from a usual one."""
    if reads.p50_ms <= 0 or reads.p95_ms <= 0:
        return UNKNOWN_SPREAD
    deviation = abs(math.log(reads.p95_ms / reads.p50_ms)) / 1.64
    return max(_AT_LEAST, deviation / math.sqrt(max(1, reads.operations)))


def from_bench(
    result: BenchResult, way: Way, loader: str, access: Access, volume_bytes: int, *, cold: bool, remote: bool = False
) -> InputModel | None:
    """The law that a benchmark's rows give, cold or cached; None where no row was limited by its input.

    Of files `remote` says whether they lie in an object store: a local disk says nothing of one.
    """
    rows = [row for row in result.measured if is_way(row, way) and row.configuration.loader == loader]
    if way == "files":
        rows = [row for row in rows if _is_local(row) is not remote]

    def streams_of(row: BenchRow) -> int:
        return access.on(result.cores, row.configuration.workers)

    waited = [
        row
        for row in rows
        if (row.configuration.input == "cold") is cold and row.waiting_s >= WAITING * row.total_s and row.steps
    ]
    spent = _processor_s(result, rows, way, loader, volume_bytes)
    if not waited and (cold or spent is None):
        return None
    if spent is None:
        spent = processor_seconds(way, loader, volume_bytes)
    if not waited:
        return InputModel(0.0, 0.0, access, spent, volume_bytes, _AT_LEAST, f"the benchmark {result.name}")
    laws = []
    for row in waited:
        each = streams_of(row) / row.samples_per_s
        each = max(0.0, each - _in_proportion(spent, way, loader, volume_bytes, row.configuration.volume_bytes))
        latency_s = min((row.latency_ms or 0.0) / 1000, each / access.requests) if cold else 0.0
        rest = each - access.requests * latency_s
        laws.append((latency_s, rest / row.configuration.volume_bytes))
    latency_s, byte_s = median(law[0] for law in laws), median(law[1] for law in laws)
    model = InputModel(latency_s, byte_s, access, spent, volume_bytes, _AT_LEAST, f"the benchmark {result.name}")
    errors = []
    for row in waited:
        own = row.configuration.volume_bytes
        found = _in_proportion(spent, way, loader, volume_bytes, own)
        each = replace(model, volume_bytes=own, processor_s=found).wait_s(streams_of(row))
        errors.append(math.log(row.samples_per_s * each))
    return replace(model, spread=max(_AT_LEAST, math.sqrt(sum(e * e for e in errors) / len(errors))))


def _in_proportion(spent: float, way: Way, loader: str, measured_bytes: int, volume_bytes: int) -> float:
    """What a volume of one size takes of the processor, if one of another size takes `spent`.

    Not in proportion to the bytes: most of what a small file costs is its name.
    """
    law = (processor_seconds(way, loader, size) for size in (volume_bytes, measured_bytes))
    return spent * next(law) / next(law)


def _processor_s(
    result: BenchResult, rows: Sequence[BenchRow], way: Way, loader: str, volume_bytes: int
) -> float | None:
    """Processor seconds that reading a volume takes: of rows beside those that computed the same from memory."""
    plain = {
        row.configuration.model_copy(update={"loader": "", "storage": ""}): row.processor_s_per_volume
        for row in result.measured
        if row.configuration.input == "synthetic" and row.processor_s
    }
    found = []
    for row in rows:
        same = row.configuration.model_copy(update={"loader": "", "storage": "", "input": "synthetic"})
        if row.configuration.input == "cached" and same in plain and row.processor_s:
            more = max(0.0, row.processor_s_per_volume - plain[same])
            found.append(_in_proportion(more, way, loader, row.configuration.volume_bytes, volume_bytes))
    return median(found) if found else None


def is_way(row: BenchRow, way: Way) -> bool:
    """Whether the row's volumes were stored so."""
    configuration = row.configuration
    if not configuration.loader:
        return False
    if configuration.loader == "npy":
        return way == "files"
    return way == ("table" if _is_local(row) else "remote table")


def _is_local(row: BenchRow) -> bool:
    return row.configuration.storage in ("", "local")


def best_known(models: Iterable[InputModel | None]) -> InputModel | None:
    """The first that is known."""
    return next((model for model in models if model is not None), None)
