"""Processors, memory and devices of this machine, by the names their makers give them."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict


class Machine(BaseModel):
    """What is left empty or 0 could not be found out. `cores` are those this process may use."""

    model_config = ConfigDict(frozen=True)

    processor: str = ""
    cores: int = 0
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    gpu_driver: str = ""

    def describe(self) -> str:
        """In one line for people."""
        parts = [f"{self.processor or 'unknown processor'}, {self.cores} cores, {self.memory_bytes / 1e9:.0f} GB"]
        parts += [f"{self.gpus.count(name)} x {name}" for name in dict.fromkeys(self.gpus)]
        return ", ".join(parts)


def this_machine() -> Machine:
    gpus, driver = _gpus()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0
    return Machine(
        processor=_processor(),
        cores=cores,
        memory_bytes=psutil.virtual_memory().total,
        gpus=gpus,
        gpu_driver=driver,
    )


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpus() -> tuple[tuple[str, ...], str]:
    """NVIDIA's devices and their driver's version, through nvidia-ml-py where it is installed and finds a driver."""
    with suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            names = tuple(_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles)
            return names, _text(pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()
    return (), ""


def _text(value: str | bytes) -> str:
    """Older versions of nvidia-ml-py give bytes."""
    return value.decode() if isinstance(value, bytes) else value
