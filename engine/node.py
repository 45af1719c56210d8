"""Declaring a node type: one decorated function; everything else derives from its signature.

    @node("OptimizeDelta", version=1, category="Storage")
    def optimize_delta(
        table: VolumeDelta,
        *,
        target_file_mb: Annotated[int, Range(1, 4096), Unit("MB")] = 78,
        ctx: TaskContext,
    ) -> VolumeDelta:
        '''Compact a Delta table's small files into few large ones.

        Args:
            table: the table to compact.
            target_file_mb: size of the files that come out.
        '''

Positional arguments are input ports, keyword-only arguments parameters, the return type is the
output (a NamedTuple for several ports). The argument whose type is `TaskContext` is the engine's.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

from engine.context import TaskContext
from engine.datasets import Dataset, Preview
from engine.diagnostics import Diagnostic, Severity
from engine.errors import DeclarationError
from engine.parameters import MISSING, Parameter, parameter_from_annotation

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_OUTPUT = "out"
"""Name of the port of a node with one output."""


@dataclass(frozen=True)
class Port:
    """A typed end of an edge. A wire fits when the output's kind is among the input's `kinds`."""

    name: str
    kinds: tuple[str, ...]
    required: bool = True
    help: str = ""

    def accepts(self, other: Port) -> bool:
        return bool(set(self.kinds) & set(other.kinds))


@dataclass(frozen=True)
class PathFound:
    """What was found at a `PathIn` parameter's path, observed once before the run."""

    path: str
    exists: bool
    kind: str = ""
    count: int = 0
    bytes: int = 0
    digest: str = ""
    """Hash of names, sizes and modification times."""
    manifest: str = ""
    """Arrow file with the listing (folders only)."""
    sample: tuple[str, ...] = ()
    """Evenly spread names from the listing."""
    problem: str = ""
    """Why it could not be read."""


@dataclass
class Look:
    """What a `scan` or `preview` hook may see, and where it tells of problems.

    `paths` and `facts` are empty while a document is only validated (no I/O); `inputs` holds the
    previews of what is wired in.
    """

    params: Mapping[str, Any]
    inputs: Mapping[str, Preview] = field(default_factory=dict)
    paths: Mapping[str, PathFound] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)

    def problem(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        parameter: str | None = None,
        port: str | None = None,
        severity: Severity = "error",
    ) -> None:
        self.problems.append(
            Diagnostic(code=code, severity=severity, message=message, hint=hint, parameter=parameter, port=port)
        )


@dataclass
class NodeType(Generic[P, R]):
    """What the decorator makes of a function. Calling it calls the function (embedded backend)."""

    name: str
    version: int
    category: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parameters: tuple[Parameter, ...]
    summary: str
    description: str
    function: Callable[P, R]
    context_argument: str | None
    imports: tuple[str, ...] = ()
    """Heavy modules that its worker should import while it waits for its inputs."""
    mutates: str | None = None
    """The input port whose table the node changes in place."""
    uses_all_cores: bool = False
    """A task that takes the whole machine is not run beside another such task."""
    saves_on_request: bool = False
    """It looks at `TaskContext.save_requested` while it works."""
    anywhere: str = ""
    """Why it needs no variant for other backends: under every profile its function runs on the driver's machine."""
    origin: str = "built-in"
    backends: dict[str, Callable[..., Any]] = field(default_factory=dict)
    scan_hook: Callable[[Look], Mapping[str, Any]] | None = None
    preview_hook: Callable[[Look], Preview | Mapping[str, Preview]] | None = None
    verify_hook: Callable[[Mapping[str, Dataset], bool], str] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def on(self, backend: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the variant for another backend; same ports and parameters."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.backends[backend] = function
            return function

        return register

    def scan(self, hook: Callable[[Look], Mapping[str, Any]]) -> Callable[[Look], Mapping[str, Any]]:
        """Declare the quick look at the input before a run: reads a little, returns JSON-able facts."""
        self.scan_hook = hook
        return hook

    def preview(
        self, hook: Callable[[Look], Preview | Mapping[str, Preview]]
    ) -> Callable[[Look], Preview | Mapping[str, Preview]]:
        """Declare what is known of the outputs beforehand, without any I/O; tells of problems too."""
        self.preview_hook = hook
        return hook

    def verify(
        self, hook: Callable[[Mapping[str, Dataset], bool], str]
    ) -> Callable[[Mapping[str, Dataset], bool], str]:
        """Declare the check that a cached result can still be read: `hook(outputs, for_change)`.

        It returns "" or why not. With `for_change` it says whether a following node may still
        change the table in place (nothing newer stands in it).
        """
        self.verify_hook = hook
        return hook

    def runs_on(self, backend: str) -> tuple[str, str] | None:
        """The backend that its work happens on under a profile for `backend`, and why; None when it cannot.

        Never a quiet fall-back: a node that would work through a cluster's data on one machine is refused.
        """
        if backend in self.backends:
            return backend, ""
        return ("embedded", self.anywhere) if self.anywhere and "embedded" in self.backends else None

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)

    def input(self, name: str) -> Port | None:
        return next((p for p in self.inputs if p.name == name), None)

    def output(self, name: str) -> Port | None:
        return next((p for p in self.outputs if p.name == name), None)

    @property
    def source_digest(self) -> str:
        """Hash of the file that declares the node: what a user node's cache key covers.

        Built-in nodes use their `version` instead, so that an upgrade does not recompute the world.
        """
        path = inspect.getsourcefile(self.function)
        return hashlib.blake2b(Path(path).read_bytes() if path else b"", digest_size=16).hexdigest()

    def collect(self, result: Any) -> dict[str, Dataset]:
        """The function's return value by output port. Raises `DeclarationError` when it does not fit."""
        single = len(self.outputs) == 1 and self.outputs[0].name == DEFAULT_OUTPUT
        out: dict[str, Dataset] = {}
        for port in self.outputs:
            value = result if single else getattr(result, port.name, None)
            if not isinstance(value, Dataset) or value.kind not in port.kinds:
                raise DeclarationError(
                    f"{self.name} returned {type(value).__name__} on its output {port.name},"
                    f" declared as {' or '.join(port.kinds)}",
                    hint="Return the declared dataset reference.",
                )
            out[port.name] = value
        return out

    def describe(self) -> dict[str, Any]:
        """Ports, form and docs as JSON: what the editor and `voxelflow nodes --json` show."""

        def ports(items: tuple[Port, ...]) -> list[dict[str, Any]]:
            return [{"name": p.name, "kinds": list(p.kinds), "required": p.required, "help": p.help} for p in items]

        return {
            "type": self.name,
            "version": self.version,
            "category": self.category,
            "summary": self.summary,
            "description": self.description,
            "origin": self.origin,
            "backends": sorted(self.backends),
            "anywhere": self.anywhere,
            "inputs": ports(self.inputs),
            "outputs": ports(self.outputs),
            "parameters": [p.form() for p in self.parameters],
        }


