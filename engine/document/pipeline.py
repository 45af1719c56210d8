"""The pipeline document: nodes, edges, positions and parameters, as plain JSON.

The file is the product: a person can read, diff and merge it. It holds no run-time state, and
`load(dump(p)) == p` for every document. A node's `type` may be one this installation does not know:
the node keeps its parameters and edges, and the checks report it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator

from engine.errors import PipelineError
from engine.storage.files import read_document, write_whole
from engine.storage.io_errors import remedy

SCHEMA_VERSION = 1
SCHEMA_ID = "urn:voxelflow:pipeline:1"
SCHEMA_FILE = "pipeline.schema.json"
"""Lies beside the documents, so that editors complete and check them."""
_SCHEMA = "See what is allowed in the JSON Schema: `voxelflow new --schema`."
ID_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"
MAX_NAME = 300
"""Characters in a pipeline's name."""
NodeId = Annotated[str, Field(pattern=ID_PATTERN)]
NodeMode = Literal["run", "disabled", "bypass"]
Colour = Literal["grey", "blue", "green", "amber", "red", "violet"]
MAX_ANNOTATION_TEXT = 20_000
"""Characters in the title of a frame or in a note."""
MAX_NESTING = 250
"""Lists and objects within one another in a document. Pydantic takes 255, and calls one more a cyclic reference."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Position(_Frozen):
    """Where the node's top left corner lies on the canvas, in pixels at zoom 1."""

    x: float = 0
    y: float = 0

    @field_validator("x", "y")
    @classmethod
    def _finite(cls, value: float) -> float:
        _refuse_non_finite(value)
        return value


class Node(_Frozen):
    """One box: an instance of a node type with parameter values."""

    id: NodeId
    type: str
    version: int | None = None
    """The node type's version it was drawn with; None takes the newest."""
    title: str = ""
    params: dict[str, JsonValue] = {}
    position: Position = Position()
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    """How often to try again after a failure."""
    timeout_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds after which an attempt is stopped."""
    mode: NodeMode = "run"
    """"disabled" leaves the node out, with all that needs it; "bypass" passes a fitting input through in its place."""
    ui: dict[str, JsonValue] = {}
    """What an editor wants to remember (colour, folded); the engine ignores it."""

    @property
    def label(self) -> str:
        """The title, else the id: the command line's name for it."""
        return self.title or self.id

    @field_validator("params", "ui", "timeout_s")
    @classmethod
    def _finite(cls, value: Any) -> Any:
        _refuse_non_finite(value)
        return value


class Edge(_Frozen):
    """A wire from an output port to an input port, each written `node.port`."""

    source: Annotated[str, Field(alias="from", pattern=r"^[^.]+\.[^.]+$")]
    target: Annotated[str, Field(alias="to", pattern=r"^[^.]+\.[^.]+$")]

    @property
    def source_node(self) -> str:
        """The id of the node that gives."""
        return self.source.split(".")[0]

    @property
    def source_port(self) -> str:
        """Its output port."""
        return self.source.split(".")[1]

    @property
    def target_node(self) -> str:
        """The id of the node that takes."""
        return self.target.split(".")[0]

    @property
    def target_port(self) -> str:
        """Its input port."""
        return self.target.split(".")[1]


class PipelineParameter(_Frozen):
    """A value that node parameters take with `${name}`. Without a value the run must be given one."""

    value: JsonValue = None
    help: str = ""

    @field_validator("value")
    @classmethod
    def _finite(cls, value: JsonValue) -> JsonValue:
        _refuse_non_finite(value)
        return value


class Annotation(_Frozen):
    """Drawn for people: a frame around nodes with a title, or a note. Runs and results do not depend on it."""

    id: NodeId
    kind: Literal["frame", "note"]
    text: Annotated[str, Field(max_length=MAX_ANNOTATION_TEXT)] = ""
    """The frame's title, or what the note says."""
    colour: Colour = "grey"
    position: Position = Position()
    width: Annotated[float, Field(gt=0)] = 240
    """In pixels at zoom 1."""
    height: Annotated[float, Field(gt=0)] = 120

    @field_validator("width", "height")
    @classmethod
    def _finite(cls, value: float) -> float:
        _refuse_non_finite(value)
        return value


def display_names(nodes: Iterable[Node]) -> dict[str, str]:
    """Display names of the nodes, by id: the title, else the type; the id is appended where two nodes share a name."""
    names = {node.id: node.title or node.type for node in nodes}
    shared = {name for name, count in Counter(names.values()).items() if count > 1}
    return {node: f"{name} ({node})" if name in shared else name for node, name in names.items()}


