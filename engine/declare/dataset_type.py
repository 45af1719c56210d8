"""Declaring a dataset type: one subclass of `Dataset`; nothing else in Voxelflow knows its name.

    class Horizon(Dataset):
        '''A picked surface: one depth for each trace of a survey.'''

        colour = Colour("#a4512c", dark="#f0a27e")
        is_file = True

        count: int

        def details(self):
            return {"traces": self.count}

The fields are what a reference holds, in JSON, wherever it is stored. The class attributes and methods below are
what Voxelflow asks a type about. A stored reference whose type is not installed any more, or has other fields now,
becomes an `UnknownDataset`, which keeps the JSON as it was.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SerializationInfo,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
)

from engine.declare.appearance import Colour
from engine.errors import DeclarationError
from engine.storage.workspace_paths import LocalPath, WorkspacePaths, each_text

if TYPE_CHECKING:
    from engine.declare.view import DatasetView


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def without_defaults(model: Frozen, fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The fields, those of `names` only where they are not at their default.

    So a reference reads and hashes as one that was stored before these fields existed.
    """
    defaults = {name: type(model).model_fields[name].default for name in names}
    return {k: v for k, v in fields.items() if k not in defaults or getattr(model, k) != defaults[k]}


NO_COLOUR = Colour("#8d8d6f")
"""Of types that declare none."""


class Dataset(Frozen):
    """Base of the references. `uri` is a local path or a storage URL.

    A subclass is a dataset type; one whose name begins with "_" is only a base of others. Its kind is the name of
    its class: in wires, in JSON, for ever. The first line of its docstring says what it is.
    """

    title: ClassVar[str] = ""
    """For people; by default the class's name in words."""
    colour: ClassVar[Colour] = NO_COLOUR
    counted: ClassVar[str] = "rows"
    """What `count` counts, in the plural."""
    is_file: ClassVar[bool] = False
    """Whether `uri` is a single file rather than a folder."""
    lists_files: ClassVar[bool] = False
    """Whether the reference knows its files' sizes itself (a Delta log, a manifest), so that the node's `verify` or
    `check` compares them. The engine does so for all other files of a task."""
    pictured: ClassVar[bool] = False
    """Whether the card of a node that makes one shows thumbnails, of the first gallery of its view."""
    shares_files: ClassVar[bool] = False
    """Whether a dataset of this type that is as large as the node's input is made of hard links to it."""

    kind: str = Field(default="", validate_default=True)
    uri: LocalPath

    @field_validator("kind")
    @classmethod
    def _own_kind(cls, value: str) -> str:
        if value not in ("", cls.__name__):
            raise ValueError(f"this is a {value}, not a {cls.__name__}")
        return cls.__name__

    def details(self) -> Mapping[str, Any]:
        """The figures worth showing a person: counts, bytes, shape."""
        return {}

    def places(self) -> tuple[str, ...]:
        """The paths and URLs that must be there for the reference to mean anything."""
        return (self.uri,)

    def check(self) -> str:
        """Why the data on the disk cannot be used, with the name of the file, or "".

        Asked after its places were found there, before a result is recorded and before it is used again; so be quick.
        """
        return ""

    def preview(self) -> Mapping[str, Any]:
        """What is known of it, as the fields of a `Preview`."""
        return {name: value for name in PREVIEWED if (value := getattr(self, name, None)) is not None}

    def open_view(self, made_from: Mapping[str, Dataset]) -> DatasetView | None:
        """Open it to be looked at (`engine.declare.view`); None: it has nothing to show.

        `made_from` is what the node that made it was given, by port, as far as that is known. Called in a process of
        its own, so it may import and keep what it needs.
        """
        return None

    def scores(self) -> Mapping[str, float]:
        """Figures of how good it is: named in the history of runs, and compared between them."""
        return {}

    def headline(self) -> tuple[str, float] | None:
        """The one figure that says most of how good it is, with its name; None where there is none."""
        return None

    def pinned_version(self) -> int | None:
        """The version of the Delta table at `uri` that must stay readable, whatever is vacuumed."""
        return None

    def mlflow_source(self) -> tuple[str, Mapping[str, Any]] | None:
        """Where it lies, in MLflow's words: a kind of source and its address. None: it is not logged as an input."""
        scheme, separator, _ = self.uri.partition("://")
        return (scheme if separator and scheme != "file" else "local"), {"uri": self.uri}

    def mlflow_profile(self) -> Mapping[str, Any]:
        """The figures that MLflow shows with the dataset."""
        return self.details()

    @classmethod
    def describe_type(cls) -> dict[str, Any]:
        """The type as JSON: what the editor and `voxelflow nodes --json` show."""
        summary, _, description = inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\n")
        return {
            "kind": cls.__name__,
            "title": cls.title,
            "summary": summary,
            "description": description.strip(),
            "light": cls.colour.light,
            "dark": cls.colour.dark or cls.colour.light,
            "pictured": cls.pictured,
            "fields": {
                name: _type_name(field.annotation) for name, field in cls.model_fields.items() if name != "kind"
            },
        }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Before pydantic makes fields of them, and warns in words of its own.
        annotated = vars(cls).get("__annotations__", {})
        _refuse_reserved(cls.__name__, (name for name, hint in annotated.items() if "ClassVar" not in str(hint)))

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if cls.__name__.startswith("_"):
            return
        _refuse_wrong(cls)
        if "title" not in vars(cls):
            cls.title = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", cls.__name__).capitalize()
        # At once, for programs that import the class without a catalogue; the catalogue decides between two.
        before = _known.setdefault(cls.__name__, cls)
        if (before.__module__, before.__qualname__) == (cls.__module__, cls.__qualname__):
            _known[cls.__name__] = cls


