"""Values that a person gives a pipeline for one run: `width=32` of a parameter, `train.epochs=5` of a node's.

Names with a point are those of a node's parameters; a pipeline's own have none.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import JsonValue

from engine.catalog import Catalog
from engine.declare.field_rules import control_character
from engine.declare.parameters import Parameter
from engine.diagnostics import rules
from engine.diagnostics.rule import Diagnostic
from engine.document.pipeline import Node, Pipeline, PipelineParameter, nests_deeper
from engine.errors import UsageError
from engine.storage import expanded, is_url, place_from

_LEADING_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_DEEPEST = 100
"""Lists and objects within one another in a value, as in the editor: a document holds it, and no recursion fails."""


def read_settings(settings: Iterable[str], pipeline: Pipeline, catalog: Catalog) -> dict[str, JsonValue]:
    """Values by name from `NAME=VALUE` and `NODE.PARAMETER=VALUE` texts; paths among them are made absolute.

    The pipeline's document records them, so a relative path would mean another folder wherever the
    document is run next. Raises `UsageError` for a text without `=`, a name given twice, and a value with a
    control character, that is not UTF-8, with NaN or infinity, or that nests too deep.
    """
    texts: dict[str, str] = {}
    for text in settings:
        name, value = split_setting(text)
        if name in texts:
            raise UsageError(f"--set {name} is given twice", hint="Leave one of them out.")
        texts[name] = value
    return read_texts(texts, pipeline, catalog)


def split_setting(text: str) -> tuple[str, str]:
    """Name and value of a `NAME=VALUE` text. Raises `UsageError` where it is none."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise UsageError(f"--set {text} is not of the form name=value", hint="Write --set name=value.")
    return name.strip(), value


def read_texts(
    given: Mapping[str, JsonValue], pipeline: Pipeline, catalog: Catalog, base: Path | None = None
) -> dict[str, JsonValue]:
    """Values by name from what a person typed: text is read as that parameter's kind of value, all else stays.

    Relative paths start at `base`, by default the current directory, and become absolute, but for a node's that begins
    with a parameter of the pipeline which says where it begins. Raises `UsageError` for a value with a control
    character, that is not UTF-8, with NaN or infinity, or that nests too deep.
    """
    paths = path_parameters(pipeline, catalog)
    out: dict[str, JsonValue] = {}
    for name, typed in given.items():
        node, parameter = _of_node(name, pipeline, catalog)
        value = read_setting(typed, _held(name, pipeline, node, parameter)) if isinstance(typed, str) else typed
        _refuse_nested(name, value)  # first: the others go through it by recursion
        _refuse_unwritable(name, value)
        _refuse_non_finite(name, value)
        _refuse_control(name, value, layout=True)
        is_path = parameter.is_path if parameter is not None else name in paths
        if is_path and isinstance(value, str) and value:
            _refuse_control(name, value, layout=False)
            if parameter is None or not _begins_elsewhere(value, pipeline, given):
                value = place_from((base or Path.cwd()).absolute(), value)
        out[name] = value
    return out


def read_setting(text: str, default: JsonValue) -> JsonValue:
    """The value that `text` means for a parameter which holds `default` in the document.

    Where the document holds text or nothing, a bare figure or word stays text: a folder may be
    called 2024. The node reads text as its own parameter's type in any case.
    """
    try:
        value: JsonValue = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, float) and not math.isfinite(value):
        return text
    if isinstance(value, str):
        return value
    if isinstance(default, str) or (default is None and isinstance(value, (int, float, bool))):
        return text
    return value


def path_parameters(pipeline: Pipeline, catalog: Catalog) -> set[str]:
    """The pipeline's parameters that some node takes, whole, as a path."""
    return {
        name
        for node in pipeline.nodes
        for parameter, given in node.params.items()
        if (name := _whole_reference(given)) is not None and _is_path(catalog, node.type, node.version, parameter)
    }


def with_values(pipeline: Pipeline, values: Mapping[str, JsonValue]) -> Pipeline:
    """The document as it runs with these values: parameters of the pipeline and of its nodes hold them.

    Names that the pipeline does not have are passed over.
    """
    parameters = {
        name: PipelineParameter(value=values.get(name, p.value), help=p.help) for name, p in pipeline.parameters.items()
    }
    own: dict[str, dict[str, JsonValue]] = {}
    for name, value in values.items():
        node, point, parameter = name.partition(".")
        if point:
            own.setdefault(node, {})[parameter] = value
    nodes = tuple(
        n.model_copy(update={"params": {**n.params, **own[n.id]}}) if n.id in own else n for n in pipeline.nodes
    )
    return pipeline.model_copy(update={"parameters": parameters, "nodes": nodes})


