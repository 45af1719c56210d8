"""Volumes that a function makes, as a node's result.

The rows of a table, or ids, are cut into chunks; a function makes the volumes of a batch of them; they become parts as
NumpyToParquet's do (`nodes.conversion.make_parts`): durable, of the right size, resumed, kept where nothing changed.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.declare.context import TaskContext
from engine.declare.datasets import Dataset, Transform, VolumeDelta, VolumeParquet
from engine.declare.node_step import node_step
from engine.errors import UsageError
from engine.text import plural
from nodes.conversion.make_parts import Making, make_parts, opened_store
from nodes.conversion.part_writer import Layout, Row
from nodes.conversion.row_ledger import rows_of
from nodes.volume_file.parameters import MB
from nodes.writing.batches import Checked, call
from nodes.writing.sources import BatchSource, IdRows, open_table_rows
from nodes.writing.volumes import MakeVolumes


def make_volumes(
    ctx: TaskContext,
    batches: MakeVolumes,
    like: Dataset | None,
    ids: Sequence[str] | None,
    *,
    classes: Sequence[str] | None,
    column_types: Mapping[str, str],
    keeps_values: bool,
    target_file_mb: int,
    row_group_rows: int,
    threads: int,
) -> VolumeParquet:
    """See `write_volumes`."""
    if not callable(batches):
        raise UsageError(
            f"write_volumes was given {type(batches).__name__} for batches, not a function",
            hint="Give a function that makes the volumes of one batch. Of data that comes from nowhere name the ids"
            " (ids=[...]), and make the volumes of the ids that it is given: then a killed run can go on.",
        )
    with ExitStack() as opened:
        source: BatchSource
        if isinstance(like, VolumeDelta | VolumeParquet):
            source = opened.enter_context(open_table_rows(like, threads=ctx.resources.cores, only=ids))
        elif like is None and ids is not None:
            source = IdRows.of(ids)
        else:
            raise UsageError(
                f"write_volumes takes a table (VolumeDelta or VolumeParquet) or ids, not {_given(like)}",
                hint="Give like=TABLE or ids=[...]. Files become a table by NumpyToParquet.",
            )
        types = {name: pa.type_for_alias(text) for name, text in column_types.items()}
        first = next(source.batches(_first_row(source)))
        own = source.classes if classes is None else classes
        # Out of nothing, volumes are as a reader of files would give them.
        chain = source.transforms if keeps_values or like is None else (*source.transforms, _step(ctx, batches))
        checked = Checked.by_probe(call(batches, first, keeps_values=keeps_values), own, source.columns, types, chain)
        layout = Layout(
            spec=checked.spec,
            target_bytes=target_file_mb * MB,
            row_group_rows=row_group_rows,
            compression="none",
            finite=False,
            columns=checked.columns,
        )
        ctx.info(f"makes {checked.spec.describe()} of each of {plural(len(source.ledger), 'volumes')}")
        store = opened.enter_context(opened_store(ctx))
        lineage = f"{ctx.shared.parent.name}/{ctx.shared.name}"
        rows = MadeRows(source, batches, checked, lineage, keeps_values=keeps_values)
        return make_parts(Making(rows, source.ledger, layout, store, threads), ctx, doing="making volumes")


def _step(ctx: TaskContext, function: MakeVolumes) -> Transform:
    """The entry of the node in the chain of what it makes."""
    return ctx.step or node_step(ctx.node_id, {}, _code_of(function), ctx.node_id)


def _first_row(source: BatchSource) -> list[Row]:
    return rows_of(source.ledger.batch(np.array([0])))


def _given(like: Dataset | None) -> str:
    return "neither" if like is None else getattr(like, "kind", type(like).__name__)


@dataclass(frozen=True)
class MadeRows:
    """The rows of `source` as a function makes them; see `part_writer.RowSource`.

    `lineage` stands for the node, its parameters and its code: parts of another one have other names. So have those
    of a node that was made to run again: what its function reads besides the rows may have changed.
    """

    source: BatchSource
    function: MakeVolumes
    checked: Checked
    lineage: str
    noun: str = "volumes"
    keeps_values: bool = False

    def key(self) -> Sequence[str]:
        """The lineage, and the file of the function: it may be another than the node's."""
        return ["write_volumes", self.lineage, _code_of(self.function)]

    def open(self, layout: Layout) -> MadeReader:
        """A reader of the same source: it is used by all threads."""
        return MadeReader(self)

    def reader_bytes(self, layout: Layout) -> int:
        """What reading holds, and a batch of what is made."""
        return self.source.held_bytes + min(64 * layout.spec.volume_bytes, 32 << 20) + layout.spec.volume_bytes


class MadeReader:
    """Calls the function batch by batch, as the rows of a chunk are asked for."""

    def __init__(self, rows: MadeRows) -> None:
        self._rows = rows
        self._made: Iterator[tuple[NDArray[np.uint8], float | None, tuple[Any, ...]]] = iter(())

    def expect(self, rows: Sequence[Row]) -> None:
        """The chunk that comes next."""
        self._made = self._make(rows)

    def fill(self, row: Row, volume: NDArray[np.uint8]) -> tuple[float | None, tuple[Any, ...]]:
        """The next row of the chunk."""
        data, label, columns = next(self._made)
        volume[:] = data
        return label, columns

    def _make(self, rows: Sequence[Row]) -> Iterator[tuple[NDArray[np.uint8], float | None, tuple[Any, ...]]]:
        for batch in self._rows.source.batches(rows):
            made = call(self._rows.function, batch, keeps_values=self._rows.keeps_values)
            yield from self._rows.checked.rows(made)


def _code_of(function: MakeVolumes) -> str:
    """Hash of the file that declares the function; "" for one that has none."""
    found: Any = function
    while isinstance(found, functools.partial):
        found = found.func
    try:
        path = inspect.getsourcefile(inspect.unwrap(found if inspect.isroutine(found) else type(found)))
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest() if path else ""
    except (OSError, TypeError):
        return ""