PREVIEWED = ("count", "bytes", "spec", "labelled")
_RESERVED = {name for name in vars(Dataset) if not name.startswith("_")} - {"model_config"}
_known: dict[str, type[Dataset]] = {}
"""The types that stored references are read with, by kind."""


def _type_name(annotation: Any) -> str:
    return annotation.__name__ if inspect.isclass(annotation) else str(annotation).replace("typing.", "")


def _refuse_wrong(cls: type[Dataset]) -> None:
    """Raise `DeclarationError` for what cannot be a dataset type."""
    name = cls.__name__
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]{1,63}", name):
        raise DeclarationError(f"{name!r} is not a dataset type's name", hint="Use CamelCase letters and digits.")
    _refuse_reserved(name, cls.model_fields)
    if not isinstance(cls.colour, Colour):
        raise DeclarationError(f"the dataset type {name}: its colour is not a Colour", hint='Write Colour("#a4512c").')


def _refuse_reserved(name: str, fields: Iterable[str]) -> None:
    if taken := sorted(_RESERVED & set(fields)):
        raise DeclarationError(
            f"the dataset type {name}: {taken[0]} cannot be a field, Voxelflow asks every type for it",
            hint=f"To declare it, write {taken[0]} = ... without a type; give a field another name.",
        )


class UnknownDataset(Dataset):
    """A stored reference whose type is not known here. It keeps its JSON, and cannot be used as an input."""

    stored: Mapping[str, Any] = {}
    problem: str = ""

    @field_validator("kind")
    @classmethod
    def _own_kind(cls, value: str) -> str:
        return value

    def details(self) -> Mapping[str, Any]:
        plain = {k: v for k, v in self.stored.items() if k not in ("kind", "uri") and isinstance(v, (int, float, str))}
        return {k: v for k, v in plain.items() if v not in self.places()}

    def places(self) -> tuple[str, ...]:
        return tuple(_place_like(self.stored))

    def pinned_version(self) -> int | None:
        version = self.stored.get("version")
        return version if isinstance(version, int) else None

    def check(self) -> str:
        return f"the dataset type {self.kind} is not known here{f' ({self.problem})' if self.problem else ''}"

    def mlflow_source(self) -> None:
        return None

    @model_serializer(mode="plain")
    def _as_stored(self, info: SerializationInfo) -> dict[str, Any]:
        paths = info.context
        return each_text(dict(self.stored), paths.stored) if isinstance(paths, WorkspacePaths) else dict(self.stored)


def _place_like(value: Any) -> list[str]:
    return [text for text in _texts(value) if text.startswith("/") or "://" in text]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


# --- which types there are -------------------------------------------------------------------------


class DatasetTypes:
    """Dataset types by kind; iteration is in the order of the kinds."""

    def __init__(self) -> None:
        self._by_kind: dict[str, type[Dataset]] = {}
        self._origins: dict[str, str] = {}

    def add(self, types: Iterable[type[Dataset]], origin: str = "built-in") -> None:
        """Raises `DeclarationError` when another type has one of their kinds; then none of them is added."""
        by_kind = dict(self._by_kind)
        for each in types:
            other = by_kind.setdefault(each.__name__, each)
            if other is not each:
                places = " and ".join(f"{t.__module__}.{t.__qualname__}" for t in (other, each))
                raise DeclarationError(
                    f"the dataset type {each.__name__} is declared twice: by {places}",
                    hint="Give one of them another name.",
                )
        for kind in by_kind.keys() - self._by_kind.keys():
            self._origins[kind] = origin
        self._by_kind = by_kind
        _known.update(by_kind)

    def find(self, kind: str) -> type[Dataset] | None:
        """The type of that kind; None when it is unknown."""
        return self._by_kind.get(kind)

    def origin(self, kind: str) -> str:
        """Where it was declared: "built-in", an entry point, or a file."""
        return self._origins[kind]

    def __iter__(self) -> Iterator[type[Dataset]]:
        return iter([self._by_kind[kind] for kind in sorted(self._by_kind)])