def known_values(
    pipeline: Pipeline, catalog: Catalog, values: Mapping[str, JsonValue]
) -> tuple[dict[str, JsonValue], list[Diagnostic]]:
    """Those of the values whose names mean something, and a diagnostic for each other one."""
    known: dict[str, JsonValue] = {}
    problems: list[Diagnostic] = []
    for name, value in values.items():
        found = _unknown(name, pipeline, catalog)
        if found is None:
            known[name] = value
        else:
            problems.append(rules.UnknownSetting.found(found[0], hint=found[1], parameter=name))
    return known, problems


def _unknown(name: str, pipeline: Pipeline, catalog: Catalog) -> tuple[str, str] | None:
    """What is wrong with a name, and what there is; None: it is known."""
    node_id, point, parameter = name.partition(".")
    if not point:
        if name in pipeline.parameters:
            return None
        there = f"It has: {', '.join(sorted(pipeline.parameters)) or 'none'}."
        holders = [n.id for n in pipeline.nodes if (t := catalog.find(n.type, n.version)) and t.parameter(name)]
        nodes = f" Those of nodes are {', '.join(f'{node}.{name}' for node in holders)}." if holders else ""
        return f"the pipeline has no parameter {name}", there + nodes
    node = pipeline.node(node_id)
    if node is None:
        return f"the pipeline has no node {node_id}", f"It has: {', '.join(n.id for n in pipeline.nodes) or 'none'}."
    node_type = catalog.find(node.type, node.version)
    if node_type is None or node_type.parameter(parameter) is not None:
        return None
    there = ", ".join(p.name for p in node_type.parameters) or "none"
    return f"the node {node_id} ({node_type.name}) has no parameter {parameter}", f"It has: {there}."


def _of_node(name: str, pipeline: Pipeline, catalog: Catalog) -> tuple[Node | None, Parameter | None]:
    node_id, point, parameter = name.partition(".")
    node = pipeline.node(node_id) if point else None
    found = catalog.find(node.type, node.version) if node is not None else None
    return node, found.parameter(parameter) if found is not None else None


def _held(name: str, pipeline: Pipeline, node: Node | None, parameter: Parameter | None) -> JsonValue:
    """The value that the document holds under this name, else the parameter's own default."""
    if node is None:
        known = pipeline.parameters.get(name)
        return known.value if known else None
    held = node.params.get(name.partition(".")[2])
    if _whole_reference(held) is not None:
        of_pipeline = pipeline.parameters.get(str(_whole_reference(held)))
        held = of_pipeline.value if of_pipeline is not None else None
    if held is not None or parameter is None or parameter.required:
        return held
    default = parameter.default
    return default if isinstance(default, (str, int, float, bool, list)) else None


def is_utf8(value: JsonValue) -> bool:
    """Whether the texts in a value can be written as UTF-8.

    Bytes on a command line or in a file's name that are none come as halves of a character, which no document holds.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_nested(name: str, value: JsonValue) -> None:
    if nests_deeper(value, _DEEPEST):
        raise UsageError(
            f"--set {name} holds more than {_DEEPEST} lists and objects within one another",
            hint="Correct the value: no parameter needs so many.",
        )


def _refuse_unwritable(name: str, value: JsonValue) -> None:
    if not is_utf8(value):
        raise UsageError(
            f"--set {name} is not UTF-8 text: {value!r}", hint="Rename the file or folder, or correct the value."
        )


def _refuse_non_finite(name: str, value: JsonValue) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise UsageError(
            f"--set {name} holds NaN or a number beyond the largest, which no pipeline can hold",
            hint="Write numbers below 1.8e308.",
        ) from None


def _refuse_control(name: str, value: JsonValue, *, layout: bool) -> None:
    if bad := control_character(value, layout=layout):
        raise UsageError(f"--set {name} holds the control character {bad!r}", hint="Remove it from the value.")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _begins_elsewhere(value: str, pipeline: Pipeline, given: Mapping[str, JsonValue]) -> bool:
    """Whether a node's path begins with a reference to what is absolute, as `${data}/train`, or a URL."""
    if (found := _LEADING_REFERENCE.match(value)) is None:
        return False
    held = pipeline.parameters.get(found[1])
    place = given.get(found[1], held.value if held is not None else None)
    return isinstance(place, str) and (is_url(place) or os.path.isabs(expanded(place)))


def _whole_reference(value: JsonValue) -> str | None:
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return value[2:-1]
    return None


def _is_path(catalog: Catalog, node_type: str, version: int | None, name: str) -> bool:
    found = catalog.find(node_type, version)
    parameter = found.parameter(name) if found else None
    return parameter is not None and parameter.is_path
