"""Records of trainings as a run would have measured them."""

from __future__ import annotations

from typing import Any

from nodes.comparison.record import Epoch, Sample, Training


def epoch(number: int, data_s: float, compute_s: float, *, volumes: int = 100, **more: Any) -> Epoch:
    rate = volumes / (data_s + compute_s)
    return Epoch(number=number, data_s=data_s, compute_s=compute_s, volumes_per_s=rate, **more)


def training(loader: str = "npy", waiting_s: float = 6.0, computing_s: float = 4.0, **more: Any) -> Training:
    """Three epochs of 100 volumes; the first took a second longer. Other fields as given."""
    fields: dict[str, Any] = {
        "run_id": "20260102-030405-abcdef",
        "node": f"train_{loader}",
        "title": f"Train by {loader}",
        "machine": "A processor, 2 cores, 4.0 GB",
        "loader": loader,
        "storage": "az",
        "volumes": 100,
        "volume_bytes": 360_000,
        "batch_size": 10,
        "epochs_wanted": 3,
        "epochs": tuple(epoch(n, waiting_s, computing_s + (n == 1)) for n in (1, 2, 3)),
        "preparation_s": 0.0 if loader == "npy" else 12.0,
        "losses": ((1, 0.7), (2, 0.5), (3, 0.4)),
        "samples": (
            Sample(at_s=5, cpu_percent=40, network_mbit_s=20, disk_read_mb_s=1, memory_mb=900),
            Sample(at_s=10, cpu_percent=60, network_mbit_s=36.5, memory_mb=950),
        ),
    }
    return Training(**fields | more)


def with_a_gpu(loader: str = "npy", **more: Any) -> Training:
    """Of another machine, which computes in half a second."""
    gpu: dict[str, Any] = {
        "run_id": "20260103-030405-fedcba",
        "machine": "Another processor, 8 cores, 32 GB, 1 x NVIDIA T4",
        "machine_type": "Standard_NC4as_T4_v3@eastus",
        "device": "Tesla T4",
        "price_per_hour": 0.526,
        "currency": "USD",
        "computing_s": 0.5,
        "samples": (Sample(at_s=5, cpu_percent=20, gpu_percent=80),),
    }
    return training(loader, **gpu | more)
