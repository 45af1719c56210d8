"""Values that no network can learn from: not finite, or so large that float32, in which it computes, has no square of
them. A mark for missing data such as -3.4e38 is finite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.loaders.interface import Batch, Loader, Source
from nodes.loaders.transformed import TransformedLoader

LARGEST = 1e18
NAMED = 3
"""Volumes that an error names."""


def usable(volumes: NDArray[Any]) -> NDArray[np.bool_]:
    """bool (n,): whether each of the volumes (n, ...) has only values that can be learnt from."""
    if volumes.dtype.kind not in "fc" or not len(volumes):
        return np.ones(len(volumes), np.bool_)
    flat = volumes.reshape(len(volumes), -1)
    # One pass each, and nothing as large as the volumes beside them; a comparison with NaN is False.
    found: NDArray[np.bool_] = (flat.max(axis=1) <= LARGEST) & (flat.min(axis=1) >= -LARGEST)
    return found


def checked(loader: Loader, what: str = "") -> Loader:
    """The same batches; in place of one with volumes that are not usable comes `values_error(what, ...)`.

    A network need not show them: max pooling drops NaN, and the loss stays finite while the weights do not. So the
    values are looked at before, by a thread, while the batch in front is used: 0.6 ms for 32 volumes of 360 kB. Of
    several workers each looks at its own part.
    """
    stored = np.dtype(loader.source.spec.dtype)
    if stored.kind in "biu" and stored.itemsize < 8:
        return loader  # no such number is as large
    return TransformedLoader(loader, partial(_refuse, loader.source, what), threads=1)


def _refuse(source: Source, what: str, batch: Batch, _: int) -> None:
    good = usable(batch.volumes)
    if not good.all():
        raise values_error(what, source.ids(batch.rows[~good]))


def values_error(what: str, bad: Sequence[str]) -> DataError:
    """The error for volumes, by their ids, that have values of this kind; `what` says where they were met, or is ""."""
    said = f"{', '.join(bad[:NAMED])} {'holds' if len(bad) == 1 else 'hold'} values that are not finite, or beyond 1e18"
    return DataError(
        f"{what}: {said}" if what else said,
        hint="Convert the volumes again with not_finite set to quarantine, clip them with TransformVolumes, or correct"
        " them.",
    )
