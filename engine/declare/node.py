"""Declaring a node type: one decorated function; everything else derives from its signature.

    @node("OptimizeDelta", version=1, category="Tables", icon="shrink", keywords=("compact", "vacuum"))
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
output (a NamedTuple for several ports). The argument whose type is `TaskContext` is the engine's. A keyword-only
argument whose type is a frozen dataclass stands for a parameter of each of its fields
(`engine.declare.parameter_class`).
"""

from __future__ import annotations

import hashlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

from engine.declare.appearance import DEFAULT_ICON, Category, category_of, icon_path
from engine.declare.context import TaskContext
from engine.declare.dataset_type import dataset_from_json
from engine.declare.datasets import Dataset, Preview, Transform, VolumeSpec
from engine.declare.node_step import step_of
from engine.declare.parameter_class import callable_by_name, is_parameter_class, parameters_of
from engine.declare.parameters import MISSING, Parameter, parameter_from_annotation
from engine.declare.signature import DEFAULT_OUTPUT, Port, help_of_fields, kinds_of, outputs_of, read_docstring
from engine.declare.workload import TrainingWork
from engine.diagnostics.rule import Diagnostic, Rule, Severity
from engine.errors import DeclarationError
from engine.extras import require
from engine.text import plural

__all__ = [
    "DEFAULT_OUTPUT",
    "CheckContext",
    "Look",
    "NodeType",
    "PathFound",
    "Port",
    "node",
]

P = ParamSpec("P")
R = TypeVar("R")

_MOST_ENDINGS = 6
"""Endings of files that a message lists."""


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
    file_kind: str = ""
    """Which of the parameter's `kinds` was listed; "": files that match its patterns."""
    endings: tuple[tuple[str, int], ...] = ()
    """How many files of which ending the folder has, where none matches the patterns; the commonest first."""
    left_out: tuple[tuple[str, int], ...] = ()
    """How many files of which ending are of another of the parameter's `kinds`, and were not listed."""
    links: tuple[tuple[str, str], ...] = ()
    """Links in a folder that were not followed, each with the reason."""
    problem: str = ""
    """Why it could not be read."""

    @property
    def content(self) -> str:
        """What lies in a folder where nothing matches the patterns, in words: `found: 6 .txt, 2 .pdf`."""
        if not self.endings:
            return "it is empty" if not self.count else f"found: {plural(self.count, 'files')}"
        listed = [f"{count:,} {ending}" for ending, count in self.endings[:_MOST_ENDINGS]]
        others = sum(count for _, count in self.endings[_MOST_ENDINGS:])
        return "found: " + ", ".join([*listed, *([f"{others:,} others"] if others else [])])


@dataclass
class CheckContext:
    """What a `scan`, `preview` or `workload` hook may see, and where it reports problems.

    A scan is called before a run and while someone edits, when a folder or an input has changed: it may read a little,
    for seconds, and returns facts that JSON can keep. A preview is called at each change of the document: no I/O.

    Attributes:
        params: the parameters' values by name, defaults included.
        inputs: what is known of what is wired in, by port. A port that nothing is wired to, or of which nothing is
            known, is missing: use `look.inputs.get(port)`.
        paths: what was found in each `PathIn` parameter: path, number of files, bytes, a sample of names, the listing.
            Empty while a document is only validated.
        facts: what the scan returned; for the preview. Empty in the scan, and while a document is only validated.
        problems: what was reported so far; `report` and `problem` add to it.
        node_type: the node's own type; in the preview.
    """

    params: Mapping[str, Any]
    inputs: Mapping[str, Preview] = field(default_factory=dict)
    paths: Mapping[str, PathFound] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    node_type: NodeType[Any, Any] | None = None

    def made_of(self, spec: VolumeSpec | None) -> VolumeSpec | None:
        """The spec of what `write_volumes` makes of such volumes, where shape and type stay: this node is in its chain.

        For a preview; `made_of(spec).model_copy(update={"shape": ...})` where they do not stay.
        """
        if spec is None or self.node_type is None:
            return spec
        return spec.model_copy(update={"transforms": (*spec.transforms, self.node_type.step(self.params))})

    def report(
        self, rule: type[Rule], message: str, *, hint: str = "", parameter: str | None = None, port: str | None = None
    ) -> None:
        """Report a problem: what is wrong this time (`message`), and what to do about it (`hint`).

        It is shown at the field of a `parameter` or at a `port`, else at the node. The rule says whether it keeps a
        pipeline from running.
        """
        self.problems.append(rule.found(message, hint=hint, parameter=parameter, port=port))

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
        """Report a problem by a code alone, without a rule: `voxelflow explain` cannot say more about it."""
        self.problems.append(
            Diagnostic(code=code, severity=severity, message=message, hint=hint, parameter=parameter, port=port)
        )


