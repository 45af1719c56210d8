"""Results of benchmarks and probes that nobody measured: the law of steps with coefficients of one's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.advisor.sources import networks
from engine.advisor.steps import CPU, Terms, terms
from engine.bench.result import BenchData, BenchResult, BenchRow, Configuration
from engine.environment import Machine
from engine.probes import StorageProbe, Timed
from nodes.train_resnet3d import train_resnet3d

SHAPE = (30, 30, 10, 10)


def bench_row(configuration: Configuration, seconds: Terms = CPU, *, waiting_s: float = 0.0) -> BenchRow:
    """Eight steps that take what the law says, and wait so long each."""
    network = networks(train_resnet3d)(configuration)
    assert network is not None
    computing = terms(network, configuration.batch_size).times(seconds)
    return BenchRow(
        configuration=configuration,
        outcome="measured",
        steps=8,
        waiting_s=8 * waiting_s,
        computing_s=8 * computing,
        step_s=(computing + waiting_s,) * 8,
        processor_s=8 * computing,
        memory_bytes=2_000_000_000,
        latency_ms=0.1,
    )


def bench_result(name: str = "desk", *, batch_sizes: Iterable[int] = (8, 32), **more: Any) -> BenchResult:
    """A machine of two cores that computes as the reference."""
    rows = tuple(
        bench_row(Configuration(depth=18, shape=SHAPE, dtype="float32", batch_size=size)) for size in batch_sizes
    )
    machine = Machine(cores=2, memory_bytes=16 * 10**9)
    fields = {"name": name, "measured_at": 1.0, "seconds": 60.0, "machine": machine, "cores": 2, "rows": rows}
    return BenchResult(**fields | {"data": BenchData(volumes=256, bytes=256 * 360_000)} | more)


def timed(per_s: float, size: int, *, streams: int = 1, ms: float = 0.1) -> Timed:
    """A thousand operations at this rate, all as long as each other."""
    return Timed(
        operations=1000, bytes=1000 * size, seconds=1000 / per_s, streams=streams, p50_ms=ms, p95_ms=ms, p99_ms=ms
    )


def probe(place: str, *, files_per_s: float = 400.0, table_per_s: float = 4000.0, ms: float = 2.0) -> StorageProbe:
    """A place where `.npy` files of 360 kB come so fast, several at a time, and volumes of a table so fast."""
    size, common = 360_128, timed(500, 4096, ms=ms)
    return StorageProbe(
        place=place,
        storage="local" if "://" not in place else place.partition("://")[0],
        measured_at=2.0,
        seconds=20.0,
        machine=Machine(cores=2),
        cache="cold",
        file_bytes=size,
        bytes_written=10**8,
        small_reads=timed(files_per_s / 3, size, ms=3000 / files_per_s),
        small_reads_at_once=timed(files_per_s, size, streams=2, ms=2000 / files_per_s),
        random_reads=common,
        random_reads_at_once=common,
        sequential_reads=timed(50, 8 << 20),
        table_reads=timed(table_per_s, size),
        listing=common,
        listed_files=100,
        short_listing=common,
        small_writes=timed(300, size),
        large_writes=timed(10, 16 << 20),
        deletes=common,
        epoch_files=650_000,
        epoch_file_bytes=360_000,
        epoch_is="an example",
    )
