"""What the labels of the training rows say when they are numbers to be told, not classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError
from nodes.training.model_ends import Target


def find_target(training: NDArray[np.float32], validation: NDArray[np.float32], *, where: str) -> Target:
    """Mean and deviation of the training labels.

    Raises `DataError` when a label is not finite, or the training rows have fewer than two different ones.
    """
    if not np.isfinite(training).all() or not np.isfinite(validation).all():
        raise DataError(
            f"{where} has a label that is not finite",
            hint="Give every volume a number, or leave its label empty: then the volume is left out.",
        )
    if len(training) == 0 or training.min() == training.max():
        only = f"only the label {training[0]:g}" if len(training) else "no labels"
        raise DataError(
            f"the training volumes of {where} have {only}; a regression needs different ones",
            hint="Check the labels that NumpyToParquet found, or the split.",
        )
    exact = training.astype(np.float64)
    return Target(float(exact.mean()), float(exact.std()))
