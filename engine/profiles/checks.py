"""What this machine must have for a profile: cores, memory, GPUs, a place for the data."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engine.profiles.profile import Check, Profile
from engine.workspace import Workspace, storage_of

_LITTLE_DISK = 1 << 30


def local_checks(profile: Profile, workspace: Workspace) -> Iterator[Check]:
    """Each check as it is made. Writes and removes one small file where the data will lie."""
    yield _cores(profile)
    yield _memory(profile)
    if profile.gpus:
        yield _gpus(profile)
    place = storage_of(workspace, profile.storage_root).root
    written = _writable(place, of_storage_root=profile.storage_root is not None)
    yield written
    if written.ok:
        yield _disk(place)


def _cores(profile: Profile) -> Check:
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = f"{profile.cores} of the {own} that this process may use"
    return Check("cores", profile.cores <= own, said, "" if profile.cores <= own else f"Write cores = {own} or less.")


def _memory(profile: Profile) -> Check:
    import psutil

    machine = psutil.virtual_memory()
    said = f"{_gb(profile.memory_bytes)} of {_gb(machine.total)}, {_gb(machine.available)} free now"
    if profile.memory_bytes > machine.total:
        return Check("memory", False, said, f'Write memory = "{machine.total * 3 // 4 // 10**9} GB" or less.')
    return Check("memory", True, said)


def _gpus(profile: Profile) -> Check:
    found = len([p for p in Path("/dev").glob("nvidia[0-9]*") if p.name.removeprefix("nvidia").isdigit()])
    ok = profile.gpus <= found
    hint = "" if ok else "Install NVIDIA's driver, or write fewer gpus."
    return Check("GPUs", ok, f"{profile.gpus} of {found} NVIDIA devices", hint)


def _writable(place: Path, *, of_storage_root: bool) -> Check:
    hint = (
        "Mount the folder or give yourself the right to write there, or name another as storage_root."
        if of_storage_root
        else "Choose another workspace with --workspace."
    )
    try:
        place.mkdir(parents=True, exist_ok=True)
        # Tables need locks that other processes see; some shared file systems have none.
        with tempfile.NamedTemporaryFile(dir=place, prefix=".check-") as probe:
            probe.write(b"voxelflow")
            probe.flush()
            os.fsync(probe.fileno())
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        return Check("folder", False, f"{place}: {exc.strerror or exc}", hint)
    return Check("folder", True, f"{place} can be written and locked")


def _disk(place: Path) -> Check:
    free = shutil.disk_usage(place).free
    ok = free >= _LITTLE_DISK
    return Check("disk", ok, f"{_gb(free)} free", "" if ok else "Free some: `voxelflow clean` shows what is held.")


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
