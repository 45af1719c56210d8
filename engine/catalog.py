"""The catalogue: which node types there are, from where, and which could not be loaded.

Built-in types come from a list of `module:attribute`, installed packages add theirs with the entry
point group `voxelflow.nodes`, and a trusted workspace adds the files of its `my_nodes/`. A file that
fails to load is a diagnostic; the others are there all the same.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.diagnostics import Diagnostic
from engine.errors import VoxelflowError
from engine.node import NodeType
from engine.workspace import Workspace, is_trusted

ENTRY_POINTS = "voxelflow.nodes"
AnyNodeType = NodeType[Any, Any]


@dataclass
class Catalog:
    """Node types by name, newest version first, and what went wrong while collecting them."""

    types: dict[str, list[AnyNodeType]] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)

    def find(self, name: str, version: int | None = None) -> AnyNodeType | None:
        """The node type of that version, else the newest one; None when the name is unknown."""
        known = self.types.get(name, [])
        return next((t for t in known if t.version == version), known[0] if known else None)

    def similar(self, name: str) -> str | None:
        """The known name nearest to a mistyped one."""
        near = difflib.get_close_matches(name, self.types, n=1, cutoff=0.6)
        return near[0] if near else None

    def __iter__(self) -> Iterator[AnyNodeType]:
        return iter(sorted((t[0] for t in self.types.values()), key=lambda t: (t.category, t.name)))

    def add(self, node_type: AnyNodeType) -> None:
        known = self.types.setdefault(node_type.name, [])
        if any(t.version == node_type.version for t in known):
            self.problems.append(
                Diagnostic(
                    code="VF152",
                    severity="warning",
                    message=f"{node_type.name} version {node_type.version} is declared twice:"
                    f" {known[0].origin} and {node_type.origin}; the first one counts",
                    hint="Give one of them another name.",
                )
            )
            return
        known.append(node_type)
        known.sort(key=lambda t: -t.version)


def build_catalog(builtins: Iterable[str], workspace: Workspace | None = None) -> Catalog:
    """Collect all node types. `builtins` are modules; every `NodeType` in them counts."""
    catalog = Catalog()
    for name in builtins:
        _add_from(catalog, importlib.import_module(name), "built-in")
    _add_entry_points(catalog)
    if workspace is not None:
        _add_workspace(catalog, workspace)
    return catalog


def _add_from(catalog: Catalog, module: ModuleType, origin: str) -> None:
    for value in vars(module).values():
        if isinstance(value, NodeType) and value.function.__module__ == module.__name__:
            value.origin = origin
            catalog.add(value)


def _add_entry_points(catalog: Catalog) -> None:
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS):
        try:
            loaded = entry.load()
        except Exception as exc:  # a package of someone else may raise anything
            catalog.problems.append(_broken(f"the package entry point {entry.name}", exc))
            continue
        if isinstance(loaded, ModuleType):
            _add_from(catalog, loaded, entry.value)
        elif isinstance(loaded, NodeType):
            loaded.origin = entry.value
            catalog.add(loaded)


def _add_workspace(catalog: Catalog, workspace: Workspace) -> None:
    files = sorted(p for p in workspace.my_nodes.glob("*.py") if not p.name.startswith("_"))
    if not files:
        return
    if not is_trusted(workspace):
        catalog.problems.append(
            Diagnostic(
                code="VF150",
                severity="warning",
                message=f"{len(files)} file(s) in {workspace.my_nodes} were not loaded: the workspace is not trusted",
                hint="Read them, then run `voxelflow nodes --trust` once.",
            )
        )
        return
    for path in files:
        try:
            _add_from(catalog, _load_file(path), str(path))
        except BaseException as exc:  # a person's file may even call sys.exit()
            if isinstance(exc, KeyboardInterrupt):
                raise
            catalog.problems.append(_broken(str(path), exc))


def user_module(path: Path) -> str:
    """The module that a file of `my_nodes/` becomes: with the folder's hash, so that two workspaces don't mix."""
    folder = hashlib.blake2b(str(path.parent).encode(), digest_size=4).hexdigest()
    return f"my_nodes_{folder}_{path.stem}"


def _load_file(path: Path) -> ModuleType:
    name = user_module(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _broken(what: str, exc: BaseException) -> Diagnostic:
    line = ""
    trace = exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == what:
            line = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(exc, SyntaxError) and exc.lineno:
        line = f", line {exc.lineno}"
    text = exc.line() if isinstance(exc, VoxelflowError) else f"{type(exc).__name__}: {exc}"
    return Diagnostic(
        code="VF151",
        severity="warning",
        message=f"{what}{line} could not be loaded: {text}",
        hint="Its node types are missing until it loads.",
    )
