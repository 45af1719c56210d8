"""From a listing of `.npy` files to a published set of Parquet parts: what to keep, what to make, in which order.

The listing is cut into chunks in sorted order, one chunk a part. Who converts the chunks is the caller's choice
(`nodes.conversion.convert_threads`, `nodes.spark.convert_chunks`); which they are, and what counts, is decided here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine import manifest
from engine.context import TaskContext
from engine.datasets import VolumeFiles, VolumeParquet, VolumeSpec
from engine.errors import DataError
from engine.progress import Meter
from nodes.conversion.chunks import Chunks, ConvertChunks
from nodes.conversion.convert_threads import convert_in_threads
from nodes.conversion.label_values import nfc
from nodes.conversion.labels import LabelRule, find_labels
from nodes.conversion.npy_files import sample_headers, spread
from nodes.conversion.part_writer import Layout, Outcome, PartStore
from nodes.conversion.quarantine import too_many, write_quarantine
from nodes.conversion.source_ledger import SourceLedger
from nodes.conversion.volume_sources import label_table
from nodes.volume_parts import Part, Parts, read_parts, write_parts

EXAMPLES = 3
"""Bad files that an error names; all of them are in the list."""


@dataclass(frozen=True)
class Choices:
    """What the person chose; see the parameters of NumpyToParquet."""

    labels: LabelRule
    refuse_unlabelled: bool
    refuse_not_finite: bool
    max_bad_files: int
    target_bytes: int
    compression: str
    row_group_rows: int
    threads: int


def convert_files(
    files: VolumeFiles, choices: Choices, ctx: TaskContext, convert: ConvertChunks = convert_in_threads
) -> VolumeParquet:
    """Convert `files` and publish the result in `ctx.out`, with its parts in `ctx.shared`.

    `convert` makes the parts; all else is the same whoever does.

    Raises `TooManyBadFiles` beyond `choices.max_bad_files`, `DataError` when nothing can be converted.
    """
    listing = manifest.read(files.manifest)
    if not len(listing):
        raise DataError(f"there is no .npy file in {files.uri}", hint="Choose the folder with the volumes.")
    paths = listing["path"].combine_chunks()
    ids = nfc(paths)
    labels = find_labels(ids, replace(choices.labels, found=label_table(listing, files.uri, ctx.scratch)))
    if labels.rows_without_file:
        ctx.warn(f"{labels.rows_without_file} rows of {labels.told_by} name no file of {files.uri}")
    spec = _spec(files, listing).model_copy(update={"classes": labels.classes})
    layout = Layout(
        spec=spec,
        target_bytes=choices.target_bytes,
        row_group_rows=choices.row_group_rows,
        compression=choices.compression,
        finite=choices.refuse_not_finite,
    )
    ledger = SourceLedger(listing, paths, ids, labels.values)
    ledger.refuse_double_ids()
    ledger.refuse_by_label(labels.conflicts, missing=choices.refuse_unlabelled)
    store = PartStore(ctx.shared)
    store.open()
    try:
        return _Conversion(files, choices, layout, ledger, store, ctx, convert).run()
    finally:
        store.close()


class _Conversion:
    """One conversion on its way: the ledger, the parts so far, and who makes more."""

    def __init__(
        self,
        files: VolumeFiles,
        choices: Choices,
        layout: Layout,
        ledger: SourceLedger,
        store: PartStore,
        ctx: TaskContext,
        convert: ConvertChunks,
    ) -> None:
        self._files, self._choices, self._layout = files, choices, layout
        self._ledger, self._store, self._ctx = ledger, store, ctx
        self._convert = convert
        self._parts: list[Part] = []
        self._looked = 0

    def run(self) -> VolumeParquet:
        kept = self._keep_from_before()
        rows = self._ledger.open_rows()
        self._looked = len(self._ledger) - len(rows)
        self._check_limit()
        step = self._layout.part_rows
        chunks = [rows[i : i + step] for i in range(0, len(rows), step)]
        made, reused = self._make(chunks) if chunks else (0, 0)
        converted = sum(p.rows for p in self._parts)
        if not converted:
            raise self._nothing()
        again = f", {kept + reused} parts were there already" if kept + reused else ""
        self._ctx.info(f"{converted} volumes in {len(self._parts)} parts; {made} files converted now{again}")
        return self._publish(converted)

    def _keep_from_before(self) -> int:
        """Take over the parts of the previous result whose sources are all unchanged; how many."""
        before = self._ctx.previous.get("out")
        if not isinstance(before, VolumeParquet) or before.uri != str(self._store.parts):
            return 0
        if before.spec != self._layout.spec:
            return 0
        try:
            known = read_parts(before)
            sources = manifest.read(known.sources) if known.sources else None
        except (OSError, ValueError, pa.ArrowException):
            # It was cleaned away meanwhile: what still stands is found by the chunks' records.
            return 0
        if sources is None:
            return 0
        times = {p.path: time for p in known.parts if (time := self._store.holds(p)) is not None}
        standing = [replace(p, mtime_ns=times[p.path]) for p in known.parts if p.path in times]
        taken = self._ledger.take_over(sources, [p.path for p in standing])
        # Numbers in the ledger are places in `standing` until here; close the gaps.
        place = np.cumsum(taken) - 1
        has_part = self._ledger.part >= 0
        self._ledger.part[has_part] = place[self._ledger.part[has_part]]
        self._parts = [p for p, is_taken in zip(standing, taken.tolist(), strict=True) if is_taken]
        return len(self._parts)

    def _make(self, rows: Sequence[NDArray[np.int64]]) -> tuple[int, int]:
        """Convert the chunks; how many files were opened, and how many parts were found made."""
        meter = Meter(len(self._ledger), "volumes", "converting", start=self._looked)
        chunks = Chunks(self._files.uri, rows, self._ledger, self._store, self._layout, self._choices.threads)
        outcomes: dict[int, Outcome] = {}
        with contextlib.closing(self._convert(chunks, self._ctx, meter)) as done:
            for number, outcome in done:
                outcomes[number] = outcome
                self._enter(rows[number], outcome)
        meter.finish()
        self._number(rows, outcomes)
        made = sum(len(rows[n]) for n, outcome in outcomes.items() if not outcome.reused)
        return made, sum(outcome.reused for outcome in outcomes.values())

    def _enter(self, rows: NDArray[np.int64], outcome: Outcome) -> None:
        self._looked += len(rows)
        for bad in outcome.rejected:
            self._ledger.refuse(int(rows[bad.place]), bad.reason, bad.sentence)
        self._check_limit()

    def _number(self, chunks: Sequence[NDArray[np.int64]], outcomes: dict[int, Outcome]) -> None:
        """Give the new parts their numbers, in the order of the chunks and not of their making."""
        for number, rows in enumerate(chunks):
            outcome = outcomes[number]
            if outcome.part is None:
                continue
            refused = [bad.place for bad in outcome.rejected]
            self._ledger.part[np.delete(rows, refused)] = len(self._parts)
            self._parts.append(outcome.part)

    def _check_limit(self) -> None:
        if self._ledger.refused <= self._choices.max_bad_files:
            return
        listed = self._write_quarantine()
        raise too_many(
            self._ledger.counts(),
            self._examples(),
            limit=self._choices.max_bad_files,
            looked=self._looked,
            found=len(self._ledger),
            listed=listed,
        )

    def _nothing(self) -> DataError:
        listed = self._write_quarantine()
        examples = "; ".join(f"{name} {sentence}" for name, sentence in self._examples())
        return DataError(
            f"none of the {len(self._ledger)} files can be converted, for example {examples}",
            hint=f"All are listed in {listed}.",
        )

    def _examples(self) -> list[tuple[str, str]]:
        return [(path, sentence) for path, _, sentence in islice(self._ledger.quarantine(), EXAMPLES)]

    def _write_quarantine(self) -> Path:
        path = self._ctx.out / "quarantine.csv"
        write_quarantine(self._ledger.quarantine(), path)
        return path

    def _publish(self, converted: int) -> VolumeParquet:
        ctx, ledger = self._ctx, self._ledger
        quarantine = self._write_quarantine()
        sources = ctx.out / "sources.arrow"
        ledger.write([p.path for p in self._parts], sources)
        parts = Parts(parts=tuple(self._parts), sources=str(sources), quarantine=str(quarantine))
        labelled = sum(p.labelled for p in self._parts)
        self._store.close()
        ctx.commit_point("parquet:before-manifest")
        write_parts(parts, ctx.out / "parts.json")
        ctx.commit_point("parquet:after-manifest")
        figures: dict[str, Any] = {
            "found": len(ledger),
            "quarantined": ledger.refused,
            "labelled": labelled,
        }
        ctx.facts(converted=converted, parts=len(self._parts), **figures)
        if ledger.refused:
            ctx.artifact("table", quarantine)
        return VolumeParquet(
            uri=str(self._store.parts),
            manifest=str(ctx.out / "parts.json"),
            count=converted,
            bytes=sum(p.bytes for p in self._parts),
            spec=self._layout.spec,
            **figures,
        )


def _spec(files: VolumeFiles, listing: pa.Table) -> VolumeSpec:
    """The dataset's shape and dtype: those the reference tells, else those of most headers in a spread sample."""
    if files.spec is not None:
        return files.spec
    paths = listing["path"].take(spread(len(listing))).to_pylist()
    sample = sample_headers(files.uri, paths)
    if sample.majority is not None:
        return sample.majority
    examples = "; ".join(f"{name} {refused.message}" for name, refused in sample.refused[:EXAMPLES])
    raise DataError(
        f"none of {sample.looked} sampled files in {files.uri} is a volume, for example {examples}",
        hint="Choose the folder with the .npy volumes.",
    )
