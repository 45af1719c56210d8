"""What a profile needs beside Spark: this machine's cores, memory, GPUs, a place for the data; or Databricks' tools."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engine.cgroups import memory, usable_cores
from engine.profiles.profile import Check, Profile
from engine.text import size
from engine.workspace import Workspace, storage_of

_LITTLE_DISK = 1 << 30
_ANSWER_S = 30.0


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


def databricks_checks(profile: Profile) -> Iterator[Check]:
    """What deploying a job there needs here: Databricks' command line, signed in, and the machine type to ask for."""
    yield _machine_type(profile)
    program = shutil.which("databricks")
    if program is None:
        hint = "Install it (https://docs.databricks.com/dev-tools/cli/install.html), then `databricks auth login`."
        yield Check("databricks", False, "Databricks' command line is not installed", hint)
        return
    yield Check("databricks", True, program)
    yield _signed_in(program)


def _machine_type(profile: Profile) -> Check:
    if profile.machine:
        return Check("machine type", True, profile.machine)
    hint = 'Write machine = "Standard_D8s_v5@eastus" or the like: the job asks for it, and its price is known.'
    return Check("machine type", False, "the profile names none", hint)


def _signed_in(program: str) -> Check:
    command = [program, "current-user", "me", "--output", "json"]
    hint = "Sign in with `databricks auth login --host https://YOUR-WORKSPACE`."
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ANSWER_S)
        name = json.loads(done.stdout)["userName"] if done.returncode == 0 else ""
    except subprocess.TimeoutExpired:
        return Check("signed in", False, f"Databricks did not answer for {_ANSWER_S:.0f} s", "Is it reached from here?")
    except (OSError, ValueError, KeyError, TypeError):
        name = ""
    if not name:
        return Check("signed in", False, "Databricks does not know who you are", hint)
    return Check("signed in", True, f"as {name}")


def _cores(profile: Profile) -> Check:
    own = usable_cores()
    said = f"{profile.cores} of the {own} that this process may use"
    return Check("cores", profile.cores <= own, said, "" if profile.cores <= own else f"Write cores = {own} or less.")


def _memory(profile: Profile) -> Check:
    machine = memory()
    said = f"{size(profile.memory_bytes)} of {size(machine.total)}, {size(machine.available)} free now"
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
    return Check("disk", ok, f"{size(free)} free", "" if ok else "Free some: `voxelflow clean` shows what takes space.")
