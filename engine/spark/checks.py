"""What a Spark profile needs, tried one thing after another: `voxelflow profiles test`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import re
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

from engine.errors import VoxelflowError
from engine.extras import install
from engine.profiles import Check, Profile, spark_settings
from engine.profiles.checks import nvidia_devices
from engine.spark.failures import spark_error
from engine.spark.jars import delta_artifact, delta_jars
from engine.spark.java import find_java
from engine.spark.session import is_local, open_session
from engine.text import plural
from engine.workspace import Workspace, storage_of

PACKAGES = ("deltalake", "numpy", "pyarrow", "pydantic")
"""What our code needs where the executors run. Training needs tensorflow there as well."""
_EXECUTOR_WAIT_S = 60.0
_TASKS_EACH = 4
"""Spark places tasks as it likes; with a few for each core none is likely to be left out."""


def checks(profile: Profile, workspace: Workspace, log: Callable[[str], None] | None = None) -> Iterator[Check]:
    """Try what the profile needs; each finding as it comes. What cannot be tried after a failure is left out.

    `log` hears of steps that take long. Starts and ends a Spark session, and leaves no file.
    """
    say = log or (lambda _: None)
    step = "Java"
    try:
        java = find_java()
        yield Check(step, True, f"Java {java.version} ({java.program})")
        step = "settings"
        own = spark_settings(profile)
        step = "jars"
        jars = delta_jars(own, say)
    except VoxelflowError as exc:
        yield _failed(step, exc)
        return
    said = f"{delta_artifact()} and {len(jars) - 1} more in {_folder(jars)}" if jars else "the profile names its own"
    yield Check(step, True, said)
    folder = Path(tempfile.mkdtemp(prefix="voxelflow-test-"))
    java_log = folder / "spark.log"
    say(f"starting a session at {profile.master}")
    began = time.monotonic()
    try:
        session = open_session(
            profile, name=f"voxelflow profiles test {profile.name}", workspace=workspace, log=java_log, folder=folder
        )
    except VoxelflowError as exc:
        yield _failed("session", exc)  # its log stays
        return
    try:
        seconds = time.monotonic() - began
        yield Check("session", True, f"Spark {session.version} at {profile.master}, started in {seconds:.0f} s")
        yield from _on_executors(session, profile, workspace, java_log)
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _failed(name: str, exc: VoxelflowError) -> Check:
    return Check(name, False, exc.message, exc.hint)


def _folder(jars: list[Path]) -> Path:
    """The nearest folder that holds all of them."""
    out = jars[0].parent
    while not all(jar.is_relative_to(out) for jar in jars):
        out = out.parent
    return out


def _on_executors(session: SparkSession, profile: Profile, workspace: Workspace, log: Path) -> Iterator[Check]:
    context = session.sparkContext
    count = 1 if is_local(profile.master) else _executors(context)
    if not count:
        yield Check(
            "executors",
            False,
            f"the cluster has given no executor within {_EXECUTOR_WAIT_S:.0f} s",
            f"Is it full, or does the profile ask for more memory or cores than its workers have? {_look(profile)}",
        )
        return
    storage = storage_of(workspace, profile.storage_root).root
    name = f".voxelflow-test-{uuid.uuid4().hex[:12]}"
    place = storage / name
    try:
        place.mkdir(parents=True)
        (place / "driver").write_text(name)
    except OSError as exc:
        yield Check(
            "storage",
            False,
            f"{storage} cannot be written: {exc.strerror or exc}",
            "Set storage_root in the profile to a folder that this machine and all executors can write, or make this"
            f' one so: `sudo mkdir -p {quote(str(storage))} && sudo chown "$USER" {quote(str(storage))}`.',
        )
        return
    try:
        tasks = max(2, context.defaultParallelism, count) * _TASKS_EACH
        found = context.parallelize(range(tasks), tasks).map(_Probe(str(place))).collect()
        yield from _judged(found, place)
        if wanted := _wanted_gpus(profile):
            yield _gpus(found, wanted)
    except Exception as exc:
        yield _failed("executors", spark_error(exc, log))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _look(profile: Profile) -> str:
    """The command that shows what the cluster has, and what it gives to whom."""
    master = profile.master
    if master.startswith("k8s:"):
        namespace = profile.spark.get("spark.kubernetes.namespace") or "default"
        return f"`kubectl get pods -n {quote(namespace)}` shows which wait, `kubectl describe pod` why."
    if master.startswith("yarn"):
        return "`yarn node -list -all -showDetails` shows what its nodes have, `yarn application -list` what runs."
    host = master.removeprefix("spark://").partition(",")[0].rpartition(":")[0]
    return f"`curl http://{host}:8080/json/` shows its workers, and what they have free."


def _wanted_gpus(profile: Profile) -> int:
    """How many GPUs each executor needs: as many as Spark is to ask for, else those of the profile. On this machine
    there are no others than it, which are looked at before."""
    if profile.is_here:
        return 0
    asked = profile.spark.get("spark.executor.resource.gpu.amount", "").strip()
    return int(asked) if re.fullmatch("[0-9]{1,4}", asked) else profile.gpus


def _executors(context: SparkContext) -> int:
    """How many executors there are, once there is one and no more come for a second."""
    java: Any = context._jsc
    until, count, since = time.monotonic() + _EXECUTOR_WAIT_S, 0, time.monotonic()
    while time.monotonic() < until:
        now = java.sc().getExecutorMemoryStatus().size() - 1  # the driver is among them
        if now != count:
            count, since = now, time.monotonic()
        elif count and time.monotonic() - since > 1:
            break
        time.sleep(0.1)
    return count


@dataclass(frozen=True)
class _Found:
    """An executor as a task on it saw it. Its `folder` and `host` identify it."""

    folder: str
    host: str
    python: str
    versions: dict[str, str]
    ours: bool
    reads: bool
    wrote: str
    trouble: str
    gpus: int = 0
    """NVIDIA's devices that it was given."""


