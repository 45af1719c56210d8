"""The catalogue and the compute profiles as the canvas shows them, kept up to date."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from engine.advisor.run_estimate import price_of
from engine.catalog import AnyNodeType, Catalog
from engine.declare.appearance import icon_path
from engine.declare.dataset_type import Dataset
from engine.diagnostics import rules
from engine.diagnostics.rule import Diagnostic
from engine.errors import UsageError
from engine.limit import written_time
from engine.prices import machines_file
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
from engine.text import hourly, plural, size
from engine.workspace import Workspace, is_trusted
from ui.protocol.catalogue import DatasetTypeInfo, NodeTypeInfo, PortInfo, ProfileInfo, field_info
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

    def welcome(self, *, ran: bool = True) -> Welcome:
        """Node types, dataset types and profiles, with what is wrong with any of them. `ran`: there are runs."""
        catalog, listed = self.catalog, list_profiles(self._workspace)
        return Welcome(
            types=[type_info(t) for t in catalog],
            datasets=[dataset_info(each) for each in catalog.datasets],
            problems=[problem(d) for d in (*catalog.problems, *_profile_problems(listed, unreadable(self._workspace)))],
            profiles=[profile_info(item.profile, self._workspace) for item in listed if item.profile is not None],
            workspace=str(self._workspace.root),
            version=_version(),
            ran=ran,
        )

    def profiles_state(self) -> object:
        """Another one when a file has changed that profiles come from: theirs, or that of machines and prices."""
        files = (profiles_file(self._workspace), machines_file(self._workspace))
        return [(found.st_mtime_ns, found.st_size) if (found := _stat(file)) else None for file in files]

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


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def profile_info(profile: Profile, workspace: Workspace) -> ProfileInfo:
    """A compute profile, described in a sentence, with its price and the limit of its runs."""
    has = f"{plural(profile.cores, 'cores')} and {size(profile.memory_bytes)}"
    backend = "Spark" if profile.backend == "spark" else "Worker processes"
    price = "" if profile.hourly_price is None else f" {hourly(profile.hourly_price, profile.currency)}."
    description = f"{backend} on {profile.where}; tasks that run here have {has}.{price}"
    found, unpriced = price_of(profile, workspace)
    return ProfileInfo(
        name=profile.name,
        backend=profile.backend,
        description=description,
        price=profile.hourly_price,
        currency=profile.currency,
        priced=unpriced if found is None else f"{found.line()}; {found.scope}",
        stop_after="" if profile.stop_after_s is None else written_time(profile.stop_after_s),
        stop_at_cost=profile.stop_at_cost,
    )


def _profile_problems(listed: Iterable[Listed], broken: UsageError | None) -> Iterator[Diagnostic]:
    problems = {item.problem.message: item.problem for item in listed if item.problem is not None}
    if broken is not None:
        problems[broken.message] = broken
    for exc in problems.values():
        yield rules.ProfileNotReadable.found(exc.message, hint=exc.hint)


def type_info(node_type: AnyNodeType) -> NodeTypeInfo:
    """A node type with its ports and form fields."""
    described, colour = node_type.describe(), node_type.category.colour
    return NodeTypeInfo(
        type=node_type.name,
        version=node_type.version,
        category=node_type.category.name,
        light=colour.light,
        dark=colour.dark or colour.light,
        icon=icon_path(node_type.icon),
        keywords=list(node_type.keywords),
        summary=node_type.summary,
        description=node_type.description,
        origin=node_type.origin,
        backends=described["backends"],
        inputs=[PortInfo(**port) for port in described["inputs"]],
        outputs=[PortInfo(**port) for port in described["outputs"]],
        fields=[field_info(parameter) for parameter in node_type.parameters],
    )


def dataset_info(dataset: type[Dataset]) -> DatasetTypeInfo:
    """A dataset type: colour, what its previews count, what it converts to."""
    described = dataset.describe_type()
    return DatasetTypeInfo(**{name: described[name] for name in DatasetTypeInfo.model_fields})


def problem(diagnostic: Diagnostic) -> Problem:
    """A diagnostic as it crosses to the browser."""
    return Problem(**diagnostic.model_dump())


def _version() -> str:
    try:
        return version("voxelflow")
    except PackageNotFoundError:
        return ""
