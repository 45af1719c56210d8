"""The workspace: the directory of pipelines, data, runs, settings and a person's own nodes.

workspace.json      format version
pipelines/          saved documents
my_nodes/           the person's own node types (run only after `trust`)
my_models/          the person's own models (the same)
my_transforms/      the person's own transforms (the same)
data/               results, by node type and lineage
scratch/            half-done work, by fingerprint (`scratch_name`)
runs/ID/            the run's document, plan, logs and lock
runs.db             the run store (SQLite)
bench/              results of `voxelflow bench`, of this machine and others
probes/             results of `voxelflow probe`
profiles.toml       compute profiles beside the ready ones
storages.json       folders elsewhere with data/ and scratch/ for profiles with a storage root
mlflow.db, mlartifacts/   local MLflow tracking
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from engine.declare.field_rules import control_character
from engine.errors import WorkspaceError
from engine.storage.files import read_document, write_whole
from engine.storage.io_errors import remedy
from engine.storage.process_lock import ProcessLock
from engine.storage.workspace_paths import INSIDE, WorkspacePaths

FORMAT = 2
"""2: paths inside the workspace are stored relative to it (`engine.storage.workspace_paths`)."""
ENVIRONMENT = "VOXELFLOW_WORKSPACE"
_MARK = "workspace.json"
_STORAGES = "storages.json"
_MADE_IN = "made_in"
"""Its key for the workspace that chose the folders: a copy of that must not share them."""
_PATIENCE_S = 60.0
"""The lock is held for one small file; a stopped process (SIGSTOP) keeps it until it is killed."""
_MODELS = "my_models"
_TRANSFORMS = "my_transforms"


@dataclass(frozen=True)
class Storage:
    """A folder of results and half-done work: the workspace itself, or one below a storage root."""

    root: Path

    @property
    def data(self) -> Path:
        """Results, by node type and lineage."""
        return self.root / "data"

    @property
    def scratch(self) -> Path:
        """Half-done work, by fingerprint."""
        return self.root / "scratch"


class Workspace(Storage):
    """Paths of one workspace. Make it with `open_workspace`."""

    @property
    def pipelines(self) -> Path:
        """Saved documents."""
        return self.root / "pipelines"

    @property
    def my_nodes(self) -> Path:
        """The person's own node types."""
        return self.root / "my_nodes"

    @property
    def my_models(self) -> Path:
        """The person's own models."""
        return self.root / _MODELS

    @property
    def my_transforms(self) -> Path:
        """The person's own transforms of volumes."""
        return self.root / _TRANSFORMS

    @property
    def locks(self) -> Path:
        """Lock files."""
        return self.root / "locks"

    @property
    def observations(self) -> Path:
        """Listings of input folders, kept by digest while a result or a run needs them."""
        return self.root / "observations"

    @property
    def database(self) -> Path:
        """The run store."""
        return self.root / "runs.db"

    @property
    def mlflow_database(self) -> Path:
        """The local MLflow's SQLite file."""
        return self.root / "mlflow.db"

    @property
    def mlflow_artifacts(self) -> Path:
        """The local MLflow's artifacts."""
        return self.root / "mlartifacts"

    def run_folder(self, run_id: str) -> Path:
        """A run's document, plan, logs and lock."""
        return self.root / "runs" / run_id

    def sweep_folder(self, sweep_id: str) -> Path:
        """A sweep's lock and log, and what its search has learnt."""
        return self.root / "sweeps" / sweep_id

    def log_file(self, run_id: str, node_id: str) -> Path:
        """What a task's process printed."""
        return self.run_folder(run_id) / "logs" / f"{node_id}.log"


def storage_of(workspace: Workspace, storage_root: Path | None) -> Storage:
    """Where runs of a profile with this storage root keep their data; None is the workspace itself.

    Each workspace has a folder of its own below a storage root, since locks and the run store know
    one workspace only: two that shared a folder would free each other's data. Its name is chosen
    once and kept in `storages.json`; nothing is made at the root before a run starts.

    Raises `WorkspaceError` when another process keeps the lock under which it is chosen.
    """
    if storage_root is None:
        return Storage(workspace.root)
    key = os.path.normpath(storage_root)
    if key in (known := _storages(workspace)) and _read_storages(workspace).get(_MADE_IN, "") == str(workspace.root):
        return Storage(Path(known[key]))
    with _naming(workspace):  # two first runs at once must agree on the name
        known = _storages(workspace)
        known.setdefault(key, str(Path(key) / f"voxelflow-{uuid.uuid4().hex[:8]}"))
        stored = WorkspacePaths(workspace.root).stored
        text = {_MADE_IN: str(workspace.root)} | {stored(root): stored(folder) for root, folder in known.items()}
        write_whole(workspace.root / _STORAGES, json.dumps(text, indent=2) + "\n", durable=True)
    return Storage(Path(known[key]))


