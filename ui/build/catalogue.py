"""The catalogue and the compute profiles as the canvas is told of them, kept up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import JsonValue

from engine.catalog import AnyNodeType, Catalog
from engine.cli.wording import number, plural, size
from engine.diagnostics import Diagnostic
from engine.errors import UsageError
from engine.parameters import Parameter
from engine.profiles import (
    Listed,
    Profile,
    find_profile,
    list_profiles,
    local_profile,
    profile_names,
    profiles_file,
    unreadable,
)
from engine.workspace import Workspace, is_trusted
from ui.protocol.catalogue import FieldInfo, NodeTypeInfo, PathInfo, PortInfo, ProfileInfo
from ui.protocol.notices import Welcome
from ui.protocol.status import Problem


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
        catalog, listed = self.catalog, list_profiles(self._workspace)
        return Welcome(
            types=[type_info(t) for t in catalog],
            problems=[problem(d) for d in (*catalog.problems, *_profile_problems(listed, unreadable(self._workspace)))],
            profiles=[profile_info(item.profile) for item in listed if item.profile is not None],
            workspace=str(self._workspace.root),
            version=_version(),
        )

    def profiles_state(self) -> object:
        """Another one when the file with the profiles has changed."""
        try:
            found = profiles_file(self._workspace).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def profile(self, name: str | None) -> Profile:
        """The profile of that name; the usual one when there is none, or it cannot be used."""
        for wanted in (name, profile_names(self._workspace)[0]):
            try:
                if wanted is not None:
                    return find_profile(wanted, self._workspace)
            except UsageError:
                continue
        return local_profile()

    def _state(self) -> object:
        files = []
        for path in sorted(self._workspace.my_nodes.glob("*.py")):
            try:
                found = path.stat()
            except OSError:
                continue
            files.append((path.name, found.st_mtime_ns, found.st_size))
        return (files, is_trusted(self._workspace) if files else False)


def profile_info(profile: Profile) -> ProfileInfo:
    has = f"{plural(profile.cores, 'cores')} and {size(profile.memory_bytes)}"
    backend = "Spark" if profile.backend == "spark" else "Worker processes"
    price = "" if profile.price_per_hour is None else f" {number(profile.price_per_hour)} an hour."
    description = f"{backend} on {profile.where}; tasks that run here have {has}.{price}"
    return ProfileInfo(name=profile.name, backend=profile.backend, description=description)


def _profile_problems(listed: Iterable[Listed], broken: UsageError | None) -> Iterator[Diagnostic]:
    told = {item.problem.message: item.problem for item in listed if item.problem is not None}
    if broken is not None:
        told[broken.message] = broken
    for exc in told.values():
        yield Diagnostic(code="VF155", severity="warning", message=exc.message, hint=exc.hint)


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
