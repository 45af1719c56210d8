"""Text that people typed, as Python source: it may say anything and must do nothing."""

from __future__ import annotations

import builtins
import keyword
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from engine.declare.parameters import MISSING, Parameter, read_value
from engine.document.pipeline import references, substitute
from engine.document.resolve import Resolved, TypedNode
from engine.export.own_files import OwnCode
from engine.storage import is_url, place_from
from engine.text import safe, spelled_out

_RESERVED = frozenset([*keyword.kwlist, *keyword.softkwlist, *dir(builtins)])


def literal(value: Any) -> str:
    """The value as Python spells it: None, bool, numbers, text, and lists, tuples and dicts of these.

    Raises `TypeError` for anything else.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(literal, value)) + ("," if len(value) == 1 else "") + ")"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    raise TypeError(f"{type(value).__name__} has no literal")


def _text(value: str) -> str:
    plain = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(plain.get(c) or (c if c.isprintable() else spelled_out(c)) for c in value) + '"'


def one_line(text: str) -> str:
    """The text for a comment or a terminal: one line; what is invisible or turns the reading direction, spelled out."""
    return safe(" ".join(text.split()))


def in_docstring(text: str) -> str:
    """The text on one line, for a docstring in triple double quotes."""
    return one_line(text).replace("\\", "\\\\").replace('"', "'")


class Names:
    """Hands out names for one module: valid, different from each other, from keywords and from built-ins."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str) -> str:
        """The wanted name, or the nearest that is free."""
        name = re.sub(r"[^A-Za-z0-9_]", "_", wanted) or "_"
        if name[0].isdigit():
            name = f"_{name}"
        while name in _RESERVED or name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def file_stem(name: str) -> str:
    """A file name for a pipeline called so, without its ending: letters, digits, hyphens."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:60] or "pipeline"


_REFERENCE = re.compile(r"(\$?)\$\{([^}]*)\}")
_WHOLE = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True)
class Constant:
    """A name at the top of the file, its value, and what it means; where the value is no literal, its expression."""

    name: str
    value: Any
    help: str
    expression: str = ""


@dataclass(frozen=True)
class Argument:
    """A parameter in a call: the Python expression, and a remark where the expression needs one."""

    name: str
    expression: str
    remark: str = ""


class Values:
    """The constants of a pipeline's file, and the arguments of each node's call.

    `given` are the values that the pipeline's parameters have; relative paths start at `base`. What `own_code` names,
    by node and parameter, lies beside the file; the constants for it are called as `own_code` here says.
    """

    def __init__(
        self,
        resolved: Resolved,
        given: Mapping[str, JsonValue],
        names: Names,
        base: Path,
        own_code: Mapping[tuple[str, str], OwnCode],
    ) -> None:
        self._base, self._beside = base, own_code
        self.own_code: list[str] = []
        self._settings = {n: p.value for n, p in resolved.pipeline.parameters.items()} | dict(given)
        self._shared: dict[str, Constant] = {}
        self.constants: list[Constant] = []
        self.arguments: dict[str, list[Argument]] = {}
        used = {
            r
            for item in resolved.typed()
            for name, raw in item.node.params.items()
            if (item.node.id, name) not in own_code
            for r in references(raw)
        }
        for name, parameter in resolved.pipeline.parameters.items():
            if name in used:
                constant = Constant(names.take(name.upper()), self._shown(name, resolved), parameter.help)
                self._shared[name] = constant
                self.constants.append(constant)
        for item in resolved.typed():
            self.arguments[item.node.id] = [self._argument(p, item, names) for p in item.type.parameters]

    def _shown(self, name: str, resolved: Resolved) -> Any:
        """The value at the top of the file for a pipeline's parameter, in the type of the nodes that use it whole."""
        found = [
            item.params[parameter]
            for item in resolved.typed()
            for parameter, raw in item.node.params.items()
            if isinstance(raw, str) and (match := _WHOLE.fullmatch(raw)) and match[1] == name
        ]
        within = any(
            name in references(raw) and not (isinstance(raw, str) and _WHOLE.fullmatch(raw))
            for item in resolved.typed()
            for raw in item.node.params.values()
        )
        if found and not within and all(_same(value, found[0]) for value in found):
            return found[0]
        return self._settings[name]

    def _argument(self, parameter: Parameter, item: TypedNode, names: Names) -> Argument:
        name, value, raw = parameter.name, item.params[parameter.name], item.node.params.get(parameter.name)
        if (own := self._beside.get((item.node.id, name))) is not None:
            constant = self._constant(parameter, item, names, f"str(beside({literal(own.place)}))")
            self.own_code.append(constant.name)
            return Argument(name, constant.name)
        if references(raw):
            expression = self._expression(raw, parameter)
            if _same(self._evaluated(raw, parameter), value):
                return Argument(name, expression)
            return Argument(name, literal(value), f"the pipeline says {raw}")
        if not _to_the_top(parameter):
            return Argument(name, literal(value))
        return Argument(name, self._constant(parameter, item, names).name)

    def _constant(self, parameter: Parameter, item: TypedNode, names: Names, expression: str = "") -> Constant:
        name = names.take(f"{item.node.id}_{parameter.name}".upper())
        constant = Constant(name, item.params[parameter.name], parameter.help, expression)
        self.constants.append(constant)
        return constant

    def _expression(self, raw: JsonValue, parameter: Parameter) -> str:
        if isinstance(raw, list):
            return "[" + ", ".join(self._expression(part, parameter) for part in raw) + "]"
        if not isinstance(raw, str) or not references(raw):
            return literal(raw.replace("$${", "${") if isinstance(raw, str) else raw)
        if match := _WHOLE.fullmatch(raw):
            return self._shared[match[1]].name
        parts: list[str] = []
        at = 0
        for match in _REFERENCE.finditer(raw):
            plain = raw[at : match.start()] + (match[0][1:] if match[1] else "")
            if plain:
                parts.append(literal(plain))
            if not match[1]:
                constant = self._shared[match[2]]
                is_text = isinstance(constant.value, str)
                parts.append(constant.name if is_text else f"json.dumps({constant.name})")
            at = match.end()
        if raw[at:]:
            parts.append(literal(raw[at:]))
        text = " + ".join(parts)
        whole = substitute(raw, {n: c.value for n, c in self._shared.items()})
        if not parameter.is_path or _is_absolute(str(whole)):
            return text
        # The value at the top of the file may be changed to an absolute path.
        return f"below({literal(str(self._base))}, {text})"

    def _evaluated(self, raw: JsonValue, parameter: Parameter) -> Any:
        """What the expression will mean for the node, as `Steps` reads it."""
        value: Any = substitute(raw, {n: c.value for n, c in self._shared.items()})
        if parameter.is_path and isinstance(value, str) and value and not _is_absolute(value):
            if isinstance(raw, str) and _WHOLE.fullmatch(raw):
                return MISSING  # it would start wherever the file is run
            value = f"{self._base}/{value}"
        try:
            return as_the_node_reads(parameter, value)
        except ValueError:
            return MISSING


def as_the_node_reads(parameter: Parameter, value: Any) -> Any:
    """The value as its node gets it: checked, paths made absolute. Raises `ValueError` as `read_value` does."""
    if (
        not parameter.required
        and value == parameter.default
        and isinstance(value, bool) == isinstance(parameter.default, bool)
    ):
        return parameter.default
    out = read_value(parameter, value)
    if parameter.is_path and out:
        return place_from(Path.cwd(), out)
    return out


def _is_absolute(path: str) -> bool:
    return is_url(path) or os.path.isabs(os.path.expanduser(path))


def _to_the_top(parameter: Parameter) -> bool:
    """Whether people change it from run to run: paths, seeds, and shares of the whole."""
    limits = parameter.range
    is_share = (
        parameter.type is float
        and not parameter.advanced
        and limits is not None
        and (limits.low or 0) >= 0
        and limits.high is not None
        and limits.high <= 1
    )
    return parameter.is_path or parameter.name == "seed" or is_share


def _same(one: Any, other: Any) -> bool:
    """Equal in value and kind: 1, 1.0 and True differ."""
    return type(one) is type(other) and bool(one == other)
