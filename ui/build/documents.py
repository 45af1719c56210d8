"""The document as the canvas edits it: from and to a pipeline, changed by ops, and its id. Pure.

A `Doc` that came from here can always be written as a pipeline: an op that would break that is
refused, whatever the browser thinks of it.

A pipeline may be called anything; its file is called by a short, safe form of that name, which is
also the document's id and what `voxelflow run` takes.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from engine.document.pipeline import ID_PATTERN, MAX_NAME, Annotation, Edge, Node, Pipeline, PipelineParameter, Position
from engine.errors import PipelineError
from ui.protocol.document import Doc, DocAnnotation, DocEdge, DocNode, DocParameter, DocPosition, Op

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
MAX_STEM_BYTES = 80
_RELOAD = "Reload the page, which then shows the pipeline as it is."
_DEEPEST = 100
_FIELDS = frozenset(DocNode.model_fields)
_ANNOTATION_FIELDS = frozenset(DocAnnotation.model_fields)


def pipeline_to_doc(pipeline: Pipeline) -> Doc:
    """The same content with lists as maps; `order` keeps the places in the file."""
    edges: dict[str, DocEdge] = {}
    for place, edge in enumerate(pipeline.edges):
        key = plain = edge_key(edge.source, edge.target)
        times = 1
        while key in edges:
            times += 1
            key = f"{plain}#{times}"
        edges[key] = DocEdge(source=edge.source, target=edge.target, order=place)
    return Doc(
        name=pipeline.name,
        description=pipeline.description,
        parameters={n: DocParameter(value=p.value, help=p.help) for n, p in pipeline.parameters.items()},
        nodes={n.id: _doc_node(n, place) for place, n in enumerate(pipeline.nodes)},
        edges=edges,
        annotations={a.id: _doc_annotation(a, place) for place, a in enumerate(pipeline.annotations)},
        ui=pipeline.ui,
    )


def doc_to_pipeline(doc: Doc) -> Pipeline:
    """The pipeline to write. Nodes, edges and annotations are sorted by (`order`, key)."""
    return Pipeline(
        name=doc.name,
        description=doc.description,
        parameters={n: PipelineParameter(value=p.value, help=p.help) for n, p in doc.parameters.items()},
        nodes=tuple(_node(node_id, node) for node_id, node in _in_order(doc.nodes)),
        edges=tuple(_edge(edge) for _, edge in _in_order(doc.edges)),
        annotations=tuple(_annotation(key, item) for key, item in _in_order(doc.annotations)),
        ui=doc.ui,
    )


def edge_key(source: str, target: str) -> str:
    """Key of an edge in `Doc.edges`; further equal edges get `#2`, `#3` behind it."""
    return f"{source}->{target}"


def apply(doc: Doc, ops: Iterable[Op]) -> Doc:
    """The document after `ops`, in order; `doc` stays as it is.

    An op inside a node that is not there does nothing: someone else removed it. So that edits which cross
    leave no wire to a missing node, a node goes with its wires, a wire without one of its ends is not made,
    and an input keeps the newest of its wires, but for those `exempt`; the canvas does the same. Raises
    `PipelineError` when an op would leave no valid pipeline, or its path is invalid.
    """
    for op in ops:
        doc = _apply(doc, op)
    return doc


def is_looks_only(op: Op) -> bool:
    """Whether the op changes how the drawing looks and nothing that a run would do: moving a node does not."""
    match op.path:
        case ["ui" | "annotations", *_] | ["nodes", _, "position" | "ui", *_]:
            return True
    return False


def _apply(doc: Doc, op: Op) -> Doc:
    if not op.remove:
        _refuse_unwritable(op.value)
    for step in op.path:
        _refuse_unwritable(step)
    match op.path:
        case ["description"] if not op.remove:
            return doc.model_copy(update={"description": _text(op.value)})
        case ["ui", key]:
            return doc.model_copy(update={"ui": _changed(doc.ui, key, op, op.value)})
        case ["parameters", name, "value" | "help" as field] if not op.remove:
            if name not in doc.parameters:
                return doc
            changed_parameter = _read(DocParameter, {**doc.parameters[name].model_dump(), field: op.value}, name)
            return doc.model_copy(update={"parameters": {**doc.parameters, name: changed_parameter}})
        case ["parameters", name]:
            parameter = None if op.remove else _parameter(name, op)
            return doc.model_copy(update={"parameters": _changed(doc.parameters, name, op, parameter)})
        case ["edges", key]:
            if op.remove:
                return doc.model_copy(update={"edges": _changed(doc.edges, key, op, None)})
            return _wired(doc, key, _checked_edge(key, op), op.exempt)
        case ["annotations", key]:
            drawn = None if op.remove else _checked_annotation(key, op.value)
            return doc.model_copy(update={"annotations": _changed(doc.annotations, key, op, drawn)})
        case ["annotations", key, field] if field in _ANNOTATION_FIELDS and not op.remove:
            if key not in doc.annotations:
                return doc
            drawn = _checked_annotation(key, {**doc.annotations[key].model_dump(), field: op.value})
            return doc.model_copy(update={"annotations": {**doc.annotations, key: drawn}})
        case ["nodes", node_id]:
            node = None if op.remove else _checked_node(doc, node_id, op.value)
            update: dict[str, Any] = {"nodes": _changed(doc.nodes, node_id, op, node)}
            if op.remove:
                kept = {k: e for k, e in doc.edges.items() if k in op.exempt or node_id not in _ends(e)}
                update["edges"] = kept
            return doc.model_copy(update=update)
        case ["nodes", node_id, *inside] if len(inside) in (1, 2):
            if node_id not in doc.nodes:
                return doc
            changed = _inside_node(node_id, doc.nodes[node_id], inside, op)
            return doc.model_copy(update={"nodes": {**doc.nodes, node_id: changed}})
    raise PipelineError(
        f"a pipeline has nothing at {'/'.join(op.path) or 'the top of the pipeline'} that could be changed so",
        hint=_RELOAD,
    )


def _wired(doc: Doc, key: str, edge: DocEdge, exempt: Collection[str]) -> Doc:
    if key not in exempt and not _ends(edge) <= doc.nodes.keys():
        return doc
    others = {k: e for k, e in doc.edges.items() if k in exempt or e.target != edge.target or e.source == edge.source}
    return doc.model_copy(update={"edges": {**others, key: edge}})


def _ends(edge: DocEdge) -> set[str]:
    """The ids of the nodes that the wire joins."""
    return {edge.source.partition(".")[0], edge.target.partition(".")[0]}


def _inside_node(node_id: str, node: DocNode, inside: list[str], op: Op) -> DocNode:
    match inside:
        case ["params" | "ui" as field, key]:
            return node.model_copy(update={field: _changed(getattr(node, field), key, op, op.value)})
        case [field] if field in _FIELDS and not op.remove:
            # The whole node is looked at again, since a field may be wrong in more ways than its type.
            changed = _read(DocNode, {**node.model_dump(), field: op.value}, f"{node_id}.{field}")
            _convertible(node_id, changed)
            return changed
    raise PipelineError(
        f"a node has nothing at {'/'.join(inside)} that could be changed so", hint=_RELOAD, node=node_id
    )


def _changed(items: Mapping[str, T], key: str, op: Op, value: T | None) -> dict[str, Any]:
    if op.remove:
        return {k: v for k, v in items.items() if k != key}
    return {**items, key: value}


# --- one thing and its rules -------------------------------------------------------------------


def _checked_node(doc: Doc, node_id: str, value: Any) -> DocNode:
    node = _read(DocNode, value, node_id)
    _convertible(node_id, node)
    if node_id not in doc.nodes:
        same = next((n for n in doc.nodes if n.lower() == node_id.lower()), None)
        if same is not None:
            raise PipelineError(
                f"there is a node {same} already: {node_id} differs from it only by case", hint="Choose another name."
            )
    return node


def _convertible(node_id: str, node: DocNode) -> None:
    _refuse_unwritable([node.position.x, node.position.y, node.order, node.timeout_s])
    try:
        _node(node_id, node)
    except ValidationError as exc:
        raise _error(exc, node_id) from exc


def _checked_edge(key: str, op: Op) -> DocEdge:
    edge = _read(DocEdge, op.value, "the wire")
    _refuse_unwritable(edge.order)
    plain = edge_key(edge.source, edge.target)
    if key != plain and not re.fullmatch(re.escape(plain) + r"#([2-9]|[1-9][0-9]+)", key):
        raise PipelineError(f"the wire {plain} cannot be kept under another name", hint=_RELOAD)
    try:
        _edge(edge)
    except ValidationError as exc:
        raise _error(exc, "the wire") from exc
    return edge


def _checked_annotation(key: str, value: Any) -> DocAnnotation:
    item = _read(DocAnnotation, value, key)
    _refuse_unwritable([item.position.x, item.position.y, item.width, item.height, item.order])
    try:
        _annotation(key, item)
    except ValidationError as exc:
        raise _error(exc, key) from exc
    return item


def _parameter(name: str, op: Op) -> DocParameter:
    if not re.fullmatch(ID_PATTERN, name) or name.endswith("\n"):
        raise PipelineError(
            f"{name!r} cannot be the name of a parameter",
            hint="Use letters, digits, _ and -, at most 64, and begin with a letter.",
        )
    return _read(DocParameter, op.value, name)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise PipelineError(f"the pipeline's description is text, not {type(value).__name__}", hint="Write text.")
    return value


def _read(model: type[M], value: Any, what: str) -> M:
    try:
        # "3" and true are no numbers: the browser, which shows them as they are, would hold another document.
        return model.model_validate(value, strict=True)
    except ValidationError as exc:
        raise _error(exc, what) from exc


def _error(exc: ValidationError, what: str) -> PipelineError:
    first = exc.errors()[0]
    place = ".".join(str(p) for p in first["loc"])
    if first["type"] == "string_pattern_mismatch" and place == "id":
        return PipelineError(
            f"{what!r} cannot be a node's id",
            hint="Use letters, digits, _ and -, at most 64, and begin with a letter.",
        )
    return PipelineError(f"{what}{': ' + place if place else ''}: {first['msg']}", hint="Correct the value.")


def _refuse_unwritable(value: Any) -> None:
    """What JSON or a UTF-8 file cannot hold. Without recursion: depth is one of the things to refuse."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > _DEEPEST:
            raise PipelineError("the node's value is nested too deeply", hint="Write fewer lists in lists.")
        if isinstance(item, float) and not math.isfinite(item):
            raise PipelineError("NaN and infinity have no place in the pipeline's JSON", hint="Write a number.")
        if isinstance(item, str):
            # Half of an emoji, cut in two by a program that counts in UTF-16.
            if any("\ud800" <= c <= "\udfff" for c in item):
                raise PipelineError("the node's text has a broken character", hint="Type it again.")
        elif isinstance(item, dict):
            waiting += [(k, depth + 1) for k in item] + [(v, depth + 1) for v in item.values()]
        elif isinstance(item, list):
            waiting += [(v, depth + 1) for v in item]


