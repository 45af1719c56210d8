"""Batches for TensorFlow, without another copy of the volumes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nodes.loaders.interface import Batch, Loader

_ALIGNMENT = 64
"""TensorFlow's kernels want tensors to begin at such an address (EIGEN_MAX_ALIGN_BYTES)."""


def tensor_of(array: NDArray[np.float32]) -> Any:
    """An eager tensor of the array; it shares the memory where TensorFlow can, and must not be written to then.

    `tf.convert_to_tensor` would copy it first.
    """
    import tensorflow as tf

    address = array.__array_interface__["data"][0]
    if array.size and array.flags.c_contiguous and array.flags.writeable and address % _ALIGNMENT == 0:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.convert_to_tensor(array)


def tf_dataset(loader: Loader) -> Any:
    """The rest of the loader's current epoch as a `tf.data.Dataset` of (volumes, labels), batch by batch.

    Going through it again gives the next epoch. TensorFlow takes the batches as they are: of arrays, `from_generator`
    would make a copy each. The loader's state tells what the dataset has taken, which is further on than what it has
    given when it prefetches. One iterator at a time: a new one ends the one before.
    """
    import tensorflow as tf

    opened: Generator[Batch] | None = None

    def batches() -> Iterator[tuple[Any, Any]]:
        nonlocal opened
        if opened is not None:
            # TensorFlow frees an iterator that was left in the middle when it likes, perhaps never.
            opened.close()
        opened = loader.batches()
        for batch in opened:
            yield tensor_of(batch.volumes), tensor_of(batch.labels)

    signature = (
        tf.TensorSpec((None, *loader.source.spec.shape), tf.float32),
        tf.TensorSpec((None,), tf.float32),
    )
    # Who wants batches ahead of time says so; otherwise the loader's state is exact.
    exact = tf.data.Options()
    exact.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.from_generator(batches, output_signature=signature).with_options(exact)
