"""One probe from its first file to its last: what is written, read back, timed and removed, within its time.

    probe = probe_place("az://container/folder", ProbeParameters(), name="a-name-of-its-own")

Files that look like the person's volumes are written as far as time and space allow, then read: each kind of read
has its share of the time and takes what it can get in it. Before each, the system is asked to forget the files.
"""

from __future__ import annotations

import io
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import cycle, islice, repeat
from typing import TYPE_CHECKING, Literal

from engine.errors import UsageError
from engine.probes import RANDOM_BYTES, StorageProbe, Timed
from nodes.storage_probe.parameters import EXAMPLE, Epoch, ProbeParameters

if TYPE_CHECKING:
    from engine.declare.datasets import VolumeSpec
    from nodes.storage_probe.target import Target, VolumesThere

LARGEST_FILE = 16 << 20
"""Larger volumes are measured with files of this size."""
PART_BYTES = 16 << 20
"""Of a file of the table: a fraction of a real one (78 MB), so that a slow store takes several in its time."""
_PIECE = 8 << 20
_BATCH = 32
_SPACE_SHARE = 20
"""A probe takes no more than this part of the free space."""
_LEAST = 4
"""Operations of each kind at least, also when they take longer than their share of the time."""
_LOOKED_AT = 4
_MOST_PLACES = 200_000
_LISTINGS = 20
_ROUNDS = 2
"""Reads of each stream at least, where an object store is asked for many at once."""
# Shares of the time. The rest is for what is not timed: making the files, opening the table, cleaning up.
_WRITE_SMALL, _WRITE_LARGE, _SMALL, _SMALL_AT_ONCE = 0.12, 0.14, 0.16, 0.1
_RANDOM, _RANDOM_AT_ONCE, _SEQUENTIAL, _TABLE, _LIST = 0.08, 0.06, 0.08, 0.12, 0.03

Operation = Callable[[], int]
"""Does one thing; gives its bytes."""


def probe_place(
    place: str,
    parameters: ProbeParameters,
    *,
    name: str,
    epoch: Epoch | None = None,
    cores: int = 2,
    check: Callable[[], None] = lambda: None,
    report: Callable[[str], None] = lambda step: None,
    commit_point: Callable[[str], None] = lambda name: None,
) -> StorageProbe:
    """Measure a local folder, or a place in an object store, and leave nothing behind.

    `name` is that of the probe's folder there. Without an `epoch` the volumes in the place are taken, else an
    example. `check` is called between operations and may raise; `report` gets each step in a word or two.
    Raises `UsageError` when the place is not there, cannot be written or has too little space, `DataError` when
    a store does not answer meanwhile.
    """
    from nodes.storage_probe.others import OtherPrograms
    from nodes.storage_probe.target import target_at

    target = target_at(place, name, cores)
    began, measured_at = time.monotonic(), time.time()
    report("looking for volumes")
    if epoch is None:
        epoch = _epoch_there(target.volumes_there())
    work = _Work(target, parameters, epoch, cores, check)
    with target.opened():
        others = OtherPrograms()
        report("writing")
        small_writes, large_writes = work.write()
        commit_point("probe:written")
        report("reading small files")
        listing, listed_files, short_listing = work.list()
        small, at_once, cache = work.read_small()
        report("reading large files")
        random, random_at_once, sequential = work.read_large()
        report("reading a table")
        table = work.read_table()
        others_share = others.share()
        report("cleaning up")
        deletes = work.delete()
    from engine.environment import this_machine

    return StorageProbe(
        place=target.place,
        storage=target.storage,
        measured_at=measured_at,
        seconds=time.monotonic() - began,
        machine=this_machine(),
        others_share=others_share,
        cache=cache,
        file_bytes=work.file_bytes,
        bytes_written=work.written,
        small_reads=small,
        small_reads_at_once=at_once,
        random_reads=random,
        random_reads_at_once=random_at_once,
        sequential_reads=sequential,
        table_reads=table,
        listing=listing,
        listed_files=listed_files,
        short_listing=short_listing,
        small_writes=small_writes,
        large_writes=large_writes,
        deletes=deletes,
        epoch_files=epoch.files,
        epoch_file_bytes=epoch.file_bytes,
        epoch_is=epoch.origin,
    )


