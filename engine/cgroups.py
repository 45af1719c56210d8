"""What a container lets its processes use: limits that Linux keeps in control groups.

In a container, the system's own figures are those of the whole machine: all its processors, all its memory.

Version 2: https://docs.kernel.org/admin-guide/cgroup-v2.html. Version 1, on older machines:
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html and https://docs.kernel.org/scheduler/sched-bwc.html.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

_OWN = Path("/proc/self/cgroup")
_MOUNTED = Path("/sys/fs/cgroup")

Controller = Literal["cpu", "memory"]


class Processors(NamedTuple):
    """How many processors' time a group may use, a fraction too, and the seconds that it has used so far."""

    limit: float
    used_s: float | None


class Memory(NamedTuple):
    """Bytes: all, those that can be had now, and those in use. Of the machine, or of a group with less."""

    total: int
    available: int
    used: int


def usable_cores() -> int:
    """How many processors this process may keep busy: a part of one counts as one."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    group = processors()
    return allowed if group is None else min(allowed, math.ceil(group.limit))


def processors() -> Processors | None:
    """The tightest limit that holds for this process; None where that is no tighter than the machine."""
    found = [(limit, folder) for folder in _folders("cpu") for limit in [_cpu_v2(folder) or _cpu_v1(folder)] if limit]
    limit, folder = min(found, default=(math.inf, _MOUNTED))
    return None if limit >= (os.cpu_count() or 1) else Processors(limit, _used_s(folder))


def memory() -> Memory:
    """What this process may use. Raises what psutil does where the system does not say."""
    import psutil

    machine = psutil.virtual_memory()
    whole = Memory(machine.total, machine.available, machine.used)
    found = [(limit, folder) for folder in _folders("memory") for limit in [_memory_limit(folder)] if limit]
    limit, folder = min(found, default=(machine.total, None))
    if folder is None or limit >= machine.total:  # version 1 has a limit without end
        return whole
    used = _memory_used(folder)
    return Memory(limit, max(0, min(machine.available, limit - used)), used)


def _folders(controller: Controller) -> Iterator[Path]:
    """Those of this process' group and of the groups around it; within a container mostly its own alone."""
    with suppress(OSError):
        for line in _OWN.read_text(encoding="utf-8", errors="replace").splitlines():
            _, _, named = line.partition(":")
            names, _, path = named.partition(":")
            if names and controller not in names.split(","):
                continue
            for base in [_MOUNTED / names, _MOUNTED / controller] if names else [_MOUNTED, _MOUNTED / "unified"]:
                if base.is_dir():
                    parts = [part for part in path.split("/") if part not in ("", "..")]
                    yield from (base.joinpath(*parts[:length]) for length in range(len(parts), -1, -1))
                    break


def _cpu_v2(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    return _ratio(quota, period)


def _cpu_v1(folder: Path) -> float | None:
    return _ratio(_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    """None for "max", -1 and what is not there: no limit."""
    with suppress(ValueError, ZeroDivisionError):
        return found if (found := int(quota) / int(period)) > 0 else None
    return None


def _used_s(folder: Path) -> float | None:
    if (used := _figures(folder / "cpu.stat").get("usage_usec")) is not None:
        return used / 1e6
    accounts = Path(str(folder).replace(str(_MOUNTED / "cpu"), str(_MOUNTED / "cpuacct"), 1))
    for place in (folder, accounts):
        with suppress(ValueError):
            return int(_text(place / "cpuacct.usage")) / 1e9
    return None


def _memory_limit(folder: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        with suppress(ValueError):
            return int(_text(folder / name))
    return None


def _memory_used(folder: Path) -> int:
    """Without files that the system keeps in memory and gives up when it is needed."""
    cached = _figures(folder / "memory.stat")
    for name, kept in (("memory.current", "inactive_file"), ("memory.usage_in_bytes", "total_inactive_file")):
        with suppress(ValueError):
            return max(0, int(_text(folder / name)) - cached.get(kept, 0))
    return 0


def _figures(file: Path) -> dict[str, int]:
    """Of lines such as `usage_usec 1234`."""
    pairs = (line.split() for line in _text(file).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace").strip()
    return ""