@contextmanager
def _naming(workspace: Workspace) -> Iterator[None]:
    lock = ProcessLock(workspace.locks / "storages")
    if not lock.acquire_within(_PATIENCE_S):
        raise WorkspaceError(
            f"{lock.noted() or 'another process'} has kept {lock.path} locked for {_PATIENCE_S:.0f} s",
            hint=f"`fuser {lock.path}` names the process. End it: nothing is lost.",
        )
    try:
        lock.note(f"process {os.getpid()} (since {datetime.now():%H:%M:%S})")
        yield
    finally:
        lock.release()


def storages(workspace: Workspace) -> list[Storage]:
    """Every folder that may contain data of this workspace, its own first."""
    return [Storage(workspace.root), *(Storage(Path(root)) for root in _storages(workspace).values())]


def _storages(workspace: Workspace) -> dict[str, str]:
    """The folders by storage root. A copy of a workspace leaves those outside to the original while that is there."""
    found, root = _read_storages(workspace), str(workspace.root)
    theirs: set[str] = set()
    if (maker := found.get(_MADE_IN, root)) != root and not _is_same_folder(maker, root):
        theirs = set(_read_storages(Workspace(Path(maker))).values())
    paths = WorkspacePaths(workspace.root)
    return {
        paths.loaded(key): paths.loaded(folder)
        for key, folder in found.items()
        if key != _MADE_IN and (folder.startswith(INSIDE) or folder not in theirs)
    }