def _epoch_there(found: VolumesThere) -> Epoch:
    """The epoch of the volumes that lie in the place; an example where there are none."""
    if not found.bytes:
        return EXAMPLE
    each = max(1, found.bytes // found.count)
    if found.all_counted:
        return Epoch(found.count, each, "found")
    return Epoch(max(found.count, EXAMPLE.files), each, "like those found")


class _Work:
    """The files of one probe, and the time that it may take."""

    def __init__(
        self, target: Target, parameters: ProbeParameters, epoch: Epoch, cores: int, check: Callable[[], None]
    ) -> None:
        from engine.declare.datasets import VolumeSpec

        self._target, self._cores, self._check = target, cores, check
        self._seconds = parameters.seconds
        # A `.npy` file has a header of 128 bytes; its volume here is of float32.
        values = max(1, (min(epoch.file_bytes, LARGEST_FILE) - 128) // 4)
        self._spec: VolumeSpec = VolumeSpec(shape=(values, 1), dtype="float32")
        self.file_bytes = self._spec.volume_bytes + 128
        self._limit = parameters.limit_mb * 10**6
        free = target.space()
        if free is not None:
            self._limit = min(self._limit, free // _SPACE_SHARE)
        if self._limit < 2 * _LEAST * self.file_bytes:
            needed, may = 2 * _LEAST * self.file_bytes / 1e6, self._limit / 1e6
            short_of_space = self._limit < parameters.limit_mb * 10**6
            raise UsageError(
                f"a probe of {target.place} needs {needed:,.1f} MB, and may take {may:,.1f} MB",
                hint="Free some space there: a probe takes at most a twentieth of what is free."
                if short_of_space
                else f"Raise the limit (limit_mb, --limit-mb of `voxelflow probe`) to at least {math.ceil(needed)} MB.",
            )
        self.written = 0
        self._small: list[str] = []
        self._parts: dict[str, int] = {}

    # --- writing ----------------------------------------------------------------------------

    def write(self) -> tuple[Timed, Timed]:
        """Write small files, then large ones, half of the space each."""
        count = max(2 * _LEAST, self._limit // 2 // self.file_bytes)
        contents = _Contents(self._spec.volume_bytes)

        def write(number: int) -> Operation:
            data = contents.npy(number, self._spec)

            def one() -> int:
                name = f"small/{number:06d}.npy"
                self._target.write(name, data)
                self._small.append(name)
                return len(data)

            return one

        # At least as many as two kinds of reads take, each from files of its own.
        small = self._timed(map(write, range(count)), _WRITE_SMALL, self._target.streams, least=2 * _LEAST)
        self._small.sort()
        large = self._timed(self._part_writers(contents, self._limit - small.bytes), _WRITE_LARGE)
        self.written = small.bytes + large.bytes
        return small, large

    def _part_writers(self, contents: _Contents, left: int) -> Iterator[Operation]:
        size, most = self._spec.volume_bytes, max(1, PART_BYTES // self._spec.volume_bytes)
        rows, first = min(most, max(1, (1 << 20) // size)), 0
        while (rows := min(rows, left // size - 1)) > 0:
            data = contents.part(first, rows, self._spec)
            name = f"table/part-{len(self._parts):04d}.parquet"

            def write(name: str = name, data: bytes = data) -> int:
                self._target.write(name, data)
                self._parts[name] = len(data)
                return len(data)

            yield write
            first, left = first + rows, left - len(data)
            # Small ones first: a slow store is done with one before its time is over.
            rows = min(most, 2 * rows)

    # --- reading ----------------------------------------------------------------------------

    def list(self) -> tuple[Timed, int, Timed]:
        """List the folder of small files, then the nearly empty one of large files; and how many the first has."""
        count = 0

        def full() -> int:
            nonlocal count
            count = self._target.listed("small")
            return 0

        def short() -> int:
            self._target.listed("table")
            return 0

        listing = self._timed(repeat(full, _LISTINGS), _LIST, least=2)
        return listing, count, self._timed(repeat(short, _LISTINGS), _LIST, least=2)

    def read_small(self) -> tuple[Timed, Timed, Literal["cold", "warm", "unknown", "none"]]:
        """Small files one by one and several at a time; and whether the system had them.

        Of a local place each file is read once.
        """
        half = len(self._small) // 2
        self._target.forget([*self._small, *self._parts])
        cache = self._target.cache(self._small[:: max(1, len(self._small) // _LOOKED_AT)])

        def read(name: str) -> Operation:
            def one() -> int:
                self._target.read(name)
                return self.file_bytes

            return one

        one_by_one = self._timed(map(read, self._small[:half]), _SMALL)
        at_once = self._timed(map(read, self._read_at_once(self._small[half:])), _SMALL_AT_ONCE, self._target.streams)
        return one_by_one, at_once, cache

    def _read_at_once(self, names: Sequence[str]) -> Iterator[str]:
        """The files, and of an object store some again where they are too few to keep all streams busy."""
        if self._target.storage == "local":
            return iter(names)  # read again they would come from the system's cache
        return islice(cycle(names), max(len(names), _ROUNDS * self._target.streams))

    def read_large(self) -> tuple[Timed, Timed, Timed]:
        """Small ranges at random, one by one and several at a time; then large pieces in order."""
        places = _places(self._parts)
        half = len(places) // 2

        def at_random(where: tuple[str, int]) -> Operation:
            def one() -> int:
                self._target.read_range(*where, RANDOM_BYTES, at_random=True)
                return RANDOM_BYTES

            return one

        one_by_one = self._timed(map(at_random, places[:half]), _RANDOM)
        at_once = self._timed(map(at_random, places[half:]), _RANDOM_AT_ONCE, self._target.streams)
        self._target.forget(self._parts)
        pieces = [
            (name, start, min(_PIECE, size - start))
            for name, size in self._parts.items()
            for start in range(0, size, _PIECE)
        ]

        def in_order(piece: tuple[str, int, int]) -> Operation:
            def one() -> int:
                self._target.read_range(*piece)
                return piece[2]

            return one

        return one_by_one, at_once, self._timed(map(in_order, pieces), _SEQUENTIAL)

    def read_table(self) -> Timed:
        """Shuffled batches from the large files, by the loader that trains; an operation is a volume."""
        from nodes.loaders.interface import Reading

        times, seconds, volumes = list[float](), 0.0, 0
        until = self._until(_TABLE)
        with closing(self._target.table(self._parts, self._spec, self._cores)) as source:
            rows = source.rows_in()
            # Several batches also of a few volumes.
            loader = source.loader(rows, Reading(batch_size=max(1, min(_BATCH, len(rows) // _LEAST))))
            # A few files are soon read: epoch after epoch, each from the disk, until the time is over.
            while not times or time.monotonic() < until:
                self._target.forget(self._parts)
                began = before = time.perf_counter()
                with closing(loader.batches()) as batches:
                    for batch in batches:
                        now = time.perf_counter()
                        times.append((now - before) / len(batch.rows))
                        before, volumes = now, volumes + len(batch.rows)
                        self._check()
                        if time.monotonic() > until:
                            break
                seconds += before - began
        return _timed(times, volumes, volumes * self._spec.volume_bytes, seconds)

    def delete(self) -> Timed:
        """Remove the files, several at a time: all of them, however long it takes."""

        def remove(name: str) -> Operation:
            def one() -> int:
                self._target.delete(name)
                return 0

            return one

        names = [*self._small, *self._parts]
        return self._timed(map(remove, names), 1, self._target.streams, least=len(names))

    # --- timing -----------------------------------------------------------------------------

    def _until(self, share: float) -> float:
        return time.monotonic() + share * self._seconds

    def _timed(self, operations: Iterable[Operation], share: float, streams: int = 1, *, least: int = _LEAST) -> Timed:
        """Do operations, `streams` of them at a time, until there are no more or the share of the time is over.

        What it gives has no more streams than there were operations: never so many were under way.
        """
        waiting, lock = iter(operations), threading.Lock()
        until, began = self._until(share), time.perf_counter()
        times, amounts, ended = list[float](), list[int](), list[float]()
        started, stopped = 0, False

        def stream() -> None:
            nonlocal started
            while not stopped:
                with lock:
                    if started >= least and time.monotonic() > until:
                        return
                    operation = next(waiting, None)
                    if operation is None:
                        return
                    started += 1
                self._check()
                at = time.perf_counter()
                amount = operation()
                done = time.perf_counter()
                with lock:
                    times.append(done - at)
                    amounts.append(amount)
                    ended.append(done)

        if streams == 1:
            stream()
            # What is written is made between the operations.
            return _timed(times, len(times), sum(amounts), sum(times))
        with ThreadPoolExecutor(streams, thread_name_prefix="probe") as pool:
            try:
                for future in [pool.submit(stream) for _ in range(streams)]:
                    future.result()
            finally:
                stopped = True  # after an error the others must not go on to the end
        seconds = max(ended, default=began) - began
        return _timed(times, len(times), sum(amounts), seconds, max(1, min(streams, len(times))))


class _Contents:
    """Bytes that no file system or network can compress, and that differ from file to file."""

    def __init__(self, volume_bytes: int) -> None:
        import numpy as np

        self._size = volume_bytes
        self._random = np.random.default_rng(time.time_ns()).bytes(2 * volume_bytes + 8)

    def volume(self, number: int) -> bytes:
        """One volume's bytes."""
        start = (number * 7919) % self._size
        return number.to_bytes(4, "little") + self._random[start + 4 : start + self._size]

    def npy(self, number: int, spec: VolumeSpec) -> bytes:
        """A `.npy` file."""
        import numpy as np

        out = io.BytesIO()
        np.save(out, np.frombuffer(self.volume(number), "<f4").reshape(spec.shape), allow_pickle=False)
        return out.getvalue()

    def part(self, first: int, rows: int, spec: VolumeSpec) -> bytes:
        """A Parquet file of a table, with `rows` volumes from number `first` on."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from nodes.volume_file.layout import ROW_GROUP_ROWS, schema, writer_options

        columns = schema(spec)
        numbers = range(first, first + rows)
        table = pa.table(
            [
                pa.array([f"{number:08d}" for number in numbers]),
                pa.array([0.0] * rows, pa.float32()),
                pa.array([self.volume(number) for number in numbers], pa.binary()),
            ],
            schema=columns,
        )
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, columns, **writer_options()) as writer:
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        data: bytes = sink.getvalue().to_pybytes()
        return data


def _places(sizes: dict[str, int]) -> list[tuple[str, int]]:
    """Places for random reads in files of these sizes: in no order, none twice."""
    import numpy as np

    places = [
        (name, start) for name, size in sizes.items() for start in range(0, size - RANDOM_BYTES + 1, RANDOM_BYTES)
    ]
    return [places[number] for number in np.random.default_rng(0).permutation(len(places))[:_MOST_PLACES]]


def _timed(times: Sequence[float], operations: int, amount: int, seconds: float, streams: int = 1) -> Timed:
    import numpy as np

    p50, p95, p99 = (float(p) * 1000 for p in np.percentile(times or [0.0], (50, 95, 99)))
    return Timed(
        operations=operations, bytes=amount, seconds=seconds, streams=streams, p50_ms=p50, p95_ms=p95, p99_ms=p99
    )
