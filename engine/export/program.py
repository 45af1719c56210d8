"""What an export to a platform is made from: the Python file, its steps, and what the place that runs it must have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from pydantic import JsonValue

from engine.document.plan import backend_of
from engine.document.resolve import Resolved
from engine.export.source import file_stem, one_line
from engine.export.write import own_file, write
from engine.extras import extras_for, modules
from engine.profiles import Profile, variables_of
from engine.storage.schemes import scheme


@dataclass(frozen=True)
class Step:
    """A node as a task of a scheduler. `before` are the steps whose outputs it takes."""

    name: str
    before: tuple[str, ...]
    retries: int
    timeout_s: float | None


@dataclass(frozen=True)
class Program:
    """A pipeline as one Python file that lies in the folder of an export, for one profile.

    `text` is the file's, `own_files` are those that lie in `my_nodes/` beside it. `packages` are the modules that its
    nodes need, `variables` the environment variables that hold its credentials.
    """

    stem: str
    title: str
    profile: Profile
    text: str
    steps: tuple[Step, ...]
    own_files: tuple[Path, ...]
    packages: tuple[str, ...]
    variables: tuple[str, ...]
    on_spark: bool

    @property
    def file(self) -> str:
        """The Python file's name."""
        return f"{self.stem}.py"

    @property
    def out(self) -> str:
        """The results' folder: of the profile's storage root where it has one, else a relative name."""
        name = f"{self.stem}-out"
        return name if self.profile.storage_root is None else str(self.profile.storage_root / name)

    @property
    def dns_name(self) -> str:
        """A name that Kubernetes takes: lower case, digits and hyphens, at most 50 characters."""
        return re.sub(r"[^a-z0-9]+", "-", self.stem.lower()).strip("-")[:50].strip("-") or "pipeline"

    def requirement(self, *without: str) -> str:
        """What pip installs for it: Voxelflow in this version, with the extras that it needs but for those named."""
        left_out = {module for extra in without for module in modules(extra)}
        extras = ",".join(extras_for(p for p in self.packages if p not in left_out))
        return f"voxelflow{f'[{extras}]' * bool(extras)}=={metadata.version('voxelflow')}"


def program(
    resolved: Resolved, profile: Profile, given: Mapping[str, JsonValue], *, base: Path, machine: bool
) -> Program:
    """The program of a pipeline; the arguments are those of `write`, which also says what is raised."""
    typed = list(resolved.typed())
    on_spark = any(backend_of(item.type, profile)[0] == "spark" for item in typed)
    packages = [name for item in typed for _, names in item.type.packages(item.params) for name in names]
    addresses = [v for item in typed for v in item.params.values() if isinstance(v, str) and "://" in v]
    stores = [row for a in addresses if (row := scheme(a.partition("://")[0])) is not None]
    variables = [*(variables_of(profile) if on_spark else ()), *(v for row in stores for v in row.variables)]
    return Program(
        stem=file_stem(resolved.pipeline.name),
        title=one_line(resolved.pipeline.name),
        profile=profile,
        text=write(resolved, profile, given, base=base, machine=machine, own_nodes_beside=True),
        steps=tuple(
            Step(
                name=item.node.id,
                before=tuple(dict.fromkeys(edge.source_node for edge in resolved.wires_into(item.node.id))),
                retries=item.node.retries,
                timeout_s=item.node.timeout_s,
            )
            for item in typed
        ),
        own_files=tuple(dict.fromkeys(file for item in typed if (file := own_file(item.type)) is not None)),
        packages=tuple(dict.fromkeys([*packages, *(modules("spark") if on_spark else ())])),
        variables=tuple(dict.fromkeys(variables)),
        on_spark=on_spark,
    )
