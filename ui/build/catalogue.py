"""The catalogue and the compute profiles as the canvas is told of them, kept up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import JsonValue

from engine.catalog import AnyNodeType, Catalog
from engine.diagnostics import Diagnostic
from engine.parameters import Parameter
from engine.profiles import Profile, find_profile, profile_names
from engine.workspace import Workspace, is_trusted
from ui.protocol import FieldInfo, NodeTypeInfo, PathInfo, PortInfo, Problem, ProfileInfo, Welcome

_ABOUT = {"local": "This computer: its cores and most of its free memory."}


class Catalogue:
    """The node types of one workspace. The person's own files are loaded again when they have changed."""

    def __init__(self, workspace: Workspace, make: Callable[[Workspace], Catalog]) -> None:
        self._workspace, self._make = workspace, make
        self._lock = threading.Lock()
        self._made_of: object = None
        self._catalog: Catalog | None = None

    @property
    def catalog(self) -> Catalog:
        """The catalogue as it is now; cheap when nothing has changed."""
        with self._lock:
            state = self._state()
            if self._catalog is None or state != self._made_of:
                self._catalog, self._made_of = self._make(self._workspace), state
            return self._catalog

    def welcome(self) -> Welcome:
        catalog = self.catalog
        return Welcome(
            types=[type_info(t) for t in catalog],
            problems=[problem(d) for d in catalog.problems],
            profiles=[profile_info(find_profile(name)) for name in profile_names()],
            workspace=str(self._workspace.root),
            version=_version(),
        )

    def _state(self) -> object:
        files = []
        for path in sorted(self._workspace.my_nodes.glob("*.py")):
            try:
                found = path.stat()
            except OSError:
                continue
            files.append((path.name, found.st_mtime_ns, found.st_size))
        return (files, is_trusted(self._workspace) if files else False)


def usual_profile() -> Profile:
    """What a document is checked against before one is chosen."""
    return find_profile(profile_names()[0])


def profile_info(profile: Profile) -> ProfileInfo:
    return ProfileInfo(name=profile.name, backend=profile.backend, description=_ABOUT.get(profile.name, ""))


def type_info(node_type: AnyNodeType) -> NodeTypeInfo:
    told = node_type.describe()
    return NodeTypeInfo(
        type=node_type.name,
        version=node_type.version,
        category=node_type.category,
        summary=node_type.summary,
        description=node_type.description,
        origin=node_type.origin,
        backends=told["backends"],
        inputs=[PortInfo(**port) for port in told["inputs"]],
        outputs=[PortInfo(**port) for port in told["outputs"]],
        fields=[field_info(parameter) for parameter in node_type.parameters],
    )


def field_info(parameter: Parameter) -> FieldInfo:
    form = parameter.form()
    low, high = form.get("range", (None, None))
    path = form.get("path")
    return FieldInfo(
        name=parameter.name,
        title=form["title"],
        type=form["type"],
        help=parameter.help,
        required=parameter.required,
        default=_plain(form.get("default")),
        low=low,
        high=high,
        choices=[_plain(choice) for choice in parameter.choices],
        unit=parameter.unit,
        path=PathInfo(patterns=path.pop("patterns", []), **path) if path else None,
        secret=parameter.secret,
        policy=parameter.policy,
        extendable=parameter.extendable,
        advanced=parameter.advanced,
        optional=parameter.optional,
    )


def problem(diagnostic: Diagnostic) -> Problem:
    return Problem(**diagnostic.model_dump())


def _plain(value: Any) -> JsonValue:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _version() -> str:
    try:
        return version("voxelflow")
    except PackageNotFoundError:
        return ""
