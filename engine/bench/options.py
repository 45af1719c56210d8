"""What `voxelflow bench` is to measure: every combination of the lists, with each kind of input."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from engine.bench.result import INPUTS, Input
from engine.environment import Machine

SHAPE = (30, 30, 10, 10)
"""Voxels and channels of the volumes that are made: those of the whitepaper that this project began with."""
QUICK_SHAPE = (12, 12, 8, 2)
_EPOCH_BATCHES = 8
_LEAST_VOLUMES = 64
_WARMUP, _GPU_WARMUP = 2, 10


@dataclass(frozen=True)
class BenchOptions:
    """See `voxelflow bench --help`. Lists are measured in their order; "" and None stand for what is not given."""

    data: str = ""
    """A folder of `.npy` files, or a Delta table; "": volumes are made."""
    storage: str = ""
    """Where the volumes that are made are put: a folder or a URL; "": the workspace."""
    shape: tuple[int, ...] = SHAPE
    dtype: str = "float32"
    volumes: int | None = None
    depths: tuple[int, ...] = (18,)
    batch_sizes: tuple[int, ...] = (8, 32)
    workers: tuple[int, ...] = (1,)
    loaders: tuple[str, ...] = ("arrow", "npy")
    inputs: tuple[Input, ...] = INPUTS
    mixed_precision: tuple[bool, ...] | None = None
    """None: as a training computes on this machine without being told."""
    jit: tuple[bool, ...] = (False,)
    deterministic: bool = True
    steps: int = 8
    warmup: int | None = None
    """Steps before those; None: as many as the machine needs (`warmup_on`)."""
    repeats: int = 1
    """How often all of it is measured, one time after the other."""
    cores: int | None = None
    name: str = ""
    machine_type: str = ""
    price_per_hour: float | None = None
    currency: str = ""

    def warmup_on(self, machine: Machine) -> int:
        """The steps before the measured ones: on a GPU one of the first six was seen to take 1.4 s instead of 30 ms."""
        if self.warmup is not None:
            return self.warmup
        return _GPU_WARMUP if machine.gpus else _WARMUP

    def quick(self, given: Collection[str]) -> BenchOptions:
        """The same with what is not `given`, by the names of the fields, at its smallest: a try of the command, no
        figure to go by."""
        smallest: dict[str, Any] = {"shape": QUICK_SHAPE, "batch_sizes": (8,), "steps": 4}
        return replace(self, **{name: value for name, value in smallest.items() if name not in given})

    @property
    def volumes_to_make(self) -> int:
        """As many as are given, else some batches of the largest size."""
        return self.volumes or max(_LEAST_VOLUMES, _EPOCH_BATCHES * max(self.batch_sizes))