def dataset_types_in(namespace: Iterable[Any]) -> list[type[Dataset]]:
    """The dataset types among the values of a module: those that it declares and those that it imports."""
    return [
        value
        for value in namespace
        if inspect.isclass(value)
        and issubclass(value, Dataset)
        and value not in (Dataset, UnknownDataset)
        and not value.__name__.startswith("_")
    ]


def dataset_type(kind: str) -> type[Dataset] | None:
    """The type with that kind, as far as it was declared in this process."""
    found = _known.get(kind)
    return None if found is UnknownDataset else found


# --- references as JSON ----------------------------------------------------------------------------


def dataset_from_json(value: Any, paths: WorkspacePaths | None = None) -> Dataset:
    """The reference in a JSON object or text; of a type that is not known an `UnknownDataset`.

    `paths` are those of the workspace that stored it. Raises `pydantic.ValidationError` on what is no reference, and
    when the fields do not fit a known type.
    """
    raw = _parsed(value)
    kind = raw.get("kind") if isinstance(raw, Mapping) else None
    known = dataset_type(kind) if isinstance(kind, str) else None
    if known is not None:
        if isinstance(value, (str, bytes)):
            return known.model_validate_json(value, context=paths)
        return known.model_validate(raw, context=paths)
    if not isinstance(kind, str) or not kind:
        return _NoKind.model_validate(raw)
    return _unknown(raw, paths)


def _unknown(raw: Mapping[str, Any], paths: WorkspacePaths | None, problem: str = "") -> UnknownDataset:
    stored = each_text(dict(raw), paths.loaded) if paths is not None else dict(raw)
    fields = {"kind": raw["kind"], "uri": stored.get("uri"), "stored": stored, "problem": problem}
    return UnknownDataset.model_validate(fields)


class _NoKind(Dataset):
    """What is not a reference to anything: read to say what is wrong."""

    kind: str = Field()

    @field_validator("kind")
    @classmethod
    def _own_kind(cls, value: str) -> str:
        raise ValueError("a dataset's kind is the name of its type")


def _parsed(value: Any) -> Any:
    if not isinstance(value, (str, bytes)):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def stored_dataset(value: Any, paths: WorkspacePaths | None = None) -> Dataset:
    """A reference as it was stored some time ago: where its fields do not fit its type now, an `UnknownDataset`.

    `paths` are those of the workspace that stored it. Raises `pydantic.ValidationError` on what is no reference at all.
    """
    if isinstance(value, Dataset):
        return value
    try:
        return dataset_from_json(value, paths)
    except ValidationError as exc:
        if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
            raise
        first = exc.errors()[0]
        return _unknown(value, paths, f"{'.'.join(map(str, first['loc'])) or 'its fields'}: {first['msg']}")


def known_again(dataset: Dataset) -> Dataset:
    """The same reference, read anew if its type was not known and is by now."""
    return stored_dataset(dataset.stored) if isinstance(dataset, UnknownDataset) else dataset


def _any_dataset(value: Any, info: ValidationInfo) -> Dataset:
    return stored_dataset(value, info.context if isinstance(info.context, WorkspacePaths) else None)


AnyDataset = Annotated[Dataset, PlainValidator(_any_dataset)]
"""The type of a field that holds a reference of any type."""


def protected_places(dataset: Dataset) -> set[str]:
    """What must not be freed as long as the reference is needed: its places, and any other that its fields name.

    A type from another package may leave some out of its `places()`.
    """
    return {dataset.uri, *_place_like(dataset.model_dump(mode="json"))}


def pinned_versions(datasets: Iterable[Dataset]) -> dict[str, tuple[int, ...]]:
    """By table: the versions that some of the references need."""
    out: dict[str, set[int]] = {}
    for dataset in datasets:
        if (version := dataset.pinned_version()) is not None:
            out.setdefault(dataset.uri, set()).add(version)
    return {uri: tuple(sorted(versions)) for uri, versions in out.items()}


def details_of(dataset: Dataset) -> dict[str, Any]:
    """Its `details()`, also when those of somebody else's type fail: that must not close the history of runs."""
    try:
        return dict(dataset.details())
    except Exception as exc:
        return {"problem": f"{type(exc).__name__}: {exc}"}


def headline_of(dataset: Dataset) -> tuple[str, float] | None:
    """Its `headline()`; None when that fails, as one of a package's own type may."""
    try:
        found = dataset.headline()
        return None if found is None else (str(found[0]), float(found[1]))
    except Exception:
        return None


def scores_of(dataset: Dataset) -> dict[str, float]:
    """Its `scores()`; none when those of somebody else's type fail."""
    try:
        return {name: float(value) for name, value in dataset.scores().items()}
    except Exception:
        return {}
