"""What a parameter's value must be, as data: a run checks it here, the editor's form in the browser, by the same rules.

The browser's half is `ui/canvas/src/rules/checks.ts`; `ui/protocol/cases/fields.json` holds both to the same answers.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.errors import DeclarationError

Base = Literal["bool", "int", "float", "str"]
Check = Literal["list", "type", "filled", "one_of", "at_least", "at_most", "pattern"]
WidgetName = Literal["text", "number", "choice", "switch", "automatic", "list", "path", "secret"]
"""The controls of a form. A new one is a name here and a React component in `fields/controls.tsx`."""

NEEDS_A_VALUE = "needs a value"
"""Said of a parameter without a value, and of null where null is not allowed."""
_LONGEST_SHOWN = 60

KINDS: dict[Base, str] = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text"}


@dataclass(frozen=True)
class Rule:
    """One thing that a value must be; `message` says so: "must be at least 4".

    | check | value | the value |
    | --- | --- | --- |
    | `list` | None | is a list, or text with commas; the rules that follow are about its items |
    | `type` | a `Base` | is of that type, or text that reads as it |
    | `filled` | None | is not blank |
    | `one_of` | a tuple | is one of these |
    | `at_least`, `at_most` | a number | lies within |
    | `pattern` | a regular expression (`engine.declare.field_rules`) | matches as a whole |
    """

    check: Check
    value: Any
    message: str


def read_by(rules: Sequence[Rule], value: Any) -> Any:
    """The value as the node gets it: text read as its type, a list as a tuple.

    Raises `ValueError` with the message of the first rule that is broken.
    """
    first, *rest = rules
    if first.check == "list":
        items = _items(value)
        if items is None:
            raise ValueError(first.message)
        return tuple(read_by(rest, item) for item in items)
    out = _read(first.value, value)
    if out is None:
        raise ValueError(first.message)
    for rule in rest:
        if not _holds(rule, out):
            raise ValueError(rule.message)
    return out


def refusal(problem: ValueError, value: Any) -> str:
    """What `read_by` raised for a value, with the value: `must be a whole number, not 'abc'`."""
    if str(problem) == NEEDS_A_VALUE:
        return NEEDS_A_VALUE
    shown = repr(value)
    return f"{problem}, not {shown if len(shown) < _LONGEST_SHOWN else shown[: _LONGEST_SHOWN - 3] + '...'}"


def _holds(rule: Rule, value: Any) -> bool:
    match rule.check:
        case "filled":
            return bool(value.strip(_BLANKS))
        case "one_of":
            return bool(value in rule.value)
        case "at_least":
            return bool(value >= rule.value)
        case "at_most":
            return bool(value <= rule.value)
        case "pattern":
            return matches(rule.value, value)
    raise AssertionError(f"{rule.check} is about the form of a value")


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LAYOUT = frozenset("\t\n\v\f\r")


def control_character(value: Any, *, layout: bool = False) -> str:
    """The first control character in a text, or in the texts of a list or a table; "" when there is none.

    No path may hold one: the system ends a path at a NUL, and the others hide what a line on a terminal says.
    With `layout`, tabs and line breaks may be there, as other text than a path has them.
    """
    if isinstance(value, str):
        return next((c for c in _CONTROL.findall(value) if not (layout and c in _LAYOUT)), "")
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        return next(filter(None, (control_character(item, layout=layout) for item in value)), "")
    return ""


# --- reading: held to the browser's by the shared cases ----------------------------------------

_BLANKS = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""What a browser trims; Python alone would trim some control characters too, and no byte order mark."""
_DIGITS = r"[0-9](?:_?[0-9])*"
_NUMBER = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_WHOLE = re.compile(rf"[+-]?{_DIGITS}")


def _read(base: Base, value: Any) -> Any:
    """The value as `base`; None when it is none."""
    match base:
        case "str":
            return value if isinstance(value, str) else None
        case "bool":
            return _truth(value)
        case "int" | "float":
            return _number(base, value)


def _truth(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _number(base: Base, value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = value.strip(_BLANKS)
        if not _NUMBER.fullmatch(value):
            return None
    try:
        number = float(value)
        if not math.isfinite(number):
            return None
        if base == "float":
            return number
        if number != int(number):
            return None
        # Not through float, so that a long whole number keeps every digit.
        return int(value) if not isinstance(value, str) or _WHOLE.fullmatch(value) else int(number)
    except (TypeError, ValueError, OverflowError):
        return None


def _items(value: Any) -> Sequence[Any] | None:
    """The items of a list, or of text with commas, in one pair of brackets or none; None for anything else."""
    if isinstance(value, str):
        text = value.strip(_BLANKS)
        if len(text) > 1 and text[0] + text[-1] in ("[]", "()"):
            text = text[1:-1]
        return [part for part in (part.strip(_BLANKS) for part in text.split(",")) if part]
    return value if isinstance(value, (list, tuple)) else None


_ESCAPE = r"\\(?:[dDwWnrtfv]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[\^$\\.*+?()\[\]{}|/])"
_TOKEN = re.compile(
    rf"""
      {_ESCAPE}
    | \[\^?(?:{_ESCAPE}|\\-|[^\[\]\\])+\]
    | \((?:\?:|(?!\?)) | \) | \|
    | (?:[*+?]|\{{[0-9]+(?:,[0-9]*)?\}})\??(?![*+?{{])
    | [\^$](?![*+?{{])
    | [^\\\[\](){{}}|*+?^$]
    """,
    re.VERBOSE,
)
_SET_OPERATION = re.compile(r"--|&&|~~|\|\|")


def check_pattern(source: str) -> None:
    """Raises `DeclarationError` when Python and a browser would not read `source` alike."""
    at = 0
    while at < len(source):
        token = _TOKEN.match(source, at)
        if token is None or (token[0].startswith("[") and _SET_OPERATION.search(token[0])):
            raise DeclarationError(
                f"a browser would read the pattern {source!r} otherwise than Python, from {source[at:]!r} on",
                hint="Use characters, classes like [a-z], \\d and \\w, groups ( ) and (?: ), | and quantifiers.",
            )
        at = token.end()
    try:
        _compiled(source)
    except (re.error, OverflowError) as exc:  # the second of a count that is too large
        raise DeclarationError(
            f"the pattern {source!r} is not a regular expression: {exc}", hint="Correct it."
        ) from None


def matches(source: str, text: str) -> bool:
    """Whether the whole of `text` is as the pattern says."""
    return _compiled(source).fullmatch(text) is not None


@functools.cache
def _compiled(source: str) -> re.Pattern[str]:
    # Python's $ would also match before a last line break; an escaped one has a backslash before it.
    exact = re.sub(r"(\\.|\[(?:\\.|[^\]\\])*\])|\$", lambda m: m[1] or r"\Z", source, flags=re.DOTALL)
    return re.compile(exact, re.ASCII | re.DOTALL)