class _Probe:
    """Looks around on an executor. `place` is a folder that the driver has made and written."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __call__(self, number: int) -> _Found:
        time.sleep(0.05)  # else one executor takes them all before the others have begun
        versions = {}
        for package in (*PACKAGES, "tensorflow"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                versions[package] = importlib.metadata.version(package)
        place, reads, wrote, trouble = Path(self._place), False, f"executor-{number}", ""
        try:
            reads = (place / "driver").read_text() == place.name
            (place / wrote).write_text(place.name)
        except OSError as exc:
            trouble = str(exc.strerror or exc)
        home = str(SparkFiles.getRootDirectory())
        return _Found(
            folder=home,
            host=socket.gethostname(),
            python=platform.python_version(),
            versions=versions,
            ours=__file__.startswith(home),
            reads=reads,
            wrote=wrote,
            trouble=trouble,
            gpus=nvidia_devices(),
        )


def _judged(found: list[_Found], place: Path) -> Iterator[Check]:
    executors = {(f.host, f.folder): f for f in found}.values()
    hosts = sorted({f.host for f in executors})
    where = f"{len(executors)} on {len(hosts)} host{'s' if len(hosts) > 1 else ''}"
    here = platform.python_version()
    others = sorted({f.python for f in executors if f.python.split(".")[:2] != here.split(".")[:2]})
    lacking = {name: [f.host for f in executors if name not in f.versions] for name in PACKAGES}
    lacking = {name: sorted(set(without)) for name, without in lacking.items() if without}
    if others:
        yield Check(
            "executors", False, f"{where}: Python {', '.join(others)}, and here it is {here}", _python_hint(here)
        )
    elif lacking:
        text = "; ".join(f"{name} on {', '.join(without)}" for name, without in lacking.items())
        yield Check("executors", False, f"{where}: without {text}", _python_hint(here))
    elif not all(f.ours for f in executors):
        yield Check("executors", False, f"{where}: they take another Voxelflow than this one", _OTHER_CODE)
    else:
        training = "" if all("tensorflow" in f.versions for f in executors) else "; no tensorflow, so no training there"
        yield Check("executors", True, f"{where}, Python {here}, all packages{training}")
    blind = {f.host: f.trouble or "it reads something else there" for f in found if not f.reads or f.trouble}
    lost = sorted({f.host for f in found if not f.trouble and not _written(place / f.wrote, place.name)})
    storage = place.parent
    if blind:
        text = "; ".join(f"{host} ({why})" for host, why in sorted(blind.items()))
        yield Check("storage", False, f"{storage} cannot be used from {text}", _STORAGE)
    elif lost:
        yield Check("storage", False, f"{storage} is another folder on {', '.join(lost)} than here", _STORAGE)
    else:
        yield Check("storage", True, f"{storage} is read and written by all executors and by this machine")


def _gpus(found: list[_Found], wanted: int) -> Check:
    """Whether each executor has as many GPUs, and a TensorFlow that could use them."""
    name, executors = "executors' GPUs", {(f.host, f.folder): f for f in found}.values()
    few = {f.host: f.gpus for f in executors if f.gpus < wanted}
    if few:
        said = "; ".join(f"{host} has {has} of {wanted}" for host, has in sorted(few.items()))
        hint = (
            f'Have Spark ask for them ("spark.executor.resource.gpu.amount" = {wanted}) where the cluster hands them'
            " out; `nvidia-smi` on that host says whether NVIDIA's driver works there. Or write gpus = 0."
        )
        return Check(name, False, said, hint)
    without = sorted({f.host for f in executors if "tensorflow" not in f.versions})
    if without:
        hint = f"Install it with CUDA's libraries in the executors' Python: {install('gpu')}"
        return Check(name, False, f"no tensorflow on {', '.join(without)} to use them", hint)
    return Check(name, True, f"each has {plural(min(f.gpus for f in executors), 'NVIDIA devices')} or more")


def _written(path: Path, text: str) -> bool:
    try:
        return path.read_text() == text
    except OSError:
        return False


_STORAGE = (
    "Set storage_root in the profile to a folder that this machine and all executors have mounted at the same path;"
    " `findmnt -T FOLDER`, there and here, shows what is mounted."
)
_OTHER_CODE = (
    "Take the installed voxelflow out of the executors' Python (`pip uninstall voxelflow`): ours travels there."
)


def _python_hint(version: str) -> str:
    kind = ".".join(version.split(".")[:2])
    return (
        f"Give the executors Python {kind} with our third-party packages, on each host: `python{kind} -m venv /opt/vf"
        f" && /opt/vf/bin/pip install {' '.join(PACKAGES)}`; and name it in the profile:"
        ' "spark.pyspark.python" = "/opt/vf/bin/python".'
    )
