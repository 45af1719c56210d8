"""The volumes to predict: all rows of a dataset, those without a label too."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.datasets import Dataset, VolumeDelta, VolumeFiles
from engine.errors import DataError
from nodes.loaders import open_source
from nodes.loaders.interface import Source
from nodes.loaders.rows import RowNumbers
from nodes.prediction.model_card import ModelCard


@dataclass(frozen=True)
class OpenedRows:
    """`rows` in the order in which they are stored, so that each file is read once and from its start to its end.

    `labels` (by row number) are in the model's numbers, NaN where there is none; `strange` volumes have a label
    whose class the model does not know, and count as having none.
    """

    source: Source
    rows: RowNumbers
    labels: NDArray[np.float32]
    strange: int

    def identity(self) -> str:
        """Hash of ids, labels and order."""
        out = hashlib.blake2b(self.source.rows.identity().encode(), digest_size=16)
        out.update(self.rows.tobytes())
        out.update(self.labels.tobytes())
        return out.hexdigest()


@contextmanager
def open_rows(data: Dataset, card: ModelCard, *, cores: int) -> Iterator[OpenedRows]:
    """Open a dataset for a model. Raises `DataError` when its volumes do not fit the model, or there are none."""
    with closing(open_source("npy" if isinstance(data, VolumeFiles) else "arrow", data, cores=cores)) as source:
        refuse_other_shape(source.spec.shape, card, data.uri)
        rows = source.rows.selected(data.selections if isinstance(data, VolumeDelta) else ())
        if not len(rows):
            raise DataError(f"{data.uri} has no volumes to predict", hint="Check the selection that it comes from.")
        rows = rows[np.argsort(source.rows.stored[rows], kind="stable")]
        labels = in_numbers_of(source.rows.labels, source.spec.classes, card.classes)
        strange = int((np.isnan(labels[rows]) & ~np.isnan(source.rows.labels[rows])).sum())
        yield OpenedRows(source, rows, labels, strange)


def refuse_other_shape(shape: Sequence[int], card: ModelCard, where: str) -> None:
    """Raise `DataError` unless volumes of this shape fit the model."""
    if tuple(shape) != card.shape:
        raise DataError(
            f"the volumes of {where} are {_times(shape)}, the model takes {_times(card.shape)}",
            hint="Predict with a model that was trained on volumes of this shape.",
        )


def in_numbers_of(labels: NDArray[np.float32], own: Sequence[str], classes: Sequence[str]) -> NDArray[np.float32]:
    """Labels that number the classes `own`, in the numbers of the model's `classes`; NaN for one it does not know.

    Where either names no classes, or only numbers them, the numbers mean the same.
    """
    numbered = [str(number) for number in range(len(classes))]
    if not own or not classes or tuple(own) == tuple(classes) or list(classes) == numbered:
        return labels
    places = {name: float(place) for place, name in enumerate(classes)}
    table = np.array([*(places.get(name, np.nan) for name in own), np.nan], np.float32)
    known = (labels >= 0) & (labels < len(own)) & (labels == np.rint(labels))
    return table[np.where(known, labels, len(own)).astype(np.int64)]


def _times(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