def _is_same_folder(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _read_storages(workspace: Workspace) -> dict[str, str]:
    try:
        found: Mapping[str, str] = json.loads(read_document(workspace.root / _STORAGES))
        return {str(key): str(value) for key, value in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as exc:
        raise WorkspaceError(
            f"{workspace.root / _STORAGES} cannot be read: {exc}",
            hint='Write the folder used there beside each storage root: {"/mnt/shared": "/mnt/shared/voxelflow-..."}.',
        ) from exc


def scratch_name(fingerprint: str, shared: str, forced: bool) -> str:
    """The name below `scratch/` of a task's half-done work. `shared` is the folder of its lineage.

    Forced work has one of its own, as it has a folder of results: it must not go on from what an earlier run left.
    """
    # Those folders are named LINEAGE-SUFFIX; only this part of the path stays when the workspace is moved.
    suffix = PurePosixPath(shared).name.partition("-")[2] if forced else ""
    return f"{fingerprint}-{suffix}" if suffix else fingerprint


def place_of(workspace: Workspace, path: Path) -> Path | None:
    """The folder of results (node type, lineage) that `path` lies in; None when it is not this workspace's.

    Links are followed: a table that a pipeline names through one is the same table. The place is spelled as
    `storages` spells it, whichever way `path` leads there.
    """
    known = storages(workspace)
    try:
        real = Path(os.path.realpath(path))
        found = [(s.data, _parts_below(real, Path(os.path.realpath(s.data)))) for s in known]
    except ValueError:  # a text that can name no file, such as one with a lone surrogate
        found = []
    # As it is written too: a folder of results may be a link to another disk.
    for data, inside in [*found, *((s.data, _parts_below(path, s.data)) for s in known)]:
        if len(inside) >= 2:
            return data.joinpath(*inside[:2])
    return None


def _parts_below(path: Path, folder: Path) -> tuple[str, ...]:
    return path.relative_to(folder).parts if path.is_relative_to(folder) else ()


def place_lock(workspace: Workspace, place: Path) -> Path:
    """The lock file of a folder of results: held shared by runs, exclusively while it is freed."""
    name = f"place-{place.parent.name}-{place.name}"
    if not (place.is_relative_to(workspace.data) or place.is_relative_to(workspace.scratch)):
        # The same lineage may lie in several storages.
        name += f"-{hashlib.blake2b(str(place).encode(), digest_size=6).hexdigest()}"
    return workspace.locks / name


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
            found = _settings(root).get("format", 0)
            if isinstance(found, int) and found > FORMAT:
                raise WorkspaceError(
                    f"the workspace {root} was made by a newer Voxelflow: {mark.name} says format {found}, and this"
                    f" program knows formats up to {FORMAT}",
                    hint="Update Voxelflow, or choose another workspace with --workspace.",
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
            write_whole(mark, json.dumps({"format": FORMAT}) + "\n", durable=True)
    except OSError as exc:
        raise WorkspaceError(
            f"the workspace {root} cannot be used: {exc.strerror or exc}",
            hint=f"{remedy(exc)} Or choose another directory with --workspace.",
        ) from exc
    return workspace


def raise_format(workspace: Workspace) -> None:
    """Note in `workspace.json` that older programs cannot read the workspace; the rest of the file stays.

    Raises `WorkspaceError` when that file is damaged, `OSError` when it cannot be written.
    """
    mark = workspace.root / _MARK
    try:
        settings = _settings(workspace.root)
    except FileNotFoundError:
        return
    if settings.get("format") != FORMAT:
        write_whole(mark, json.dumps({**settings, "format": FORMAT}) + "\n", durable=True)


def data_roots(workspace: Workspace) -> list[str]:
    """The folders and URLs that a person listed in `workspace.json` for documents to read from.

    Raises `WorkspaceError` when that file is damaged: pipelines must not be refused their data for no visible reason.
    """
    try:
        listed = _settings(workspace.root).get("data_roots", [])
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise WorkspaceError(
            f"{workspace.root / _MARK} cannot be read: {exc.strerror or exc}", hint=remedy(exc)
        ) from exc
    if not isinstance(listed, list):
        raise WorkspaceError(
            f"{workspace.root / _MARK}: data_roots is {listed!r}, not a list",
            hint='Write "data_roots": ["/a/folder", "az://container/folder"].',
        )
    if bad := control_character(listed):
        raise WorkspaceError(
            f"{workspace.root / _MARK}: data_roots holds the control character {bad!r}", hint="Remove it."
        )
    return [str(root) for root in listed]


def allow(workspace: Workspace, place: str) -> None:
    """List a folder or URL in `workspace.json`, so that documents may read and write there.

    Raises `WorkspaceError` when that file is damaged or cannot be written.
    """
    listed = data_roots(workspace)
    if place in listed:
        return
    mark = workspace.root / _MARK
    try:
        settings = _settings(workspace.root)
    except FileNotFoundError:
        settings = {"format": FORMAT}
    try:
        text = json.dumps({**settings, "data_roots": [*listed, place]}, ensure_ascii=False) + "\n"
        write_whole(mark, text, durable=True)
    except OSError as exc:
        raise WorkspaceError(f"{mark} cannot be written: {exc.strerror or exc}", hint=remedy(exc)) from exc


def _settings(root: Path) -> dict[str, object]:
    """`workspace.json`. Raises `WorkspaceError` when it is damaged, `OSError` when it cannot be read."""
    try:
        found = json.loads(read_document(root / _MARK))
    except ValueError as exc:
        raise _damaged(root / _MARK, str(exc)) from exc
    if not isinstance(found, dict):
        raise _damaged(root / _MARK, "it holds no JSON object")
    return found


def _damaged(mark: Path, why: str) -> WorkspaceError:
    return WorkspaceError(
        f"{mark} is damaged: {why}",
        hint=f'Write it again: {{"format": {FORMAT}}} if you never changed it, or with the folders that you had listed'
        f' for pipelines to read from, {{"format": {FORMAT}, "data_roots": ["/a/folder"]}}. Nothing else is lost.',
    )


def trust_folder() -> Path:
    """Where this person's decisions about code are kept."""
    # Outside the workspace: a workspace that someone sends you must not be able to trust itself.
    from platformdirs import user_config_path

    return user_config_path("voxelflow")


def _trust_file() -> Path:
    return trust_folder() / "trusted-workspaces.json"


def workspace_of_file(file: Path, folder: str) -> Workspace | None:
    """The workspace whose folder of that name (`my_models`) holds the file; None when it lies anywhere else."""
    place = file.parent
    return Workspace(place.parent) if place.name == folder and (place.parent / _MARK).exists() else None


def own_code(workspace: Workspace) -> list[Path]:
    """The files that may run once the workspace is trusted."""
    return sorted(
        path
        for folder in (workspace.my_nodes, workspace.my_models, workspace.my_transforms)
        for path in folder.glob("*.py")
        if not path.name.startswith("_")
    )


def is_trusted(workspace: Workspace) -> bool:
    """Whether this person said that the workspace's own nodes, models and transforms may run."""
    return str(workspace.root.resolve()) in _trusted_roots()


def trusted_workspaces() -> list[Workspace]:
    """The workspaces whose code may run, those that are gone left out."""
    return [Workspace(Path(root)) for root in _trusted_roots() if (Path(root) / _MARK).exists()]


def _trusted_roots() -> list[str]:
    try:
        listed = json.loads(read_document(_trust_file()))
    except (OSError, ValueError):
        return []
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []


def trust(workspace: Workspace) -> None:
    """Let this person's programs run the workspace's own nodes, models and transforms. Raises `OSError`."""
    path = _trust_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = _trusted_roots()
    root = str(workspace.root.resolve())
    if root not in listed:
        write_whole(path, json.dumps(sorted([*listed, root]), indent=2) + "\n", durable=True)
