"""From the rows of a source to a published set of Parquet parts: what to keep, what to make, in which order.

The rows are cut into chunks in their order, one chunk per part. Who makes the chunks is the caller's choice
(`in_threads`, `nodes.spark.make_chunks`); which they are, and what counts, is decided here. Every node that makes
volumes comes through `make_parts`:

    ledger = RowLedger(keys, ids, stamps, labels)              # a row for each volume to be made
    with opened_store(ctx) as store:
        return make_parts(Making(source, ledger, layout, store), ctx)

What the result holds of a source that has grown, changed or lost rows is what a first run would give; parts whose rows
are the same stay. What a killed run had finished is found by the chunks' records (`PartStore.recall`).
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.declare.context import TaskContext
from engine.declare.datasets import VolumeParquet
from engine.declare.progress import Meter
from engine.errors import DataError
from engine.storage import manifest
from engine.text import plural
from nodes.conversion.part_store import Outcome, PartStore
from nodes.conversion.part_writer import Layout, PartWriter, Row, RowSource
from nodes.conversion.quarantine import too_many, write_quarantine
from nodes.conversion.row_ledger import RowLedger, part_columns, part_key, rows_of
from nodes.volume_file.parts import Part, Parts, read_parts, write_parts

EXAMPLES = 3
"""Refused rows that an error names; all of them are in the list."""
_POLL_S = 0.5


@dataclass(frozen=True)
class Making:
    """What is to be made: the rows of `ledger`, read by `source`, as parts of `layout` in `store`.

    `threads` is how many the person asked for, 0 for as many as there are cores. More than `most_refused` refused rows
    stop the run; `limit_parameter` names the parameter that says so, if any. `left_out` rows were found and not asked
    for: they are no rows of the ledger, and only counted.
    """

    source: RowSource
    ledger: RowLedger
    layout: Layout
    store: PartStore
    threads: int = 0
    most_refused: int = 0
    limit_parameter: str = ""
    left_out: int = 0


@dataclass(frozen=True)
class Chunks:
    """The chunks that are to be made, one a part: `places` are those of each chunk's rows in the ledger."""

    making: Making
    places: Sequence[NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.places)

    def rows(self, number: int) -> list[Row]:
        """The rows of one chunk."""
        return rows_of(self.making.ledger.batch(self.places[number]))


MakeChunks = Callable[[Chunks, TaskContext, Meter], Generator[tuple[int, Outcome], None, None]]
"""Makes chunks: yields (number, outcome) of each as it is done, in any order, and advances the meter.

Closing the generator stops the work.
"""


@contextlib.contextmanager
def opened_store(ctx: TaskContext) -> Iterator[PartStore]:
    """The parts of a node's lineage, in `ctx.shared`."""
    store = PartStore(ctx.shared)
    store.open()
    try:
        yield store
    finally:
        store.close()


