"""Chunks of rows made by Spark: one Spark task a chunk, each the same fast loop as embedded.

The chunks travel as an Arrow file in scratch, a record batch each, and a task gets its number alone: what
the driver holds does not grow with the rows. Tasks publish parts under names that identify their content, so two
tries of one chunk at once (speculation, a lost executor that lives on) end with one part; half-made files lie
in a folder of the try's own inside the driver's, which the driver removes when it ends, and the next run when
the driver was killed. A part counts once the manifest names it, and only the driver writes that.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from engine.declare.context import TaskContext
from engine.declare.progress import Meter
from nodes.conversion.make_parts import Chunks
from nodes.conversion.part_store import Outcome, PartStore
from nodes.conversion.part_writer import Layout, PartWriter, Row, RowSource
from nodes.conversion.row_ledger import rows_of
from nodes.spark.session import executor_point, results


def on_spark(chunks: Chunks, ctx: TaskContext, meter: Meter) -> Generator[tuple[int, Outcome], None, None]:
    """See `MakeChunks`. How many chunks are made side by side is Spark's business."""
    if len(chunks):
        from nodes.spark.load_delta import load_delta  # not where the executors import this module

        load_delta(ctx)
    # A name of its own: a task of a killed run that still lives must not read this run's chunks for its own.
    listing = ctx.scratch / f"chunks-{secrets.token_hex(8)}.arrow"
    try:
        _write(chunks, listing)
        making = chunks.making
        work = MakeChunk(making.source, making.store, making.layout, listing)
        numbers = range(len(chunks))
        found = results(ctx, numbers, work, meter=meter, amount=lambda number: len(chunks.places[number]))
        with contextlib.closing(found):
            for number, outcome in found:
                if outcome.part is not None and not outcome.reused:
                    ctx.commit_point("parquet:part-written")
                    ctx.commit_point("parquet:part-renamed")
                yield number, outcome
    finally:
        listing.unlink(missing_ok=True)


@dataclass(frozen=True)
class MakeChunk:
    """The work of one Spark task. `listing` holds the rows of all chunks."""

    source: RowSource
    store: PartStore
    layout: Layout
    listing: Path

    def __call__(self, number: int) -> Outcome:
        with self.store.attempt() as store:
            writer = PartWriter(self.source, store, self.layout, executor_point)
            outcome = writer.make(_read(self.listing, number), lambda _: None, lambda: False)
        assert outcome is not None, "nobody stops it"
        return outcome


def _write(chunks: Chunks, path: Path) -> None:
    writer = None
    with pa.OSFile(str(path), "wb") as sink, contextlib.ExitStack() as stack:
        for places in chunks.places:
            batch = chunks.making.ledger.batch(places)
            if writer is None:
                writer = stack.enter_context(pa.ipc.new_file(sink, batch.schema))
            writer.write_batch(batch)


def _read(path: Path, number: int) -> list[Row]:
    with pa.memory_map(str(path)) as source:
        return rows_of(pa.ipc.open_file(source).get_batch(number))