def node(
    name: str,
    *,
    version: int,
    category: str,
    imports: tuple[str, ...] = (),
    mutates: str | None = None,
    uses_all_cores: bool = False,
    saves_on_request: bool = False,
    anywhere: str = "",
) -> Callable[[Callable[P, R]], NodeType[P, R]]:
    """Turn a function into a node type.

    Raise `version` when the same inputs and parameters would give another result: cached results
    of older versions are then not used. `anywhere` says, in a few words, why the function may run on the
    driver's machine under a profile for another backend ("only names files"). Raises `DeclarationError`
    when the signature does not fit.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]{1,63}", name):
        raise DeclarationError(f"{name!r} is not a node type's name", hint="Use CamelCase letters and digits.")

    def declare(function: Callable[P, R]) -> NodeType[P, R]:
        return _declare(
            function,
            name=name,
            version=version,
            category=category,
            imports=imports,
            mutates=mutates,
            uses_all_cores=uses_all_cores,
            saves_on_request=saves_on_request,
            anywhere=anywhere,
        )

    return declare


def _declare(function: Callable[P, R], *, name: str, mutates: str | None, **fields: Any) -> NodeType[P, R]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as exc:  # whatever evaluating an author's annotations can raise
        raise DeclarationError(f"{name}: its annotations cannot be read: {exc}") from exc
    summary, description, argument_help = read_docstring(inspect.getdoc(function) or "")
    inputs: list[Port] = []
    parameters: list[Parameter] = []
    context_argument = None
    for argument in inspect.signature(function).parameters.values():
        if argument.name not in hints:
            raise DeclarationError(f"{name}: argument {argument.name} has no type")
        annotation = hints[argument.name]
        has_default = argument.default is not inspect.Parameter.empty
        if annotation is TaskContext:
            context_argument = argument.name
        elif argument.kind is inspect.Parameter.KEYWORD_ONLY:
            default = argument.default if has_default else MISSING
            try:
                parameters.append(
                    parameter_from_annotation(argument.name, annotation, default, argument_help.get(argument.name, ""))
                )
            except DeclarationError as exc:
                raise DeclarationError(f"{name}: {exc.message}", hint=exc.hint) from None
        elif argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            kinds = _kinds(annotation, name, argument.name)
            inputs.append(Port(argument.name, kinds, not has_default, argument_help.get(argument.name, "")))
        else:
            raise DeclarationError(f"{name}: argument {argument.name} can be neither a port nor a parameter")
    if mutates is not None and mutates not in {p.name for p in inputs}:
        raise DeclarationError(f"{name}: mutates names {mutates!r}, which is no input port")
    return NodeType(
        name=name,
        inputs=tuple(inputs),
        outputs=_outputs(hints.get("return"), name),
        parameters=tuple(parameters),
        summary=summary,
        description=description,
        function=function,
        context_argument=context_argument,
        mutates=mutates,
        backends={"embedded": function},
        **fields,
    )


def _kinds(annotation: Any, name: str, where: str) -> tuple[str, ...]:
    members = (
        typing.get_args(annotation)
        if typing.get_origin(annotation) in (typing.Union, types.UnionType)
        else (annotation,)
    )
    members = tuple(m for m in members if m is not type(None))
    for member in members:
        if not (inspect.isclass(member) and issubclass(member, Dataset)):
            raise DeclarationError(f"{name}: {where} must be a dataset type, not {member!r}")
    return tuple(m.__name__ for m in members)


def _outputs(annotation: Any, name: str) -> tuple[Port, ...]:
    if annotation is None or annotation is type(None):
        return ()
    if inspect.isclass(annotation) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        fields = typing.get_type_hints(annotation)
        return tuple(Port(field_name, _kinds(hint, name, field_name)) for field_name, hint in fields.items())
    return (Port(DEFAULT_OUTPUT, _kinds(annotation, name, "the return type")),)


def read_docstring(text: str) -> tuple[str, str, dict[str, str]]:
    """First line, the paragraphs before `Args:`, and the help of each argument."""
    head, _, tail = text.partition("\nArgs:\n")
    summary, _, description = head.strip().partition("\n")
    arguments: dict[str, str] = {}
    current = ""
    for line in tail.splitlines():
        if line and not line.startswith(" "):
            break
        if match := re.match(r"    (\w+): (.*)", line):
            current = match[1]
            arguments[current] = match[2].strip()
        elif current and line.strip():
            arguments[current] += " " + line.strip()
    return summary.strip(), description.strip(), arguments
