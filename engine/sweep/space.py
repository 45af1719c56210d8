"""The values that a sweep tries: `name=16,32` lists them, `name=1e-5..1e-2:log` gives a range to search."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from engine.catalog import Catalog
from engine.document.pipeline import Pipeline
from engine.document.values import read_texts, split_setting
from engine.errors import UsageError

MOST_TRIALS = 10_000
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?::(log|{_NUMBER}))?")
_WHOLE = re.compile(r"[+-]?\d+")
_BETWEEN = 0.381966


@dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`, both included; whole ones where both are written so.

    With `step` only each `step`-th from `low`; with `log` evenly by their logarithm.
    """

    low: float
    high: float
    whole: bool = False
    log: bool = False
    step: float | None = None

    def __str__(self) -> str:
        low, high, step = (int(n) if self.whole and n is not None else n for n in (self.low, self.high, self.step))
        how = ":log" if self.log else "" if step is None else f":{str(step).removesuffix('.0')}"
        return f"{low}..{high}{how}"

    @property
    def between(self) -> float:
        """A value between the ends, as a search may choose it: the one that follows `low` where there are steps."""
        if self.whole or self.step is not None:
            return min(self.high, self.low + (self.step or 1))
        # Not the middle: that of 10..100 is whole.
        if self.log:
            return math.exp(math.log(self.low) * (1 - _BETWEEN) + math.log(self.high) * _BETWEEN)
        return self.low + (self.high - self.low) * _BETWEEN