# --- nodes and edges ---------------------------------------------------------------------------


def _in_order(items: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(items.items(), key=lambda item: (item[1].order, item[0]))


def _doc_node(node: Node, place: int) -> DocNode:
    at = DocPosition(x=node.position.x, y=node.position.y)
    return DocNode(**_alike(node, DocNode), position=at, order=place)


def _node(node_id: str, node: DocNode) -> Node:
    at = Position(x=node.position.x, y=node.position.y)
    return Node(**_alike(node, Node), id=node_id, position=at)


def _doc_annotation(item: Annotation, place: int) -> DocAnnotation:
    at = DocPosition(x=item.position.x, y=item.position.y)
    return DocAnnotation(**_alike(item, DocAnnotation), position=at, order=place)


def _annotation(key: str, item: DocAnnotation) -> Annotation:
    at = Position(x=item.position.x, y=item.position.y)
    return Annotation(**_alike(item, Annotation), id=key, position=at)


def _alike(item: BaseModel, other: type[BaseModel]) -> dict[str, Any]:
    """The fields that are the same in the file and on the canvas."""
    shared = type(item).model_fields.keys() & other.model_fields.keys() - {"position"}
    return {name: getattr(item, name) for name in shared}


def _edge(edge: DocEdge) -> Edge:
    return Edge.model_validate({"from": edge.source, "to": edge.target})


# --- names and ids ------------------------------------------------------------------------------


def document_id(name: str, taken: Collection[str]) -> str:
    """A file stem for `name`, unlike every one in `taken` also where case does not count."""
    known = {t.casefold() for t in taken}
    stem = slug(name)
    number = 1
    while (candidate := _numbered(stem, number)).casefold() in known:
        number += 1
    return candidate


def slug(name: str) -> str:
    """Letters, marks and digits of any script in lower case, all else as single hyphens; never empty."""
    kept = "".join(c if unicodedata.category(c)[0] in "LMN" else "-" for c in unicodedata.normalize("NFC", name))
    words = [w for w in kept.lower().split("-") if w]
    return _cut("-".join(words), MAX_STEM_BYTES).strip("-") or "pipeline"


def is_document_id(text: str) -> bool:
    """Whether `text` can be the stem of a file in the pipelines' folder, and only there."""
    return (
        0 < len(text.encode("utf-8", "surrogatepass")) <= 250
        and not text.startswith(".")
        and not text.endswith(".schema")
        and not any(c in "/\\\0" or "\ud800" <= c <= "\udfff" for c in text)
    )


def free_name(name: str, taken: Collection[str]) -> str:
    """`name`, or `name 2`, `name 3` when there is one called so."""
    number = 1
    while (candidate := name if number == 1 else f"{name[: MAX_NAME - 6]} {number}") in taken:
        number += 1
    return candidate


def _numbered(stem: str, number: int) -> str:
    if number == 1:
        return stem
    end = f"-{number}"
    return _cut(stem, MAX_STEM_BYTES - len(end)).rstrip("-") + end


def _cut(text: str, limit: int) -> str:
    # By whole characters: half of one is no text.
    return text.encode()[:limit].decode(errors="ignore")
