"""The rows that a training uses: those to train on and those to validate on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.context import TaskContext
from engine.datasets import Dataset, Selection, VolumeDelta
from engine.errors import DataError
from nodes.loaders import LoaderName, open_source
from nodes.loaders.interface import Source
from nodes.loaders.row_groups import RowGroupSource
from nodes.loaders.rows import RowNumbers
from nodes.training.leases import held

SPLIT_SALT = "voxelflow.validation"
"""Of the hash that holds rows back for validation; not that of any other node, so that splits of splits are fair."""


@dataclass(frozen=True)
class Part:
    """Some rows of a source."""

    source: Source
    rows: RowNumbers

    @property
    def labels(self) -> NDArray[np.float32]:
        return self.source.rows.labels[self.rows]


@contextmanager
def open_parts(
    data: Dataset, validation: Dataset | None, *, loader: LoaderName, share: float, ctx: TaskContext
) -> Iterator[tuple[Part, Part | None]]:
    """The rows to train on and those to validate on; the sources are closed at the end.

    Until then the versions that are read are held against a vacuum.

    Without `validation`, the `share` of the data whose ids have the smallest hashes is held back.
    Raises `DataError` when the two are of different kinds.
    """
    with held(ctx, data, validation), ExitStack() as opened:
        source = opened.enter_context(closing(open_source(loader, data, cores=ctx.resources.cores)))
        if isinstance(source, RowGroupSource):
            ctx.warn(f"{source.reason}; reading is several times slower. OptimizeDelta gives the faster layout.")
        own = _selections(data)
        if validation is None:
            rows = source.rows_in(*own, Selection(salt=SPLIT_SALT, low=share, high=1))
            held_back = source.rows_in(*own, Selection(salt=SPLIT_SALT, low=0, high=share))
            other = source
        else:
            rows = source.rows_in(*own)
            if not _same_rows(data, validation):
                other = opened.enter_context(closing(open_source(loader, validation, cores=ctx.resources.cores)))
            else:
                other = source
            held_back = other.rows_in(*_selections(validation))
            _check_validation(source, rows, other, held_back, ctx)
        if not len(held_back):
            ctx.warn("no volume is held back for validation")
        yield Part(source, rows), Part(other, held_back) if len(held_back) else None


def _selections(data: Dataset) -> tuple[Selection, ...]:
    return data.selections if isinstance(data, VolumeDelta) else ()


def _same_rows(data: Dataset, other: Dataset) -> bool:
    """Whether both are parts of one dataset, which then is opened once."""
    if isinstance(data, VolumeDelta) and isinstance(other, VolumeDelta):
        return (data.uri, data.version) == (other.uri, other.version)
    return data == other


def _check_validation(source: Source, rows: RowNumbers, other: Source, held_back: RowNumbers, ctx: TaskContext) -> None:
    if (source.spec.shape, source.spec.dtype) != (other.spec.shape, other.spec.dtype):
        raise DataError(
            f"the volumes of {other.where} are {other.spec.describe()},"
            f" those of {source.where} {source.spec.describe()}",
            hint="Validate on volumes of the same shape and type.",
        )
    if source.spec.classes != other.spec.classes and source.spec.classes and other.spec.classes:
        raise DataError(
            f"the classes of {other.where} are {', '.join(other.spec.classes[:10])}, those of {source.where}"
            f" {', '.join(source.spec.classes[:10])}",
            hint="Convert both with the same classes.",
        )
    both = len(np.intersect1d(rows, held_back)) if other is source else 0
    if both:
        ctx.warn(f"{both:,} volumes are trained on and validated on: the validation will flatter the model")
