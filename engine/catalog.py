"""The catalogue: which node types and dataset types there are, from where, and which could not be loaded.

Built-in types come from a list of `module:attribute`, installed packages add theirs with the entry
point group `voxelflow.nodes`, and a trusted workspace adds the files of its `my_nodes/`. A file that
fails to load is a diagnostic; the others are there all the same.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from engine.declare.dataset_type import Dataset, DatasetTypes, dataset_types_in
from engine.declare.datasets import BUILT_IN_TYPES
from engine.declare.node_type import NodeType, digest_of_source
from engine.diagnostics import rules
from engine.diagnostics.rule import Diagnostic, RuleBook, rules_in
from engine.errors import DeclarationError, VoxelflowError
from engine.storage.files import check_regular
from engine.text import did_you_mean
from engine.workspace import Workspace, is_trusted

ENTRY_POINTS = "voxelflow.nodes"
OWN_PREFIX = "VF"
LEFT_OUT = "left_out_plugins"
"""The function of a built-in module that returns diagnostics of the plug-ins (of packages) that could not be loaded."""
AnyNodeType = NodeType[Any, Any]


@dataclass
class Catalog:
    """Node types by name, newest version first, the rules that they report by, the dataset types at their ports, and
    what went wrong while collecting."""

    types: dict[str, list[AnyNodeType]] = field(default_factory=dict)
    rules: RuleBook = field(default_factory=RuleBook)
    datasets: DatasetTypes = field(default_factory=DatasetTypes)
    problems: list[Diagnostic] = field(default_factory=list)

    def find(self, name: str, version: int | None = None) -> AnyNodeType | None:
        """The node type of that version, else the newest one; None when the name is unknown."""
        known = self.types.get(name, [])
        return next((t for t in known if t.version == version), known[0] if known else None)

    def hint_for(self, name: str) -> str:
        """What to do about the name of a node type that there is not."""
        return did_you_mean(name, self.types) or "`voxelflow nodes` lists the known ones."

    def __iter__(self) -> Iterator[AnyNodeType]:
        """The newest of each, by category in the order of a pipeline, in one as they were declared."""
        newest = (types[0] for types in self.types.values())
        return iter(sorted(newest, key=lambda t: (t.category.order, t.category.name)))

    def add(self, node_type: AnyNodeType) -> None:
        """Add a node type; one whose name and version are taken becomes a problem instead."""
        known = self.types.setdefault(node_type.name, [])
        if any(t.version == node_type.version for t in known):
            self.problems.append(
                rules.NodeTypeTwice.found(
                    f"{node_type.name} version {node_type.version} is declared twice:"
                    f" {known[0].origin} and {node_type.origin}; the first one counts",
                    hint="Give one of them another name.",
                )
            )
            return
        known.append(node_type)
        known.sort(key=lambda t: -t.version)


def build_catalog(builtins: Iterable[str], workspace: Workspace | None = None) -> Catalog:
    """Collect all node types, rules and dataset types: those in the modules `builtins`, in packages, in the workspace.

    References in stored JSON are read with the types of the newest catalogue.
    """
    catalog = Catalog()
    catalog.rules.add(rules_in(vars(rules).values()))
    catalog.datasets.add(BUILT_IN_TYPES)
    for name in builtins:
        module = importlib.import_module(name)
        _add_from(catalog, module, "built-in")
        catalog.problems.extend(getattr(module, LEFT_OUT, tuple)())
    _add_entry_points(catalog)
    if workspace is not None:
        _add_workspace(catalog, workspace)
        _learnt.add(workspace.root)
    return catalog


def _add_from(catalog: Catalog, module: ModuleType, origin: str, digest: str = "") -> None:
    """Add what a module declares. `digest` is that of its source, where that was compiled here.

    Raises `DeclarationError` when a rule or dataset type of the module has a code or kind that is taken; then none of
    its node types is added.
    """
    found = [v for v in vars(module).values() if isinstance(v, NodeType) and v.function.__module__ == module.__name__]
    _add_rules(catalog, module, origin)
    _add_datasets(catalog, module, found, origin)
    for value in found:
        value.origin, value.loaded_digest = origin, digest
        catalog.add(value)


def _add_datasets(catalog: Catalog, module: ModuleType, node_types: Iterable[AnyNodeType], origin: str) -> None:
    # Those at the ports too: a module need not import the name of a type.
    at_ports = [each for node_type in node_types for each in node_type.datasets]
    catalog.datasets.add(dict.fromkeys((*dataset_types_in(vars(module).values()), *dataset_types_in(at_ports))), origin)


def _add_rules(catalog: Catalog, module: ModuleType, origin: str) -> None:
    found = rules_in(vars(module).values())
    for rule in found:
        # Ours are known by now: a node may import one of them and report by it.
        ours = rule.code.rstrip("0123456789") == OWN_PREFIX
        if ours and origin != "built-in" and catalog.rules.find(rule.code) is None:
            raise DeclarationError(
                f"the rule {rule.__name__}: the prefix of {rule.code} is Voxelflow's own",
                hint="Give it another code, with letters of your own.",
            )
    catalog.rules.add(found)


def _add_entry_points(catalog: Catalog) -> None:
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS):
        try:
            loaded = entry.load()
            if isinstance(loaded, ModuleType):
                _add_from(catalog, loaded, entry.value)
            elif isinstance(loaded, NodeType):
                module = sys.modules[loaded.function.__module__]
                _add_rules(catalog, module, entry.value)
                _add_datasets(catalog, module, (loaded,), entry.value)
                loaded.origin = entry.value
                catalog.add(loaded)
            elif inspect.isclass(loaded) and issubclass(loaded, Dataset):
                catalog.datasets.add(dataset_types_in((loaded,)), entry.value)
        except Exception as exc:  # a package of someone else may raise anything
            catalog.problems.append(_broken(f"the package entry point {entry.name}", exc))


def _add_workspace(catalog: Catalog, workspace: Workspace) -> None:
    files = sorted(p for p in workspace.my_nodes.glob("*.py") if not p.name.startswith("_"))
    if not files:
        return
    if not is_trusted(workspace):
        catalog.problems.append(
            rules.WorkspaceNotTrusted.found(
                f"{len(files)} file{'s' * (len(files) != 1)} in {workspace.my_nodes} not loaded:"
                " the workspace is not trusted",
                hint="Read them, then run `voxelflow nodes --trust` once.",
            )
        )
        return
    for path in files:
        try:
            module, digest = load_user_file(path)
            _add_from(catalog, module, str(path), digest)
        except BaseException as exc:  # a person's file may even call sys.exit()
            if isinstance(exc, KeyboardInterrupt):
                raise
            catalog.problems.append(_broken(str(path), exc))


def learn_dataset_types(workspace: Workspace) -> None:
    """Load what packages and the workspace bring, so that references of their types can be read: once in a process."""
    if workspace.root not in _learnt:
        build_catalog((), workspace)


_learnt: set[Path] = set()
"""Workspaces whose types this process has looked for."""


def user_module(path: Path) -> str:
    """The module that a file of `my_nodes/` becomes: with the folder's hash, so that two workspaces don't mix."""
    folder = hashlib.blake2b(str(path.parent).encode(), digest_size=4).hexdigest()
    return f"my_nodes_{folder}_{path.stem}"


class _FromSource(SourceFileLoader):
    """Compiles the file as it is, and keeps the hash of what it has compiled.

    Python's own loader takes the cached compilation of an earlier text when that had the same length and was saved
    within the same second: old code would run, and its result be kept as that of the new one.
    """

    digest = ""

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        self.digest = digest_of_source(source)
        code: CodeType = self.source_to_code(source, self.path)
        return code


def load_user_file(path: Path) -> tuple[ModuleType, str]:
    """The module of a file of `my_nodes/`, run anew, and the hash of its source.

    Raises what the file raises, and `OSError` when it cannot be read.
    """
    check_regular(path)
    name = user_module(path)
    loader = _FromSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module, loader.digest


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
    return rules.NodesNotLoaded.found(
        f"{what}{line} could not be loaded: {text}", hint="Correct it; its node types are missing until it loads."
    )
