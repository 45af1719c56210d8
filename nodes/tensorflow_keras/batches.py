"""Batches for TensorFlow, without another copy of the volumes."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.extras import require

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

    Going through it again gives the next epoch. TensorFlow takes the batches as they are. The loader's state says
    what the dataset has taken, which is further on than what it has given when it prefetches; with the last batch it
    is at the next epoch. One iterator at a time: a new one ends the one before.
    """
    require("a tf.data.Dataset", "tensorflow")
    import tensorflow as tf

    batches: Generator[Batch] | None = None

    def begin() -> np.int64:
        nonlocal batches
        if batches is not None:
            batches.close()
        left = loader.steps - loader.state().step
        batches = loader.batches()
        if not left:
            next(batches, None)
        return np.int64(left)

    def take() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        assert batches is not None
        batch = next(batches)
        if loader.state().step == loader.steps:
            next(batches, None)
        return batch.volumes, batch.labels

    # Not `from_generator`, whose Python makes the same batches take 1.15 times as long (60 rounds side by side).
    def step(_: Any) -> Any:
        volumes, labels = tf.numpy_function(take, [], (tf.float32, tf.float32))
        return tf.ensure_shape(volumes, (None, *loader.source.spec.shape)), tf.ensure_shape(labels, (None,))

    def epoch(_: Any) -> Any:
        return tf.data.Dataset.range(tf.numpy_function(begin, [], tf.int64)).map(step)

    # Who wants batches ahead of time says so; otherwise the loader's state is exact.
    exact = tf.data.Options()
    exact.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.range(1).flat_map(epoch).with_options(exact)
