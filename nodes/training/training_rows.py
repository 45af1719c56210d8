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


@dataclass(frozen=True)
class Parts:
    """The rows to train on, to validate on and to test with; of the last two there may be none."""

    training: Part
    validation: Part | None
    test: Part | None


@contextmanager
def open_parts(
    data: Dataset,
    validation: Dataset | None,
    test: Dataset | None = None,
    *,
    loader: LoaderName,
    share: float,
    ctx: TaskContext,
) -> Iterator[Parts]:
    """The rows of a training; the sources are closed at the end.

    Until then the versions that are read are held against a vacuum.

    Without `validation`, the `share` of the data whose ids have the smallest hashes is held back.
    Raises `DataError` when they are of different kinds.
    """
    with held(ctx, data, validation, test), ExitStack() as opened:
        sources: list[tuple[Dataset, Source]] = []

        def source_of(dataset: Dataset) -> Source:
            """Parts of one dataset share a source."""
            for known, source in sources:
                if _same_rows(known, dataset):
                    return source
            source = opened.enter_context(closing(open_source(loader, dataset, cores=ctx.resources.cores)))
            sources.append((dataset, source))
            return source

        def part(dataset: Dataset, training: Part, verb: str) -> Part:
            source = source_of(dataset)
            found = Part(source, source.rows_in(*_selections(dataset)))
            _check_other(training, found, verb, ctx)
            return found

        source = source_of(data)
        if isinstance(source, RowGroupSource):
            ctx.warn(f"{source.reason}; reading is several times slower. OptimizeDelta gives the faster layout.")
        own = _selections(data)
        if validation is None:
            training = Part(source, source.rows_in(*own, Selection(salt=SPLIT_SALT, low=share, high=1)))
            held_back = Part(source, source.rows_in(*own, Selection(salt=SPLIT_SALT, low=0, high=share)))
        else:
            training = Part(source, source.rows_in(*own))
            held_back = part(validation, training, "validated on")
        if not len(held_back.rows):
            ctx.warn("no volume is held back for validation")
        tested = part(test, training, "tested with") if test is not None else None
        if tested is not None and not len(tested.rows):
            raise DataError(
                f"no volume of {tested.source.where} has a label, so there is nothing to test with",
                hint="Check the labels that NumpyToParquet found, or the split; or wire nothing to test.",
            )
        yield Parts(training, held_back if len(held_back.rows) else None, tested)


def _selections(data: Dataset) -> tuple[Selection, ...]:
    return data.selections if isinstance(data, VolumeDelta) else ()


def _same_rows(data: Dataset, other: Dataset) -> bool:
    """Whether both are parts of one dataset, which then is opened once."""
    if isinstance(data, VolumeDelta) and isinstance(other, VolumeDelta):
        return (data.uri, data.version) == (other.uri, other.version)
    return data == other


def _check_other(training: Part, other: Part, verb: str, ctx: TaskContext) -> None:
    spec, where = training.source.spec, training.source.where
    others, elsewhere = other.source.spec, other.source.where
    if (spec.shape, spec.dtype) != (others.shape, others.dtype):
        raise DataError(
            f"the volumes of {elsewhere} are {others.describe()}, those of {where} {spec.describe()}",
            hint="Train, validate and test on volumes of the same shape and type.",
        )
    if spec.classes != others.classes and spec.classes and others.classes:
        raise DataError(
            f"the classes of {elsewhere} are {', '.join(others.classes[:10])}, those of {where}"
            f" {', '.join(spec.classes[:10])}",
            hint="Convert both with the same classes.",
        )
    both = len(np.intersect1d(training.rows, other.rows)) if other.source is training.source else 0
    if both:
        ctx.warn(f"{both:,} volumes are trained on and {verb}: the figures will flatter the model")
