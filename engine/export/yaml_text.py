"""Plain data as YAML that a person can read: blocks, and text in double quotes wherever it could mean anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.export.source import literal

_PLAIN = re.compile(r"(?!\.[0-9])[A-Za-z_./][A-Za-z0-9_./=+-]*")
_OTHER_MEANING = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan"})
"""What YAML 1.1 or 1.2 reads as another kind of value, in any case."""


def to_yaml(data: Any, comment: str = "") -> str:
    """The document, with the comment's lines above it: mappings, sequences, text, numbers, True, False and None."""
    head = [f"# {line}".rstrip() for line in comment.splitlines()]
    return "\n".join([*head, *_lines(data)]) + "\n"


def _lines(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _entry(f"{_scalar(key)}:", value)
    elif isinstance(data, Sequence) and not isinstance(data, str) and data:
        for value in data:
            yield from _item(value)
    else:
        yield _scalar(data)


def _entry(start: str, value: Any) -> Iterator[str]:
    if _is_block(value):
        yield start
        yield from (f"  {line}" if line else "" for line in _lines(value))
    elif isinstance(value, str) and _is_script(value):
        yield f"{start} |"
        yield from (f"  {line}" if line else "" for line in value.splitlines())
    else:
        yield f"{start} {_scalar(value)}"


def _item(value: Any) -> Iterator[str]:
    for number, line in enumerate(_lines(value)):
        yield f"{'  ' if number else '- '}{line}" if line else ""


def _is_block(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple)) and bool(value)


def _is_script(value: str) -> bool:
    """Whether it is lines of text that need no escapes."""
    lines = value.split("\n")
    # YAML drops empty lines at the end, and counts the spaces of the first one.
    whole = len(lines) > 2 and not lines[-1] and bool(lines[-2]) and lines[0][:1].strip() != ""
    return whole and all(line.isprintable() and line == line.rstrip() for line in lines)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _OTHER_MEANING
        # Python's escapes are YAML's. (JSON's are not: two for a character beyond U+FFFF.)
        return value if plain else literal(value)
    return json.dumps(value)
