"""Chunks of source files converted by Spark: one Spark task a chunk, each the same fast loop as embedded.

The chunks travel as an Arrow file in scratch, a record batch each, and a task is told its number alone: what
the driver holds does not grow with the files. Tasks publish parts under names that tell their content, so two
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

from engine.context import TaskContext
from engine.progress import Meter
from nodes.conversion.chunks import Chunks
from nodes.conversion.part_writer import Layout, Outcome, PartStore, PartWriter, SourceFile
from nodes.spark.results import executor_point, results

_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("id", pa.string()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("label", pa.float32()),
    ]
)


def convert_on_spark(chunks: Chunks, ctx: TaskContext, meter: Meter) -> Generator[tuple[int, Outcome], None, None]:
    """See `ConvertChunks`. How many chunks are converted side by side is Spark's business."""
    # A name of its own: a task of a killed run that still lives must not read this run's chunks for its own.
    listing = ctx.scratch / f"chunks-{secrets.token_hex(8)}.arrow"
    try:
        _write(chunks, listing)
        work = ConvertChunk(chunks.source, chunks.store, chunks.layout, listing)
        numbers = range(len(chunks))
        found = results(ctx, numbers, work, meter=meter, amount=lambda number: len(chunks.rows[number]))
        with contextlib.closing(found):
            for number, outcome in found:
                if outcome.part is not None and not outcome.reused:
                    ctx.commit_point("parquet:part-written")
                    ctx.commit_point("parquet:part-renamed")
                yield number, outcome
    finally:
        listing.unlink(missing_ok=True)


@dataclass(frozen=True)
class ConvertChunk:
    """The work of one Spark task. `listing` holds the files of all chunks."""

    source: str
    store: PartStore
    layout: Layout
    listing: Path

    def __call__(self, number: int) -> Outcome:
        with self.store.attempt() as store:
            writer = PartWriter(self.source, store, self.layout, executor_point)
            outcome = writer.convert(_read(self.listing, number), lambda _: None, lambda: False)
        assert outcome is not None, "nobody stops it"
        return outcome


def _write(chunks: Chunks, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        for number in range(len(chunks)):
            columns = zip(*chunks.files(number), strict=True)
            writer.write_batch(
                pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)
            )


def _read(path: Path, number: int) -> list[SourceFile]:
    with pa.memory_map(str(path)) as source:
        columns = pa.ipc.open_file(source).get_batch(number).to_pydict()
    return [SourceFile(*fields) for fields in zip(*columns.values(), strict=True)]
