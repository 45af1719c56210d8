"""What this machine's devices suggest where a parameter leaves it to them."""

from __future__ import annotations

from collections.abc import Callable

from nodes.training.tensorflow_setup import tf

BFLOAT16_SINCE = (8, 0)
"""NVIDIA's compute capability with units for bfloat16 (Ampere)."""


def replica_devices() -> list[str]:
    """The devices among which a process shares its batches: its GPUs."""
    return [device.name for device in tf.config.list_logical_devices("GPU")]


def local_strategy(batch_size: int, warn: Callable[[str], None]) -> tf.distribute.Strategy:
    """One process: all its GPUs, as far as they can share a batch evenly, or its only device."""
    devices = replica_devices()
    count = max((n for n in range(1, len(devices) + 1) if batch_size % n == 0), default=1)
    if count < len(devices):
        warn(f"{len(devices)} GPUs cannot share a batch of {batch_size} volumes evenly: {count} of them are used")
    return tf.distribute.MirroredStrategy(devices[:count]) if count > 1 else tf.distribute.get_strategy()


def mixed_precision_pays() -> bool:
    """bfloat16 is faster on GPUs with units for it, and slower on most CPUs."""
    gpus = tf.config.get_visible_devices("GPU")
    return bool(gpus) and all(_capability(gpu) >= BFLOAT16_SINCE for gpu in gpus)


def jit_pays(*, deterministic: bool) -> bool:
    """XLA is faster on GPUs and slower on CPUs; on GPUs it may choose other algorithms in each run."""
    return bool(tf.config.get_visible_devices("GPU")) and not deterministic


def _capability(gpu: tf.config.PhysicalDevice) -> tuple[int, ...]:
    found: tuple[int, ...] = tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
    return found
