"""A node type: ports, parameters, hooks and variants of one decorated function (`engine.declare.node`)."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from engine.declare.appearance import DEFAULT_ICON, Category
from engine.declare.check_context import CheckContext
from engine.declare.dataset_type import dataset_from_json
from engine.declare.datasets import Dataset, Preview, Transform
from engine.declare.node_step import step_of
from engine.declare.parameter_class import callable_by_name
from engine.declare.parameters import Parameter
from engine.declare.signature import DEFAULT_OUTPUT, Port
from engine.declare.workload import TrainingWork
from engine.errors import DeclarationError
from engine.extras import require

P = ParamSpec("P")
R = TypeVar("R")
FromWorkspace = Literal["", "runs", "mlflow"]
"""What a node takes from a workspace beside its inputs: nothing, what its runs have recorded, or where MLflow is."""
PreviewHook = Callable[[CheckContext], Preview | Mapping[str, Preview] | None]


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
    loaded_digest: str = ""
    """Hash of the source that runs here, where the catalogue has compiled it; "" where Python has imported it."""
    datasets: tuple[type[Dataset], ...] = ()
    """The dataset types of its ports."""
    backends: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """By backend: what takes the inputs, all parameters and the context by name."""
    parameter_classes: Mapping[str, type[Any]] = field(default_factory=dict)
    """By argument: the dataclasses whose fields are parameters."""
    scan_hook: Callable[[CheckContext], Mapping[str, Any]] | None = None
    preview_hook: PreviewHook | None = None
    verify_hook: Callable[[Mapping[str, Dataset], bool], str] | None = None
    writes_hook: Callable[[Mapping[str, Dataset], Mapping[str, Any], Path], str] | None = None
    workload_hook: Callable[[CheckContext], TrainingWork | None] | None = None
    revision_hook: Callable[[Mapping[str, Any]], int] | None = None
    from_workspace_hook: Callable[[Mapping[str, Any]], FromWorkspace] | None = None

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

    def preview(self, hook: PreviewHook) -> PreviewHook:
        """Declare what is known of the outputs beforehand, without any I/O; reports problems too.

        The hook returns the preview of the one output, previews by port, or None where nothing is known.
        """
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

    def revision(self, hook: Callable[[Mapping[str, Any]], int]) -> Callable[[Mapping[str, Any]], int]:
        """Declare the version by parameters, `hook(params)`, where a change gives other results with some of them
        alone: those of all others are still used."""
        self.revision_hook = hook
        return hook

    def from_workspace(
        self, hook: Callable[[Mapping[str, Any]], FromWorkspace]
    ) -> Callable[[Mapping[str, Any]], FromWorkspace]:
        """Declare what the node takes from the workspace beside its inputs: `hook(params)` gives a `FromWorkspace`.

        An exported program has no workspace: a node that takes what runs have recorded cannot be exported to one, and
        the environment variable MLFLOW_TRACKING_URI says where MLflow is.
        """
        self.from_workspace_hook = hook
        return hook

    def taken_from_workspace(self, params: Mapping[str, Any]) -> FromWorkspace:
        """What a call with these parameters takes from the workspace beside its inputs."""
        return "" if self.from_workspace_hook is None else self.from_workspace_hook(params)

    def version_with(self, params: Mapping[str, Any]) -> int:
        """The version of a call with these parameters: results of another one are not used."""
        return self.version if self.revision_hook is None else self.revision_hook(params)

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
        if self.loaded_digest:
            return self.loaded_digest
        # Of another decorator's wrapper the source would be that decorator's.
        path = inspect.getsourcefile(inspect.unwrap(self.function))
        return digest_of_source(Path(path).read_bytes() if path else b"")

    def step(self, params: Mapping[str, Any]) -> Transform:
        """The entry that stands for this node with these parameters in chains of transforms."""
        code = f"version {self.version}" if self.origin == "built-in" else self.source_digest
        return step_of(self.name, self.parameters, params, code)

    def collect(self, result: Any) -> dict[str, Dataset]:
        """The function's return value by output port. Raises `DeclarationError` when it does not fit."""
        single = len(self.outputs) == 1 and self.outputs[0].name == DEFAULT_OUTPUT
        out: dict[str, Dataset] = {}
        for port in self.outputs:
            if not single:
                value = getattr(result, port.name, None)
            else:  # a dataset, or a NamedTuple whose one field has the port's usual name
                value = getattr(result, port.name, result) if isinstance(result, tuple) else result
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


def digest_of_source(source: bytes) -> str:
    """What stands for the source of a user node in fingerprints."""
    return hashlib.blake2b(source, digest_size=16).hexdigest()


def _are_equal(one: Dataset, other: Dataset) -> bool:
    """Whether they are equal though written otherwise, as equal sets are."""
    try:
        return bool(one == other)
    except Exception:  # of a user's type; an array in it gives no single answer
        return False


def _refuse_unstorable(dataset: Dataset, name: str) -> None:
    """Raise `DeclarationError` when the next node would be given something else: it reads the reference from JSON."""
    try:
        text = dataset.model_dump_json()
        again = dataset_from_json(text)
        if again.model_dump_json() == text or _are_equal(again, dataset):
            return
        problem = "it is another one when it is read from JSON"
    except ValueError as exc:  # pydantic's errors of either direction
        problem = " ".join(str(exc).split())
    raise DeclarationError(
        f"{name} returned a {dataset.kind} that cannot be stored: {problem}",
        hint=f"Give the fields of {dataset.kind} types that JSON can keep: numbers, texts, lists of them.",
    )
