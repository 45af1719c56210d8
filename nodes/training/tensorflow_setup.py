"""TensorFlow as Voxelflow runs it: quiet, within its cores, repeatable.

Importing this module imports TensorFlow, with the environment set first; the training worker does
that while it still waits for its input.
"""

from __future__ import annotations

import os
import warnings

# Before the import: only errors in the log, and Keras on TensorFlow whatever ~/.keras says.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations inside TensorFlow are not ours to mend
    import keras
    import tensorflow as tf

from engine.errors import UsageError
from nodes.training.team import ALONE, Team

__all__ = ["configure", "keras", "tf"]


def configure(*, cores: int, deterministic: bool, seed: int, team: Team = ALONE) -> list[str]:
    """Set threads, determinism and seeds for this process; call before the first operation.

    Equal runs give equal weights, bit for bit, only with operator determinism *and* one operation
    at a time (measured: determinism alone gave other losses with two threads). A ResNet's layers
    follow one another, so one at a time costs nothing. Several workers or GPUs need a second operation at a
    time, else the first exchange between them waits for ever; their sums are taken in a fixed order,
    so they stay repeatable (measured: ResNet-18, two workers, three times the same weights). Returns
    what could not be set, in words.
    """
    if keras.backend.backend() != "tensorflow":
        raise UsageError(
            f"Keras was loaded with the backend {keras.backend.backend()} before training began",
            hint="Train in a process of its own, or set KERAS_BACKEND=tensorflow.",
        )
    problems = []
    together = max(team.ranks, len(tf.config.list_physical_devices("GPU")))
    alone = together < 2
    between = 1 if deterministic and alone else max(min(2, together), min(2, cores))
    try:
        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(between)
        for device in tf.config.list_physical_devices("GPU"):
            # Others may use the device too: take memory as it is needed.
            tf.config.experimental.set_memory_growth(device, True)
    except RuntimeError:
        # The runtime has started; thread counts stay as they are for the process' life.
        if deterministic and alone and tf.config.threading.get_inter_op_parallelism_threads() != 1:
            problems.append("TensorFlow had started before: results may differ in the last digits between runs")
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(seed % 2**32)
    return problems
