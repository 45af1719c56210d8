"""What an export to a platform is made from: the Python file, the document, what the place must have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from pydantic import JsonValue

from engine.document.pipeline import Pipeline, substitute
from engine.document.plan import backend_of
from engine.document.resolve import Resolved, TypedNode
from engine.document.values import with_values
from engine.errors import UsageError
from engine.export.own_files import OwnCode, own_code_of, paths_of
from engine.export.source import file_stem, one_line
from engine.export.write import own_file, write
from engine.extras import extras_for, modules, projects_beyond
from engine.profiles import Profile, variables_of
from engine.storage.schemes import scheme
from engine.tracking.destination import CREDENTIALS, ENVIRONMENT


@dataclass(frozen=True)
class Step:
    """A node as a task of a scheduler. `before` are the steps whose outputs it takes."""

    name: str
    before: tuple[str, ...]
    retries: int
    timeout_s: float | None


@dataclass(frozen=True)
class Program:
    """A pipeline that lies in the folder of an export, for one profile: as one Python file, and as its document.

    `machine` says whether the profile means the machine that it finds itself on. `text` is the file's, `own_files` are
    the texts of the person's own nodes, transforms and models, by their places beside it (`my_nodes/blur.py`).
    `document` has the values that were given, and no relative path but those places; `places` are the other paths and
    URLs in it. `packages` are the modules that its nodes need, `variables` the environment variables that hold its
    credentials. `mlflow` are those that say where MLflow is, for nodes that need it where there is no workspace.
    """

    stem: str
    title: str
    profile: Profile
    machine: bool
    text: str
    document: Pipeline
    places: tuple[str, ...]
    steps: tuple[Step, ...]
    own_files: Mapping[str, str]
    packages: tuple[str, ...]
    variables: tuple[str, ...]
    mlflow: tuple[str, ...]
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
    def environment(self) -> tuple[str, ...]:
        """All environment variables that it may need, outside of a workspace."""
        return self.variables + self.mlflow

    @property
    def dns_name(self) -> str:
        """A name that Kubernetes takes: lower case, digits and hyphens, at most 50 characters."""
        return re.sub(r"[^a-z0-9]+", "-", self.stem.lower()).strip("-")[:50].strip("-") or "pipeline"

    def files(self) -> dict[str, str]:
        """The Python file, and the person's own files beside it, by path."""
        return {self.file: self.text, **self.own_files}

    def requirements(self, *without: str) -> list[str]:
        """What pip installs for it: Voxelflow in this version, with the extras that it needs but for those named.

        With GPUs in the profile, TensorFlow brings CUDA. After it come the projects of packages that a user's own nodes
        need and no extra installs.
        """
        left_out = {module for extra in without for module in modules(extra)}
        wanted = [p for p in self.packages if p.partition(".")[0] not in left_out]
        with_cuda = self.profile.gpus > 0 and "tensorflow" in {p.partition(".")[0] for p in wanted}
        extras = ",".join("gpu" if with_cuda and name == "train" else name for name in extras_for(wanted))
        ours = f"voxelflow{f'[{extras}]' * bool(extras)}=={metadata.version('voxelflow')}"
        return [ours, *projects_beyond(wanted)]


def program(
    resolved: Resolved, profile: Profile, given: Mapping[str, JsonValue], *, base: Path, machine: bool
) -> Program:
    """The program of a pipeline; the arguments are those of `write`.

    Raises `UsageError` as `write` does and for a secret that no environment variable can hold, `OSError` when a file of
    the workspace's own nodes cannot be read.
    """
    typed = list(resolved.typed())
    own_nodes = dict.fromkeys(file for item in typed if (file := own_file(item.type)) is not None)
    own_code = own_code_of(resolved)
    on_spark = any(backend_of(item.type, profile)[0] == "spark" for item in typed)
    packages = [name for item in typed for _, names in item.type.packages(item.params) for name in names]
    addresses = [v for item in typed for v in item.params.values() if isinstance(v, str) and "://" in v]
    stores = [row for a in addresses if (row := scheme(a.partition("://")[0])) is not None]
    variables = [*(variables_of(profile) if on_spark else ()), *(v for row in stores for v in row.variables)]
    variables += [
        _secret(parameter.name, item)
        for item in typed
        for parameter in item.type.parameters
        if parameter.secret and item.params[parameter.name]
    ]
    needs_mlflow = any(item.type.taken_from_workspace(item.params) == "mlflow" for item in typed)
    return Program(
        stem=file_stem(resolved.pipeline.name),
        title=one_line(resolved.pipeline.name),
        profile=profile,
        machine=machine,
        text=write(resolved, profile, given, base=base, machine=machine, own_files_beside=True),
        document=_document(resolved, given, own_code),
        places=tuple(
            dict.fromkeys(
                path for item in typed for name, path in paths_of(item).items() if (item.node.id, name) not in own_code
            )
        ),
        steps=tuple(
            Step(
                name=item.node.id,
                before=tuple(dict.fromkeys(edge.source_node for edge in resolved.wires_into(item.node.id))),
                retries=item.node.retries,
                timeout_s=item.node.timeout_s,
            )
            for item in typed
        ),
        own_files={
            **{f"my_nodes/{file.name}": file.read_text(encoding="utf-8") for file in own_nodes},
            **{own.place: own.text for own in own_code.values()},
        },
        packages=tuple(dict.fromkeys([*packages, *(modules("spark") if on_spark else ())])),
        variables=tuple(dict.fromkeys(variables)),
        mlflow=(ENVIRONMENT, *CREDENTIALS) if needs_mlflow else (),
        on_spark=on_spark,
    )


def _secret(parameter: str, item: TypedNode) -> str:
    """The environment variable with a node's secret. Raises `UsageError` for a name that cannot be one's."""
    name = str(item.params[parameter])
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise UsageError(
            f"{parameter} names the environment variable {one_line(name)}, and platforms take no such name",
            hint="Use letters, digits and underscores, not a digit first.",
            node=item.node.id,
            parameter=parameter,
        )
    return name


def letter_first(name: str) -> str:
    """The name as GitHub takes it for a job and Databricks for a resource: not a digit first."""
    return f"_{name}" if name[0].isdigit() else name


def _document(
    resolved: Resolved, given: Mapping[str, JsonValue], own_code: Mapping[tuple[str, str], OwnCode]
) -> Pipeline:
    """The pipeline that does the same from any folder: relative paths are written out, in the nodes that have them.

    The files of `own_code` alone are relative, to the workspace that has them.
    """
    pipeline = with_values(resolved.pipeline, given)
    settings = {name: parameter.value for name, parameter in pipeline.parameters.items()}
    paths = {item.node.id: paths_of(item) for item in resolved.typed()}
    for (node_id, name), own in own_code.items():
        paths[node_id][name] = own.place
    nodes = []
    for node in pipeline.nodes:
        changed = {
            name: path.replace("${", "$${")
            for name, path in paths.get(node.id, {}).items()
            if name in node.params and substitute(node.params[name], settings) != path
        }
        nodes.append(node.model_copy(update={"params": {**node.params, **changed}}) if changed else node)
    return pipeline.model_copy(update={"nodes": tuple(nodes)})
