"""What a run worked with: packages, machine, the workspace's git state, the code of its nodes; two of them compared.

No environment variable is recorded: what is goes to MLflow, and they hold secrets.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.cgroups import memory, usable_cores
from engine.storage.files import write_whole
from engine.storage.workspace_paths import LocalValues, WorkspacePaths
from engine.text import plural, size
from engine.workspace import Workspace

if TYPE_CHECKING:
    # Every process loads this module with the node types; planning a run is not its work.
    from engine.catalog import Catalog
    from engine.document.plan import Plan

FILE = "environment.json"
"""In the folder of a run."""
DISTURBED = 0.15
"""Other programs that took this share of the machine's cores, or more, have changed what was measured."""
_PATIENCE_S = 10.0
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
"""Nothing is written into the repository, and no program that its settings name is started."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")


# --- git: its remotes are left out, since their URLs may hold a password ----------------------------


class GitState(_Frozen):
    """`changes` is the hash of the difference to the commit, "" where there is none; `changed` its files.

    Files that git does not know are not looked for: data may lie there by the hundred thousand. `problem` says why
    nothing is known: no git, no checkout.
    """

    commit: str = ""
    branch: str = ""
    changed: tuple[str, ...] = ()
    changes: str = ""
    problem: str = ""

    @property
    def dirty(self) -> bool:
        """Whether tracked files differ from the commit."""
        return bool(self.changes)


def git_state(folder: Path) -> GitState:
    """The checkout that `folder` lies in. Never raises: what git does not say is the `problem`."""
    try:
        commit = _git(folder, "rev-parse", "--verify", "HEAD").decode().strip()
        branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD").decode().strip()
        plain = ("--no-ext-diff", "--no-textconv")
        names = _git(folder, "diff", "HEAD", *plain, "--name-only", "-z").decode(errors="replace")
        difference = _git(folder, "diff", "HEAD", *plain, "--binary") if names else b""
    except FileNotFoundError:
        return GitState(problem="git is not installed")
    except subprocess.TimeoutExpired:
        return GitState(problem=f"git did not answer within {_PATIENCE_S:g} s")
    except (OSError, subprocess.CalledProcessError) as exc:
        return GitState(problem=_reason(exc))
    return GitState(
        commit=commit,
        branch="" if branch == "HEAD" else branch,
        changed=tuple(name for name in names.split("\0") if name),
        changes=hashlib.blake2b(difference, digest_size=16).hexdigest() if difference else "",
    )


def _git(folder: Path, *arguments: str) -> bytes:
    # Variables such as GIT_DIR, set by the program that called us, mean another checkout.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *_QUIET, *arguments],
        cwd=folder,
        env=environment | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=_PATIENCE_S,
    )
    return done.stdout


def _reason(exc: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(exc, subprocess.CalledProcessError):
        first: str = next(iter(exc.stderr.decode(errors="replace").splitlines()), "")
        return "not in a git checkout" if "not a git repository" in first else f"git: {first or exc.returncode}"
    return f"git: {exc.strerror or exc}"


# --- machine -------------------------------------------------------------------------------------


class Machine(_Frozen):
    """What is left empty or 0 could not be found out. `cores` and `gpus` are those this process may use."""

    processor: str = ""
    cores: int = 0
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    gpu_driver: str = ""

    def describe(self) -> str:
        """In one line for people."""
        parts = [f"{self.processor or 'unknown processor'}, {plural(self.cores, 'cores')}, {size(self.memory_bytes)}"]
        parts += [f"{self.gpus.count(name)} x {name}" for name in dict.fromkeys(self.gpus)]
        return ", ".join(parts)


def this_machine() -> Machine:
    """The machine that this process runs on, or the part of it that a container has."""
    gpus, driver = _gpus()
    memory_bytes = memory().total
    return Machine(
        processor=_processor(), cores=usable_cores(), memory_bytes=memory_bytes, gpus=gpus, gpu_driver=driver
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
            used = _visible([_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles])
            names = tuple(_text(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByUUID(uuid))) for uuid in used)
            return names, _text(pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()
    return (), ""


def _visible(uuids: Sequence[str]) -> list[str]:
    """Those of the devices that CUDA_VISIBLE_DEVICES leaves to this process, or parts of them (MIG), in its order.

    It holds numbers, UUIDs or beginnings of UUIDs; what follows one that names no device has no effect (NVIDIA, "CUDA
    C++ Programming Guide", CUDA Environment Variables). CUDA may number devices of several kinds in another order.
    """
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return list(uuids)
    out: list[str] = []
    for part in map(str.strip, wanted.split(",")):
        if part.startswith("GPU-"):
            named = [uuid for uuid in uuids if uuid.startswith(part)]
        else:
            named = [part] if part.startswith("MIG-") else [uuid for i, uuid in enumerate(uuids) if part == str(i)]
        if len(named) != 1:
            break
        out += named
    return out


def _text(value: str | bytes) -> str:
    """Older versions of nvidia-ml-py give bytes."""
    return value.decode() if isinstance(value, bytes) else value


# --- packages ------------------------------------------------------------------------------------


def installed_packages() -> dict[str, str]:
    """Version by normalised name, sorted.

    Read from the names of the `NAME-VERSION.dist-info` folders alone (the standard "Recording installed
    projects"): importlib.metadata reads every METADATA file for the same answer, 0.2 s at 180 packages.
    """
    found: dict[str, str] = {}
    for place in sys.path:
        for folder in sorted(Path(place or ".").glob("*.dist-info")):
            name, dash, version = folder.name.removesuffix(".dist-info").rpartition("-")
            # What pip left of a removal that was cut off begins with a tilde.
            if dash and not name.startswith("~"):
                # The first one on the path is the one that is imported.
                found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version)
    return dict(sorted(found.items()))


# --- all of it, kept in the run's folder when the run starts -------------------------------------


class NodeCode(_Frozen):
    """What a node of the run was: `source` is the hash of its file where it is the workspace's own, else ""."""

    type: str
    version: int
    source: str = ""
    params: LocalValues = {}
    """Every parameter, the defaults too."""
    seed: int = 0
    """What its context gave it as a seed."""


class Resources(_Frozen):
    """What the profile let the run use."""

    profile: str
    backend: str
    cores: int
    gpus: int


class Environment(_Frozen):
    """What a run worked with."""

    format: int = 1
    voxelflow: str
    python: str
    platform: str
    packages: dict[str, str]
    machine: Machine
    resources: Resources
    git: GitState
    nodes: dict[str, NodeCode]

    @property
    def requirements(self) -> str:
        """The packages as the text of a requirements file."""
        return "".join(f"{name}=={number}\n" for name, number in self.packages.items())


def environment_of(workspace: Workspace, plan: Plan, catalog: Catalog) -> Environment:
    """The environment of a run of `plan` that starts in this process now."""
    profile, packages = plan.profile, installed_packages()
    return Environment(
        voxelflow=packages.get("voxelflow", "unknown"),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=platform.platform(),
        packages=packages,
        machine=this_machine(),
        resources=Resources(profile=profile.name, backend=profile.backend, cores=profile.cores, gpus=profile.gpus),
        git=git_state(workspace.root),
        nodes={
            task.node: NodeCode(
                type=task.node_type,
                version=task.version,
                source=_source(catalog, task.node_type, task.version),
                params=task.params,
                seed=task.given_seed,
            )
            for task in plan.tasks
        },
    )


def keep_environment(workspace: Workspace, run_id: str, plan: Plan, catalog: Catalog) -> None:
    """Keep the environment of a run's first start; a later attempt leaves it as it is."""
    path = workspace.run_folder(run_id) / FILE
    if path.exists():
        return
    text = environment_of(workspace, plan, catalog).model_dump_json(indent=1, context=WorkspacePaths(workspace.root))
    write_whole(path, text + "\n", durable=True)


def kept_environment(workspace: Workspace, run_id: str) -> Environment | None:
    """The environment in a run's folder; None when it is gone or cannot be read."""
    try:
        text = (workspace.run_folder(run_id) / FILE).read_bytes()
        return read_environment(text, WorkspacePaths(workspace.root))
    except OSError:
        return None


def read_environment(text: str | bytes, paths: WorkspacePaths | None = None) -> Environment | None:
    """The environment in a JSON text, that `paths` of a workspace stored if given; None when it is none."""
    try:
        return Environment.model_validate_json(text, context=paths)
    except ValidationError:
        return None


def _source(catalog: Catalog, name: str, number: int) -> str:
    found = catalog.find(name, number)
    return "" if found is None or found.origin == "built-in" else found.source_digest


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON gives them back: tuples as lists."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in params.items()}


MISSING = "not there"


# --- two of them ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """One thing that was `before` and is `now`, both in words; `what` names it."""

    what: str
    before: str
    now: str

    def line(self) -> str:
        """`git commit: abc -> def`."""
        return f"{self.what}: {self.before} -> {self.now}"


def differences(before: Environment, now: Environment, nodes: Collection[str]) -> list[Difference]:
    """What may explain another result of `nodes`, the likeliest first."""
    return [d for d in _all(before, now, nodes) if d.before != d.now]


def _all(before: Environment, now: Environment, nodes: Collection[str]) -> Iterator[Difference]:
    for node in sorted(before.nodes.keys() & now.nodes.keys() & set(nodes)):
        yield from _code(node, before.nodes[node], now.nodes[node])
    yield Difference("Voxelflow", before.voxelflow, now.voxelflow)
    yield Difference("Python", before.python, now.python)
    yield from _each("package ", before.packages, now.packages)
    yield Difference("git commit", before.git.commit or MISSING, now.git.commit or MISSING)
    yield Difference("uncommitted changes", before.git.changes or "none", now.git.changes or "none")
    yield Difference("processor", before.machine.processor, now.machine.processor)
    yield Difference("devices", ", ".join(before.machine.gpus) or "none", ", ".join(now.machine.gpus) or "none")
    yield Difference("GPU driver", before.machine.gpu_driver or "none", now.machine.gpu_driver or "none")
    yield Difference("cores of the machine", str(before.machine.cores), str(now.machine.cores))
    for name in ("backend", "cores", "gpus"):
        yield Difference(f"profile's {name}", str(getattr(before.resources, name)), str(getattr(now.resources, name)))
    yield Difference("platform", before.platform, now.platform)


def _code(node: str, before: NodeCode, now: NodeCode) -> Iterator[Difference]:
    yield Difference(f"node {node}", f"{before.type} version {before.version}", f"{now.type} version {now.version}")
    yield Difference(f"code of node {node}", before.source or "built-in", now.source or "built-in")
    yield Difference(f"seed of node {node}", str(before.seed), str(now.seed))
    yield from _each(f"{node}.", plain(before.params), plain(now.params))


def _each(prefix: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted(before.keys() | now.keys()):
        yield Difference(
            f"{prefix}{name}",
            str(before[name]) if name in before else MISSING,
            str(now[name]) if name in now else MISSING,
        )