def in_threads(chunks: Chunks, ctx: TaskContext, meter: Meter) -> Generator[tuple[int, Outcome], None, None]:
    """Make the chunks in threads of this process; see `MakeChunks`.

    Each reads and writes its own chunks, so that one thread waits for the disk while another copies. Memory for data is
    threads x what a `PartWriter` takes.
    """
    making = chunks.making
    threads = min(_threads(making, ctx), len(chunks))
    writers: queue.Queue[PartWriter] = queue.Queue()
    for _ in range(threads):
        writers.put(PartWriter(making.source, making.store, making.layout, ctx.commit_point))
    messages: queue.Queue[int | tuple[int, Outcome | None] | BaseException] = queue.Queue()
    stop = threading.Event()

    def job(number: int) -> None:
        writer = writers.get()
        try:
            messages.put((number, writer.make(chunks.rows(number), messages.put, stop.is_set)))
        except BaseException as exc:
            messages.put(exc)
        finally:
            writers.put(writer)

    left = len(chunks)
    with ThreadPoolExecutor(threads, thread_name_prefix="parts") as pool:
        try:
            for number in range(len(chunks)):
                pool.submit(job, number)
            while left:
                ctx.check_cancelled()
                try:
                    message = messages.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                if isinstance(message, BaseException):
                    raise message
                if isinstance(message, int):
                    meter.add(message)
                elif message[1] is not None:
                    left -= 1
                    yield message[0], message[1]
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _threads(making: Making, ctx: TaskContext) -> int:
    resources = ctx.resources
    # One more than cores: while one thread waits for fsync the others keep the cores busy.
    wanted = making.threads or resources.cores + 1
    each = making.layout.writer_bytes + making.source.reader_bytes(making.layout)
    return max(1, min(wanted, resources.memory_bytes // each))


def make_parts(
    making: Making, ctx: TaskContext, make: MakeChunks = in_threads, *, doing: str = "converting"
) -> VolumeParquet:
    """Make the parts and publish the result in `ctx.out`, with its parts in `ctx.shared`.

    `make` makes the chunks; all else is the same for each way of it. `doing` is the work in a word, for progress.

    Raises `TooManyBadFiles` beyond `making.most_refused`, `DataError` when all rows are refused.
    """
    return _Work(making, ctx, make, doing).run()


@dataclass
class _Work:
    """One result at work: the parts so far, and who makes more."""

    making: Making
    ctx: TaskContext
    make: MakeChunks
    doing: str
    parts: list[Part] = field(default_factory=list)
    looked: int = 0

    @property
    def ledger(self) -> RowLedger:
        return self.making.ledger

    @property
    def layout(self) -> Layout:
        return self.making.layout

    @property
    def store(self) -> PartStore:
        return self.making.store

    @property
    def _key(self) -> str:
        return json.dumps(list(self.making.source.key()))

    def run(self) -> VolumeParquet:
        kept = self._keep_from_before()
        places = self.ledger.open_rows()
        self.looked = len(self.ledger) - len(places)
        self._check_limit()
        step = self.layout.file_rows
        chunks = [places[i : i + step] for i in range(0, len(places), step)]
        made, reused = self._make(chunks) if chunks else (0, 0)
        converted = sum(p.rows for p in self.parts)
        if not converted:
            raise self._nothing()
        old = kept + reused
        again = f", {plural(old, 'parts')} {'was' if old == 1 else 'were'} there already" if old else ""
        now = f"{plural(made, self.making.source.noun)} converted now{again}"
        self.ctx.info(f"{plural(converted, 'volumes')} in {plural(len(self.parts), 'parts')}; {now}")
        return self._publish(converted)

    def _keep_from_before(self) -> int:
        """Keep the parts of the previous result whose rows are all unchanged; how many."""
        before = self.ctx.previous.get("out")
        if not isinstance(before, VolumeParquet) or before.uri != str(self.store.parts):
            return 0
        if before.spec != self.layout.spec:
            return 0
        try:
            known = read_parts(before)
            sources = manifest.read(known.sources) if known.sources else None
        except (OSError, DataError):
            # It was cleaned away meanwhile, or is damaged: what is still whole is found by the chunks' records.
            return 0
        if sources is None:
            return 0
        if part_columns(sources) != self.layout.columns_text:
            self.ctx.info(f"the columns are others than before: all {self.making.source.noun} are converted again")
            return 0
        times = {p.path: time for p in known.parts if (time := self.store.holds(p)) is not None}
        whole = [replace(p, mtime_ns=times[p.path]) for p in known.parts if p.path in times]
        if part_key(sources) not in (None, self._key):
            self.ctx.info(f"volumes are made otherwise than before: all {self.making.source.noun} are converted again")
            return 0
        taken = self.ledger.take_over(sources, [p.path for p in whole])
        # Numbers in the ledger are places in `whole` until here; close the gaps.
        place = np.cumsum(taken) - 1
        has_part = self.ledger.part >= 0
        self.ledger.part[has_part] = place[self.ledger.part[has_part]]
        self.parts = [p for p, is_taken in zip(whole, taken.tolist(), strict=True) if is_taken]
        return len(self.parts)

    def _make(self, chunks: Sequence[NDArray[np.int64]]) -> tuple[int, int]:
        """Make the chunks; how many rows were read, and how many parts were found made."""
        meter = Meter(len(self.ledger), "volumes", self.doing, start=self.looked)
        outcomes: dict[int, Outcome] = {}
        with contextlib.closing(self.make(Chunks(self.making, chunks), self.ctx, meter)) as done:
            for number, outcome in done:
                outcomes[number] = outcome
                self._enter(chunks[number], outcome)
        meter.finish()
        self._number(chunks, outcomes)
        made = sum(len(chunks[n]) for n, outcome in outcomes.items() if not outcome.reused)
        return made, sum(outcome.reused for outcome in outcomes.values())

    def _enter(self, places: NDArray[np.int64], outcome: Outcome) -> None:
        self.looked += len(places)
        for bad in outcome.rejected:
            self.ledger.refuse(int(places[bad.place]), bad.reason, bad.sentence)
        self._check_limit()

    def _number(self, chunks: Sequence[NDArray[np.int64]], outcomes: dict[int, Outcome]) -> None:
        """Give the new parts their numbers, in the order of the chunks and not of their making."""
        for number, places in enumerate(chunks):
            outcome = outcomes[number]
            if outcome.part is None:
                continue
            refused = [bad.place for bad in outcome.rejected]
            self.ledger.part[np.delete(places, refused)] = len(self.parts)
            self.parts.append(outcome.part)

    def _check_limit(self) -> None:
        if self.ledger.refused <= self.making.most_refused:
            return
        listed = self._write_quarantine()
        raise too_many(
            self.ledger.counts(),
            self._examples(),
            limit=self.making.most_refused,
            looked=self.looked,
            found=len(self.ledger),
            listed=listed,
            noun=self.making.source.noun,
            parameter=self.making.limit_parameter,
        )

    def _nothing(self) -> DataError:
        listed = self._write_quarantine()
        examples = "; ".join(f"{name} {sentence}" for name, sentence in self._examples())
        return DataError(
            f"none of the {len(self.ledger)} {self.making.source.noun} can be converted, for example {examples}",
            hint=f"See {listed}, where all are listed.",
        )

    def _examples(self) -> list[tuple[str, str]]:
        return [(path, sentence) for path, _, sentence in islice(self.ledger.quarantine(), EXAMPLES)]

    def _write_quarantine(self) -> Path:
        path = self.ctx.out / "quarantine.csv"
        write_quarantine(self.ledger.quarantine(), path)
        return path

    def _publish(self, converted: int) -> VolumeParquet:
        ctx, ledger = self.ctx, self.ledger
        quarantine = self._write_quarantine()
        sources = ctx.out / "sources.arrow"
        ledger.write([p.path for p in self.parts], sources, self.layout.columns, self._key)
        parts = Parts(parts=tuple(self.parts), sources=str(sources), quarantine=str(quarantine))
        labelled = sum(p.labelled for p in self.parts)
        self.store.close()
        ctx.commit_point("parquet:before-manifest")
        write_parts(parts, ctx.out / "parts.json")
        ctx.commit_point("parquet:after-manifest")
        figures: dict[str, Any] = {
            "found": len(ledger) + self.making.left_out,
            "quarantined": ledger.refused,
            "labelled": labelled,
        }
        if self.making.left_out:
            figures["left_out"] = self.making.left_out
        ctx.facts(converted=converted, parts=len(self.parts), **figures)
        if ledger.refused:
            ctx.artifact("table", quarantine)
        return VolumeParquet(
            uri=str(self.store.parts),
            manifest=str(ctx.out / "parts.json"),
            count=converted,
            bytes=sum(p.bytes for p in self.parts),
            spec=self.layout.spec,
            **figures,
        )
