"""One word for all weights of a model: equal words, equal weights, bit for bit."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import keras


def weights_digest(model: keras.Model) -> str:
    """Hash of every variable's shape, type and bytes in the model's order. Names are left out: Keras counts them up."""
    from keras import ops

    digest = hashlib.blake2b(digest_size=16)
    for variable in model.variables:
        value = np.ascontiguousarray(ops.convert_to_numpy(variable))
        digest.update(f"{value.dtype.name}{value.shape}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()