@dataclass(frozen=True)
class Space:
    """What varies, and the values that all trials share."""

    fixed: Mapping[str, JsonValue]
    lists: Mapping[str, tuple[JsonValue, ...]]
    ranges: Mapping[str, Range]

    @property
    def names(self) -> list[str]:
        """What varies."""
        return [*self.lists, *self.ranges]

    def combinations(self) -> Iterator[dict[str, JsonValue]]:
        """Every combination of the listed values; the last name varies fastest."""
        for values in itertools.product(*self.lists.values()):
            yield dict(zip(self.lists, values, strict=True))

    @property
    def count(self) -> int:
        """How many combinations there are."""
        return math.prod(len(values) for values in self.lists.values())

    def as_json(self) -> dict[str, Any]:
        """For the run store; `from_json` reads it."""
        return {
            "fixed": dict(self.fixed),
            "lists": {name: list(values) for name, values in self.lists.items()},
            "ranges": {name: str(value) for name, value in self.ranges.items()},
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Space:
        """What `as_json` wrote."""
        ranges = {name: read_range(name, text) for name, text in kept["ranges"].items()}
        return cls(
            dict(kept["fixed"]),
            {name: tuple(values) for name, values in kept["lists"].items()},
            {name: found for name, found in ranges.items() if found is not None},
        )


def read_space(
    settings: Iterable[str], pipeline: Pipeline, catalog: Catalog, *, searched: bool, base: Path | None = None
) -> Space:
    """The space that `--set` texts describe; one value alone is shared by all trials.

    `searched`: a search chooses values, so that there may be ranges; of a parameter that takes whole numbers they are
    whole. Relative paths start at `base`, by default the current directory. Raises `UsageError` for a text without `=`,
    a name given twice, a range that cannot be, a range that nothing searches, and too many combinations.
    """
    texts: dict[str, list[str]] = {}
    ranges: dict[str, Range] = {}
    for text in settings:
        name, value = split_setting(text)
        if name in texts or name in ranges:
            raise UsageError(f"--set {name} is given twice", hint=f"Separate the values by commas: --set {name}=1,2")
        found = read_range(name, value.strip())
        if found is None:
            texts[name] = split_values(value)
        elif searched:
            ranges[name] = _whole(name, value.strip(), found) if _takes_whole(name, pipeline, catalog) else found
        else:
            raise UsageError(
                f"--set {text} is a range, and nothing says how many values of it to try",
                hint="Add --trials 20 to search it (Optuna), or list the values: --set " + f"{name}=1,2,3",
            )
    lists: dict[str, tuple[JsonValue, ...]] = {}
    fixed: dict[str, JsonValue] = {}
    for name, parts in texts.items():
        values = _each_once(read_texts({name: part}, pipeline, catalog, base)[name] for part in parts)
        if len(values) > 1:
            lists[name] = values
        else:
            fixed[name] = values[0]
    space = Space(fixed, lists, ranges)
    if space.count > MOST_TRIALS and not searched:
        raise UsageError(
            f"these values have {space.count:,} combinations; a sweep tries {MOST_TRIALS:,} at most",
            hint="List fewer values, or let a search choose: --trials 100.",
        )
    return space


def _takes_whole(name: str, pipeline: Pipeline, catalog: Catalog) -> bool:
    """Whether the parameter of a node, or one that gets the pipeline's parameter of this name, is a whole number."""
    for node in pipeline.nodes:
        node_type = catalog.find(node.type, node.version)
        if node_type is None:
            continue
        for parameter in node_type.parameters:
            is_meant = name in (f"{node.id}.{parameter.name}", _reference(node.params.get(parameter.name)))
            if is_meant and parameter.base == "int" and not parameter.many:
                return True
    return False


def _reference(value: JsonValue) -> str | None:
    """The pipeline's parameter that `${name}` stands for."""
    return value[2:-1] if isinstance(value, str) and value.startswith("${") and value.endswith("}") else None


def _whole(name: str, text: str, within: Range) -> Range:
    """The same range of whole numbers alone. Raises `UsageError` where its ends or its step are none."""
    step = 1.0 if within.step is None else within.step
    if all(number.is_integer() for number in (within.low, within.high, step)):
        return replace(within, whole=True)
    low, high = math.ceil(within.low), math.floor(within.high)
    example = f"{low}..{high}" if low < high else "10..100"
    raise UsageError(
        f"--set {name}={text}: the parameter takes whole numbers, and the range has others",
        hint=f"Write whole ends, and a whole step if any: --set {name}={example}",
    )


def read_range(name: str, text: str) -> Range | None:
    """The range in `low..high`, `low..high:log` or `low..high:step`; None: the text is none.

    Raises `UsageError` for one that is empty, or logarithmic from 0 or below.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    low, high, how = float(match[1]), float(match[2]), match[3] or ""
    whole = all(_WHOLE.fullmatch(part) for part in (match[1], match[2], *([how] if how not in ("", "log") else [])))
    step = None if how in ("", "log") else float(how)
    if not low < high or not math.isfinite(high - low):
        raise UsageError(f"--set {name}={text}: the range is empty", hint="Write the lower end first: 1e-5..1e-2")
    if how == "log" and low <= 0:
        raise UsageError(
            f"--set {name}={text}: a logarithmic range cannot begin at {match[1]}", hint="Choose a beginning above 0."
        )
    if step is not None and step <= 0:
        raise UsageError(f"--set {name}={text}: the step must be above 0", hint="Write a larger step.")
    return Range(low, high, whole, how == "log", step)


def split_values(text: str) -> list[str]:
    """The values that commas separate; commas within brackets, braces and quotes belong to a value.

    `"a,b"` in quotes, as JSON, is one value.
    """
    parts, depth, quoted, begin, at = [], 0, False, 0, 0
    opens_text = True
    while at < len(text):
        letter = text[at]
        if quoted:
            at += letter == "\\"
            quoted = letter != '"'
        elif letter == '"' and (opens_text or depth):
            quoted = True
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth = max(0, depth - 1)
        elif letter == "," and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
        opens_text = letter in ", \t" and (opens_text or letter == ",")
        at += 1
    parts.append(text[begin:].strip())
    return parts


def value_text(value: JsonValue) -> str:
    """A value as `--set` takes it back; text that would read as something else is quoted."""
    quoted = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) or not value or value != value.strip() or set(value) & set(',"[]{}'):
        return quoted
    try:
        json.loads(value)
    except ValueError:
        return value if _RANGE.fullmatch(value) is None else quoted
    return quoted


def settings_text(values: Mapping[str, JsonValue]) -> str:
    """`learning_rate=0.0001 train.width=32`: the values of a trial in a line."""
    return " ".join(f"{name}={value_text(value)}" for name, value in values.items())


def _each_once(values: Iterable[JsonValue]) -> tuple[JsonValue, ...]:
    out: dict[str, JsonValue] = {}
    for value in values:
        out.setdefault(json.dumps(value, sort_keys=True), value)
    return tuple(out.values())