Look = CheckContext
"""Its former name, so that nodes written with it go on working."""


@dataclass
class NodeType(Generic[P, R]):
    """What the decorator makes of a function. Calling it does its work here (embedded backend), parameters by name."""

    name: str
    version: int
    category: Category
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parameters: tuple[Parameter, ...]
    summary: str
    description: str
    function: Callable[P, R]
    context_argument: str | None
    icon: str = DEFAULT_ICON
    """A name in `engine.declare.icons`, or an SVG path."""
    keywords: tuple[str, ...] = ()
    """What people may search for who do not know its name: what it is for, other words for it."""
    imports: tuple[str, ...] = ()
    """Heavy modules that its worker should import while it waits for its inputs."""
    needs: tuple[str, ...] = ()
    """Top-level modules beyond Voxelflow's base that it cannot do without (see `engine.extras`)."""
    mutates: str | None = None
    """The input port whose table the node changes in place."""
    uses_all_cores: bool = False
    """A task that takes the whole machine is not run beside another such task."""
    saves_on_request: bool = False
    """It looks at `TaskContext.save_requested` while it works."""
    anywhere: str = ""
    """Why it needs no variant for other backends: under every profile its function runs on the driver's machine."""
    origin: str = "built-in"
    datasets: tuple[type[Dataset], ...] = ()
    """The dataset types of its ports."""
    backends: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """By backend: what takes the inputs, all parameters and the context by name."""
    parameter_classes: Mapping[str, type[Any]] = field(default_factory=dict)
    """By argument: the dataclasses whose fields are parameters."""
    scan_hook: Callable[[CheckContext], Mapping[str, Any]] | None = None
    preview_hook: Callable[[CheckContext], Preview | Mapping[str, Preview]] | None = None
    verify_hook: Callable[[Mapping[str, Dataset], bool], str] | None = None
    writes_hook: Callable[[Mapping[str, Dataset], Mapping[str, Any], Path], str] | None = None
    workload_hook: Callable[[CheckContext], TrainingWork | None] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        result: R = self.backends["embedded"](*args, **kwargs)
        return result

    def on(self, backend: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the variant for another backend: a function with the same inputs, and those parameters that it uses.

        Raises `DeclarationError` for an argument that the node does not have.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.backends[backend] = self._by_name(function)
            return function

        return register

    def _by_name(self, function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return callable_by_name(
                function,
                inputs=[p.name for p in self.inputs],
                parameters=self.parameters,
                classes=self.parameter_classes,
                context_argument=self.context_argument,
            )
        except DeclarationError as exc:
            raise DeclarationError(f"{self.name}: {exc.message}", hint=exc.hint) from None

    def scan(self, hook: Callable[[CheckContext], Mapping[str, Any]]) -> Callable[[CheckContext], Mapping[str, Any]]:
        """Declare the quick look at the input before a run: reads a little, returns JSON-able facts."""
        self.scan_hook = hook
        return hook

    def preview(
        self, hook: Callable[[CheckContext], Preview | Mapping[str, Preview]]
    ) -> Callable[[CheckContext], Preview | Mapping[str, Preview]]:
        """Declare what is known of the outputs beforehand, without any I/O; reports problems too."""
        self.preview_hook = hook
        return hook

    def verify(
        self, hook: Callable[[Mapping[str, Dataset], bool], str]
    ) -> Callable[[Mapping[str, Dataset], bool], str]:
        """Declare the check that a cached result can still be read: `hook(outputs, for_change)`.

        It returns "" or why not. With `for_change` it says whether a following node may still
        change the table in place (nothing newer is in it).
        """
        self.verify_hook = hook
        return hook

    def writes(
        self, hook: Callable[[Mapping[str, Dataset], Mapping[str, Any], Path], str]
    ) -> Callable[[Mapping[str, Dataset], Mapping[str, Any], Path], str]:
        """Declare to which table the node writes: `hook(inputs, params, shared)` gives its path or URL, "" for none.

        `shared` is `TaskContext.shared`. For a table that other runs may write to as well: they then wait for each
        other. A node that `mutates` an input needs no hook.
        """
        self.writes_hook = hook
        return hook

    def workload(
        self, hook: Callable[[CheckContext], TrainingWork | None]
    ) -> Callable[[CheckContext], TrainingWork | None]:
        """Declare what a training has to do, so that its time can be predicted; None where too little is known.

        Without I/O, as `preview`; problems that it reports are dropped.
        """
        self.workload_hook = hook
        return hook

    def table_written(self, inputs: Mapping[str, Dataset], params: Mapping[str, Any], shared: Path) -> str:
        """The path or URL of the table that the node changes, where other runs may do so too; "" for none."""
        if self.writes_hook is not None:
            return self.writes_hook(inputs, params, shared)
        return inputs[self.mutates].uri if self.mutates is not None and self.mutates in inputs else ""

    def runs_on(self, backend: str) -> tuple[str, str] | None:
        """The backend that its work happens on under a profile for `backend`, and why; None when it cannot.

        Never a quiet fall-back: a node that would work through a cluster's data on one machine is refused.
        """
        if backend in self.backends:
            return backend, ""
        return ("embedded", self.anywhere) if self.anywhere and "embedded" in self.backends else None

    def packages(self, params: Mapping[str, Any]) -> Iterator[tuple[str | None, tuple[str, ...]]]:
        """What must be installed with these values: (None, what the node needs), (parameter, what its value needs)."""
        yield None, self.needs
        for parameter in self.parameters:
            for need in parameter.needs:
                if parameter.name in params and params[parameter.name] == need.value:
                    yield parameter.name, need.modules

    def require_packages(self, params: Mapping[str, Any]) -> None:
        """Raise `MissingPackage` when one of them is not installed."""
        for parameter, names in self.packages(params):
            require(self.subject(parameter, params), *names)

    def subject(self, parameter: str | None, params: Mapping[str, Any]) -> str:
        """`TrainResNet3D`, or `the loader petastorm` of a parameter: who needs a package."""
        return f"the {parameter} {params[parameter]}" if parameter is not None else self.name

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name; None when there is none."""
        return next((p for p in self.parameters if p.name == name), None)

    def input(self, name: str) -> Port | None:
        """The input port of that name; None when there is none."""
        return next((p for p in self.inputs if p.name == name), None)

    def output(self, name: str) -> Port | None:
        """The output port of that name; None when there is none."""
        return next((p for p in self.outputs if p.name == name), None)

    @property
    def source_digest(self) -> str:
        """Hash of the file that declares the node: what a user node's cache key covers.

        Built-in nodes use their `version` instead, so that an upgrade does not recompute the world.
        """
        path = inspect.getsourcefile(self.function)
        return hashlib.blake2b(Path(path).read_bytes() if path else b"", digest_size=16).hexdigest()

    def step(self, params: Mapping[str, Any]) -> Transform:
        """The entry that stands for this node with these parameters in chains of transforms."""
        code = f"version {self.version}" if self.origin == "built-in" else self.source_digest
        return step_of(self.name, self.parameters, params, code)

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
            _refuse_unstorable(value, self.name)
            out[port.name] = value
        return out

    def describe(self) -> dict[str, Any]:
        """Ports, form and docs as JSON: what the editor and `voxelflow nodes --json` show."""

        def ports(items: tuple[Port, ...]) -> list[dict[str, Any]]:
            return [{"name": p.name, "kinds": list(p.kinds), "required": p.required, "help": p.help} for p in items]

        return {
            "type": self.name,
            "version": self.version,
            "category": self.category.name,
            "icon": self.icon,
            "keywords": list(self.keywords),
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
    category: str | Category,
    icon: str = DEFAULT_ICON,
    keywords: tuple[str, ...] = (),
    imports: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    mutates: str | None = None,
    uses_all_cores: bool = False,
    saves_on_request: bool = False,
    anywhere: str = "",
) -> Callable[[Callable[P, R]], NodeType[P, R]]:
    """Turn a function into a node type.

    Raise `version` when the same inputs and parameters would give another result: cached results
    of older versions are then not used. `needs` names packages that may be absent (`import`'s names for them): without
    them the node is refused before a run. `anywhere` says, in a few words, why the function may run on the
    driver's machine under a profile for another backend ("only names files"). `category` is a name, one of
    `engine.declare.appearance.CATEGORIES` or another, or a `Category` with colour and place; `icon` a name
    of `engine.declare.icons` or the `d` of an SVG path on 24 x 24; `keywords` are further words that find
    the node. Raises `DeclarationError` when the signature does not fit, or there is no such icon.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]{1,63}", name):
        raise DeclarationError(f"{name!r} is not a node type's name", hint="Use CamelCase letters and digits.")

    try:
        icon_path(icon)
    except DeclarationError as exc:
        raise DeclarationError(f"{name}: {exc.message}", hint=exc.hint) from None

    def declare(function: Callable[P, R]) -> NodeType[P, R]:
        return _declare(
            function,
            name=name,
            version=version,
            category=category_of(category),
            icon=icon,
            keywords=keywords,
            imports=imports,
            needs=needs,
            mutates=mutates,
            uses_all_cores=uses_all_cores,
            saves_on_request=saves_on_request,
            anywhere=anywhere,
        )

    return declare


def _refuse_unstorable(dataset: Dataset, name: str) -> None:
    """Raise `DeclarationError` when the next node would be given something else: it reads the reference from JSON."""
    try:
        text = dataset.model_dump_json()
        if dataset_from_json(text).model_dump_json() == text:
            return
        problem = "it is another one when it is read from JSON"
    except ValueError as exc:  # pydantic's errors of either direction
        problem = " ".join(str(exc).split())
    raise DeclarationError(
        f"{name} returned a {dataset.kind} that cannot be stored: {problem}",
        hint=f"Give the fields of {dataset.kind} types that JSON can keep: numbers, texts, lists of them.",
    )


def _declare(function: Callable[P, R], *, name: str, mutates: str | None, **fields: Any) -> NodeType[P, R]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as exc:  # whatever evaluating an author's annotations can raise
        raise DeclarationError(f"{name}: its annotations cannot be read: {exc}", hint="Correct them.") from exc
    summary, description, argument_help = read_docstring(inspect.getdoc(function) or "")
    inputs: list[Port] = []
    parameters: list[Parameter] = []
    classes: dict[str, type[Any]] = {}
    datasets: list[type[Dataset]] = []
    context_argument = None
    for argument in inspect.signature(function).parameters.values():
        if argument.name not in hints:
            raise DeclarationError(f"{name}: argument {argument.name} has no type", hint="Annotate it.")
        annotation = hints[argument.name]
        has_default = argument.default is not inspect.Parameter.empty
        if annotation is TaskContext:
            context_argument = argument.name
        elif argument.kind is inspect.Parameter.KEYWORD_ONLY:
            default = argument.default if has_default else MISSING
            try:
                if is_parameter_class(annotation):
                    if has_default:
                        raise DeclarationError(
                            f"argument {argument.name} has a default", hint="Give the fields of its class defaults."
                        )
                    classes[argument.name] = annotation
                    parameters += parameters_of(annotation, help_of_fields(annotation) | argument_help)
                else:
                    text = argument_help.get(argument.name, "")
                    parameters.append(parameter_from_annotation(argument.name, annotation, default, text))
            except DeclarationError as exc:
                raise DeclarationError(f"{name}: {exc.message}", hint=exc.hint) from None
        elif argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            kinds = kinds_of(annotation, name, argument.name, datasets)
            inputs.append(Port(argument.name, kinds, not has_default, argument_help.get(argument.name, "")))
        else:
            raise DeclarationError(
                f"{name}: argument {argument.name} can be neither a port nor a parameter",
                hint="Give it the type of a dataset, of a parameter or TaskContext.",
            )
    names = [*(p.name for p in inputs), *(p.name for p in parameters), *classes, context_argument]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise DeclarationError(f"{name}: {twice} is declared twice", hint="Rename one of them.")
    if mutates is not None and mutates not in {p.name for p in inputs}:
        raise DeclarationError(
            f"{name}: mutates names {mutates!r}, which is no input port",
            hint="Name an input port.",
        )
    made = NodeType(
        name=name,
        inputs=tuple(inputs),
        outputs=outputs_of(hints.get("return"), name, datasets),
        parameters=tuple(parameters),
        summary=summary,
        description=description,
        function=function,
        context_argument=context_argument,
        mutates=mutates,
        parameter_classes=classes,
        datasets=tuple(dict.fromkeys(datasets)),
        **fields,
    )
    made.on("embedded")(function)
    return made
