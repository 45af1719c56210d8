"""Values that no network can learn from: not finite, or so large that float32, in which it computes, has no square of
them. A mark for missing data such as -3.4e38 is finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError

LARGEST = 1e18
NAMED = 3
"""Volumes that an error names."""


def usable(volumes: NDArray[Any]) -> NDArray[np.bool_]:
    """bool (n,): whether each of the volumes (n, ...) has only values that can be learnt from."""
    if volumes.dtype.kind not in "fc":
        return np.ones(len(volumes), np.bool_)
    flat = volumes.reshape(len(volumes), -1)
    # One pass each, and nothing as large as the volumes beside them; a comparison with NaN is False.
    found: NDArray[np.bool_] = (flat.max(axis=1) <= LARGEST) & (flat.min(axis=1) >= -LARGEST)
    return found


def values_error(what: str, bad: Sequence[str]) -> DataError:
    """The error for volumes, by their ids, that have values of this kind; `what` says where they were met, or is ""."""
    said = f"{', '.join(bad[:NAMED])} {'holds' if len(bad) == 1 else 'hold'} values that are not finite, or beyond 1e18"
    return DataError(
        f"{what}: {said}" if what else said,
        hint="Convert the volumes again with not_finite set to quarantine, clip them with TransformVolumes, or correct"
        " them.",
    )
