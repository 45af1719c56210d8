"""Text that people typed, as Python source: it may say anything and must do nothing."""

from __future__ import annotations

import builtins
import keyword
import re
from typing import Any

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
    return (
        '"' + "".join({'"': '\\"', "\\": "\\\\"}.get(c) or (c if c.isprintable() else _escape(c)) for c in value) + '"'
    )


def _escape(character: str) -> str:
    if character in "\n\r\t":
        return repr(character)[1:-1]
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str) -> str:
    """The text for a comment or a terminal: one line; what is invisible or turns the reading direction, spelled out."""
    return "".join(c if c.isprintable() else _escape(c) for c in " ".join(text.split()))


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