class Pipeline(_Frozen):
    """A whole document."""

    schema_version: int = SCHEMA_VERSION
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    description: str = ""
    parameters: dict[NodeId, PipelineParameter] = {}
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    ui: dict[str, JsonValue] = {}

    @field_validator("ui")
    @classmethod
    def _finite(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        _refuse_non_finite(value)
        return value

    @model_validator(mode="after")
    def _unique_ids(self) -> Pipeline:
        seen: set[str] = set()
        for node in self.nodes:
            # Logs and folders are named after nodes, on file systems that ignore case too.
            if node.id.lower() in seen:
                raise ValueError(f"two nodes are called {node.id}; ids must differ in more than case")
            seen.add(node.id.lower())
        drawn = [item.id for item in self.annotations]
        if twice := next((n for i, n in enumerate(drawn) if n in drawn[:i]), None):
            raise ValueError(f"two annotations are called {twice}")
        return self

    def node(self, node_id: str) -> Node | None:
        """The node of that id; None when there is none."""
        return next((n for n in self.nodes if n.id == node_id), None)


def nests_deeper(value: Any, most: int) -> bool:
    """Whether more than `most` lists and objects lie within one another in a JSON value; a plain value is none."""
    level = [value]
    for _ in range(most):
        level = [item for each in level for item in _items(each)]
    return any(isinstance(each, (dict, list)) for each in level)


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse_non_finite(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and infinity have no place in a JSON document")
    if isinstance(value, dict):
        for item in value.values():
            _refuse_non_finite(item)
    elif isinstance(value, list):
        for item in value:
            _refuse_non_finite(item)


# --- text -> document ------------------------------------------------------------------------

Migration = Callable[[dict[str, Any]], dict[str, Any]]
MIGRATIONS: dict[int, Migration] = {}
"""From version n to n + 1. Version 1 is the first published one."""


def load(text: str | bytes, where: str = "the pipeline", *, migrations: dict[int, Migration] | None = None) -> Pipeline:
    """The document in JSON `text`; `where` names it in errors.

    Raises `PipelineError` with the line of a syntax error, the path of a wrong value, or the
    version of a document that is newer than this Voxelflow.
    """
    try:
        raw = json.loads(text, object_pairs_hook=_no_duplicate_keys)
        # Half of a character, cut in two by a program that counts in UTF-16, could not be written again.
        json.dumps(raw, ensure_ascii=False).encode()
    except json.JSONDecodeError as exc:
        raise PipelineError(
            f"{where} is not valid JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}", hint="Correct it there."
        ) from exc
    except RecursionError as exc:
        raise _nests_too_deep(where) from exc
    except ValueError as exc:
        raise PipelineError(f"{where} cannot be read as JSON: {exc}", hint="Save it as JSON in UTF-8.") from exc
    if nests_deeper(raw, MAX_NESTING):
        raise _nests_too_deep(where)
    if not isinstance(raw, dict):
        raise PipelineError(f"{where} is not a pipeline: the top level must be an object", hint=_SCHEMA)
    raw.pop("$schema", None)
    raw = _migrate(raw, where, MIGRATIONS if migrations is None else migrations)
    try:
        return Pipeline.model_validate(raw)
    except ValidationError as exc:
        first = exc.errors()[0]
        path = ".".join(str(p) for p in first["loc"]) or "document"
        more = f" (and {exc.error_count() - 1} more)" if exc.error_count() > 1 else ""
        message = first["msg"].removeprefix("Value error, ")
        raise PipelineError(
            f"{where} is not a pipeline: {path}: {message}{more}",
            hint=_SCHEMA,
        ) from exc


def _nests_too_deep(where: str) -> PipelineError:
    return PipelineError(
        f"{where} is not a pipeline: more than {MAX_NESTING} lists and objects lie within one another",
        hint="Correct its values: no parameter needs so many.",
    )


def _no_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        keys = [k for k, _ in pairs]
        twice = next(k for k in keys if keys.count(k) > 1)
        raise ValueError(f"the key {twice!r} appears twice in one object")
    return out


def _migrate(raw: dict[str, Any], where: str, migrations: dict[int, Migration]) -> dict[str, Any]:
    newest = max([SCHEMA_VERSION, *(n + 1 for n in migrations)])
    version = raw.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int) or isinstance(version, bool):
        raise PipelineError(f"{where}: schema_version must be a whole number", hint=f"Write {SCHEMA_VERSION}.")
    if version > newest:
        raise PipelineError(
            f"{where} has schema_version {version}; this Voxelflow reads up to {newest}", hint="Update Voxelflow."
        )
    while version < newest:
        if version not in migrations:
            raise PipelineError(
                f"{where} has schema_version {version}, which no release of Voxelflow wrote",
                hint=f"Write {SCHEMA_VERSION}.",
            )
        raw = migrations[version](raw)
        version += 1
        raw["schema_version"] = version
    return raw


def read_pipeline(path: Path) -> Pipeline:
    """The document in a file. Raises `PipelineError`, naming the file."""
    try:
        text = read_document(path)
    except OSError as exc:
        new = "`voxelflow new` makes a pipeline to start from."
        hint = new if isinstance(exc, FileNotFoundError) else remedy(exc)
        raise PipelineError(f"{path} cannot be read: {exc.strerror}", hint=hint) from exc
    return load(text, str(path))


# --- document -> text ------------------------------------------------------------------------


def dump(pipeline: Pipeline) -> str:
    """The document's canonical text: the same document gives the same bytes everywhere.

    Keys stand in the models' order, parameters sorted by name; what holds its default is left out,
    except a node's position.
    """
    out: dict[str, Any] = {
        "$schema": f"./{SCHEMA_FILE}",
        "schema_version": pipeline.schema_version,
        "name": pipeline.name,
    }
    if pipeline.description:
        out["description"] = pipeline.description
    if pipeline.parameters:
        out["parameters"] = {
            name: {"value": _sorted(p.value)} | ({"help": p.help} if p.help else {})
            for name, p in sorted(pipeline.parameters.items())
        }
    out["nodes"] = [_dump_node(n) for n in pipeline.nodes]
    out["edges"] = [{"from": e.source, "to": e.target} for e in pipeline.edges]
    if pipeline.annotations:
        out["annotations"] = [_dump_annotation(item) for item in pipeline.annotations]
    if pipeline.ui:
        out["ui"] = _sorted(pipeline.ui)
    return json.dumps(out, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _dump_node(node: Node) -> dict[str, Any]:
    out: dict[str, Any] = {"id": node.id, "type": node.type}
    if node.version is not None:
        out["version"] = node.version
    if node.title:
        out["title"] = node.title
    out["params"] = _sorted(node.params)
    out["position"] = {"x": _number(node.position.x), "y": _number(node.position.y)}
    if node.retries:
        out["retries"] = node.retries
    if node.timeout_s is not None:
        out["timeout_s"] = _number(node.timeout_s)
    if node.mode != "run":
        out["mode"] = node.mode
    if node.ui:
        out["ui"] = _sorted(node.ui)
    return out


def _dump_annotation(item: Annotation) -> dict[str, Any]:
    out: dict[str, Any] = {"id": item.id, "kind": item.kind}
    if item.text:
        out["text"] = item.text
    if item.colour != "grey":
        out["colour"] = item.colour
    out["position"] = {"x": _number(item.position.x), "y": _number(item.position.y)}
    out["width"], out["height"] = _number(item.width), _number(item.height)
    return out


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _sorted(value[k]) for k in sorted(value)}
    if isinstance(value, list):
        return [_sorted(v) for v in value]
    return value


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else value


def write_pipeline(pipeline: Pipeline, path: Path) -> None:
    """Write the canonical text; the file is whole at any moment, also after a power cut."""
    write_whole(path, dump(pipeline), durable=True)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the document, for editors and other tools."""
    schema = Pipeline.model_json_schema(by_alias=True)
    schema["properties"]["$schema"] = {"type": "string"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}


# --- ${name} ---------------------------------------------------------------------------------

_REFERENCE = re.compile(r"\$(\$)?\{([^}]*)\}")


def substitute(value: JsonValue, values: dict[str, JsonValue]) -> JsonValue:
    """`value` with `${name}` replaced: a text that is nothing else takes the value itself, with its
    type; inside a longer text it becomes text. `$${` means a plain `${`.

    Raises `KeyError` with the name that has no value.
    """
    if isinstance(value, list):
        return [substitute(v, values) for v in value]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole and not whole[1]:
        return values[whole[2]]

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        found = values[match[2]]
        return found if isinstance(found, str) else json.dumps(found)

    return _REFERENCE.sub(replace, value)


def references(value: JsonValue) -> set[str]:
    """Names of the pipeline parameters that `value` refers to."""
    if isinstance(value, list):
        return set().union(*(references(v) for v in value)) if value else set()
    return {m[2] for m in _REFERENCE.finditer(value) if not m[1]} if isinstance(value, str) else set()
