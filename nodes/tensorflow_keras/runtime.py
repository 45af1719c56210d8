"""TensorFlow as Voxelflow runs it: quiet, within its cores, repeatable; and the devices that it uses.

Importing this module imports TensorFlow, with the environment set first; a worker does that while it still waits for
its input.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from engine.processes.lean_import import without
from engine.processes.parent import is_child
from nodes.tensorflow_keras.quiet_start import quiet_start

# Before the import: only errors in the log, and Keras on TensorFlow whatever ~/.keras says.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

# Keras has wrappers for scikit-learn and galleries of images for Matplotlib, and takes data frames; the Keras 2 in
# TensorFlow takes sparse matrices. No node has a use for these, and without them the import takes 2.3 instead of 3.6
# seconds of processor time (two measurements of each). A person's program that calls `voxelflow.load_model` may.
with (
    warnings.catch_warnings(),
    quiet_start(),
    without(("matplotlib", "pandas", "scipy", "sklearn")) if is_child() else nullcontext(),
):
    warnings.simplefilter("ignore")  # deprecations inside TensorFlow are not ours to fix
    import keras
    import tensorflow as tf

    # Starts CUDA, which has to say something too.
    tf.config.list_physical_devices()

from engine.errors import UsageError
from nodes.tensorflow_keras.loopback import is_loopback, only_from_this_machine
from nodes.training.learner import ALONE, Team

__all__ = ["configure", "enough_memory", "keras", "tf"]
BFLOAT16_SINCE = (8, 0)
"""NVIDIA's compute capability with units for bfloat16 (Ampere)."""


@contextmanager
def enough_memory(volumes: int, instead: str) -> Iterator[None]:
    """Work on a batch of so many volumes: raises `UsageError` where the device has too little memory for it.

    `instead` is what to choose a smaller one of.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as exc:
        raise UsageError(
            f"the device has too little memory for a batch of {volumes} volumes",
            hint=f"Choose a smaller {instead}.",
            parameter="batch_size",
        ) from exc


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


def join_workers(addresses: Sequence[str], rank: int, warn: Callable[[str], None]) -> tf.distribute.Strategy:
    """The strategy by which the workers at `addresses` (host:port by rank) share each batch; this one is `rank`.

    Warns where other machines can reach TensorFlow's port although all workers are on this one.
    """
    task = {"type": "worker", "index": rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(addresses)}, "task": task})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    port = int(addresses[rank].rpartition(":")[2])
    if all(map(is_loopback, addresses)) and not only_from_this_machine(port):
        warn(f"TensorFlow listens for workers on port {port} of every network that this machine is in")
    return strategy


def device_memory() -> int:
    """The most bytes that TensorFlow had on one of this process' GPUs; 0 without one."""
    names = [device.name.removeprefix("/physical_device:") for device in tf.config.get_visible_devices("GPU")]
    return max((int(tf.config.experimental.get_memory_info(name)["peak"]) for name in names), default=0)


def device_name() -> str:
    """The name of the GPU that is computed on, the first of several; "CPU" without one."""
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return "CPU"
    return str(tf.config.experimental.get_device_details(gpus[0]).get("device_name") or "GPU")


def share_devices(cluster: Sequence[str], rank: int) -> None:
    """Divide this machine's GPUs among the workers on it, whose host:port `cluster` lists by rank.

    Raises `UsageError` when there are fewer GPUs than workers.
    """
    here = [place for place, address in enumerate(cluster) if _host(address) == _host(cluster[rank])]
    devices = tf.config.list_physical_devices("GPU")
    if len(here) == 1 or not devices:
        return
    if len(devices) < len(here):
        raise UsageError(
            f"{len(here)} workers on {_host(cluster[rank])} have {len(devices)} GPUs",
            hint="Set workers so that each has one, or hide the GPUs (CUDA_VISIBLE_DEVICES=-1).",
            parameter="workers",
        )
    place, count = here.index(rank), len(devices)
    mine = devices[count * place // len(here) : count * (place + 1) // len(here)]
    tf.config.set_visible_devices(mine, "GPU")


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _capability(gpu: tf.config.PhysicalDevice) -> tuple[int, ...]:
    found: tuple[int, ...] = tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
    return found
