"""What a profile needs beside Spark: this machine's cores, memory, GPUs, a place for the data; or Databricks' tools."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from shlex import quote

from engine.cgroups import memory, usable_cores
from engine.extras import install, missing
from engine.prices import machine_table
from engine.profiles.cluster import PROVIDERS
from engine.profiles.profile import Check, Profile
from engine.text import plural, size
from engine.workspace import Workspace, storage_of

_LITTLE_DISK = 1 << 30
_ANSWER_S = 30.0
DEVICES = Path("/dev")
_TENSORFLOW_S = 120.0
"""It is imported in seconds, and in a minute from a disk that is slow and has not read it before."""
_INSTALL_DATABRICKS = "curl -fsSL https://raw.githubusercontent.com/databricks/setup-cli/main/install.sh | sh"
_ASK_TENSORFLOW = """
import tensorflow as tf
print("\\nGPUs:", len(tf.config.list_physical_devices("GPU")), "CUDA:", tf.test.is_built_with_cuda())
"""
_ANSWER = r"^GPUs: ([0-9]+) CUDA: (True|False)$"


def local_checks(profile: Profile, workspace: Workspace) -> Iterator[Check]:
    """Each check as it is made. Writes and removes one small file where the data will lie."""
    yield _cores(profile)
    yield _memory(profile)
    # On a cluster the executors train, with GPUs and a TensorFlow of theirs: they are asked (`engine.spark.checks`).
    if profile.gpus and profile.is_here:
        devices = _gpus(profile)
        yield devices
        if devices.ok:
            yield _sees_gpus(profile)
    place = storage_of(workspace, profile.storage_root).root
    written = _writable(place, of_storage_root=profile.storage_root is not None)
    yield written
    if written.ok:
        yield _disk(place)


def databricks_checks(profile: Profile, workspace: Workspace) -> Iterator[Check]:
    """What deploying a job there needs here: Databricks' command line, signed in, and the machine types to ask for."""
    yield _machine_type(profile, workspace)
    if profile.spot:
        yield _spot_market(profile)
    program = shutil.which("databricks")
    if program is None:
        hint = f"Install it: `{_INSTALL_DATABRICKS}`; then `databricks auth login --host https://YOUR-WORKSPACE`."
        yield Check("databricks", False, "Databricks' command line is not installed", hint)
        return
    yield Check("databricks", True, program)
    yield _signed_in(program)


def _machine_type(profile: Profile, workspace: Workspace) -> Check:
    if profile.machine:
        if profile.executor_machine in ("", profile.machine):
            return Check("machine type", True, profile.machine)
        return _both_types(profile, workspace)
    hint = 'Write machine = "Standard_D8s_v5@eastus" or the like: the job asks for it, and its price is known.'
    hint += " `voxelflow prices` lists the types."
    return Check("machine type", False, "the profile names none", hint)


def _both_types(profile: Profile, workspace: Workspace) -> Check:
    """A cluster has machines of one provider, and one runtime: that for GPUs starts on machines that have some, and on
    no others."""
    said = f"{profile.machine} (driver), {profile.executor_machine} (executors)"
    machines = [machine_table(workspace).find(key) for key in (profile.machine, profile.executor_machine)]
    providers = [machine.provider.casefold() for machine in machines]
    if all(providers) and len(set(providers)) > 1:
        whose = f"{said}, of {machines[0].provider} and {machines[1].provider}"
        return Check("machine types", False, whose, "Choose two types of the provider on which your Databricks is.")
    found = {machine.key: machine.gpus for machine in machines}
    known = [gpus for gpus in found.values() if gpus is not None]
    if len({gpus > 0 for gpus in known}) < 2:
        return Check("machine types", True, said)
    without = next(key for key, gpus in found.items() if not gpus)
    hint = "Choose types that both have GPUs, or that both have none: Databricks makes no cluster of one and the other."
    return Check("machine types", False, f"{said}, and {without} has no GPU", hint)


def _spot_market(profile: Profile) -> Check:
    """The job asks each provider in other words."""
    if profile.provider.strip().casefold() in PROVIDERS:
        return Check("spot market", True, f"of {profile.provider}, for the executors")
    machine = (profile.executor_machine or profile.machine).partition("@")[0]
    said = f"the provider of {machine} is {profile.provider or 'not known'}"
    hint = f"Write {', '.join(PROVIDERS)} as its provider into machines.csv of the workspace, or take spot out."
    return Check("spot market", False, said, hint)


