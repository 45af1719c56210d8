"""The workspace: the directory that holds pipelines, data, runs, settings and a person's own nodes.

workspace.json      format version
pipelines/          saved documents
my_nodes/           the person's own node types (run only after `trust`)
my_models/          the person's own models (the same)
data/               results, by node type and lineage
scratch/            half-done work, by fingerprint
runs/ID/            the run's document, plan, logs and lock
runs.db             the run store (SQLite)
profiles.toml       compute profiles beside the ready ones
storages.json       folders elsewhere that hold data/ and scratch/ for profiles with a storage root
mlflow.db, mlartifacts/   local MLflow tracking
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import WorkspaceError

FORMAT = 1
ENVIRONMENT = "VOXELFLOW_WORKSPACE"
_MARK = "workspace.json"
_STORAGES = "storages.json"
_MODELS = "my_models"


@dataclass(frozen=True)
class Workspace:
    """Paths of one workspace. Make it with `open_workspace`."""

    root: Path

    @property
    def pipelines(self) -> Path:
        return self.root / "pipelines"

    @property
    def my_nodes(self) -> Path:
        return self.root / "my_nodes"

    @property
    def my_models(self) -> Path:
        return self.root / _MODELS

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    @property
    def locks(self) -> Path:
        return self.root / "locks"

    @property
    def observations(self) -> Path:
        """Listings of input folders, kept by digest while a result or a run needs them."""
        return self.root / "observations"

    @property
    def database(self) -> Path:
        return self.root / "runs.db"

    @property
    def mlflow_database(self) -> Path:
        return self.root / "mlflow.db"

    @property
    def mlflow_artifacts(self) -> Path:
        return self.root / "mlartifacts"

    def run_folder(self, run_id: str) -> Path:
        return self.root / "runs" / run_id

    def log_file(self, run_id: str, node_id: str) -> Path:
        return self.run_folder(run_id) / "logs" / f"{node_id}.log"


@dataclass(frozen=True)
class Storage:
    """A folder that holds results and half-done work: the workspace itself, or one below a storage root."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"


def storage_of(workspace: Workspace, storage_root: Path | None) -> Storage:
    """Where runs of a profile with this storage root keep their data; None is the workspace itself.

    Each workspace has a folder of its own below a storage root, since locks and the run store know
    one workspace only: two that shared a folder would free each other's data. Its name is chosen
    once and kept in `storages.json`; nothing is made at the root before a run starts.
    """
    if storage_root is None:
        return Storage(workspace.root)
    key = os.path.normpath(storage_root)
    if key in (known := _storages(workspace)):
        return Storage(Path(known[key]))
    workspace.locks.mkdir(parents=True, exist_ok=True)
    with (workspace.locks / "storages").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two first runs at once must agree on the name
        known = _storages(workspace)
        if key not in known:
            known[key] = str(Path(key) / f"voxelflow-{uuid.uuid4().hex[:8]}")
            _replace(workspace.root / _STORAGES, json.dumps(known, indent=2) + "\n")
    return Storage(Path(known[key]))


def storages(workspace: Workspace) -> list[Storage]:
    """Every folder that may hold data of this workspace, its own first."""
    return [Storage(workspace.root), *(Storage(Path(root)) for root in _storages(workspace).values())]


def _storages(workspace: Workspace) -> dict[str, str]:
    try:
        found: Mapping[str, str] = json.loads((workspace.root / _STORAGES).read_text())
        return {str(key): str(value) for key, value in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as exc:
        raise WorkspaceError(
            f"{workspace.root / _STORAGES} cannot be read: {exc}",
            hint='It maps storage roots to the folders used there: {"/mnt/shared": "/mnt/shared/voxelflow-..."}.',
        ) from exc


def place_of(workspace: Workspace, path: Path) -> Path | None:
    """The folder of results (node type, lineage) that `path` lies in; None when it is not this workspace's."""
    for storage in storages(workspace):
        if path.is_relative_to(storage.data):
            inside = path.relative_to(storage.data).parts[:2]
            return storage.data.joinpath(*inside) if len(inside) == 2 else None
    return None


def place_lock(workspace: Workspace, place: Path) -> Path:
    """The lock file of a folder of results: held shared by runs, exclusively while it is freed."""
    name = f"place-{place.parent.name}-{place.name}"
    if not (place.is_relative_to(workspace.data) or place.is_relative_to(workspace.scratch)):
        # The same lineage may lie in several storages.
        name += f"-{hashlib.blake2b(str(place).encode(), digest_size=6).hexdigest()}"
    return workspace.locks / name


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:6]}")
    temporary.write_text(text)
    temporary.replace(path)


def default_root() -> Path:
    """`$VOXELFLOW_WORKSPACE`, else the current directory if it is a workspace, else `./workspace`."""
    if named := os.environ.get(ENVIRONMENT):
        return Path(named)
    here = Path.cwd()
    return here if (here / _MARK).exists() else here / "workspace"


def open_workspace(root: Path | None = None) -> Workspace:
    """Open the workspace at `root`, making it when it is not there.

    Raises `WorkspaceError` when the path cannot be written or the workspace is of a newer format.
    """
    root = (root or default_root()).expanduser().absolute()
    mark = root / _MARK
    try:
        if mark.exists():
            found = json.loads(mark.read_text()).get("format", 0)
            if found > FORMAT:
                raise WorkspaceError(
                    f"the workspace {root} was made by a newer Voxelflow (format {found})", hint="Update Voxelflow."
                )
        workspace = Workspace(root)
        for folder in (
            workspace.pipelines,
            workspace.my_nodes,
            workspace.data,
            workspace.scratch,
            workspace.locks,
            workspace.observations,
            root / "runs",
        ):
            folder.mkdir(parents=True, exist_ok=True)
        if not mark.exists():
            temporary = root / f".{_MARK}.{os.getpid()}"
            temporary.write_text(json.dumps({"format": FORMAT}) + "\n")
            temporary.replace(mark)
    except json.JSONDecodeError as exc:
        raise WorkspaceError(f"{mark} is damaged: {exc}", hint="Delete that file; nothing else is lost.") from exc
    except OSError as exc:
        raise WorkspaceError(
            f"the workspace {root} cannot be used: {exc.strerror or exc}",
            hint="Choose another directory with --workspace.",
        ) from exc
    return workspace


def _trust_file() -> Path:
    # Outside the workspace: a workspace that someone sends you must not be able to trust itself.
    from platformdirs import user_config_path

    return user_config_path("voxelflow") / "trusted-workspaces.json"


def workspace_of_model(file: Path) -> Workspace | None:
    """The workspace whose `my_models/` holds the file; None when it lies anywhere else."""
    folder = file.parent
    return Workspace(folder.parent) if folder.name == _MODELS and (folder.parent / _MARK).exists() else None


def own_code(workspace: Workspace) -> list[Path]:
    """The files that may run once the workspace is trusted."""
    return sorted(
        path
        for folder in (workspace.my_nodes, workspace.my_models)
        for path in folder.glob("*.py")
        if not path.name.startswith("_")
    )


def is_trusted(workspace: Workspace) -> bool:
    """Whether this person said that the workspace's own nodes and models may run."""
    try:
        listed = json.loads(_trust_file().read_text())
    except (OSError, ValueError):
        return False
    return isinstance(listed, list) and str(workspace.root.resolve()) in listed


def trust(workspace: Workspace) -> None:
    path = _trust_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        listed = json.loads(path.read_text())
    except (OSError, ValueError):
        listed = []
    root = str(workspace.root.resolve())
    if root not in listed:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(sorted([*listed, root]), indent=2) + "\n")
        temporary.replace(path)