def _signed_in(program: str) -> Check:
    command = [program, "current-user", "me", "--output", "json"]
    hint = "Sign in with `databricks auth login --host https://YOUR-WORKSPACE`."
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ANSWER_S)
        name = json.loads(done.stdout)["userName"] if done.returncode == 0 else ""
    except subprocess.TimeoutExpired:
        hint = "Run `databricks auth profiles`: it says which address is asked, and whether that answers."
        return Check("signed in", False, f"Databricks did not answer for {_ANSWER_S:.0f} s", hint)
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
    found = nvidia_devices()
    ok = profile.gpus <= found
    hint = "" if ok else f"Install NVIDIA's driver, until `nvidia-smi` lists them, or write gpus = {found}."
    return Check("GPUs", ok, f"{profile.gpus} of {found} NVIDIA devices", hint)


def nvidia_devices() -> int:
    """How many GPUs of NVIDIA's the driver of this machine, or container, offers."""
    return len([p for p in DEVICES.glob("nvidia[0-9]*") if p.name.removeprefix("nvidia").isdigit()])


def _sees_gpus(profile: Profile) -> Check:
    """What trains without a word on the CPU where it does not see the devices that there are."""
    name, cuda = "TensorFlow", install("gpu")
    if missing(["tensorflow"]):
        return Check(name, False, "it is not installed", f"Install it with CUDA's libraries: {cuda}")
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _ASK_TENSORFLOW],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TENSORFLOW_S,
        )
    except subprocess.TimeoutExpired:
        hint = "Try again when the machine has less to do; `nvidia-smi` says whether the driver answers."
        return Check(name, False, f"it did not answer within {_TENSORFLOW_S:g} s", hint)
    except OSError as exc:
        return Check(name, False, f"Python did not start: {exc.strerror or exc}", "Try again.")
    answer = re.search(_ANSWER, done.stdout, re.MULTILINE)
    if answer is None:
        return Check(name, False, f"it did not start: {_last_words(done)}", f"Install it anew: {cuda}")
    seen, said = int(answer[1]), f"it sees {answer[1]} of the profile's {plural(profile.gpus, 'GPUs')}"
    if seen >= profile.gpus:
        return Check(name, True, f"it sees {plural(seen, 'GPUs')}")
    if answer[2] == "False":
        return Check(name, False, f"{said}: it was built without CUDA", f"Install the one with it: {cuda}")
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None and _named_in(shown) < profile.gpus:
        return Check(
            name,
            False,
            said,
            f"CUDA_VISIBLE_DEVICES is {shown!r}, which hides the others: `unset CUDA_VISIBLE_DEVICES`.",
        )
    if seen:
        return Check(name, False, said, "See which ones `nvidia-smi` lists, or write fewer gpus.")
    hint = f"Install CUDA's libraries: {cuda}. If they are there, look at the driver's version: `nvidia-smi`."
    if shown is not None:
        hint += f" CUDA_VISIBLE_DEVICES is {shown!r}: it hides all other GPUs, and all where that is none of them."
    return Check(name, False, said, hint)


def _named_in(visible: str) -> int:
    """How many devices a value of CUDA_VISIBLE_DEVICES leaves: those before one that there is not, mostly -1."""
    return len(list(takewhile(lambda name: name and not name.startswith("-"), map(str.strip, visible.split(",")))))


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    """Why a process gave no answer, in a line."""
    if done.returncode < 0:
        return f"ended by {signal.Signals(-done.returncode).name}"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[-1][:300] if lines and "Traceback" in done.stderr else f"exit status {done.returncode}"


def _writable(place: Path, *, of_storage_root: bool) -> Check:
    take = f'`sudo mkdir -p {quote(str(place))} && sudo chown "$USER" {quote(str(place))}`'
    hint = (
        f"Mount the folder, or give yourself the right to write there: {take}; or name another as storage_root."
        if of_storage_root
        else f"Give yourself the right to write there: {take}; or choose another workspace with --workspace."
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
